"""Who owns what: registering a worker, claiming runs, letting go of them.

A claim bumps the run's fence; every commit of an owner names the fence that it claimed with, so a worker that was
paused, partitioned or declared dead is refused rather than merged.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast_store.database.sql_text import Values
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RunRow, WorkerRow
from outlast_store.schema.tables import history_events
from outlast_workflow.primitives.enums import Attention

STEAL_AFTER = 10_000_000
SHORT_BYTES = 16 * 1024
"""A history no longer than this is read with the claim."""
SPARE = 20
"""So many more candidates are looked at than are wanted: others may hold the first of them."""


class RegisterWorker(BaseChange):
    """Make a worker known, with its lease."""

    def __init__(self, row: WorkerRow, lease: int) -> None:
        self.row = row
        self.lease = lease

    def apply(self, batch: Batch) -> int:
        """Returns when the lease ends."""
        row = self.row
        row.started_at = batch.now
        row.lease_expires_at = batch.now + self.lease
        names = ", ".join(vars(row))
        marks = ", ".join("?" * len(vars(row)))
        batch.execute(f"INSERT INTO workers ({names}) VALUES ({marks})", tuple(vars(row).values()))
        return row.lease_expires_at


class ForgetWorker(BaseChange):
    """A worker has stopped in good order."""

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id

    def apply(self, batch: Batch) -> None:
        """Delete its row."""
        batch.execute("DELETE FROM workers WHERE worker_id = ?", (self.worker_id,))


class ClaimRuns(BaseChange):
    """Take over runs that have something to do and no owner, oldest first, whatever their queue."""

    def __init__(self, worker_id: str, task_queues: Sequence[str], types: frozenset[str], limit: int) -> None:
        self.worker_id = worker_id
        self.task_queues = task_queues
        self.types = types
        self.limit = limit
        self.more = False
        """Whether more of them may wait: at least as many were found as were asked for."""
        self.histories: dict[str, list[Values]] = {}
        """``(seq, type, payload)`` of those whose history is short: most have only just been started."""

    def apply(self, batch: Batch) -> list[RunRow]:
        """Claim at most ``limit`` of them."""
        candidates = self._waiting(batch)
        claimed: list[RunRow] = []
        tried = 0
        while tried < len(candidates) and len(claimed) < self.limit:
            wanted = candidates[tried : tried + self.limit - len(claimed)]
            tried += len(wanted)
            for run in batch.lock_runs(wanted, skip=True):
                if run.is_open and run.owner_id is None and run.wake_at is not None:
                    run.owner_id = self.worker_id
                    run.fence += 1
                    claimed.append(run)
        self.more = len(candidates) >= self.limit
        self.histories = _short_histories(batch, claimed)
        return claimed

    def _waiting(self, batch: Batch) -> list[str]:
        """The oldest of all queues, and some to spare: others may hold the first of them."""
        types = sorted(self.types)
        marks = ", ".join("?" * len(types))
        text = (
            "SELECT wake_at, run_id FROM workflow_runs WHERE owner_id IS NULL AND task_queue = ? AND wake_at <= ? "
            f"AND not_before <= ? AND workflow_type IN ({marks}) ORDER BY wake_at LIMIT ?"
        )
        taken = batch.runs_taken  # by an earlier claim of the same batch: the scan finds them still
        most = self.limit + SPARE
        found: list[Values] = []
        for queue in self.task_queues:
            found += batch.scan(text, (queue, batch.now, batch.now, *types, most + taken))
        found.sort()
        if taken:
            found = [row for row in found if _is_free(batch.run(row[1]))]
        return [run_id for _, run_id in found[:most]]


def _short_histories(batch: Batch, runs: Sequence[RunRow]) -> dict[str, list[Values]]:
    """What is in the database; what this batch has appended is not, and shows by the row's ``last_seq``."""
    found: dict[str, list[Values]] = {run.run_id: [] for run in runs if run.history_bytes <= SHORT_BYTES}
    if found:
        for run_id, seq, kind, _, payload in batch.read(
            history_events, ("run_id",), [(run_id,) for run_id in found]
        ):
            found[run_id].append((seq, kind, payload))
    for events in found.values():
        events.sort()
    return found


def _is_free(run: RunRow | None) -> bool:
    return run is None or run.owner_id is None


class StealRuns(BaseChange):
    """Take over runs that have been awake for long and whose owner, though alive, does not activate them.

    Their owner has lost them as if it had died, and the run may be the cause: each loss doubles the wait for the next
    theft, from the second on the thief lets the run wait before it activates it, and from the third it needs a person.
    All is forgotten with the next workflow task that is committed.
    """

    def __init__(self, worker_id: str, run_ids: Sequence[str]) -> None:
        self.worker_id = worker_id
        self.runs = tuple(run_ids)

    def apply(self, batch: Batch) -> list[RunRow]:
        """Take those that still wait."""
        stolen: list[RunRow] = []
        for run_id in self.runs:
            run = batch.run(run_id)
            if (
                run is None
                or not run.is_open
                or run.owner_id in (None, self.worker_id)
                or run.wake_at is None
            ):
                continue
            batch.require_locks()
            awake_since = max(run.wake_at, run.not_before)
            if batch.now - awake_since >= STEAL_AFTER << min(run.owner_losses, 10):
                release(run, batch.now)
                run.owner_id = self.worker_id
                stolen.append(run)
        return stolen


class ReleaseRuns(BaseChange):
    """Let go of runs: whoever serves their queue may claim them."""

    def __init__(self, worker_id: str, run_ids: Sequence[str]) -> None:
        self.worker_id = worker_id
        self.runs = tuple(run_ids)

    def apply(self, batch: Batch) -> int:
        """Returns how many were still its own."""
        released = 0
        for run_id in self.runs:
            run = batch.run(run_id)
            if run is not None and run.owner_id == self.worker_id:
                run.owner_id = None
                released += 1
        return released


class ReleaseAllRuns(BaseChange):
    """Let go of the next runs of a worker, those included that it no longer has in memory."""

    def __init__(self, worker_id: str, limit: int) -> None:
        self.worker_id = worker_id
        self.limit = limit

    def apply(self, batch: Batch) -> int:
        """Returns how many it let go of."""
        text = "SELECT run_id FROM workflow_runs WHERE owner_id = ? LIMIT ?"
        run_ids = [row[0] for row in batch.scan(text, (self.worker_id, self.limit))]
        released = 0
        for run in batch.lock_runs(run_ids):
            if run.owner_id == self.worker_id:
                run.owner_id = None
                released += 1
        return released


LOSSES_TO_ATTENTION = 3


FIRST_OWNER_BACKOFF = 1_000_000


LONGEST_OWNER_BACKOFF = 60_000_000


def release(run: RunRow, now: int) -> None:
    """Take a run from an owner that has lost it: one that died, or that has left it waiting."""
    run.owner_id = None
    run.fence += 1
    if run.wake_at is None or run.wake_at > now or run.not_before > now:
        return
    run.owner_losses += 1
    if run.owner_losses >= 2:
        backoff = min(FIRST_OWNER_BACKOFF << min(run.owner_losses - 2, 16), LONGEST_OWNER_BACKOFF)
        run.not_before = now + backoff
        run.start_delayed = False
    if run.owner_losses >= LOSSES_TO_ATTENTION and run.attention is None:
        run.attention = Attention.OWNERS_KEEP_DYING.value
        run.attention_since = now


def is_alive(batch: Batch, worker_id: str) -> bool:
    """Whether a worker is registered and its lease not over."""
    text = "SELECT 1 FROM workers WHERE worker_id = ? AND lease_expires_at > ?"
    return bool(batch.scan(text, (worker_id, batch.now)))
