"""Admission: how what waits in a queue leaves its line, and how runs that hold a slot get an owner again.

One change does all of it, under the queue's gate (:mod:`outlast_store.queues.gates`), because all of it takes room that
the queue's limits count. Runs and activities stand in one line and take slots of one kind, so neither goes before the
other. The change goes through these steps:

1. Runs that hold a slot and lost their owner go before the line: they take no new slot, only room of the worker.
2. The room is what the queue's, the worker's and the partitions' limits and rates leave. Slots are counted from rows,
   never remembered, so a process that dies leaks none.
3. The partitions that have a line are found by leaps, from the one after that which was served last, and take turns
   (:mod:`outlast_store.queues.turns`).
4. Each run that is still in line and in time leaves it: it takes a slot and an owner, and its run timeout begins. Each
   activity begins an attempt on the worker, and its slot is that of the attempt: a retry joins the line again.

What a process that dies amid this leaves behind is either nothing, or runs and attempts of a worker that is dead. The
runs keep their slots; the watchdog releases them, and step 1 hands them on. No rate is charged twice for them. The
activities are rescued, so they stand in line again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from outlast_activities.attempts import claim
from outlast_activities.changes import Claimed, describe_claimed
from outlast_activities.deadlines import passed
from outlast_runs.claims import SHORT_HISTORY_BYTES
from outlast_store.database.sql_text import Values
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.queues import lines
from outlast_store.queues.gates import Rates, find_queue, read_rates, write_gate
from outlast_store.queues.lines import PAIRS, Head, Kind, Pair
from outlast_store.queues.turns import UNBOUNDED, deal
from outlast_store.schema.rows import ActivityRow, QueueRow, RunRow
from outlast_store.transitions.queued_runs import dequeue
from outlast_store.transitions.run_deadlines import deadline_passed
from outlast_store.transitions.run_owners import read_short_histories
from outlast_workflow.primitives.enums import ActivityStatus
from outlast_workflow.primitives.type_families import serves

SPARE_PARTITIONS = 20
"""How many more partitions are looked into than are to be served, since the first may have no head that is free."""
EVEN_SHARES = 2
"""How many times its even share of the room is read of each line, since lines are not equally long."""
SPARE_HEADS = 400
"""How many more heads are read where this worker cannot run the first of them, all lines together."""
MOST_SPARE_HEADS = 20
FEWEST_SPARE_HEADS = 4


Position = tuple[bool, str | None]
"""Where a rotation is: whether it has begun again with the first partition, and the partition that was seen last."""


@dataclass(slots=True)
class Taker:
    """A worker that admits from queues: what it can run, and how much of it now.

    Attributes:
        worker_id: The worker. It owns the runs and runs the activities that it admits.
        task_queues: The task queues that it serves.
        workflows: The workflow types that it knows.
        activities: The activity types that it knows.
        runs: How many runs it has room for.
        slots: How many activities it has room for.
    """

    worker_id: str
    task_queues: Sequence[str]
    workflows: frozenset[str] = frozenset()
    activities: frozenset[str] = frozenset()
    runs: int = 0
    slots: int = 0

    def room(self, kind: Kind) -> int:
        """Return how many it has room for, of runs or of activities."""
        return self.runs if kind is Kind.RUN else self.slots

    def types(self, kind: Kind) -> frozenset[str]:
        """Return which types it knows, of workflows or of activities."""
        return self.workflows if kind is Kind.RUN else self.activities


@dataclass(slots=True)
class Admission:
    """What one admission did.

    Attributes:
        runs: The runs that the worker owns from now on.
        histories: ``(seq, type, payload)`` of the events of those runs whose history is short.
        activities: The activities that the worker is to run from now on.
        busy: Whether another transaction holds the gate or what would be next: it will end soon.
        more: Whether more may be admitted at once: the worker had less room than the queue.
        waiting: The kinds of what stands in line and the worker knows; ``None`` where it did not see all lines.
        short_of: Those of them that the worker had no room for at all.
        next_at: When a rate allows the next admission, in microseconds, if that is what holds the line up, or when the
            first activity joins the line whose retry is not due yet.
        position: Where the next look goes on, where this one saw only a part of the lines and admitted nothing;
            ``None`` where the rotation is over.
    """

    runs: list[RunRow] = field(default_factory=list)
    histories: dict[str, list[Values]] = field(default_factory=dict)
    activities: list[Claimed] = field(default_factory=list)
    busy: bool = False
    more: bool = False
    waiting: frozenset[Kind] | None = None
    short_of: frozenset[Kind] = frozenset()
    next_at: int | None = None
    position: Position | None = None

    @property
    def count(self) -> int:
        """How many were admitted or taken over."""
        return len(self.runs) + len(self.activities)

    def note_next(self, at: int | None) -> None:
        """Note that something may be admitted from an instant on."""
        if at is not None and (self.next_at is None or at < self.next_at):
            self.next_at = at


class AdmitFromQueue(BaseChange):
    """Admit from one queue, and take over the runs that hold a slot without an owner.

    Args:
        queue: The queue.
        taker: The worker that admits.
        position: Where a look goes on that admitted nothing (:attr:`Admission.position`).
        hints: Partitions in which something has begun to wait or has ended: where one look does not see all lines,
            theirs are seen after those whose turn it is.
        only_hints: Whether to look at no others.
    """

    def __init__(
        self,
        queue: str,
        taker: Taker,
        position: Position | None = None,
        *,
        hints: Sequence[str] = (),
        only_hints: bool = False,
    ) -> None:
        self.hints = hints
        self.only_hints = only_hints
        self.queue = queue
        self.gates = (queue,)
        self.taker = taker
        self.position = position

    def apply(self, batch: Batch) -> Admission:
        """Admit what there is room for; nothing where another transaction holds the gate or there is no such queue."""
        admission = Admission()
        taker = self.taker
        gate = batch.gates.get(self.queue)
        if gate is None:
            admission.busy = find_queue(batch, self.queue) is not None
            return admission
        room = max(taker.runs, taker.slots)
        if gate.worker_concurrency is not None:
            mine = lines.count_slots_of(batch, self.queue, taker.worker_id)
            room = min(room, gate.worker_concurrency - mine)
        if room > 0 and taker.runs > 0 and taker.workflows:
            self._take_over(batch, gate, min(room, taker.runs), admission)
            room -= len(admission.runs)
        if room > 0 and gate.paused_at is None and gate.deleted_at is None:
            self._admit(batch, gate, room, admission)
        admission.histories = self._histories(batch, admission.runs)
        return admission

    def _take_over(self, batch: Batch, gate: QueueRow, room: int, admission: Admission) -> None:
        """Own runs that hold a slot and have no owner: the oldest first, of partitions that have room."""
        taker, types = self.taker, sorted(self.taker.workflows)
        rooms: dict[str, int] = {}
        full: list[str] = []
        wanted: dict[str, None] = {}
        while len(wanted) < room:
            # The first ones may all be of partitions that are full: then those behind them are looked for.
            most = room + len(wanted)
            found = lines.find_take_overs(batch, self.queue, taker.task_queues, types, most, full)
            rooms.update(
                self._worker_rooms(batch, gate, sorted({partition for _, partition in found} - rooms.keys()))
            )
            for run_id, partition in found:
                if len(wanted) < room and run_id not in wanted and rooms.get(partition, UNBOUNDED) > 0:
                    rooms[partition] = rooms.get(partition, UNBOUNDED) - 1
                    wanted[run_id] = None
            if len(found) < most:
                break
            full = sorted(partition for partition, left in rooms.items() if left <= 0)
        for run in batch.lock_runs(list(wanted), skip=True):
            if (
                run.is_open
                and run.owner_id is None
                and run.wake_at is not None
                and run.slot_queue == self.queue
            ):
                run.owner_id = taker.worker_id
                run.fence += 1
                admission.runs.append(run)

    def _admit(self, batch: Batch, gate: QueueRow, room: int, admission: Admission) -> None:
        """Let runs and activities out of the line, as far as there is room."""
        taken_over = admission.count
        if gate.concurrency is not None:
            room = min(room, gate.concurrency - lines.count_slots(batch, self.queue, gate.concurrency))
            if room <= 0:
                return
        pairs = self._pairs(batch, gate, admission)
        if admission.position is None and not self.only_hints:
            admission.waiting = frozenset(kind for kinds in pairs.values() for kind in kinds)
        partitions = list(dict.fromkeys(pair.partition for pair in pairs))
        rates = read_rates(batch, gate, partitions)
        if rates.whole is not None:
            room = min(room, rates.whole.room(batch.now))
        rooms = self._rooms(batch, gate, partitions, rates)
        able = {pair: kinds for pair, kinds in pairs.items() if rooms.get(pair.partition, UNBOUNDED) > 0}
        if room > 0 and able:
            wanted = {kind for kinds in able.values() for kind in kinds}
            # In this order, so that what joined at the same time leaves in the same order everywhere.
            quotas = {
                kind: self.taker.room(kind) for kind in Kind if kind in wanted and self.taker.room(kind) > 0
            }
            admission.short_of = frozenset(wanted - quotas.keys())
            if Kind.RUN in quotas:
                quotas[Kind.RUN] -= taken_over
            heads, cut = self._heads(batch, able, quotas, room, admission)
            dealt = deal(heads, rooms, room, kind=attrgetter("kind"), quotas=quotas)
            self._take(batch, gate, rates, dealt.chosen, admission)
            # Where the worker had the least room, or not all of a line was read, there may be more for it at once.
            bound = (dealt.left or cut) and self._is_full(admission)
            admission.more = bound or (cut and 0 < len(dealt.chosen) < room)
        if admission.count or room <= 0:
            admission.position = None
        if not admission.count and (partitions_back := rates.brought_back()) is not None:
            write_gate(batch, gate, rates, None, partitions_back)
        if pairs:
            admission.note_next(rates.next_at(batch.now))

    def _is_full(self, admission: Admission) -> bool:
        """Return whether the worker has no more room of one kind, or of both together."""
        runs, activities, taker = len(admission.runs), len(admission.activities), self.taker
        return (
            runs + activities >= max(taker.runs, taker.slots)
            or 0 < taker.runs <= runs
            or 0 < taker.slots <= activities
        )

    def _pairs(self, batch: Batch, gate: QueueRow, admission: Admission) -> dict[Pair, list[Kind]]:
        """Return the next lines of the rotation, and what is in them."""
        kinds = [kind for kind in Kind if self.taker.types(kind)]
        if self.only_hints:
            return lines.find_pairs_of(batch, self.queue, kinds, self.hints)
        wrapped, after = self.position if self.position is not None else (False, gate.cursor)
        if self.position is None and after == "":
            # What has no partition is where the index begins, and was served last. Most queues have nothing else.
            pairs = lines.find_pairs(batch, self.queue, kinds, None)
            full = len(pairs) >= PAIRS
            served_last = {pair: pairs.pop(pair) for pair in list(pairs) if pair.partition == ""}
            if not full:
                pairs.update(served_last)
        else:
            pairs = lines.find_pairs(batch, self.queue, kinds, after, until=gate.cursor if wrapped else None)
            if len(pairs) < PAIRS and not wrapped and gate.cursor is not None:
                # The rotation goes on from the beginning, up to where it began.
                wrapped = True
                more = lines.find_pairs(batch, self.queue, kinds, None, until=gate.cursor)
                pairs.update(list(more.items())[: PAIRS - len(pairs)])
            full = len(pairs) >= PAIRS
        if full:
            admission.position = wrapped, next(reversed(pairs)).partition
            seen = {pair.partition for pair in pairs}
            hidden = [partition for partition in self.hints if partition not in seen]
            pairs.update(lines.find_pairs_of(batch, self.queue, kinds, hidden))
        return pairs

    def _heads(
        self,
        batch: Batch,
        pairs: Mapping[Pair, Sequence[Kind]],
        quotas: Mapping[Kind, int],
        room: int,
        admission: Admission,
    ) -> tuple[dict[str, list[Head]], bool]:
        """Return what comes first in each partition, without what this worker cannot run.

        Mostly it can run all of it. So no more is read at first than is likely to be taken: of as many partitions as
        there is room for, and so much of each.

        Returns:
            Runs and activities by partition, and whether anything was left out.
        """
        near = set(list(dict.fromkeys(pair.partition for pair in pairs))[: room + SPARE_PARTITIONS])
        first = {pair: kinds for pair, kinds in pairs.items() if pair.partition in near}
        share = min(room, -(-EVEN_SHARES * room // len(first)))
        found, cut, refused = self._read_heads(batch, first, quotas, share, admission)
        if refused or (len(first) < len(pairs) and not any(found.values())):
            spare = max(FEWEST_SPARE_HEADS, min(MOST_SPARE_HEADS, SPARE_HEADS // len(pairs)))
            found, cut, _ = self._read_heads(batch, pairs, quotas, share + spare, admission)
            return found, cut
        return found, cut or len(first) < len(pairs)

    def _read_heads(
        self,
        batch: Batch,
        pairs: Mapping[Pair, Sequence[Kind]],
        quotas: Mapping[Kind, int],
        limit: int,
        admission: Admission,
    ) -> tuple[dict[str, list[Head]], bool, bool]:
        """Return what comes first in each partition, without what this worker cannot run.

        Where only a part of a line was read, what comes behind it, the lower priorities of its partition, is left out.

        Returns:
            Runs and activities by partition, whether anything was left out, and whether there is some that it cannot
            run, or nothing where more was left out.
        """
        # Earlier changes of this batch have admitted these, which the scan still finds.
        taken = {Kind.RUN: batch.runs_taken, Kind.ACTIVITY: batch.activities_taken}
        limits = {kind: limit + taken[kind] for kind in quotas}
        mine = {kind: [pair for pair, kinds in pairs.items() if kind in kinds] for kind in limits}
        lines_of = lines.find_heads(batch, self.queue, mine, limits)
        found: dict[str, list[Head]] = {}
        cut: set[str] = set()
        refused = False
        for pair in pairs:
            heads: list[Head] = []
            if pair.partition in cut:
                continue
            # Up to when all of this line was read, of both kinds.
            until = batch.now
            for kind, of_kind in lines_of.items():
                line = of_kind.get(pair, [])
                if kind is Kind.RUN and line and line[-1].since > batch.now:
                    # All of these are in line: since they joined it the clock was set back.
                    line = [head._replace(since=min(head.since, batch.now)) for head in line]
                ready = [head for head in line if head.since <= batch.now]
                heads += ready
                if len(ready) < len(line):
                    admission.note_next(line[len(ready)].since)
                elif len(line) >= limits[kind]:
                    cut.add(pair.partition)
                    until = min(until, line[-1].since)
            heads = sorted((head for head in heads if head.since <= until), key=attrgetter("since"))
            able = [head for head in heads if self._can_run(batch, head)]
            there = [head for head in able if self._stands_in_line(batch, head)]
            # Changes of this batch may have taken away all that was read of a line.
            refused = refused or len(able) < len(heads) or (pair.partition in cut and not there)
            found.setdefault(pair.partition, []).extend(there)
        return found, bool(cut), refused

    def _can_run(self, batch: Batch, head: Head) -> bool:
        return (
            head.task_queue in self.taker.task_queues
            and serves(self.taker.types(head.kind), head.type)
            # What is past its deadline is the watchdog's, and keeps nobody waiting until then.
            and (head.deadline_at is None or head.deadline_at > batch.now)
        )

    def _stands_in_line(self, batch: Batch, head: Head) -> bool:
        if head.activity_id is None:
            run = batch.run(head.run_id)
            return run is None or run.queued_at is not None
        activity = batch.activity(head.run_id, head.activity_id)
        return activity is None or activity.status == ActivityStatus.PENDING

    def _take(
        self,
        batch: Batch,
        gate: QueueRow,
        rates: Rates,
        chosen: Sequence[tuple[str, Head]],
        admission: Admission,
    ) -> None:
        """Admit what was chosen and is still in line; count it in the rates and in the turns."""
        runs = {
            run.run_id: run
            for run in batch.lock_runs(
                [head.run_id for _, head in chosen if head.activity_id is None], skip=True
            )
        }
        keys = [(head.run_id, head.activity_id) for _, head in chosen if head.activity_id is not None]
        activities = {(row.run_id, row.activity_id): row for row in batch.lock_activities(keys, skip=True)}
        admission.busy = len(runs) + len(activities) < len(chosen)
        served: list[str] = []
        claimed: list[ActivityRow] = []
        for partition, head in chosen:
            if head.activity_id is None:
                run = runs.get(head.run_id)
                if run is None or not self._dequeue(batch, run):
                    continue
                admission.runs.append(run)
            else:
                row = activities.get((head.run_id, head.activity_id))
                if row is None or not self._claim(batch, row):
                    continue
                claimed.append(row)
            served.append(partition)
        admission.activities = describe_claimed(batch, claimed, self.taker.worker_id)
        if not served:
            return
        if rates.whole is not None:
            rates.whole.add(batch.now, len(served))
        for partition in dict.fromkeys(served):
            log = rates.partitions.get(partition)
            if log is not None:
                log.add(batch.now, served.count(partition))
        write_gate(batch, gate, rates, served[-1], list(dict.fromkeys(served)))

    def _dequeue(self, batch: Batch, run: RunRow) -> bool:
        """Admit a run; return whether it was still in line and in time."""
        if run.queue != self.queue or run.queued_at is None or deadline_passed(run, batch.now) is not None:
            return False
        dequeue(batch, run, self.taker.worker_id)
        return True

    def _claim(self, batch: Batch, row: ActivityRow) -> bool:
        """Admit an activity; return whether it was still in line and in time."""
        if (
            row.queue != self.queue
            or row.status != ActivityStatus.PENDING
            or row.available_at > batch.now
            or passed(row, batch.now) is not None
        ):
            return False
        claim(row, self.taker.worker_id, batch.now)
        return True

    def _rooms(self, batch: Batch, gate: QueueRow, partitions: Sequence[str], rates: Rates) -> dict[str, int]:
        """Return the room of each partition that has a limit of its own."""
        rooms = self._worker_rooms(batch, gate, partitions)
        limit = gate.partition_concurrency
        if limit is not None and partitions:
            for partition, held in lines.count_partition_slots(batch, self.queue, partitions).items():
                rooms[partition] = min(rooms.get(partition, UNBOUNDED), limit - held)
        for partition, log in rates.partitions.items():
            rooms[partition] = min(rooms.get(partition, UNBOUNDED), log.room(batch.now))
        return rooms

    def _worker_rooms(self, batch: Batch, gate: QueueRow, partitions: Sequence[str]) -> dict[str, int]:
        """Return the room that this worker has in each partition, where there is a limit on that."""
        limit = gate.partition_worker_concurrency
        if limit is None or not partitions:
            return {}
        held = lines.count_partition_slots(batch, self.queue, partitions, self.taker.worker_id)
        return {partition: limit - count for partition, count in held.items()}

    def _histories(self, batch: Batch, runs: Sequence[RunRow]) -> dict[str, list[Values]]:
        """Return the short histories of runs, with what this batch has appended."""
        histories = read_short_histories(batch, runs, SHORT_HISTORY_BYTES)
        for run_id, rows in histories.items():
            rows += [(seq, event.type, event.to_json()) for seq, event, _ in batch.appended(run_id)]
        return histories
