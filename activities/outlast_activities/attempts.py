"""How an activity is scheduled and claimed, and how its attempts end.

:func:`close_attempt` is the one function that decides what follows an attempt that did not succeed: a failure, a
timeout, a cancellation, a rescue or a release alike. It first enforces a deadline that has passed, so that nothing
masks one. Then it decides: another attempt, with its per-attempt deadlines reset, or the end.

No attempt follows a cancel request. An attempt that obeyed it, was rescued or was released closes the activity as
cancelled. An attempt that failed all the same has perhaps not undone its work, so its failure is never lost:

===================== ==============================================================================================
the workflow's code   a failed attempt
===================== ==============================================================================================
waits for the end     closes the activity as failed; the code gets the failure
has gone on           closes the activity as cancelled; a failure row without an event says what happened
has ended             is recorded by :func:`record_late_failure`, although the activity is closed already
===================== ==============================================================================================

Where there is nothing to decide, two others close: :func:`complete` an activity whose attempt succeeded, and
:func:`~outlast_store.transitions.activity_ends.cancel_activity` the open activities of a run that closes, as well as an
activity that is cancelled while nobody runs it.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from outlast_activities.deadlines import options_of, passed, refresh, set_available, set_claimed
from outlast_store.alerts.marks import alert_of_end
from outlast_store.journal.batch import Batch
from outlast_store.queues.hold_ups import hold_up
from outlast_store.reads.serving import ACTIVITY, Polled
from outlast_store.reads.workers import ALL_WORKERS
from outlast_store.schema.rows import LOCAL, ActivityRow, AttemptRow, FailureRow, RunRow, WorkerRow
from outlast_store.transitions.activity_ends import cancel_activity, close_activity
from outlast_store.transitions.alerts.firing import fire_alert
from outlast_store.transitions.attempts import delete_attempt, read_attempt
from outlast_workflow.data.failures import activity_timeout_failure, message_of, plain_failure
from outlast_workflow.history.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ActivityTimedOut,
    Failure,
)
from outlast_workflow.options.options import ActivityOptions, RetryPolicy
from outlast_workflow.primitives.enums import (
    ActivityStatus,
    AttemptOutcome,
    CancellationType,
    FailureCategory,
    PropagationKind,
    RetryState,
    TimeoutKind,
)
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import iso, later, microseconds

MOST_RESCUES = 3
FIRST_KEPT = 10
LAST_KEPT = 90
DEFAULT_RETRY_POLICY = RetryPolicy()
TIMEOUT_NAMES: Failure = {"type": "ActivityTimeoutError", "class": "outlast.errors.ActivityTimeoutError"}
"""The names by which a retry policy may call a timeout."""


@dataclass(slots=True)
class AttemptEnd:
    """How an attempt ended other than with a result."""

    outcome: AttemptOutcome
    failure: Failure | None = None


RESCUED = AttemptEnd(AttemptOutcome.RESCUED)
HANDED_BACK = AttemptEnd(AttemptOutcome.HANDED_BACK)
TIMED_OUT = AttemptEnd(AttemptOutcome.TIMED_OUT)
CANCELLED = AttemptEnd(AttemptOutcome.CANCELLED)
UNWRITABLE = AttemptEnd(
    AttemptOutcome.FAILED,
    plain_failure(
        FailureCategory.INTERNAL,
        "UnwritableEnd",
        "how the attempt ended could not be written: the log of its worker says why",
    ),
)
"""Stands in for the end of an attempt that the database driver refused to write."""


def schedule(
    batch: Batch,
    run: RunRow,
    seq: int,
    event: ActivityScheduled,
    options: ActivityOptions,
    claimed_by: str | None,
) -> ActivityRow:
    """Write a scheduled activity's row, to be claimed or already running here.

    Args:
        batch: The batch.
        run: The run that called it.
        seq: The seq of its ``ActivityScheduled``, which holds its input.
        event: That event.
        options: Its options.
        claimed_by: The worker that starts it as soon as this is durable; ``None`` leaves it to be claimed.
    """
    now = batch.now
    claimed = claimed_by is not None
    schedule_to_close = options.schedule_to_close_us
    row = ActivityRow(
        run_id=run.run_id,
        activity_id=event.command_id,
        activity_type=event.activity_type,
        task_queue=LOCAL + event.task_queue if event.local else event.task_queue,
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
        schedule_to_close_deadline_at=None if schedule_to_close is None else later(now, schedule_to_close),
        heartbeat_deadline_at=None,
        next_deadline_at=None,
        cancel_requested=False,
        local=bool(event.local),
        closed_at=None,
        summary=event.summary,
        queue=event.queue,
        partition_key=None if event.queue is None else event.partition_key or "",
    )
    if claimed:
        set_claimed(row, options, now)
    else:
        set_available(row, options)
    batch.add_activity(row)
    return row


def claim(row: ActivityRow, worker_id: str, now: int) -> None:
    """Start the next attempt of a pending activity on a worker.

    Args:
        row: The activity.
        worker_id: The worker.
        now: When, in microseconds.
    """
    row.status = ActivityStatus.RUNNING.value
    row.attempt += 1
    row.claimed_by = worker_id
    row.started_at = now
    row.heartbeat_at = None
    set_claimed(row, options_of(row), now)


def complete(batch: Batch, run: RunRow, row: ActivityRow, event: ActivityCompleted) -> None:
    """Close an activity as completed, with its event.

    Args:
        batch: The batch.
        run: The activity's run.
        row: The activity.
        event: Its result.
    """
    batch.append(run, event)
    close_activity(row, ActivityStatus.COMPLETED, batch.now)


def close_attempt(batch: Batch, run: RunRow, row: ActivityRow, end: AttemptEnd) -> bool:
    """End the attempt of an open activity; return whether the activity closed with it.

    Where it did, its terminal event is appended and the run is woken. The caller has checked the claim.

    Args:
        batch: The batch.
        run: The activity's run.
        row: The activity.
        end: How the attempt ended.
    """
    batch.require_locks()
    late = passed(row, batch.now)
    if late is not None:
        closed = _time_out(batch, run, row, *late)
    elif end.outcome is AttemptOutcome.FAILED:
        assert end.failure is not None
        closed = _fail(batch, run, row, end.failure)
    elif row.cancel_requested or end.outcome is AttemptOutcome.CANCELLED:
        cancel_activity(batch, run, row)
        closed = True
    else:
        closed = _release(batch, run, row, end.outcome)
    if closed:
        run.wake(batch.now)
    return closed


# --- the ways to end ------------------------------------------------------------------------------------------------


def _fail(batch: Batch, run: RunRow, row: ActivityRow, failure: Failure) -> bool:
    options = options_of(row)
    policy = options.retry_policy or DEFAULT_RETRY_POLICY
    override = failure.get("next_retry_delay")
    delay = (
        microseconds(override)
        if override is not None
        else policy.delay_us(row.charged_attempt, batch.random())
    )
    record_attempt(batch, row, AttemptOutcome.FAILED, None, failure)
    row.last_failure = orjson.dumps(failure).decode()
    if row.cancel_requested and options.cancellation_type is not CancellationType.WAIT:
        record_failure(batch, row, failure, PropagationKind.ACTIVITY)
        batch.append(run, ActivityCancelled(row.activity_id))
        close_activity(row, ActivityStatus.CANCELLED, batch.now)
        return True
    if row.cancel_requested:
        state = RetryState.CANCEL_REQUESTED
    elif policy.is_non_retryable(failure):
        state = RetryState.NON_RETRYABLE_FAILURE
    elif not policy.allows(row.charged_attempt):
        state = RetryState.MAXIMUM_ATTEMPTS_REACHED
    elif _beyond_schedule_to_close(row, batch.now + delay):
        state = RetryState.TIMEOUT
    else:
        record_failure(batch, row, failure, PropagationKind.ACTIVITY)
        make_available(row, options, later(batch.now, delay))
        return False
    _end_failed(batch, run, row, failure, state)
    return True


def _end_failed(batch: Batch, run: RunRow, row: ActivityRow, failure: Failure, state: RetryState) -> None:
    event = ActivityFailed(row.activity_id, failure, row.charged_attempt, state.value)
    record_failure(batch, row, failure, PropagationKind.ACTIVITY, event_seq=batch.append(run, event))
    close_activity(row, ActivityStatus.FAILED, batch.now)


def _time_out(batch: Batch, run: RunRow, row: ActivityRow, kind: TimeoutKind, deadline_at: int) -> bool:
    options = options_of(row)
    policy = options.retry_policy or DEFAULT_RETRY_POLICY
    had_attempt = row.status == ActivityStatus.RUNNING
    # Nobody began it, but it counts as an attempt.
    if kind is TimeoutKind.SCHEDULE_TO_START:
        had_attempt = True
        row.attempt += 1
    state = _why_no_retry(row, policy, kind)
    available_at = later(batch.now, policy.delay_us(row.charged_attempt, batch.random()))
    no_time_left = state is None and _beyond_schedule_to_close(row, available_at)
    failure = _timeout_failure(row, kind, deadline_at, state, _lack(batch, row))
    if had_attempt:
        record_attempt(batch, row, AttemptOutcome.TIMED_OUT, kind, failure)
    if options.alerts is not None:
        _tell_of_end(batch, run, row, kind, deadline_at)
    if state is None and not no_time_left:
        row.last_failure = orjson.dumps(failure).decode()
        record_failure(batch, row, failure, PropagationKind.TIMEOUT, kind, deadline_at)
        make_available(row, options, available_at)
        return False
    # No further attempt could begin in time: that ends the activity, with the timeout of the attempt as its cause.
    if no_time_left:
        close = row.schedule_to_close_deadline_at
        assert close is not None
        row.last_failure = orjson.dumps(failure).decode()
        kind, deadline_at, state = TimeoutKind.SCHEDULE_TO_CLOSE, close, RetryState.TIMEOUT
        failure = _timeout_failure(row, kind, deadline_at, state)
    assert state is not None
    event = ActivityTimedOut(
        row.activity_id, kind.value, iso(deadline_at), failure, row.charged_attempt, state.value
    )
    seq = batch.append(run, event)
    record_failure(batch, row, failure, PropagationKind.TIMEOUT, kind, deadline_at, event_seq=seq)
    close_activity(row, ActivityStatus.TIMED_OUT, batch.now)
    return True


def _tell_of_end(batch: Batch, run: RunRow, row: ActivityRow, kind: TimeoutKind, deadline_at: int) -> None:
    """Raise the alert that a deadline is enforced, where the activity's policy asks for it."""
    alert = alert_of_end(kind, deadline_at, run, row, alert_id=batch.ids.next(), now=batch.now)
    if alert is not None:
        fire_alert(batch, run, row, alert)


def _why_no_retry(row: ActivityRow, policy: RetryPolicy, kind: TimeoutKind) -> RetryState | None:
    """Return why a timeout ends the activity; ``None`` where another attempt may follow."""
    if kind is TimeoutKind.SCHEDULE_TO_CLOSE:
        return RetryState.TIMEOUT
    if row.cancel_requested:
        return RetryState.CANCEL_REQUESTED
    # Without a limit on attempts, waiting for a worker that never comes would not end.
    endless = kind is TimeoutKind.SCHEDULE_TO_START and policy.max_attempts == 0
    if endless or policy.is_non_retryable(TIMEOUT_NAMES):
        return RetryState.NON_RETRYABLE_FAILURE
    if not policy.allows(row.charged_attempt):
        return RetryState.MAXIMUM_ATTEMPTS_REACHED
    return None


def _release(batch: Batch, run: RunRow, row: ActivityRow, outcome: AttemptOutcome) -> bool:
    """End an attempt by a rescue or a release: neither counts as an attempt, rescues have a limit of their own."""
    record_attempt(batch, row, outcome, None, None)
    if outcome is AttemptOutcome.RESCUED:
        row.rescues += 1
        if row.rescues > MOST_RESCUES:
            message = (
                f"the workers that ran this activity died {row.rescues} times; "
                "see whether it takes its process down, then start the workflow again"
            )
            failure = plain_failure(FailureCategory.INTERNAL, "WorkersDied", message)
            _end_failed(batch, run, row, failure, RetryState.MAXIMUM_ATTEMPTS_REACHED)
            return True
    row.uncharged += 1
    make_available(row, options_of(row), batch.now)
    return False


def make_available(row: ActivityRow, options: ActivityOptions, available_at: int) -> None:
    """Let the next attempt be claimed from an instant on.

    Args:
        row: The activity.
        options: Its options.
        available_at: The instant, in microseconds.
    """
    row.status = ActivityStatus.PENDING.value
    row.available_at = available_at
    row.claimed_by = None
    row.started_at = None
    set_available(row, options)


def _beyond_schedule_to_close(row: ActivityRow, available_at: int) -> bool:
    close = row.schedule_to_close_deadline_at
    return close is not None and available_at >= close


# --- what is written about it ---------------------------------------------------------------------------------------


def _lack(batch: Batch, row: ActivityRow) -> str | None:
    """Return what an activity lacked that was ready and that nobody began: a worker, or its turn in its queue."""
    if row.status != ActivityStatus.PENDING or row.available_at > batch.now:
        return None
    polled: Polled | None = batch.memo.get("polled")
    if polled is None:
        known = [WorkerRow(*values) for values in batch.scan(ALL_WORKERS, ())]
        polled = batch.memo["polled"] = Polled.of(known, batch.now)
    lack = polled.lack_of_activity(row.task_queue, row.activity_type)
    if lack is not None:
        return lack.cause
    if row.queue is None:
        return None
    workers = polled.able(ACTIVITY, row.activity_type, row.task_queue, row.queue)
    return _held_up(batch, row.queue, row.partition_key or "", tuple(workers))


def _held_up(batch: Batch, queue: str, partition: str, workers: tuple[str, ...]) -> str:
    """Return what held up the line of a queue; read once for all activities of a batch that the same workers run."""
    known: dict[tuple[str, str, tuple[str, ...]], str] = batch.memo.setdefault("hold_ups", {})
    key = queue, partition, workers
    if key not in known:
        found = hold_up(batch.scan, queue, partition, batch.now, workers=workers)
        known[key] = found or f"it stood in the line of queue {queue!r}"
    return known[key]


def _timeout_failure(
    row: ActivityRow,
    kind: TimeoutKind,
    deadline_at: int,
    state: RetryState | None,
    lack: str | None = None,
) -> Failure:
    """Return a timeout's document: kind, deadline, last heartbeat details, and the previous failure as cause."""
    return activity_timeout_failure(
        timeout_kind=kind,
        deadline_at=deadline_at,
        activity_type=row.activity_type,
        activity_id=row.activity_id,
        attempt=row.charged_attempt,
        retry_state=state,
        heartbeat_details=Payload(row.heartbeat_details.encode())
        if row.heartbeat_details is not None
        else None,
        cause=orjson.loads(row.last_failure) if row.last_failure is not None else None,
        lack=lack,
    )


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
        delete_attempt(batch, row.run_id, row.activity_id, surplus)


def record_failure(
    batch: Batch,
    row: ActivityRow,
    failure: Failure,
    propagation: PropagationKind,
    kind: TimeoutKind | None = None,
    deadline_at: int | None = None,
    *,
    event_seq: int | None = None,
) -> None:
    """Write a ``workflow_failures`` row about an attempt; ``event_seq`` where the activity ended with it."""
    details = failure.get("details")
    batch.add_failure(
        FailureRow(
            failure_id=batch.ids.next(),
            run_id=row.run_id,
            event_seq=event_seq,
            recorded_at=batch.now,
            source_kind="activity_execution",
            source_id=str(row.activity_id),
            failure_category=str(failure.get("category", FailureCategory.APPLICATION.value)),
            propagation_kind=propagation.value,
            exception_class=str(failure.get("type", "")),
            message=message_of(failure),
            details=Payload.of(details).json.decode() if details is not None else None,
            timeout_kind=kind.value if kind is not None else None,
            deadline_at=deadline_at,
        )
    )


def record_late_failure(batch: Batch, row: ActivityRow, failure: Failure) -> bool:
    """Record that the last attempt of a cancelled activity has failed since; return whether that was news.

    Its run may have ended, so no event says so: the attempt's row and a failure row do.

    Args:
        batch: The batch.
        row: The activity, closed as cancelled while its handler ran.
        failure: Why the handler failed.
    """
    attempt = read_attempt(batch, row.run_id, row.activity_id, row.attempt)
    if attempt is None or attempt.outcome != AttemptOutcome.CANCELLED:
        return False
    attempt.outcome = AttemptOutcome.FAILED.value
    attempt.failure = row.last_failure = orjson.dumps(failure).decode()
    attempt.ended_at = batch.now
    batch.change_attempt(attempt)
    record_failure(batch, row, failure, PropagationKind.ACTIVITY)
    return True


def request_cancel(batch: Batch, run: RunRow, row: ActivityRow | None, *, wait: bool = False) -> None:
    """Cancel an activity: close it if nobody runs it, otherwise ask its handler to stop.

    Args:
        batch: The batch.
        run: The activity's run.
        row: The activity.
        wait: Whether the workflow's code waits for the end; if it comes at once, the run is woken.
    """
    if row is None or not row.is_open:
        return
    if row.status == ActivityStatus.PENDING and passed(row, batch.now) is None:
        cancel_activity(batch, run, row, by=None if wait else "cancel_requested")
        if wait:
            run.wake(batch.now)
    else:
        row.cancel_requested = True
        refresh(row)
