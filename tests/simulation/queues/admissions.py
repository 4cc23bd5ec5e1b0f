"""A witness of admissions: judges each change that gives a slot of a queue, or a run with a slot, to somebody.

It keeps a history of its own of every queue's limits and admissions, in a table of the simulated database, so that a
transaction that is lost takes it back. A change is judged as soon as it is applied, by the limits that are in force
then:

- No slot is taken but by an admission, or from a run before in the same chain that gives it back in the same change.
- A run of a queue has no owner without a slot. One that holds a slot gets another owner by an admission alone, and an
  activity leaves its worker in its slot only when it is deferred.
- A count of slots that rises does not exceed its limit: of the queue, of a worker, of a partition, of a worker in one.
- Any window of a rate's length has at most as many admissions as the rate allows: of the queue, of a partition.
- A queue that is paused or deleted admits nothing.
- Within a partition the order is by priority, then by when they joined the line: that of runs, and that of activities.
- Between two turns of a partition each other one has its turn that had somebody of the kind in line and room all the
  time.

Runs and activities hold slots of one kind: a run until its chain ends, an activity while an attempt runs.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from outlast_activities.deferred_attempts import DeferAttempt
from outlast_runs.admission import AdmitFromQueue, Taker
from outlast_store.journal.batch import Batch
from outlast_store.queues.lines import Kind
from outlast_store.schema.rows import QueueRow

LIMITS = ("concurrency", "partition_concurrency", "worker_concurrency", "partition_worker_concurrency")
RATES = ("rate", "partition_rate")
SLACK = 1.02
"""A budget is used to 99 %: by how much longer than a rate's length its admissions may count, at the most."""


Key = tuple[str, int]
"""What holds a slot or stands in line: a run and 0, or a run and its activity."""


class Slot(NamedTuple):
    """A slot that is held."""

    queue: str
    partition: str
    owner: str | None


class Place(NamedTuple):
    """What a row says of its queue: which slot it holds, or since when it stands in line."""

    slot: Slot | None
    since: int | None


class Waiting(NamedTuple):
    """A run or an activity in line; the fields by which it is ordered come first."""

    priority: int
    since: int
    run_id: str
    activity_id: int
    partition: str
    task_queue: str
    type: str
    deadline: int | None

    @property
    def key(self) -> Key:
        return self.run_id, self.activity_id

    @property
    def kind(self) -> Kind:
        return kind_of(self.key)


class Admitted(NamedTuple):
    """An admission: when it really was, and by how much the clock of who wrote it was off."""

    partition: str
    at: int
    offset: int


def kind_of(key: Key) -> Kind:
    """Whether it is a run or an activity."""
    return Kind.ACTIVITY if key[1] else Kind.RUN


@dataclass
class Watched:
    """What is known of a queue.

    Attributes:
        limits: The columns of its row that limit something.
        since: For each rate, how many admissions there had been before those that it counts.
        admitted: All admissions.
        writers: When a rate's log was written, and by how much the writer's clock was off. Who admits nothing writes
            it, too, where it lies ahead of its clock.
        passed: For each kind and partition that waits with room, the others that have had a turn with it meanwhile.
    """

    limits: dict[str, int | None]
    since: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RATES, 0))
    admitted: list[Admitted] = field(default_factory=list)
    writers: list[tuple[int, int]] = field(default_factory=list)
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


def count_slots(slots: Mapping[Key, Slot]) -> dict[str, Counter[Any]]:
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

    def wrote(self, queue: str, at: int, offset: int) -> None:
        """Take note of who has written the log of a rate.

        Args:
            queue: The queue.
            at: When it really was, in microseconds.
            offset: By how much the writer's clock is off.
        """
        known = self.watched(queue)
        if known is not None:
            known.writers.append((at, offset))
            self._keep(queue, known)

    def slots(self, queue: str) -> dict[Key, Slot]:
        """The slots of a queue."""
        text = (
            "SELECT run_id, 0, partition_key, owner_id FROM workflow_runs WHERE slot_queue = ? UNION ALL "
            "SELECT run_id, activity_id, partition_key, claimed_by FROM activity_executions "
            "WHERE status = 'running' AND queue = ?"
        )
        rows = self.real.execute(text, (queue, queue))
        return {(row[0], row[1]): Slot(queue, row[2] or "", row[3]) for row in rows}

    def line(self, queue: str, now: int) -> list[Waiting]:
        """What stands in line, in the order that holds within a partition.

        Args:
            queue: The queue.
            now: The instant of who looks, in microseconds: what joins the line later is not in it.
        """
        text = (
            "SELECT priority, queued_at, run_id, 0, partition_key, task_queue, workflow_type, next_deadline_at "
            "FROM workflow_runs WHERE queue = ? AND queued_at <= ? UNION ALL "
            "SELECT priority, available_at, run_id, activity_id, partition_key, task_queue, activity_type, "
            "next_deadline_at FROM activity_executions WHERE queue = ? AND status = 'pending' AND available_at <= ?"
        )
        return sorted(Waiting(*row) for row in self.real.execute(text, (queue, now, queue, now)))

    # --- judging a change -------------------------------------------------------------------------------------------

    def judge(self, batch: Batch, seen: dict[Key, Place], offset: int) -> Iterator[str]:
        """Say what is wrong with the change that was just applied.

        Args:
            batch: The batch.
            seen: The places of its runs and activities before that change; they are brought up to date.
            offset: By how much the writer's clock is off, in microseconds.
        """
        read: dict[Key, Place] = {}
        before: dict[Key, Place] = {}
        after: dict[Key, Place] = {}
        for run_id, run in batch.run_rows.items():
            if run.queue is not None:
                read[run_id, 0] = run_place(batch.run_rows.before.get(run_id))
                before[run_id, 0] = seen.get((run_id, 0)) or read[run_id, 0]
                after[run_id, 0] = run_place(vars(run))
                if run.slot_queue is None and run.owner_id is not None:
                    yield f"run {run_id} has owner {run.owner_id}, and was not admitted"
        for key, activity in batch.activity_rows.items():
            if activity.queue is not None:
                read[key] = activity_place(batch.activity_rows.before.get(key))
                before[key] = seen.get(key) or read[key]
                after[key] = activity_place(vars(activity))
        moved = [key for key, place in after.items() if place.slot != before[key].slot]
        slots = [place.slot for key in moved for place in (before[key], after[key]) if place.slot is not None]
        for queue in sorted({slot.queue for slot in slots}):
            known = self.watched(queue)
            if known is not None:
                yield from Judged(self, batch, queue, known, Places(read, before, after)).check(offset)
                self._keep(queue, known)
        seen.update(after)


def run_place(values: Mapping[str, Any] | None) -> Place:
    """What the values of a run's row say of its queue; ``None`` where there is no row."""
    if values is None:
        return Place(None, None)
    queue = values["slot_queue"]
    slot = Slot(queue, values["partition_key"] or "", values["owner_id"]) if queue is not None else None
    return Place(slot, values["queued_at"])


def activity_place(values: Mapping[str, Any] | None) -> Place:
    """What the values of an activity's row say of its queue; ``None`` where there is no row."""
    if values is None:
        return Place(None, None)
    if values["status"] == "running":
        return Place(Slot(values["queue"], values["partition_key"] or "", values["claimed_by"]), None)
    return Place(None, values["available_at"] if values["status"] == "pending" else None)


class Places(NamedTuple):
    """Where runs and activities are: as the batch read them, before a change of the batch, and after it."""

    read: Mapping[Key, Place]
    before: Mapping[Key, Place]
    after: Mapping[Key, Place]


class Judged:
    """One change, as it looks for one queue.

    Args:
        admissions: The witness.
        batch: The batch.
        queue: The queue.
        known: What is known of the queue.
        places: The places of the batch's runs and activities.
    """

    def __init__(
        self,
        admissions: Admissions,
        batch: Batch,
        queue: str,
        known: Watched,
        places: Places,
    ) -> None:
        self.batch = batch
        self.queue = queue
        self.known = known
        self.by = type(batch.change).__name__
        self.line = admissions.line(queue, batch.now)
        self.was = before = places.before
        self.before = admissions.slots(queue)
        self.after = dict(self.before)
        for held, known_as in ((self.before, before), (self.after, places.after)):
            for key, place in known_as.items():
                # What the batch has not moved is as the database has it: a row from the cache may be out of date, and
                # its `UPDATE` is what would find that.
                if place == places.read[key]:
                    continue
                if place.slot is not None and place.slot.queue == queue:
                    held[key] = place.slot
                else:
                    held.pop(key, None)
        taken = sorted(self.after.keys() - self.before.keys())
        self.admitted = [key for key in taken if before[key].since is not None]
        """What has gone from the line to a slot."""
        self.taken = [key for key in taken if before[key].since is None]

    def check(self, offset: int) -> Iterator[str]:
        """Say what is wrong with it.

        Args:
            offset: By how much the clock is off, in microseconds.
        """
        yield from self._check_slots()
        change = self.batch.change
        if not self.admitted:
            return
        if not isinstance(change, AdmitFromQueue):
            yield f"queue {self.queue} has admitted {self.admitted} by {self.by}"
            return
        limits = self.known.limits
        if limits["paused_at"] is not None or limits["deleted_at"] is not None:
            yield f"queue {self.queue} is paused or deleted, and has admitted {self.admitted}"
        line = [one for one in self.line if self._could_go(one, change.taker)]
        yield from self._check_order(line)
        if change.only_hints:
            # It follows a look around that found room nowhere: nobody else had a turn to lose.
            self.known.passed.clear()
        else:
            yield from self._check_turns(line, change.taker, offset)
        for key in self.admitted:
            self.known.admitted.append(Admitted(self.after[key].partition, self.batch.now - offset, offset))
            yield from self._check_rate("rate", None)
            yield from self._check_rate("partition_rate", self.after[key].partition)

    def _check_slots(self) -> Iterator[str]:
        """Check who has got which slots."""
        given_back = self.before.keys() - self.after.keys()
        for key in self.taken:
            run = self.batch.run(key[0])
            if key[1] or run is None or (run.previous_run_id, 0) not in given_back:
                yield f"{key} took a slot of queue {self.queue} by {self.by}, and was not admitted"
        deferred = isinstance(self.batch.change, DeferAttempt)
        for key in sorted(self.after.keys() & self.before.keys()):
            owner = self.after[key].owner
            if owner not in (None, self.before[key].owner) and not isinstance(
                self.batch.change, AdmitFromQueue
            ):
                yield f"{key}, which has a slot of queue {self.queue}, was given to {owner} by {self.by}"
            if key[1] and owner is None and self.before[key].owner and not deferred:
                yield f"{key} has nobody who runs it, and keeps its slot of queue {self.queue} by {self.by}"
        before, after = count_slots(self.before), count_slots(self.after)
        for name in LIMITS:
            limit = self.known.limits[name]
            for whose, count in after[name].items():
                if limit is not None and count > limit and count > before[name][whose]:
                    yield (
                        f"queue {self.queue} has {count} slots by {self.by}, where its {name} is {limit} ({whose!r})"
                    )

    # --- the line ---------------------------------------------------------------------------------------------------

    def _could_go(self, waiting: Waiting, taker: Taker) -> bool:
        """Whether the change saw it in line, and its worker runs such ones."""
        there = waiting.key not in self.was or self.was[waiting.key].since == waiting.since
        in_time = waiting.deadline is None or waiting.deadline > self.batch.now
        return (
            there
            and in_time
            and taker.room(waiting.kind) > 0
            and waiting.task_queue in taker.task_queues
            and waiting.type in taker.types(waiting.kind)
        )

    def _check_order(self, line: Sequence[Waiting]) -> Iterator[str]:
        left: dict[tuple[str, Kind], Waiting] = {}
        for one in line:
            first = left.get((one.partition, one.kind))
            if one.key not in self.admitted:
                left.setdefault((one.partition, one.kind), one)
            elif first is not None:
                yield f"{one.key} left the line of queue {self.queue} before {first.key}, which was before it"

    def _check_turns(self, line: Sequence[Waiting], taker: Taker, offset: int) -> Iterator[str]:
        passed = self.known.passed
        turns = Counter(self.after[key].partition for key in self.admitted)
        rooms = self._rooms(taker.worker_id, {one.partition for one in line}, offset)
        served = {
            kind: Counter(self.after[key].partition for key in self.admitted if kind_of(key) is kind)
            for kind in Kind
        }
        for kind in Kind:
            waits = Counter(one.partition for one in line if one.kind is kind)
            others_served = sum(turns.values()) > sum(served[kind].values())
            runs_out = others_served and sum(served[kind].values()) + self._taken_over() >= taker.room(kind)
            for known in [name for name in passed if name.startswith(f"{kind} ")]:
                if not waits[known.removeprefix(f"{kind} ")]:
                    del passed[known]
            for partition, count in waits.items():
                name = f"{kind} {partition}"
                if min(count, rooms[partition]) <= turns[partition] or runs_out:
                    passed.pop(name, None)
                    continue
                if turns[partition]:
                    passed[name] = []
                for other, more in served[kind].items():
                    again = more > turns[partition] + 1 or (
                        not turns[partition] and other in passed.get(name, ())
                    )
                    if other != partition and again:
                        yield (
                            f"partition {other!r} of queue {self.queue} had a turn again ({kind}) before "
                            f"{partition!r}, which waited with room"
                        )
                if not turns[partition]:
                    passed[name] = sorted({*passed.get(name, ()), *served[kind]})

    def _taken_over(self) -> int:
        """How many runs with slots the change has given to the worker."""
        return sum(
            self.after[key].owner not in (None, self.before[key].owner)
            for key in self.after.keys() & self.before.keys()
        )

    def _rooms(self, worker_id: str, partitions: Iterable[str], offset: int) -> dict[str, int]:
        """The room that each partition surely had before the first of these was admitted."""
        limits = self.known.limits
        held = count_slots({key: slot for key, slot in self.after.items() if key not in self.admitted})
        rooms: dict[str, int] = {}
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
        offsets = [offset, *(one.offset for one in made), *(off for _, off in self.known.writers)]
        since = self.batch.now - offset - per * SLACK - (max(offsets) - min(offsets))
        return limit - sum(one.at >= since for one in made)

    def _check_rate(self, rate: str, partition: str | None) -> Iterator[str]:
        """Check the window that ends with the latest admission.

        Clocks that differ by some time may make a window shorter by as much: an admission counts from the clock of
        who wrote it, or has written the log since.
        """
        limit, per = self.known.limits[f"{rate}_limit"], self.known.limits[f"{rate}_per"]
        if limit is None or per is None:
            return
        window = self.known.within(rate, partition)[-limit - 1 :]
        if len(window) <= limit:
            return
        writers = [offset for at, offset in self.known.writers if window[0].at <= at <= window[-1].at]
        offsets = [*writers, *(one.offset for one in window)]
        took = window[-1].at - window[0].at
        if took + max(offsets) - min(offsets) <= per:
            of = f"partition {partition!r} of " if partition is not None else ""
            yield f"{of}queue {self.queue} has admitted {limit + 1} in {took} µs, where {limit} are allowed in {per}"
