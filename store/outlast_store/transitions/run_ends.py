"""How runs end: the one function that closes any run, and the ends that need none of its code.

Every terminal path goes through :func:`close_run`: the run's own code, a deadline, terminate, a limit. It closes what
is open (activities, timers, updates), writes the failure row where the end is a failure, and appends the terminal event
last.

:func:`open_run` is what a change asks before it writes to a run: it returns the open run, or how the run ended, and it
enforces a deadline that has passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from outlast_store.alerts.marks import alert_of_end
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import FailureRow, RunRow
from outlast_store.transitions import requests
from outlast_store.transitions.activity_ends import cancel_activity
from outlast_store.transitions.alerts.firing import fire_alert
from outlast_store.transitions.new_runs import (
    add_next_run,
    first_event,
    last_input_of,
    new_seed,
    next_run,
    started_event,
)
from outlast_store.transitions.parents import note_children, parent_of, tell_parent
from outlast_store.transitions.queued_runs import START_TIMER
from outlast_store.transitions.run_deadlines import PassedDeadline, deadline_passed
from outlast_store.transitions.streams import reopen_streams
from outlast_workflow.history.events import (
    Event,
    Failure,
    TimerCancelled,
    WorkflowCancelled,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from outlast_workflow.options.options import RetryPolicy
from outlast_workflow.primitives.enums import (
    FailureCategory,
    PropagationKind,
    RunStatus,
    TimeoutKind,
)
from outlast_workflow.primitives.times import iso


def locked_history(batch: Batch, run_id: str) -> list[tuple[Any, ...]]:
    """Return the history of a locked run as ``(seq, type, payload)``, with the events of this batch."""
    text = "SELECT seq, type, payload FROM history_events WHERE run_id = ? ORDER BY seq"
    rows = list(batch.scan(text, (run_id,)))
    rows += [(seq, event.type, event.to_json()) for seq, event, _ in batch.appended(run_id)]
    return rows


def close_run(
    batch: Batch,
    run: RunRow,
    event: Event,
    status: RunStatus,
    *,
    by: str,
    failure: FailureRow | None = None,
    nothing_open: bool = False,
) -> None:
    """End a run: close what is open, append the terminal event, and take the row out of every partial index.

    Where the chain ends, the parent's history gets the end, and the open children await their close policy.

    Args:
        batch: The batch.
        run: The run, open.
        event: The terminal event.
        status: The run's terminal status.
        by: What closes the activities, timers and updates that are still open; their events carry it.
        failure: The failure row of the end, if it is one.
        nothing_open: Whether the owner knows that no activity, timer or child is open, which spares the reads.
    """
    if not nothing_open:
        for activity in batch.open_activities(run.run_id):
            cancel_activity(batch, run, activity, by=by)
        for timer_id in batch.open_timers(run.run_id):
            if timer_id != START_TIMER:
                batch.append(run, TimerCancelled(timer_id, by=by))
            batch.remove_timer(run.run_id, timer_id)
    if run.inbox:
        requests.answer_open_updates(batch, run, status.value, by)
    seq = batch.append(run, event)
    if failure is not None:
        failure.event_seq = seq
        batch.add_failure(failure)
    if not nothing_open or run.cascade_at is not None:
        note_children(batch, run, nothing_open=nothing_open)
    if run.parent_run_id is not None:
        tell_parent(batch, run, event)
    # Reading `value` takes two Python calls of the enum's own, `str()` takes none.
    run.status = str(status)
    run.closed_at = run.last_event_at
    run.wake_at = None
    run.owner_id = None
    run.next_deadline_at = None
    run.attention = None
    run.attention_since = None
    if run.queue is not None:
        run.queued_at = run.slot_queue = run.start_deadline_at = None


def run_failure(
    batch: Batch,
    run: RunRow,
    category: FailureCategory | str,
    propagation: PropagationKind,
    *,
    exception_class: str,
    message: str,
    details: str | None = None,
    timeout_kind: TimeoutKind | None = None,
    deadline_at: int | None = None,
) -> FailureRow:
    """Return the failure row of a run that did not complete.

    Args:
        batch: The batch.
        run: The run.
        category: The failure's category.
        propagation: How it propagates.
        exception_class: The name of the exception.
        message: Its message.
        details: Its details, as JSON text.
        timeout_kind: The kind of deadline that passed, if one did.
        deadline_at: That deadline, in microseconds.
    """
    return FailureRow(
        failure_id=batch.ids.next(),
        run_id=run.run_id,
        event_seq=None,
        recorded_at=batch.now,
        source_kind="workflow_run",
        source_id=run.run_id,
        failure_category=str(category),
        propagation_kind=propagation.value,
        exception_class=exception_class,
        message=message,
        details=details,
        timeout_kind=timeout_kind.value if timeout_kind is not None else None,
        deadline_at=deadline_at,
    )


def cancelled_failure(batch: Batch, run: RunRow, message: str) -> FailureRow:
    """Return the failure row of a run that ends as cancelled.

    Args:
        batch: The batch.
        run: The run.
        message: Why.
    """
    category, propagation = FailureCategory.CANCELLED, PropagationKind.CANCELLED
    return run_failure(batch, run, category, propagation, exception_class="CancelledError", message=message)


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that is closed, as :func:`open_run` found or left it.

    Attributes:
        run_id: The run.
        status: Its status.
        next_run_id: The run that continued its chain, if one did.
        passed: The deadline that closed it just now; ``None`` where it was closed before.
    """

    run_id: str
    status: str
    next_run_id: str | None
    passed: PassedDeadline | None


def open_run(batch: Batch, run: RunRow) -> RunRow | Ended:
    """Return the run if it is open and has time left; a deadline that has passed ends it here.

    A change asks this before it writes to a run, so that nothing is written to a run past its deadline.

    Args:
        batch: The batch.
        run: The run's row in the batch.
    """
    if run.closed_at is not None:
        return Ended(run.run_id, run.status, run.next_run_id, None)
    if run.next_deadline_at is None:
        return run
    passed = deadline_passed(run, batch.now)
    if passed is None:
        return run
    time_out_run(batch, run, passed)
    return Ended(run.run_id, run.status, run.next_run_id, passed)


_TIMEOUT_NOUNS = {
    # It is an instant, whether it was given as one or as a timeout.
    TimeoutKind.EXECUTION_TIMEOUT: "execution deadline",
    TimeoutKind.RUN_TIMEOUT: "run timeout",
    TimeoutKind.SCHEDULE_TO_START: "schedule-to-start timeout",
}


def time_out_run(batch: Batch, run: RunRow, passed: PassedDeadline) -> None:
    """End an open run by a deadline that has passed; a run timeout may start the next run.

    No worker need be alive for that.

    Args:
        batch: The batch.
        run: The run.
        passed: The deadline.
    """
    batch.require_locks()
    kind, deadline_at = passed
    noun = _TIMEOUT_NOUNS[kind]
    failure = run_failure(
        batch,
        run,
        FailureCategory.TIMEOUT,
        PropagationKind.TIMEOUT,
        exception_class="WorkflowTimeoutError",
        message=f"the {noun} of workflow {run.workflow_id} passed",
        timeout_kind=kind,
        deadline_at=deadline_at,
    )
    event = WorkflowTimedOut(kind.value, iso(deadline_at))
    if kind is TimeoutKind.RUN_TIMEOUT:
        failed: Failure = {
            "category": "timeout",
            "type": "WorkflowTimeoutError",
            "class": "outlast.errors.WorkflowTimeoutError",
            "message": failure.message,
            "workflow_id": run.workflow_id,
            "run_id": run.run_id,
            "timeout_kind": event.timeout_kind,
            "deadline_at": event.deadline_at,
        }
        event.next_run_id = retry_run(batch, run, failed)
        if event.next_run_id is not None:
            reopen_streams(batch, run)
    if run.alerts is not None:
        alert = alert_of_end(kind, deadline_at, run, None, alert_id=batch.ids.next(), now=batch.now)
        if alert is not None:
            fire_alert(batch, run, None, alert, ends=True)
    close_run(batch, run, event, RunStatus.TIMED_OUT, by=kind.value, failure=failure)


def retry_run(batch: Batch, run: RunRow, failure: Failure, *, delay: int | None = None) -> str | None:
    """Start the next run of a chain whose run failed, where its retry policy allows; return its id.

    A cancelled run is not retried, nor is one whose backoff would end at or after the execution deadline.

    Args:
        batch: The batch.
        run: The run that failed.
        failure: The failure, which the policy may call non-retryable.
        delay: The backoff in microseconds where the failure names one; else the policy's.
    """
    if run.retry_policy is None or run.cancel_requested_at is not None:
        return None
    policy = RetryPolicy.from_document(orjson.loads(run.retry_policy))
    if not policy.allows(run.attempt) or policy.is_non_retryable(failure):
        return None
    backoff = delay if delay is not None else policy.delay_us(run.attempt, batch.random())
    if run.execution_deadline_at is not None and batch.now + backoff >= run.execution_deadline_at:
        return None
    started = first_event(batch, run.run_id)
    following = next_run(
        run, run_id=batch.ids.next(), now=batch.now, attempt=run.attempt + 1, backoff=max(backoff, 1)
    )
    event = started_event(
        following,
        input=last_input_of(batch, run.run_id, started),
        seed=new_seed(batch),
        last_failure=failure,
        last_result=started.last_result,
        headers=started.headers,
        parent=parent_of(run, started.parent),
        schedule=started.schedule,
    )
    row = add_next_run(batch, run, following, event)
    requests.move_signals(batch, row, requests.unhandled(batch, run))
    return row.run_id


def terminate(batch: Batch, run: RunRow, reason: str | None) -> None:
    """End an open run at once, without its code."""
    failure = run_failure(
        batch,
        run,
        FailureCategory.TERMINATED,
        PropagationKind.TERMINATED,
        exception_class="WorkflowTerminatedError",
        message=reason or "the workflow was terminated",
    )
    close_run(batch, run, WorkflowTerminated(reason), RunStatus.TERMINATED, by="terminated", failure=failure)


def request_cancel(batch: Batch, run: RunRow, event: Event) -> bool:
    """Ask an open run to cancel, once; return whether this is the first request.

    It ends a start delay and a run's retry backoff. A run that its queue has not admitted, and that has never begun,
    ends at once: no code of it could hear of the request.

    Args:
        batch: The batch.
        run: The run, open.
        event: The request, as its history gets it.
    """
    if run.cancel_requested_at is not None:
        return False
    batch.append(run, event)
    run.cancel_requested_at = batch.now
    if run.status == RunStatus.QUEUED and run.started_at is None:
        reason: str | None = getattr(event, "reason", None)
        failure = cancelled_failure(batch, run, reason or "the workflow was cancelled while it was queued")
        ended = WorkflowCancelled(reason, by="queue")
        close_run(batch, run, ended, RunStatus.CANCELLED, by="cancelled", failure=failure)
        return True
    if run.status == RunStatus.PENDING:
        run.not_before = 0
        run.start_delayed = False
    run.wake(batch.now)
    return True
