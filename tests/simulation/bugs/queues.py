"""Bugs of queues."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast.worker import poller
from outlast_activities import attempts, changes
from outlast_runs import admission, claims, resets, terminal_commands
from outlast_store.journal.batch import Batch
from outlast_store.queues import definitions, gates, lines, rate_log
from outlast_store.reads import workers
from outlast_store.schema import rows
from outlast_store.transitions import activity_ends, new_runs, queued_runs, run_ends
from outlast_watchdog import enforcement
from outlast_workflow.primitives.enums import ActivityStatus


@bug
def slots_counted_too_early(stack: ExitStack) -> None:
    """Slots are counted as they were when the gate was asked for: the latest admission is missing."""
    right = lines.count_slots

    def wrong(batch: Batch, queue: str, limit: int) -> int:
        return max(right(batch, queue, limit) - 1, 0)

    patch(stack, lines, "count_slots", wrong)


@bug
def partitions_not_counted(stack: ExitStack) -> None:
    """What a partition holds already is forgotten."""
    patch(
        stack,
        lines,
        "count_partition_slots",
        lambda batch, queue, partitions, worker_id=None: dict.fromkeys(partitions, 0),
    )


@bug
def taken_over_without_room(stack: ExitStack) -> None:
    """Runs that lost their owner go to any worker, however many it has."""
    right = admission.AdmitFromQueue._take_over

    def wrong(self: Any, batch: Batch, gate: Any, room: int, done: Any) -> None:
        right(self, batch, replace(gate, partition_worker_concurrency=None), self.taker.runs, done)

    patch(stack, admission.AdmitFromQueue, "_take_over", wrong)
    patch(stack, lines, "count_slots_of", lambda batch, queue, worker_id: 0)


@bug
def queued_runs_are_woken(stack: ExitStack) -> None:
    """What is sent to a queued run makes it claimable."""

    def wrong(self: Any, now: int) -> None:
        if self.wake_at is None or self.wake_at > now:
            self.wake_at = now

    patch(stack, rows.RunRow, "wake", wrong)


@bug
def slots_leak(stack: ExitStack) -> None:
    """A run that continues as new keeps its slot, and so does the next one."""
    right = run_ends.close_run

    def wrong(batch: Batch, run: Any, event: Any, status: Any, **more: Any) -> None:
        slot = run.slot_queue
        right(batch, run, event, status, **more)
        run.slot_queue = slot

    for module in (run_ends, terminal_commands):
        patch(stack, module, "close_run", wrong)


@bug
def delays_never_end(stack: ExitStack) -> None:
    """A run whose start delay has passed does not join its line."""
    patch(stack, enforcement, "join_line", lambda batch, run, at: None)


@bug
def run_timeouts_count_from_the_start(stack: ExitStack) -> None:
    """The run timeout of a queued run begins before it is admitted."""
    right = queued_runs.enter_queue

    def wrong(run: Any, now: int, **more: Any) -> None:
        deadline = run.run_deadline_at
        right(run, now, **more)
        run.run_deadline_at = deadline

    patch(stack, new_runs, "enter_queue", wrong)


@bug
def claims_take_runs_with_slots(stack: ExitStack) -> None:
    """A plain claim takes a run that holds a slot and has no owner, however many its worker has."""

    def wrong(batch: Batch, task_queues: Any, types: Any, limit: int) -> Any:
        text = (
            "SELECT wake_at, run_id FROM workflow_runs WHERE owner_id IS NULL AND task_queue = ? AND wake_at <= ? "
            "AND not_before <= ? ORDER BY wake_at LIMIT ?"
        )
        return [
            (row[0], row[1])
            for queue in task_queues
            for row in batch.scan(text, (queue, batch.now, batch.now, limit))
        ]

    patch(stack, claims, "scan_claimable_runs", wrong)


@bug
def resets_take_slots(stack: ExitStack) -> None:
    """A reset of a closed run does not join the line: it takes a slot."""
    right = resets.ResetRun._enter

    def wrong(self: Any, run: Any, row: Any, now: int) -> None:
        if run.closed_at is None:
            right(self, run, row, now)
        else:
            row.slot_queue = row.queue

    patch(stack, resets.ResetRun, "_enter", wrong)


@bug
def admissions_of_the_batch_forgotten(stack: ExitStack) -> None:
    """What another worker of the process has admitted in the same batch is not counted."""
    patch(stack, lines, "_in_batch", lambda batch, queue: (0, 0))
    patch(stack, lines, "_difference", lambda batch, queue, worker_id: {})


@bug
def buckets_count_from_their_beginning(stack: ExitStack) -> None:
    """An admission counts from the beginning of its bucket: the instants in a rate's log are rounded down."""

    def wrong(self: Any, now: int, count: int) -> None:
        self._forget(now)
        if self.entries and now < self.entries[-1][0] + self.bucket:
            begin, known = self.entries[-1]
            self.entries[-1] = (begin, known + count)
        elif count:
            self.entries.append((now, count))

    patch(stack, rate_log.RateLog, "add", wrong)


@bug
def rate_logs_lost_by_updates(stack: ExitStack) -> None:
    """Whoever changes a limit empties the log of the rate."""
    right = definitions.UpdateQueue._write

    def wrong(self: Any, batch: Batch, row: Any, **values: Any) -> Any:
        return right(self, batch, row, rate_log=None, **values)

    patch(stack, definitions.UpdateQueue, "_write", wrong)


@bug
def partition_rates_not_charged(stack: ExitStack) -> None:
    """The log of a partition's rate is not written."""
    right = gates.write_gate

    def wrong(batch: Batch, gate: Any, rates: Any, cursor: Any, served: Any) -> None:
        right(batch, gate, rates, cursor, ())

    patch(stack, admission, "write_gate", wrong)


@bug
def pauses_not_looked_at(stack: ExitStack) -> None:
    """Whether a queue is paused is looked at before the gate is held, not under it."""
    right = admission.AdmitFromQueue.apply

    def wrong(self: Any, batch: Batch) -> Any:
        gate = batch.gates.get(self.queue)
        if gate is None:
            return right(self, batch)
        paused_at, gate.paused_at = gate.paused_at, None
        try:
            return right(self, batch)
        finally:
            gate.paused_at = paused_at

    patch(stack, admission.AdmitFromQueue, "apply", wrong)


@bug
def turns_begin_with_the_first(stack: ExitStack) -> None:
    """Nobody remembers which partition was served last: the first one has the first turn again."""
    right = gates.write_gate

    def wrong(batch: Batch, gate: Any, rates: Any, cursor: Any, served: Any) -> None:
        right(batch, gate, rates, None, served)

    patch(stack, admission, "write_gate", wrong)


@bug
def priorities_reversed(stack: ExitStack) -> None:
    """In a partition the lowest priority goes first."""
    right = lines.find_pairs

    def wrong(batch: Batch, *given: Any, **more: Any) -> Any:
        found = right(batch, *given, **more)
        return {pair: found[pair] for pair in sorted(found, reverse=True)}

    patch(stack, lines, "find_pairs", wrong)


@bug
def lines_found_by_hints_alone(stack: ExitStack) -> None:
    """A worker looks at a queue when it hears of a run of it, and never besides."""
    right = workers.poll_work

    def wrong(*given: Any, **more: Any) -> Any:
        waiting = right(*given, **more)
        waiting.queues.clear()
        return waiting

    patch(stack, poller, "poll_work", wrong)


# --- activities of queues ---------------------------------------------------------------------------------------------


@bug
def slots_of_activities_not_counted(stack: ExitStack) -> None:
    """Only runs count as under way."""
    runs = "SELECT partition_key, owner_id FROM workflow_runs WHERE slot_queue = ?"

    def slots(batch: Batch, queue: str) -> Any:
        return batch.scan(runs, (queue,))

    patch(stack, lines, "count_slots", lambda batch, queue, limit: len(slots(batch, queue)))
    patch(
        stack,
        lines,
        "count_slots_of",
        lambda batch, queue, worker_id: sum(owner == worker_id for _, owner in slots(batch, queue)),
    )


@bug
def retries_not_charged(stack: ExitStack) -> None:
    """Another attempt of an activity costs nothing of a rate."""
    spared = [0]
    right_take = admission.AdmitFromQueue._take
    right_claim = admission.AdmitFromQueue._claim
    right_add = rate_log.RateLog.add

    def take(self: Any, *given: Any) -> None:
        spared[0] = 0
        right_take(self, *given)

    def claim(self: Any, batch: Batch, row: Any) -> bool:
        claimed: bool = right_claim(self, batch, row)
        spared[0] += claimed and row.attempt > 1
        return claimed

    def add(self: Any, now: int, count: int) -> None:
        right_add(self, now, max(count - spared[0], 0))
        if not self.entries:
            self.entries.append((now + self.bucket, 0))

    patch(stack, admission.AdmitFromQueue, "_take", take)
    patch(stack, admission.AdmitFromQueue, "_claim", claim)
    patch(stack, rate_log.RateLog, "add", add)


@bug
def rescues_leave_the_slot(stack: ExitStack) -> None:
    """An attempt of a lost worker is taken from it, and keeps its slot."""
    right = enforcement.RescueActivity.apply

    def wrong(self: Any, batch: Batch) -> Any:
        row = batch.activity(*self.activities[0])
        if row is None or row.queue is None or row.status != ActivityStatus.RUNNING:
            return right(self, batch)
        row.claimed_by = None
        return None

    patch(stack, enforcement.RescueActivity, "apply", wrong)


@bug
def retries_keep_the_slot(stack: ExitStack) -> None:
    """Another attempt goes on in the slot of the one before, and does not stand in line."""
    right = attempts.make_available

    def wrong(row: Any, options: Any, available_at: int) -> None:
        claimed_by = row.claimed_by
        right(row, options, available_at)
        if row.queue is not None and claimed_by is not None:
            row.status, row.claimed_by = str(ActivityStatus.RUNNING), claimed_by

    patch(stack, attempts, "make_available", wrong)


@bug
def activities_in_line_stay_behind(stack: ExitStack) -> None:
    """The end of a run leaves its activities in line."""
    right = activity_ends.cancel_activity

    def wrong(batch: Batch, run: Any, activity: Any, **more: Any) -> None:
        if activity.queue is None or activity.status != ActivityStatus.PENDING:
            right(batch, run, activity, **more)

    patch(stack, run_ends, "cancel_activity", wrong)


@bug
def claims_take_activities_in_line(stack: ExitStack) -> None:
    """A worker claims an activity of a queue without its gate."""
    right = changes.ClaimActivities._waiting
    text = (
        "SELECT run_id, activity_id FROM activity_executions WHERE status = 'pending' AND NOT local "
        "AND available_at <= ? ORDER BY available_at, run_id LIMIT ?"
    )

    def wrong(self: Any, batch: Batch) -> Any:
        if type(self) is not changes.ClaimActivities:
            return right(self, batch)
        return [(row[0], row[1]) for row in batch.scan(text, (batch.now, self.limit))]

    patch(stack, changes.ClaimActivities, "_waiting", wrong)
