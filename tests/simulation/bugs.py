"""Planted bugs: each makes one function of the engine wrong, as somebody might. The simulation must see every one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from outlast.histories import retention
from outlast.histories.deletion import delete_chain
from outlast.worker import lease
from outlast.worker.runs import locked_close
from outlast_activities import attempts, changes, deferred_attempts, heartbeats
from outlast_activities.attempts import CANCELLED, RESCUED, TIMED_OUT, claim, close_attempt, complete
from outlast_activities.deadlines import passed, refresh
from outlast_runs import admission, resets, signals, start, task_commit, terminal_commands
from outlast_runs import run_change as client_requests
from outlast_runs import signals as signalling
from outlast_runs.deadlines import Enforced, enforce_run
from outlast_store.journal import batch as batches
from outlast_store.journal import committer
from outlast_store.journal.batch import Batch
from outlast_store.queues import lines
from outlast_store.reads.workers import renew_lease
from outlast_store.schema import rows
from outlast_store.transitions import new_runs, parents, queued_runs, requests, run_ends
from outlast_store.transitions.children import AppliedClosePolicy, apply_close_policy
from outlast_watchdog import enforcement
from outlast_watchdog.enforcement import Fired, Rescued
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import TimerFired
from outlast_workflow.primitives.enums import ActivityStatus

WITHIN = 320
"""Each is seen by one of so many seeds."""

Plant = Callable[[ExitStack], None]
BUGS: dict[str, Plant] = {}


def bug(plant: Plant) -> Plant:
    BUGS[plant.__name__] = plant
    return plant


@contextmanager
def planted(name: str) -> Generator[None]:
    """While this lasts the engine has a bug."""
    with ExitStack() as stack:
        BUGS[name](stack)
        yield


def _patch(stack: ExitStack, target: Any, name: str, wrong: Any) -> None:
    stack.enter_context(patch.object(target, name, wrong))


# --- ownership --------------------------------------------------------------------------------------------------------


@bug
def no_fence(stack: ExitStack) -> None:
    """A workflow task is taken from whoever sends it."""
    right = task_commit.apply_workflow_task

    def wrong(batch: Batch, run: Any, decided: Any) -> Any:
        if run.is_open:
            decided = replace(decided, worker_id=run.owner_id, fence=run.fence)
        return right(batch, run, decided)

    for module in (task_commit, locked_close, start):
        _patch(stack, module, "apply_workflow_task", wrong)


@bug
def lease_not_looked_at_again(stack: ExitStack) -> None:
    """A worker that has renewed its lease since the scan is declared dead all the same."""

    def wrong(self: Any, batch: Batch) -> bool:
        return batch.execute("DELETE FROM workers WHERE worker_id = ?", (self.worker_id,)) == 1

    _patch(stack, enforcement.DeclareWorkerLost, "apply", wrong)


@bug
def lease_not_renewed(stack: ExitStack) -> None:
    """A worker that was declared dead does not notice."""

    def wrong(connection: Any, worker_id: str, expires_at: int) -> bool:
        right(connection, worker_id, expires_at)
        return True

    right = renew_lease
    _patch(stack, lease, "renew_lease", wrong)


@bug
def rescue_without_looking_again(stack: ExitStack) -> None:
    """What was seen running on a dead worker is handed on, whoever runs it by now."""

    def wrong(self: Any, batch: Batch) -> Rescued | None:
        row = batch.activity(*self.activities[0])
        run = batch.run(self.runs[0])
        if row is None or run is None or not run.is_open or row.status != ActivityStatus.RUNNING:
            return None
        return Rescued(close_attempt(batch, run, row, RESCUED))

    _patch(stack, enforcement.RescueActivity, "apply", wrong)


# --- waking -----------------------------------------------------------------------------------------------------------


@bug
def woken_for_nothing(stack: ExitStack) -> None:
    """The call to wake is cleared, though there is news that the workflow task has not seen."""
    right = task_commit._clear_setbacks

    def wrong(run: Any, decided: Any, *, seen_all: bool, now: int) -> None:
        right(run, decided, seen_all=True, now=now)

    _patch(stack, task_commit, "_clear_setbacks", wrong)


@bug
def ends_without_looking(stack: ExitStack) -> None:
    """Signals that were not seen don't hold back the end."""
    _patch(stack, task_commit, "HOLD_BACK_TERMINAL", frozenset())


# --- the journal ------------------------------------------------------------------------------------------------------


@bug
def unknown_taken_for_lost(stack: ExitStack) -> None:
    """A batch whose outcome is unknown runs again, though it was committed."""

    def wrong(self: Any) -> None:
        self._in_doubt = None

    _patch(stack, committer.Committer, "_resolve_doubt", wrong)


@bug
def unknown_taken_for_done(stack: ExitStack) -> None:
    """A batch whose outcome is unknown is taken to be committed, though it was lost."""

    def wrong(self: Any) -> Any:
        return self._settled() if self._in_doubt is not None else None

    _patch(stack, committer.Committer, "_resolve_doubt", wrong)


# --- requests ---------------------------------------------------------------------------------------------------------


@bug
def no_deduplication(stack: ExitStack) -> None:
    """A keyed signal that is sent again arrives again."""
    _patch(stack, signalling, "was_delivered", lambda batch, run, signal: False)
    _patch(stack, signals, "was_delivered", lambda batch, run, signal: False)
    right = requests.add

    def wrong(batch: Batch, row: Any) -> bool:
        right(batch, row)
        return True

    _patch(stack, requests, "add", wrong)


@bug
def signals_after_the_end(stack: ExitStack) -> None:
    """What is sent to a closed run is appended to its history."""
    _patch(stack, client_requests.RunChange, "open_run", lambda self, batch: batch.run(self.run_id))
    right = batches.Batch.append

    def wrong(self: Any, run: Any, event: Any) -> int:
        closed_at, run.closed_at = run.closed_at, None
        try:
            return right(self, run, event)
        finally:
            run.closed_at = closed_at

    _patch(stack, batches.Batch, "append", wrong)


@bug
def signals_left_behind(stack: ExitStack) -> None:
    """A run that continues as new hands nothing on."""
    _patch(stack, terminal_commands, "move_signals", lambda batch, following, signals: None)


# --- timers and deadlines ---------------------------------------------------------------------------------------------


@bug
def timers_fire_unseen(stack: ExitStack) -> None:
    """A timer that was seen due fires, though it was cancelled or has fired since."""

    def wrong(self: Any, batch: Batch) -> Fired:
        run = batch.run(self.runs[0])
        fired = Fired(batch.now)
        if run is None or not run.is_open or enforce_run(batch, run) is not None:
            return fired
        for timer_id in self.timer_ids:
            batch.append(run, TimerFired(timer_id, batch.now))
            batch.remove_timer(run.run_id, timer_id)
        run.wake(batch.now)
        return fired

    _patch(stack, enforcement.FireTimers, "apply", wrong)


@bug
def heartbeats_not_looked_at_again(stack: ExitStack) -> None:
    """An attempt that was seen past its deadline is ended, though it has been heard of since."""
    right = enforcement.EnforceActivityDeadline.apply

    def wrong(self: Any, batch: Batch) -> Enforced | None:
        row = batch.activity(*self.activities[0])
        run = batch.run(self.runs[0])
        if (
            row is None
            or run is None
            or not row.is_open
            or not run.is_open
            or row.heartbeat_deadline_at is None
        ):
            return right(self, batch)
        row.heartbeat_deadline_at = min(row.heartbeat_deadline_at, batch.now)
        refresh(row)
        due = passed(row, batch.now)
        assert due is not None
        return Enforced(*due, batch.now, close_attempt(batch, run, row, TIMED_OUT))

    _patch(stack, enforcement.EnforceActivityDeadline, "apply", wrong)


@bug
def heartbeats_count_from_their_write(stack: ExitStack) -> None:
    """A heartbeat counts from when it was written, however long ago the handler beat."""
    right = heartbeats.beat

    def wrong(row: Any, details: Any, now: int, at: int) -> None:
        right(row, details, now)

    _patch(stack, heartbeats, "beat", wrong)


@bug
def deadline_moves_with_retries(stack: ExitStack) -> None:
    """Schedule-to-close counts from the retry."""
    right = attempts.make_available

    def wrong(row: Any, options: Any, available_at: int) -> None:
        if options.schedule_to_close_us is not None:
            row.schedule_to_close_deadline_at = available_at + options.schedule_to_close_us
        right(row, options, available_at)

    _patch(stack, attempts, "make_available", wrong)


@bug
def late_results_count(stack: ExitStack) -> None:
    """A result that comes after its deadline is taken."""

    def wrong(self: Any, batch: Batch) -> bool:
        run, row = self.held(batch)
        complete(batch, run, row, self.event)
        run.wake(batch.now)
        return True

    _patch(stack, changes.CompleteAttempt, "apply", wrong)
    _patch(stack, task_commit, "passed", lambda row, now: None)


# --- activities -------------------------------------------------------------------------------------------------------


@bug
def stale_results_count(stack: ExitStack) -> None:
    """A result is taken from any attempt."""

    def wrong(self: Any, batch: Batch) -> Any:
        run = batch.run(self.runs[0])
        row = batch.activity(*self.activities[0])
        if run is None or row is None or not run.is_open or row.status != ActivityStatus.RUNNING:
            raise RefusedError("stale_attempt", "it is not running")
        return run, row

    _patch(stack, changes.AttemptChange, "held", wrong)


@bug
def attempts_do_not_rise(stack: ExitStack) -> None:
    """Every attempt is the first."""

    def wrong(row: Any, worker_id: str, now: int) -> None:
        attempt = row.attempt
        claim(row, worker_id, now)
        row.attempt = max(attempt, 1)

    _patch(stack, changes, "claim", wrong)


@bug
def locals_go_to_anyone(stack: ExitStack) -> None:
    """A waiting local activity is claimed by a worker that does not own its run."""

    text = (
        "SELECT run_id, activity_id FROM activity_executions WHERE status = 'pending' AND local AND available_at <= ? "
        "AND (next_deadline_at IS NULL OR next_deadline_at > ?) ORDER BY run_id, activity_id LIMIT ?"
    )
    claims = changes.ClaimLocalActivities
    _patch(stack, claims, "_takes", lambda self, run: run is not None and run.is_open)
    _patch(
        stack, claims, "_waiting", lambda self, batch: batch.scan(text, (batch.now, batch.now, self.limit))
    )


@bug
def failures_after_cancel_are_forgotten(stack: ExitStack) -> None:
    """An attempt that fails after a cancel request is taken for one that obeyed."""
    right = close_attempt

    def wrong(batch: Batch, run: Any, row: Any, end: Any) -> bool:
        return right(batch, run, row, CANCELLED if row.cancel_requested and end.failure is not None else end)

    _patch(stack, changes, "close_attempt", wrong)


@bug
def failures_after_the_end_are_forgotten(stack: ExitStack) -> None:
    """An attempt that fails after its activity was closed as cancelled is refused."""
    _patch(stack, changes, "record_late_failure", lambda batch, row, failure: False)


@bug
def retried_after_cancel(stack: ExitStack) -> None:
    """An attempt that fails after a cancel request is retried by its policy."""
    right = attempts._fail

    def wrong(batch: Batch, run: Any, row: Any, failure: Any) -> bool:
        asked, row.cancel_requested = row.cancel_requested, False
        try:
            return right(batch, run, row, failure)
        finally:
            row.cancel_requested = asked

    _patch(stack, attempts, "_fail", wrong)


# --- answers from outside ---------------------------------------------------------------------------------------------


@bug
def answers_to_earlier_attempts_count(stack: ExitStack) -> None:
    """A token is taken for whatever attempt runs now."""
    right = deferred_attempts.OutsideChange.__init__

    def wrong(self: Any, named: Any, *rest: Any) -> None:
        right(self, replace(named, attempt=None), *rest)

    _patch(stack, deferred_attempts.OutsideChange, "__init__", wrong)


@bug
def early_answers_are_lost(stack: ExitStack) -> None:
    """An answer that comes before the deferral is acknowledged and dropped."""
    right = deferred_attempts.CompleteFromOutside.apply

    def wrong(self: Any, batch: Batch) -> Any:
        row = batch.activity(*self.activities[0])
        return None if row is not None and row.is_open and row.claimed_by else right(self, batch)

    _patch(stack, deferred_attempts.CompleteFromOutside, "apply", wrong)


@bug
def deferrals_stay_with_their_worker(stack: ExitStack) -> None:
    """A deferral is acknowledged, and the death of the worker ends the attempt all the same."""
    right = deferred_attempts.DeferAttempt.apply

    def wrong(self: Any, batch: Batch) -> bool:
        row = batch.activity(*self.activities[0])
        claimed_by = None if row is None else row.claimed_by
        deferred = right(self, batch)
        if deferred and row is not None:
            row.claimed_by = claimed_by
        return deferred

    _patch(stack, deferred_attempts.DeferAttempt, "apply", wrong)


@bug
def failures_from_outside_after_the_end_are_forgotten(stack: ExitStack) -> None:
    """A failure from outside that comes after its activity was closed as cancelled is refused."""
    _patch(stack, deferred_attempts, "record_late_failure", lambda batch, row, failure: False)


@bug
def late_answers_count(stack: ExitStack) -> None:
    """An answer that comes after the attempt's deadline is taken."""
    _patch(stack, deferred_attempts, "passed", lambda row, now: None)


# --- resets and retention ---------------------------------------------------------------------------------------------


@bug
def retries_forget_the_failure(stack: ExitStack) -> None:
    """The run that retries another does not know why."""
    right = new_runs.started_event

    def wrong(run: Any, **given: Any) -> Any:
        given["last_failure"] = None
        return right(run, **given)

    _patch(stack, run_ends, "started_event", wrong)


@bug
def reset_leaves_signals(stack: ExitStack) -> None:
    """A reset forgets the signals that came after its point."""
    _patch(stack, requests, "unapplied_signals", lambda batch, run, after_seq: [])


@bug
def reset_without_looking_again(stack: ExitStack) -> None:
    """A run is reset, though it has been reset since it was read."""
    right = resets.ResetRun.apply

    def wrong(self: Any, batch: Batch) -> Any:
        run, instance = batch.run(self.run_id), batch.instance(self.instances[0])
        if run is not None and instance is not None:
            run.next_run_id, instance.current_run_id = None, run.run_id
        return right(self, batch)

    _patch(stack, resets.ResetRun, "apply", wrong)


@bug
def deleted_before_exported(stack: ExitStack) -> None:
    """What retention exports is what it has left of a chain."""
    right = delete_chain

    async def wrong(runtime: Any, last_run_id: str, workflow_id: str) -> int:
        return 0

    async def nothing(self: Any, folder: Any, chain: Any) -> bool:
        await right(self._runtime, chain.last_run_id, chain.workflow_id)
        return False

    _patch(stack, retention.Retention, "_export", nothing)
    _patch(stack, retention, "delete_chain", wrong)


# --- families ---------------------------------------------------------------------------------------------------------


@bug
def cascade_in_memory(stack: ExitStack) -> None:
    """The mark that children await their close policy goes before they have met it: who crashes between leaves them."""

    def wrong(self: Any, batch: Batch) -> Any:
        run = batch.run(self.runs[0])
        if run is None or run.is_open:
            return None
        if run.cascade_at is not None and run.cascade_at <= batch.now:
            run.cascade_at = None
            return AppliedClosePolicy(due=[run.run_id])
        return apply_close_policy(batch, run)

    _patch(stack, enforcement.ApplyClosePolicy, "apply", wrong)


@bug
def parents_not_told(stack: ExitStack) -> None:
    """A child that is timed out, or whose parent another worker owns, ends without its parent being told."""
    right = parents.tell_parent

    def wrong(batch: Batch, run: Any, event: Any) -> None:
        if batch.run(run.parent_run_id) is not None:
            right(batch, run, event)

    _patch(stack, run_ends, "tell_parent", wrong)


# --- queues -----------------------------------------------------------------------------------------------------------


@bug
def slots_counted_too_early(stack: ExitStack) -> None:
    """Slots are counted as they were when the gate was asked for: the latest admission is missing."""
    right = lines.count_slots

    def wrong(batch: Batch, queue: str, limit: int) -> int:
        return max(right(batch, queue, limit) - 1, 0)

    _patch(stack, lines, "count_slots", wrong)


@bug
def partitions_not_counted(stack: ExitStack) -> None:
    """What a partition holds already is forgotten."""
    _patch(
        stack,
        lines,
        "count_partition_slots",
        lambda batch, queue, partitions, worker_id=None: dict.fromkeys(partitions, 0),
    )


@bug
def taken_over_without_room(stack: ExitStack) -> None:
    """Runs that lost their owner go to any worker, however many it has."""
    right = admission.AdmitRuns._take_over

    def wrong(self: Any, batch: Batch, gate: Any, room: int, done: Any) -> None:
        right(self, batch, replace(gate, partition_worker_concurrency=None), self.limit, done)

    _patch(stack, admission.AdmitRuns, "_take_over", wrong)
    _patch(stack, lines, "count_slots_of", lambda batch, queue, worker_id: 0)


@bug
def queued_runs_are_woken(stack: ExitStack) -> None:
    """What is sent to a queued run makes it claimable."""

    def wrong(self: Any, now: int) -> None:
        if self.wake_at is None or self.wake_at > now:
            self.wake_at = now

    _patch(stack, rows.RunRow, "wake", wrong)


@bug
def slots_leak(stack: ExitStack) -> None:
    """A run that continues as new keeps its slot, and so does the next one."""
    right = run_ends.close_run

    def wrong(batch: Batch, run: Any, event: Any, status: Any, **more: Any) -> None:
        slot = run.slot_queue
        right(batch, run, event, status, **more)
        run.slot_queue = slot

    for module in (run_ends, terminal_commands):
        _patch(stack, module, "close_run", wrong)


@bug
def delays_never_end(stack: ExitStack) -> None:
    """A run whose start delay has passed does not join its line."""
    _patch(stack, enforcement, "join_line", lambda batch, run, at: None)


@bug
def run_timeouts_count_from_the_start(stack: ExitStack) -> None:
    """The run timeout of a queued run begins before it is admitted."""
    right = queued_runs.enter_queue

    def wrong(run: Any, now: int, **more: Any) -> None:
        deadline = run.run_deadline_at
        right(run, now, **more)
        run.run_deadline_at = deadline

    _patch(stack, new_runs, "enter_queue", wrong)
