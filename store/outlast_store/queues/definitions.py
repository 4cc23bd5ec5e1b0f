"""What defines a queue, and its changes: define, update, pause, resume, delete.

A definition is one row, which is also the queue's gate. Each change locks it, checks it and writes it, so an admission
sees the definition before a change or the one after it. No process keeps a copy.

**A deleted queue** stays for a minute as a row with ``deleted_at``. It is refused while anything waits in the queue or
holds a slot, which is counted under the gate. A start reads the row without the lock, so one that was under way may
commit after the deletion: its run waits, is shown as in need of attention, and goes on when somebody defines the queue
again. One that is defined again within that minute keeps the logs of its rates, those of its partitions too, so that no
window exceeds the limit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.queues import contents
from outlast_store.queues.contents import MOST_COUNTED, queue_not_found
from outlast_store.schema.rows import QueueRow
from outlast_workflow.errors import QueueExistsError, QueueInUseError
from outlast_workflow.options.queues import Queue, Rate
from outlast_workflow.options.validation import IfExists

FORGET_AFTER_US: Final = 60_000_000
"""How long the row of a deleted queue stays."""


# --- a row and the definition that it holds -------------------------------------------------------------------------


def definition_of(row: QueueRow) -> Queue:
    """Return what a row defines."""
    return Queue(
        row.queue,
        concurrency=row.concurrency,
        worker_concurrency=row.worker_concurrency,
        rate=_rate(row.rate_limit, row.rate_per),
        partition_concurrency=row.partition_concurrency,
        partition_worker_concurrency=row.partition_worker_concurrency,
        partition_rate=_rate(row.partition_rate_limit, row.partition_rate_per),
    )


def _rate(limit: int | None, per_us: int | None) -> Rate | None:
    return None if limit is None or per_us is None else Rate(limit, per_us / 1_000_000)


def _limits(queue: Queue) -> dict[str, Any]:
    """Return the columns of a definition's limits."""
    rate, partition_rate = queue.rate, queue.partition_rate
    return {
        "concurrency": queue.concurrency,
        "worker_concurrency": queue.worker_concurrency,
        "rate_limit": rate.limit if rate is not None else None,
        "rate_per": rate.per_us if rate is not None else None,
        "partition_concurrency": queue.partition_concurrency,
        "partition_worker_concurrency": queue.partition_worker_concurrency,
        "partition_rate_limit": partition_rate.limit if partition_rate is not None else None,
        "partition_rate_per": partition_rate.per_us if partition_rate is not None else None,
    }


# --- changes --------------------------------------------------------------------------------------------------------


class QueueChange(BaseChange, ABC):
    """A change of one queue's row.

    Args:
        name: The queue.
    """

    # It waits for the gate before it locks anything else, as the order of locks wants it.
    awaits_gates = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.gates = (name,)

    @abstractmethod
    def apply(self, batch: Batch) -> QueueRow:
        """Write the row, and return it."""

    def _row(self, batch: Batch) -> QueueRow:
        """Return the queue's row, locked.

        Raises:
            QueueNotFoundError: There is none; nothing was written.
        """
        row = batch.lock_queue(self.name)
        if row is None or row.deleted_at is not None:
            raise queue_not_found(batch.scan, self.name)
        return row

    def _write(self, batch: Batch, row: QueueRow, **values: Any) -> QueueRow:
        """Change some columns of a locked row, and return it."""
        row = replace(row, **values, updated_at=batch.now)
        names = [*values, "updated_at"]
        text = f"UPDATE queues SET {', '.join(f'{name} = ?' for name in names)} WHERE queue = ?"
        batch.execute(text, (*(getattr(row, name) for name in names), row.queue))
        batch.note_queue(row)
        return row


class DefineQueue(QueueChange):
    """Make a queue, or change the one that there is.

    Args:
        queue: The definition.
        if_exists: What to do about a queue of that name: refuse it, keep it as it is, or give it these limits.
    """

    def __init__(self, queue: Queue, if_exists: IfExists) -> None:
        super().__init__(queue.name)
        self.queue = queue
        self.if_exists = if_exists

    def apply(self, batch: Batch) -> QueueRow:
        """Write the row, and return it.

        Raises:
            QueueExistsError: There is such a queue, and ``if_exists`` refuses that; nothing was written.
        """
        now = batch.now
        row = batch.lock_queue(self.name)
        if row is None:
            made = QueueRow(
                self.name, **_limits(self.queue), paused_at=None, note=None, created_at=now, updated_at=now
            )
            if batch.make_queue(made):
                _forget_deleted(batch)
                return made
            # Another transaction has made it since.
            row = batch.lock_queue(self.name)
            if row is None:
                raise AssertionError(f"queue {self.name!r} is neither there nor can it be made")
        if row.deleted_at is not None:
            again = {"paused_at": None, "note": None, "created_at": now, "deleted_at": None}
            return self._write(batch, row, **_limits(self.queue), **again)
        if self.if_exists == "keep":
            return row
        if self.if_exists == "error":
            raise QueueExistsError(self.name)
        limits = _limits(self.queue)
        if all(getattr(row, name) == value for name, value in limits.items()):
            return row
        return self._write(batch, row, **limits)


class UpdateQueue(QueueChange):
    """Change some limits of a queue.

    Args:
        name: The queue.
        limits: The limits to change, each checked by itself.
    """

    def __init__(self, name: str, limits: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.limits = limits

    def apply(self, batch: Batch) -> QueueRow:
        """Write the row, and return it.

        Raises:
            QueueNotFoundError: There is no such queue; nothing was written.
            InvalidOptionError: The limits contradict those that stay; nothing was written.
        """
        row = self._row(batch)
        limits = _limits(definition_of(row).replace(**self.limits))
        changed = {name: value for name, value in limits.items() if getattr(row, name) != value}
        return self._write(batch, row, **changed) if changed else row


class PauseQueue(QueueChange):
    """Admit nothing more from a queue. What holds a slot goes on.

    Args:
        name: The queue.
        note: Why, for people. A queue that is paused already gets the new note, or keeps the one it has.
    """

    def __init__(self, name: str, note: str | None) -> None:
        super().__init__(name)
        self.note = note

    def apply(self, batch: Batch) -> QueueRow:
        """Write the row, and return it.

        Raises:
            QueueNotFoundError: There is no such queue; nothing was written.
        """
        row = self._row(batch)
        if row.paused_at is None:
            return self._write(batch, row, paused_at=batch.now, note=self.note)
        return row if self.note in (None, row.note) else self._write(batch, row, note=self.note)


class ResumeQueue(QueueChange):
    """Admit from a queue again."""

    def apply(self, batch: Batch) -> QueueRow:
        """Write the row, and return it.

        Raises:
            QueueNotFoundError: There is no such queue; nothing was written.
        """
        row = self._row(batch)
        return row if row.paused_at is None else self._write(batch, row, paused_at=None, note=None)


class DeleteQueue(QueueChange):
    """Delete a queue in which nothing waits and of which nothing holds a slot."""

    def apply(self, batch: Batch) -> QueueRow:
        """Write the row, and return it.

        Raises:
            QueueNotFoundError: There is no such queue; nothing was written.
            QueueInUseError: The queue is in use; nothing was written.
        """
        row = self._row(batch)
        waiting, running = _in_use(batch, self.name)
        if waiting or running:
            raise QueueInUseError(self.name, waiting=waiting, running=running)
        _forget_deleted(batch)
        return self._write(batch, row, deleted_at=batch.now)


# --- reads under the gate -------------------------------------------------------------------------------------------

_WAITING: Final = (contents.WAITING_RUNS, contents.DELAYED_RUNS, contents.WAITING_ACTIVITIES)
_RUNNING: Final = (contents.SLOTS_OF_RUNS, contents.SLOTS_OF_ACTIVITIES)


def _in_use(batch: Batch, name: str) -> tuple[int, int]:
    """Return how many wait in a queue (delayed ones included) and how many hold a slot, each counted up to a limit."""
    parts = [(source, (name,)) for source in (*_WAITING, *_RUNNING)]
    found = contents.count_up_to(batch.scan, MOST_COUNTED, *parts)
    waiting, running = sum(found[: len(_WAITING)]), sum(found[len(_WAITING) :])
    # The scan sees nothing of what earlier changes of this batch have done.
    for run_id, run in batch.run_rows.items():
        before = batch.run_rows.before.get(run_id, {})
        waiting += _waits(vars(run), name) - _waits(before, name)
        running += (run.slot_queue == name) - (before.get("slot_queue") == name)
    for key, activity in batch.activity_rows.items():
        for row, sign in ((vars(activity), 1), (batch.activity_rows.before.get(key, {}), -1)):
            if row.get("queue") == name:
                waiting += sign * (row["status"] == "pending")
                running += sign * (row["status"] == "running")
    return waiting, running


def _waits(row: Mapping[str, Any], name: str) -> bool:
    return row.get("queue") == name and (row["queued_at"] is not None or row["status"] == "queued")


def _forget_deleted(batch: Batch) -> None:
    """Delete the rows of queues that were deleted long enough ago, for no start can have read them before that."""
    before = batch.now - FORGET_AFTER_US
    gone = "SELECT queue FROM queues WHERE deleted_at <= ?"
    batch.execute(f"DELETE FROM queue_partitions WHERE queue IN ({gone})", (before,))
    batch.execute("DELETE FROM queues WHERE deleted_at <= ?", (before,))
