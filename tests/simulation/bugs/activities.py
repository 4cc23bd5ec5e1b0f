"""Bugs of activities: their deadlines, their attempts, and answers from outside."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast_activities import attempts, changes, deferred_attempts, heartbeats
from outlast_activities.attempts import CANCELLED, TIMED_OUT, claim, close_attempt, complete
from outlast_activities.deadlines import passed, refresh
from outlast_runs import task_commit
from outlast_runs.deadlines import Enforced, enforce_run
from outlast_store.journal.batch import Batch
from outlast_watchdog import enforcement
from outlast_watchdog.enforcement import Fired
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import TimerFired
from outlast_workflow.primitives.enums import ActivityStatus

# --- timers and deadlines ------------------------------------------------------------------------------------


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

    patch(stack, enforcement.FireTimers, "apply", wrong)


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

    patch(stack, enforcement.EnforceActivityDeadline, "apply", wrong)


@bug
def heartbeats_count_from_their_write(stack: ExitStack) -> None:
    """A heartbeat counts from when it was written, however long ago the handler beat."""
    right = heartbeats.beat

    def wrong(row: Any, details: Any, now: int, at: int) -> None:
        right(row, details, now)

    patch(stack, heartbeats, "beat", wrong)


@bug
def deadline_moves_with_retries(stack: ExitStack) -> None:
    """Schedule-to-close counts from the retry."""
    right = attempts.make_available

    def wrong(row: Any, options: Any, available_at: int) -> None:
        if options.schedule_to_close_us is not None:
            row.schedule_to_close_deadline_at = available_at + options.schedule_to_close_us
        right(row, options, available_at)

    patch(stack, attempts, "make_available", wrong)


@bug
def late_results_count(stack: ExitStack) -> None:
    """A result that comes after its deadline is taken."""

    def wrong(self: Any, batch: Batch) -> bool:
        run, row = self.held(batch)
        complete(batch, run, row, self.event)
        run.wake(batch.now)
        return True

    patch(stack, changes.CompleteAttempt, "apply", wrong)
    patch(stack, task_commit, "passed", lambda row, now: None)


# --- activities ----------------------------------------------------------------------------------------------


@bug
def stale_results_count(stack: ExitStack) -> None:
    """A result is taken from any attempt."""

    def wrong(self: Any, batch: Batch) -> Any:
        run = batch.run(self.runs[0])
        row = batch.activity(*self.activities[0])
        if run is None or row is None or not run.is_open or row.status != ActivityStatus.RUNNING:
            raise RefusedError("stale_attempt", "it is not running")
        return run, row

    patch(stack, changes.AttemptChange, "held", wrong)


@bug
def attempts_do_not_rise(stack: ExitStack) -> None:
    """Every attempt is the first."""

    def wrong(row: Any, worker_id: str, now: int) -> None:
        attempt = row.attempt
        claim(row, worker_id, now)
        row.attempt = max(attempt, 1)

    patch(stack, changes, "claim", wrong)


@bug
def locals_go_to_anyone(stack: ExitStack) -> None:
    """A waiting local activity is claimed by a worker that does not own its run."""

    text = (
        "SELECT run_id, activity_id FROM activity_executions WHERE status = 'pending' AND local AND available_at <= ? "
        "AND (next_deadline_at IS NULL OR next_deadline_at > ?) ORDER BY run_id, activity_id LIMIT ?"
    )
    claims = changes.ClaimLocalActivities
    patch(stack, claims, "_takes", lambda self, run: run is not None and run.is_open)
    patch(stack, claims, "_waiting", lambda self, batch: batch.scan(text, (batch.now, batch.now, self.limit)))


@bug
def failures_after_cancel_are_forgotten(stack: ExitStack) -> None:
    """An attempt that fails after a cancel request is taken for one that obeyed."""
    right = close_attempt

    def wrong(batch: Batch, run: Any, row: Any, end: Any) -> bool:
        return right(batch, run, row, CANCELLED if row.cancel_requested and end.failure is not None else end)

    patch(stack, changes, "close_attempt", wrong)


@bug
def failures_after_the_end_are_forgotten(stack: ExitStack) -> None:
    """An attempt that fails after its activity was closed as cancelled is refused."""
    patch(stack, changes, "record_late_failure", lambda batch, row, failure: False)


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

    patch(stack, attempts, "_fail", wrong)


# --- answers from outside ------------------------------------------------------------------------------------


@bug
def answers_to_earlier_attempts_count(stack: ExitStack) -> None:
    """A token is taken for whatever attempt runs now."""
    right = deferred_attempts.OutsideChange.__init__

    def wrong(self: Any, named: Any, *rest: Any) -> None:
        right(self, replace(named, attempt=None), *rest)

    patch(stack, deferred_attempts.OutsideChange, "__init__", wrong)


@bug
def early_answers_are_lost(stack: ExitStack) -> None:
    """An answer that comes before the deferral is acknowledged and dropped."""
    right = deferred_attempts.CompleteFromOutside.apply

    def wrong(self: Any, batch: Batch) -> Any:
        row = batch.activity(*self.activities[0])
        return None if row is not None and row.is_open and row.claimed_by else right(self, batch)

    patch(stack, deferred_attempts.CompleteFromOutside, "apply", wrong)


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

    patch(stack, deferred_attempts.DeferAttempt, "apply", wrong)


@bug
def failures_from_outside_after_the_end_are_forgotten(stack: ExitStack) -> None:
    """A failure from outside that comes after its activity was closed as cancelled is refused."""
    patch(stack, deferred_attempts, "record_late_failure", lambda batch, row, failure: False)


@bug
def late_answers_count(stack: ExitStack) -> None:
    """An answer that comes after the attempt's deadline is taken."""
    patch(stack, deferred_attempts, "passed", lambda row, now: None)
