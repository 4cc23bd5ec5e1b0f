"""How an activity is scheduled, claimed, and how one of its attempts ends.

:func:`close_attempt` is the one function that closes an attempt, for a failure, a timeout, a cancellation, a rescue and
a hand-back alike. It first enforces a deadline that has passed (so nothing masks one), closes as cancelled if that was
asked for, and else decides: another attempt, with its per-attempt deadlines reset, or the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from holdfast_activities.deadlines import after, options_of, passed, refresh, set_available, set_claimed
from holdfast_store.batch import Batch
from holdfast_store.rows import ActivityRow, AttemptRow, FailureRow, RunRow
from holdfast_store.runs import cancel_activity, close_activity
from holdfast_workflow.events import (
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ActivityTimedOut,
    Failure,
)
from holdfast_workflow.kinds import (
    ActivityStatus,
    AttemptOutcome,
    FailureCategory,
    PropagationKind,
    RetryState,
    TimeoutKind,
)
from holdfast_workflow.options import ActivityOptions, RetryPolicy
from holdfast_workflow.payloads import Payload
from holdfast_workflow.times import iso, microseconds

MOST_RESCUES = 3
FIRST_KEPT = 10
LAST_KEPT = 90
DEFAULT_RETRY_POLICY = RetryPolicy()
KIND_WORDS = {kind: kind.value.replace("_", "-") for kind in TimeoutKind}


@dataclass(slots=True)
class AttemptEnd:
    """How an attempt ended other than with a result."""

    outcome: AttemptOutcome
    failure: Failure | None = None


RESCUED = AttemptEnd(AttemptOutcome.RESCUED)
HANDED_BACK = AttemptEnd(AttemptOutcome.HANDED_BACK)
TIMED_OUT = AttemptEnd(AttemptOutcome.TIMED_OUT)
CANCELLED = AttemptEnd(AttemptOutcome.CANCELLED)


def schedule(
    batch: Batch,
    run: RunRow,
    seq: int,
    event: ActivityScheduled,
    options: ActivityOptions,
    claimed_by: str | None,
) -> ActivityRow:
    """Write a scheduled activity's row: waiting to be claimed, or already running here (``claimed_by``)."""
    now = batch.now
    claimed = claimed_by is not None
    row = ActivityRow(
        run_id=run.run_id,
        activity_id=event.command_id,
        activity_type=event.activity_type,
        task_queue=event.task_queue,
        priority=event.priority,
        scheduled_seq=seq,
        status="running" if claimed else "pending",
        attempt=1 if claimed else 0,
        uncharged=0,
        rescues=0,
        scheduled_at=now,
        available_at=now,
        claimed_by=claimed_by,
        started_at=now if claimed else None,
        heartbeat_at=None,
        heartbeat_details=None,
        options=event.options.json.decode(),
        last_failure=None,
        schedule_to_start_deadline_at=None,
        start_to_close_deadline_at=None,
        schedule_to_close_deadline_at=after(now, options.schedule_to_close_us),
        heartbeat_deadline_at=None,
        next_deadline_at=None,
        cancel_requested=False,
        local=bool(event.local),
        closed_at=None,
    )
    if claimed:
        set_claimed(row, options, now)
    else:
        set_available(row, options)
    batch.add_activity(row)
    return row


def claim(row: ActivityRow, worker_id: str, now: int) -> None:
    """Start the next attempt of a pending activity on a worker."""
    row.status = ActivityStatus.RUNNING.value
    row.attempt += 1
    row.claimed_by = worker_id
    row.started_at = now
    row.heartbeat_at = None
    set_claimed(row, options_of(row), now)


def complete(batch: Batch, run: RunRow, row: ActivityRow, event: ActivityCompleted) -> None:
    """End an activity well."""
    batch.append(run, event)
    close_activity(row, ActivityStatus.COMPLETED, batch.now)


def close_attempt(batch: Batch, run: RunRow, row: ActivityRow, end: AttemptEnd) -> bool:
    """End the attempt of an open activity; the caller has checked the claim. Returns whether the activity is closed.

    Where the activity ends, its terminal event is appended and the run is woken.
    """
    batch.insist()
    late = passed(row, batch.now)
    if late is not None:
        closed = _time_out(batch, run, row, *late)
    elif row.cancel_requested or end.outcome is AttemptOutcome.CANCELLED:
        cancel_activity(batch, run, row)
        closed = True
    elif end.outcome is AttemptOutcome.FAILED:
        assert end.failure is not None
        closed = _fail(batch, run, row, end.failure)
    else:
        closed = _give_back(batch, run, row, end.outcome)
    if closed:
        run.wake(batch.now)
    return closed


# --- the ways to end ------------------------------------------------------------------------------------------------


def _fail(batch: Batch, run: RunRow, row: ActivityRow, failure: Failure) -> bool:
    options = options_of(row)
    policy = options.retry_policy or DEFAULT_RETRY_POLICY
    record_attempt(batch, row, AttemptOutcome.FAILED, None, failure)
    record_failure(batch, row, failure, PropagationKind.ACTIVITY)
    row.last_failure = orjson.dumps(failure).decode()
    override = failure.get("next_retry_delay")
    delay = (
        microseconds(override)
        if override is not None
        else policy.delay_us(row.charged_attempt, batch.random())
    )
    if policy.is_non_retryable(failure):
        state = RetryState.NON_RETRYABLE_FAILURE
    elif not policy.allows(row.charged_attempt):
        state = RetryState.MAXIMUM_ATTEMPTS_REACHED
    elif _beyond_schedule_to_close(row, batch.now + delay):
        state = RetryState.TIMEOUT
    else:
        make_available(row, options, batch.now + delay)
        return False
    batch.append(run, ActivityFailed(row.activity_id, failure, row.charged_attempt, state.value))
    close_activity(row, ActivityStatus.FAILED, batch.now)
    return True


def _time_out(batch: Batch, run: RunRow, row: ActivityRow, kind: TimeoutKind, deadline_at: int) -> bool:
    options = options_of(row)
    policy = options.retry_policy or DEFAULT_RETRY_POLICY
    if row.status == ActivityStatus.PENDING and kind is TimeoutKind.SCHEDULE_TO_START:
        row.attempt += 1
    failure = timeout_failure(row, kind, deadline_at)
    if row.status == ActivityStatus.RUNNING or kind is TimeoutKind.SCHEDULE_TO_START:
        record_attempt(batch, row, AttemptOutcome.TIMED_OUT, kind, failure)
    record_failure(batch, row, failure, PropagationKind.TIMEOUT, kind, deadline_at)
    if kind is TimeoutKind.SCHEDULE_TO_CLOSE:
        return _end_timed_out(batch, run, row, kind, deadline_at, failure, RetryState.TIMEOUT)
    if row.cancel_requested:
        return _end_timed_out(batch, run, row, kind, deadline_at, failure, RetryState.CANCEL_REQUESTED)
    endless = kind is TimeoutKind.SCHEDULE_TO_START and policy.max_attempts == 0
    if endless or not policy.allows(row.charged_attempt):
        state = RetryState.MAXIMUM_ATTEMPTS_REACHED
        return _end_timed_out(batch, run, row, kind, deadline_at, failure, state)
    if policy.is_non_retryable(failure):
        state = RetryState.NON_RETRYABLE_FAILURE
        return _end_timed_out(batch, run, row, kind, deadline_at, failure, state)
    available_at = batch.now + policy.delay_us(row.charged_attempt, batch.random())
    row.last_failure = orjson.dumps(failure).decode()
    if _beyond_schedule_to_close(row, available_at):
        close = row.schedule_to_close_deadline_at
        assert close is not None
        kind = TimeoutKind.SCHEDULE_TO_CLOSE
        failure = timeout_failure(row, kind, close)
        return _end_timed_out(batch, run, row, kind, close, failure, RetryState.TIMEOUT)
    make_available(row, options, available_at)
    return False


def _end_timed_out(
    batch: Batch,
    run: RunRow,
    row: ActivityRow,
    kind: TimeoutKind,
    deadline_at: int,
    failure: Failure,
    state: RetryState,
) -> bool:
    event = ActivityTimedOut(
        row.activity_id, kind.value, iso(deadline_at), failure, row.charged_attempt, state.value
    )
    batch.append(run, event)
    close_activity(row, ActivityStatus.TIMED_OUT, batch.now)
    return True


def _give_back(batch: Batch, run: RunRow, row: ActivityRow, outcome: AttemptOutcome) -> bool:
    """A rescue or a hand-back: not the user's fault, so not charged; rescues are bounded by their own counter."""
    record_attempt(batch, row, outcome, None, None)
    if outcome is AttemptOutcome.RESCUED:
        row.rescues += 1
        if row.rescues > MOST_RESCUES:
            message = (
                f"the workers that ran this activity died {row.rescues} times; "
                "see whether it takes its process down, then start the workflow again"
            )
            failure = {"category": FailureCategory.INTERNAL.value, "type": "WorkersDied", "message": message}
            record_failure(batch, row, failure, PropagationKind.ACTIVITY)
            state = RetryState.MAXIMUM_ATTEMPTS_REACHED
            batch.append(run, ActivityFailed(row.activity_id, failure, row.charged_attempt, state.value))
            close_activity(row, ActivityStatus.FAILED, batch.now)
            return True
    row.uncharged += 1
    make_available(row, options_of(row), batch.now)
    return False


def make_available(row: ActivityRow, options: ActivityOptions, available_at: int) -> None:
    """Let the next attempt be claimed from an instant on."""
    row.status = ActivityStatus.PENDING.value
    row.available_at = available_at
    row.claimed_by = None
    row.started_at = None
    set_available(row, options)


def _beyond_schedule_to_close(row: ActivityRow, available_at: int) -> bool:
    close = row.schedule_to_close_deadline_at
    return close is not None and available_at >= close


# --- what is written about it ---------------------------------------------------------------------------------------


def timeout_failure(row: ActivityRow, kind: TimeoutKind, deadline_at: int) -> Failure:
    """The failure document of a timeout: kind, deadline, last heartbeat details, the previous failure as cause."""
    failure: Failure = {
        "category": FailureCategory.TIMEOUT.value,
        "type": "ActivityTimeoutError",
        "message": f"{KIND_WORDS[kind]} timeout of activity {row.activity_type} (id {row.activity_id})",
        "timeout_kind": kind.value,
        "deadline_at": iso(deadline_at),
    }
    if row.heartbeat_details is not None:
        failure["heartbeat_details"] = orjson.loads(row.heartbeat_details)
    if row.last_failure is not None:
        cause = orjson.loads(row.last_failure)
        inner = cause.get("cause")
        if (
            inner is not None
        ):  # two levels at most: a flaky activity must not grow its error with every attempt
            cause["cause"] = {name: value for name, value in inner.items() if name != "cause"}
        failure["cause"] = cause
    return failure


def record_attempt(
    batch: Batch, row: ActivityRow, outcome: AttemptOutcome, kind: TimeoutKind | None, failure: Failure | None
) -> None:
    """Write the row of an attempt that did not succeed; the first 10 and the last 90 are kept."""
    batch.add_attempt(
        AttemptRow(
            row.run_id,
            row.activity_id,
            row.attempt,
            row.claimed_by,
            row.started_at,
            batch.now,
            outcome.value,
            kind.value if kind is not None else None,
            orjson.dumps(failure).decode() if failure is not None else None,
        )
    )
    surplus = row.attempt - LAST_KEPT
    if surplus > FIRST_KEPT:
        key = (row.run_id, row.activity_id, surplus)
        batch.execute(
            "DELETE FROM activity_attempts WHERE run_id = ? AND activity_id = ? AND attempt = ?", key
        )


def record_failure(
    batch: Batch,
    row: ActivityRow,
    failure: Failure,
    propagation: PropagationKind,
    kind: TimeoutKind | None = None,
    deadline_at: int | None = None,
) -> None:
    """Write a ``workflow_failures`` row about an attempt."""
    details = failure.get("details")
    batch.add_failure(
        FailureRow(
            failure_id=batch.ids.next(),
            run_id=row.run_id,
            event_seq=None,
            recorded_at=batch.now,
            source_kind="activity_execution",
            source_id=str(row.activity_id),
            failure_category=str(failure.get("category", FailureCategory.APPLICATION.value)),
            propagation_kind=propagation.value,
            exception_class=str(failure.get("type", "")),
            message=str(failure.get("message", "")),
            details=Payload.of(details).json.decode() if details is not None else None,
            timeout_kind=kind.value if kind is not None else None,
            deadline_at=deadline_at,
        )
    )


def request_cancel(batch: Batch, run: RunRow, row: ActivityRow | None) -> None:
    """The workflow's code no longer wants an activity: end it if nobody runs it, else have its handler told."""
    if row is None or not row.is_open:
        return
    if row.status == ActivityStatus.PENDING and passed(row, batch.now) is None:
        cancel_activity(batch, run, row, by="cancel_requested")
    else:
        row.cancel_requested = True
        refresh(row)
