"""Admission: how a queue's runs leave its line, and how runs that hold a slot get an owner again.

One change does both, under the queue's gate (:mod:`outlast_store.queues.gates`), because both take a slot's worker. It
goes through these steps:

1. Runs that hold a slot and lost their owner go before the line: they take no new slot, only room of the worker.
2. The room is what the queue's, the worker's and the partitions' limits and rates leave. Slots are counted from rows,
   never remembered, so a process that dies leaks none.
3. The partitions that have a line are found by leaps, from the one after that which was served last, and take turns
   (:mod:`outlast_store.queues.turns`).
4. Each run that is still in line and in time leaves it: it takes a slot and an owner, and its run timeout begins.

What a process that dies amid this leaves behind is either nothing, or runs that were admitted and whose owner is dead.
Those keep their slots; the watchdog releases them, and step 1 hands them on. No rate is charged twice for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from outlast_runs.claims import SHORT_HISTORY_BYTES
from outlast_store.database.sql_text import Values
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.queues import lines
from outlast_store.queues.gates import Rates, find_queue, read_rates, write_gate
from outlast_store.queues.lines import PAIRS, Head, Pair
from outlast_store.queues.turns import UNBOUNDED, deal
from outlast_store.schema.rows import QueueRow, RunRow
from outlast_store.transitions.queued_runs import dequeue
from outlast_store.transitions.run_deadlines import deadline_passed
from outlast_store.transitions.run_owners import read_short_histories

SPARE_HEADS = 400
"""How many more heads are read than are wanted, all lines together, since this worker may not run the first of them."""
MOST_SPARE_HEADS = 20
FEWEST_SPARE_HEADS = 4


Position = tuple[bool, str | None]
"""Where a rotation is: whether it has begun again with the first partition, and the partition that was seen last."""


@dataclass(slots=True)
class Admission:
    """What one admission did.

    Attributes:
        runs: The runs that the worker owns from now on.
        histories: ``(seq, type, payload)`` of the events of those runs whose history is short.
        busy: Whether another transaction holds the gate or runs that would be next: it will end soon.
        more: Whether more may be admitted at once: the worker had less room than the queue.
        next_at: When a rate allows the next admission, in microseconds, if that is what holds the line up.
        position: Where the next look goes on, where this one saw only a part of the lines and admitted nothing;
            ``None`` where the rotation is over.
    """

    runs: list[RunRow] = field(default_factory=list)
    histories: dict[str, list[Values]] = field(default_factory=dict)
    busy: bool = False
    more: bool = False
    next_at: int | None = None
    position: Position | None = None


class AdmitRuns(BaseChange):
    """Admit runs of one queue, and take over those that hold a slot without an owner.

    Args:
        queue: The queue.
        worker_id: The worker that admits them, and owns them from then on.
        task_queues: The task queues that it serves.
        types: The workflow types that it knows.
        limit: How many runs it takes at most.
        position: Where a look goes on that admitted nothing (:attr:`Admission.position`).
    """

    def __init__(
        self,
        queue: str,
        worker_id: str,
        task_queues: Sequence[str],
        types: frozenset[str],
        limit: int,
        position: Position | None = None,
    ) -> None:
        self.queue = queue
        self.gates = (queue,)
        self.worker_id = worker_id
        self.task_queues = task_queues
        self.types = types
        self.limit = limit
        self.position = position

    def apply(self, batch: Batch) -> Admission:
        """Admit at most ``limit`` runs; nothing where another transaction holds the gate or there is no such queue."""
        admission = Admission()
        gate = batch.gates.get(self.queue)
        if gate is None:
            admission.busy = find_queue(batch, self.queue) is not None
            return admission
        room = self.limit
        if gate.worker_concurrency is not None:
            mine = lines.count_slots_of(batch, self.queue, self.worker_id)
            room = min(room, gate.worker_concurrency - mine)
        if room > 0:
            self._take_over(batch, gate, room, admission)
            room -= len(admission.runs)
        if room > 0 and gate.paused_at is None and gate.deleted_at is None:
            self._admit(batch, gate, room, admission)
        admission.histories = self._histories(batch, admission.runs)
        return admission

    def _take_over(self, batch: Batch, gate: QueueRow, room: int, admission: Admission) -> None:
        """Own runs that hold a slot and have no owner."""
        types = sorted(self.types)
        found = lines.find_take_overs(batch, self.queue, self.task_queues, types, room)
        if not found:
            return
        rooms = self._worker_rooms(batch, gate, sorted({partition for _, partition in found}))
        wanted: list[str] = []
        for run_id, partition in found:
            if rooms.get(partition, UNBOUNDED) > 0:
                rooms[partition] = rooms.get(partition, UNBOUNDED) - 1
                wanted.append(run_id)
        for run in batch.lock_runs(wanted, skip=True):
            if (
                run.is_open
                and run.owner_id is None
                and run.wake_at is not None
                and run.slot_queue == self.queue
            ):
                run.owner_id = self.worker_id
                run.fence += 1
                admission.runs.append(run)

    def _admit(self, batch: Batch, gate: QueueRow, room: int, admission: Admission) -> None:
        """Let runs out of the line, as far as there is room."""
        if gate.concurrency is not None:
            room = min(room, gate.concurrency - lines.count_slots(batch, self.queue, gate.concurrency))
            if room <= 0:
                return
        pairs = self._pairs(batch, gate, admission)
        partitions = list(dict.fromkeys(pair.partition for pair in pairs))
        rates = read_rates(batch, gate, partitions)
        if rates.whole is not None:
            room = min(room, rates.whole.room(batch.now))
        rooms = self._rooms(batch, gate, partitions, rates)
        able = [pair for pair in pairs if rooms.get(pair.partition, UNBOUNDED) > 0]
        if room > 0 and able:
            heads, cut = self._heads(batch, able, room)
            dealt = deal(heads, rooms, room)
            self._dequeue(batch, gate, rates, dealt.chosen, admission)
            # Where the worker had the least room, or not all of a line was read, there may be more for it at once.
            bound = dealt.left and len(admission.runs) >= self.limit
            admission.more = bound or (cut and 0 < len(dealt.chosen) < room)
        if admission.runs:
            admission.position = None
        if pairs:
            admission.next_at = rates.next_at(batch.now)

    def _pairs(self, batch: Batch, gate: QueueRow, admission: Admission) -> list[Pair]:
        """Return the next lines of the rotation."""
        wrapped, after = self.position if self.position is not None else (False, gate.cursor)
        pairs = lines.find_pairs(batch, self.queue, after, until=gate.cursor if wrapped else None)
        if len(pairs) < PAIRS and not wrapped and gate.cursor is not None:
            # The rotation goes on from the beginning, up to where it began.
            wrapped = True
            pairs += lines.find_pairs(batch, self.queue, None, until=gate.cursor)[: PAIRS - len(pairs)]
        if len(pairs) >= PAIRS:
            admission.position = wrapped, pairs[-1].partition
        return pairs

    def _heads(self, batch: Batch, pairs: Sequence[Pair], room: int) -> tuple[dict[str, list[Head]], bool]:
        """Return the runs that come first in each partition, without those that this worker cannot run.

        Where only a part of a line was read, what comes behind it, the lower priorities of its partition, is left out.

        Returns:
            The runs by partition, and whether anything was left out.
        """
        spare = max(FEWEST_SPARE_HEADS, min(MOST_SPARE_HEADS, SPARE_HEADS // len(pairs)))
        # Earlier changes of this batch have admitted these, which the scan still finds.
        taken = batch.runs_taken
        limit = -(-room // len(pairs)) + spare + taken
        found: dict[str, list[Head]] = {}
        cut: set[str] = set()
        for pair, heads in lines.find_heads(batch, self.queue, pairs, limit).items():
            if pair.partition not in cut:
                found.setdefault(pair.partition, []).extend(
                    head for head in heads if self._can_take(batch, head)
                )
            if len(heads) >= limit:
                cut.add(pair.partition)
        return found, bool(cut)

    def _can_take(self, batch: Batch, head: Head) -> bool:
        known = batch.run(head.run_id)
        return (
            (known is None or known.queued_at is not None)
            # One that is past its deadline is the watchdog's, and keeps nobody waiting until then.
            and (head.deadline_at is None or head.deadline_at > batch.now)
            and head.task_queue in self.task_queues
            and head.workflow_type in self.types
        )

    def _dequeue(
        self,
        batch: Batch,
        gate: QueueRow,
        rates: Rates,
        chosen: Sequence[tuple[str, Head]],
        admission: Admission,
    ) -> None:
        order = {head.run_id: place for place, (_, head) in enumerate(chosen)}
        locked = batch.lock_runs(list(order), skip=True)
        served: list[str] = []
        for run in sorted(locked, key=lambda run: order[run.run_id]):
            if (
                run.queue != self.queue
                or run.queued_at is None
                or deadline_passed(run, batch.now) is not None
            ):
                continue
            dequeue(batch, run, self.worker_id)
            admission.runs.append(run)
            served.append(run.partition_key or "")
        if len(locked) < len(chosen):
            admission.busy = True
        if not served:
            return
        if rates.whole is not None:
            rates.whole.add(batch.now, len(served))
        for partition in dict.fromkeys(served):
            log = rates.partitions.get(partition)
            if log is not None:
                log.add(batch.now, served.count(partition))
        write_gate(batch, gate, rates, served[-1], list(dict.fromkeys(served)))

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
        held = lines.count_partition_slots(batch, self.queue, partitions, self.worker_id)
        return {partition: limit - count for partition, count in held.items()}

    def _histories(self, batch: Batch, runs: Sequence[RunRow]) -> dict[str, list[Values]]:
        """Return the short histories of runs, with what this batch has appended."""
        histories = read_short_histories(batch, runs, SHORT_HISTORY_BYTES)
        for run_id, rows in histories.items():
            rows += [(seq, event.type, event.to_json()) for seq, event, _ in batch.appended(run_id)]
        return histories
