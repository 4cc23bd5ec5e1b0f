"""A witness of admissions: judges each change that gives a slot of a queue, or a run with a slot, to somebody.

It keeps a history of its own of every queue's limits and admissions, in a table of the simulated database, so that a
transaction that is lost takes it back. A change is judged as soon as it is applied, by the limits that are in force
then:

- No slot is taken but from the line, or from a run before in the same chain that gives it back in the same change.
- A run that holds a slot gets another owner by an admission alone.
- A count of slots that rises does not exceed its limit: of the queue, of a worker, of a partition, of a worker in one.
- Any window of a rate's length has at most as many admissions as the rate allows: of the queue, of a partition.
- A queue that is paused or deleted admits nothing.
- Within a partition the order is by priority, then by when the runs joined the line.
- Between two turns of a partition each other one has its turn that had a run in line and room all the time.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from outlast_runs.admission import AdmitFromQueue
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import QueueRow, RunRow

LIMITS = ("concurrency", "partition_concurrency", "worker_concurrency", "partition_worker_concurrency")
RATES = ("rate", "partition_rate")
SLACK = 1.02
"""A budget is used to 99 %: by how much longer than a rate's length its admissions may count, at the most."""


class Slot(NamedTuple):
    """A slot that is held."""

    queue: str
    partition: str
    owner: str | None


class Place(NamedTuple):
    """What a run's row says of its queue."""

    slot: Slot | None
    queued_at: int | None


class Waiting(NamedTuple):
    """A run in line; the fields by which it is ordered come first."""

    priority: int
    queued_at: int
    run_id: str
    partition: str
    task_queue: str
    workflow_type: str
    deadline: int | None


class Admitted(NamedTuple):
    """An admission: when it really was, and by how much the clock of who wrote it was off."""

    partition: str
    at: int
    offset: int


@dataclass
class Watched:
    """What is known of a queue.

    Attributes:
        limits: The columns of its row that limit something.
        since: For each rate, how many admissions there had been before those that it counts.
        admitted: All admissions.
        passed: For each partition that waits with room, the others that have had a turn meanwhile.
    """

    limits: dict[str, int | None]
    since: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RATES, 0))
    admitted: list[Admitted] = field(default_factory=list)
    passed: dict[str, list[str]] = field(default_factory=dict)

    def within(self, rate: str, partition: str | None = None) -> list[Admitted]:
        """The admissions that a rate counts.

        Args:
            rate: Which rate.
            partition: Of this partition alone.
        """
        known = self.admitted[self.since[rate] :]
        return known if partition is None else [one for one in known if one.partition == partition]


def limits_of(row: QueueRow) -> dict[str, int | None]:
    """The columns of a queue's row that limit something."""
    names = (
        *LIMITS,
        *(f"{rate}_{part}" for rate in RATES for part in ("limit", "per")),
        "paused_at",
        "deleted_at",
    )
    return {name: getattr(row, name) for name in names}


def count_slots(slots: Mapping[Any, Slot]) -> dict[str, Counter[Any]]:
    """Count slots as each limit does."""
    held = list(slots.values())
    owned = [slot for slot in held if slot.owner is not None]
    return {
        "concurrency": Counter({"": len(held)}),
        "partition_concurrency": Counter(slot.partition for slot in held),
        "worker_concurrency": Counter(slot.owner for slot in owned),
        "partition_worker_concurrency": Counter((slot.partition, slot.owner) for slot in owned),
    }


class Admissions:
    """See the module.

    Args:
        real: The simulated database, where nothing goes wrong for a witness.
    """

    def __init__(self, real: sqlite3.Connection) -> None:
        self.real = real
        real.execute(
            "CREATE TEMP TABLE IF NOT EXISTS witnessed (queue TEXT PRIMARY KEY, state BLOB NOT NULL)"
        )
        real.execute("DELETE FROM witnessed")

    # --- what is known ----------------------------------------------------------------------------------------------

    def watched(self, queue: str) -> Watched | None:
        """What is known of a queue, as of this transaction."""
        row = self.real.execute("SELECT state FROM witnessed WHERE queue = ?", (queue,)).fetchone()
        if row is None:
            return None
        known = Watched(**orjson.loads(row[0]))
        known.admitted = [Admitted(*one) for one in known.admitted]
        return known

    def queues(self) -> list[str]:
        """The queues that were ever defined."""
        return [row[0] for row in self.real.execute("SELECT queue FROM witnessed ORDER BY queue")]

    def _keep(self, queue: str, known: Watched) -> None:
        self.real.execute(
            "REPLACE INTO witnessed VALUES (?, ?)", (queue, orjson.dumps(vars(known), default=list))
        )

    def defined(self, row: QueueRow) -> None:
        """Take note of a queue's limits, which are in force from now on."""
        limits = limits_of(row)
        known = self.watched(row.queue)
        if known is None:
            known = Watched(limits)
        for rate in RATES:
            before, after = known.limits[f"{rate}_per"], limits[f"{rate}_per"]
            if before is None or after is None or after > before:
                # What was admitted without a rate is in no log, and a longer window begins with what is still in it.
                known.since[rate] = len(known.admitted)
        known.limits = limits
        self._keep(row.queue, known)

    def slots(self, queue: str) -> dict[str, Slot]:
        """The slots of a queue, by run."""
        text = "SELECT run_id, partition_key, owner_id FROM workflow_runs WHERE slot_queue = ?"
        return {row[0]: Slot(queue, row[1] or "", row[2]) for row in self.real.execute(text, (queue,))}

    def line(self, queue: str) -> list[Waiting]:
        """The runs in line, in the order that holds within a partition."""
        text = (
            "SELECT priority, queued_at, run_id, partition_key, task_queue, workflow_type, next_deadline_at "
            "FROM workflow_runs WHERE queue = ? AND queued_at IS NOT NULL"
        )
        return sorted(Waiting(*row) for row in self.real.execute(text, (queue,)))

    # --- judging a change -------------------------------------------------------------------------------------------

    def judge(
        self, batch: Batch, seen: dict[str, Place], dequeued: Sequence[RunRow], offset: int
    ) -> Iterator[str]:
        """Say what is wrong with the change that was just applied.

        Args:
            batch: The batch.
            seen: The places of its runs before that change; they are brought up to date.
            dequeued: The runs that the change has admitted, in order.
            offset: By how much the writer's clock is off, in microseconds.
        """
        moved: dict[str, tuple[Place, Place]] = {}
        for run_id, entry in batch.run_rows.items():
            before = seen.get(run_id) or place_of(entry.before)
            after = place_of(vars(entry.row))
            if before.slot != after.slot:
                moved[run_id] = before, after
        names = {place.slot.queue for pair in moved.values() for place in pair if place.slot is not None}
        for queue in sorted(names):
            known = self.watched(queue)
            if known is not None:
                change = Judged(self, batch, queue, known, moved, seen)
                yield from change.check_slots([run.run_id for run in dequeued])
                mine = [run for run in dequeued if run.queue == queue]
                if mine:
                    yield from change.check_admissions(mine, offset)
                    self._keep(queue, known)
        for run_id, entry in batch.run_rows.items():
            seen[run_id] = place_of(vars(entry.row))


def place_of(values: Mapping[str, Any] | None) -> Place:
    """What the values of a run's row say of its queue; ``None`` where there is no row."""
    if values is None:
        return Place(None, None)
    queue = values["slot_queue"]
    slot = Slot(queue, values["partition_key"] or "", values["owner_id"]) if queue is not None else None
    return Place(slot, values["queued_at"])


class Judged:
    """One change, as it looks for one queue.

    Args:
        admissions: The witness.
        batch: The batch.
        queue: The queue.
        known: What is known of the queue.
        moved: The runs whose slots the change has changed, with their places before and after.
        seen: The places of the batch's runs before the change.
    """

    def __init__(
        self,
        admissions: Admissions,
        batch: Batch,
        queue: str,
        known: Watched,
        moved: Mapping[str, tuple[Place, Place]],
        seen: Mapping[str, Place],
    ) -> None:
        self.admissions = admissions
        self.batch = batch
        self.queue = queue
        self.known = known
        self.moved = moved
        self.seen = seen
        self.by = type(batch.change).__name__
        self.before: dict[str, Slot] = admissions.slots(queue)
        self.after = dict(self.before)
        for run_id, entry in batch.run_rows.items():
            _set(self.before, run_id, self._before(run_id, entry.before).slot, queue)
            _set(self.after, run_id, place_of(vars(entry.row)).slot, queue)

    def _before(self, run_id: str, values: Mapping[str, Any] | None) -> Place:
        return self.seen.get(run_id) or place_of(values)

    # --- slots ------------------------------------------------------------------------------------------------------

    def check_slots(self, dequeued: Sequence[str]) -> Iterator[str]:
        """Check who has got which slots by the change.

        Args:
            dequeued: The runs that it has admitted.
        """
        given_back = self.before.keys() - self.after.keys()
        for run_id in sorted(self.after.keys() - self.before.keys() - set(dequeued)):
            run = self.batch.run_rows[run_id].row
            if run.previous_run_id not in given_back:
                yield f"run {run_id} took a slot of queue {self.queue} by {self.by}, and was not admitted"
        for run_id in sorted(self.after.keys() & self.before.keys() & self.moved.keys()):
            owner = self.after[run_id].owner
            if owner not in (None, self.before[run_id].owner) and not isinstance(
                self.batch.change, AdmitFromQueue
            ):
                yield f"run {run_id}, which has a slot of queue {self.queue}, was given to {owner} by {self.by}"
        before, after = count_slots(self.before), count_slots(self.after)
        for name in LIMITS:
            limit = self.known.limits[name]
            for whose, count in after[name].items():
                if limit is not None and count > limit and count > before[name][whose]:
                    yield (
                        f"queue {self.queue} has {count} slots by {self.by}, where its {name} is {limit} ({whose!r})"
                    )

    # --- admissions -------------------------------------------------------------------------------------------------

    def check_admissions(self, dequeued: Sequence[RunRow], offset: int) -> Iterator[str]:
        """Check what the change has let out of the line, and take note of it.

        Args:
            dequeued: The runs, in order.
            offset: By how much the clock is off, in microseconds.
        """
        known = self.known
        if known.limits["paused_at"] is not None or known.limits["deleted_at"] is not None:
            yield f"queue {self.queue} is paused or deleted, and has admitted {[run.run_id for run in dequeued]}"
        change = self.batch.change
        if not isinstance(change, AdmitFromQueue):
            yield f"queue {self.queue} has admitted runs by {self.by}"
            return
        line = [one for one in self.admissions.line(self.queue) if self._could_go(one, change)]
        rooms = self._rooms(change.taker.worker_id, {run.run_id for run in dequeued}, offset)
        yield from self._check_order(dequeued, line)
        yield from self._check_turns(dequeued, line, rooms)
        for run in dequeued:
            partition = run.partition_key or ""
            known.admitted.append(Admitted(partition, self.batch.now - offset, offset))
            yield from self._check_rate("rate", None)
            yield from self._check_rate("partition_rate", partition)

    def _could_go(self, waiting: Waiting, change: AdmitFromQueue) -> bool:
        """Whether the change saw a run in line, and its worker runs such ones."""
        entry = self.batch.run_rows.get(waiting.run_id)
        there = entry is None or self._before(waiting.run_id, entry.before).queued_at == waiting.queued_at
        in_time = waiting.deadline is None or waiting.deadline > self.batch.now
        return (
            there
            and in_time
            and waiting.task_queue in change.taker.task_queues
            and waiting.workflow_type in change.taker.workflows
        )

    def _check_order(self, dequeued: Sequence[RunRow], line: Sequence[Waiting]) -> Iterator[str]:
        left = list(line)
        for run in dequeued:
            first = next((one for one in left if one.partition == (run.partition_key or "")), None)
            if first is not None and first.run_id != run.run_id:
                yield f"run {run.run_id} left the line of queue {self.queue} before {first.run_id}, which was before it"
            left = [one for one in left if one.run_id != run.run_id]

    def _rooms(self, worker_id: str, dequeued: set[str], offset: int) -> dict[str, int]:
        """The room that each partition surely had before the first of these was admitted; others have no limit."""
        limits = self.known.limits
        held = count_slots({run_id: slot for run_id, slot in self.after.items() if run_id not in dequeued})
        rooms: dict[str, int] = {}
        entries = {entry.row.partition_key for entry in self.batch.run_rows.values()}
        partitions = {one.partition for one in self.admissions.line(self.queue)} | {
            one or "" for one in entries
        }
        for partition in partitions:
            room = [1 << 30]
            if limits["partition_concurrency"] is not None:
                room.append(limits["partition_concurrency"] - held["partition_concurrency"][partition])
            if limits["partition_worker_concurrency"] is not None:
                mine = held["partition_worker_concurrency"][partition, worker_id]
                room.append(limits["partition_worker_concurrency"] - mine)
            if limits["partition_rate_limit"] is not None:
                room.append(self._rate_room(partition, offset))
            rooms[partition] = min(room)
        return rooms

    def _rate_room(self, partition: str, offset: int) -> int:
        limit, per = self.known.limits["partition_rate_limit"], self.known.limits["partition_rate_per"]
        assert limit is not None
        assert per is not None
        made = [one for one in self.known.admitted if one.partition == partition]
        offsets = [offset, *(one.offset for one in made)]
        since = self.batch.now - offset - per * SLACK - (max(offsets) - min(offsets))
        return limit - sum(one.at >= since for one in made)

    def _check_turns(
        self, dequeued: Sequence[RunRow], line: Sequence[Waiting], rooms: Mapping[str, int]
    ) -> Iterator[str]:
        passed = self.known.passed
        waits = Counter(one.partition for one in line)
        able = {partition: min(count, rooms[partition]) for partition, count in waits.items()}
        for partition in list(passed):
            if able.get(partition, 0) <= 0:
                del passed[partition]
        for run in dequeued:
            mine = run.partition_key or ""
            able[mine] = able.get(mine, 0) - 1
            passed.pop(mine, None)
            for partition, count in able.items():
                if partition == mine or count <= 0:
                    passed.pop(partition, None)
                elif mine in passed.setdefault(partition, []):
                    yield (
                        f"partition {mine!r} of queue {self.queue} had a turn again ({run.run_id}) before "
                        f"{partition!r}, which waited with room"
                    )
                else:
                    passed[partition].append(mine)

    def _check_rate(self, rate: str, partition: str | None) -> Iterator[str]:
        """Check the window that ends with the latest admission.

        Clocks that differ by some time may make a window shorter by as much: an admission counts from the clock of
        who wrote it.
        """
        limit, per = self.known.limits[f"{rate}_limit"], self.known.limits[f"{rate}_per"]
        if limit is None or per is None:
            return
        window = self.known.within(rate, partition)[-limit - 1 :]
        if len(window) <= limit:
            return
        offsets = [one.offset for one in window]
        took = window[-1].at - window[0].at
        if took + max(offsets) - min(offsets) <= per:
            of = f"partition {partition!r} of " if partition is not None else ""
            yield f"{of}queue {self.queue} has admitted {limit + 1} in {took} µs, where {limit} are allowed in {per}"


def _set(slots: dict[str, Slot], run_id: str, slot: Slot | None, queue: str) -> None:
    if slot is not None and slot.queue == queue:
        slots[run_id] = slot
    else:
        slots.pop(run_id, None)
