"""How runs begin and end: the first run of a chain, the next one, and the one function that closes any run.

*Every* terminal path goes through :func:`close_run`: its own code, a deadline, terminate, a limit. It closes what is
open (activities, timers, updates), writes the failure row where the end is one, and appends the terminal event last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import ActivityRow, AttemptRow, FailureRow, InstanceRow, RunRow
from outlast_store.transitions import requests
from outlast_store.transitions.parents import note_children, tell_parent
from outlast_store.transitions.run_deadlines import PassedDeadline, deadline_passed, earliest
from outlast_workflow.history.events import (
    ActivityCancelled,
    Event,
    Failure,
    TimerCancelled,
    WorkflowStarted,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from outlast_workflow.options.options import RetryPolicy, StartOptions
from outlast_workflow.options.search_attributes import Document
from outlast_workflow.primitives.enums import (
    ActivityStatus,
    AttemptOutcome,
    FailureCategory,
    PropagationKind,
    RunStatus,
    TimeoutKind,
)
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import iso, seconds


def new_instance(run: RunRow) -> InstanceRow:
    """The instance row that a chain's first run makes for itself."""
    return InstanceRow(run.workflow_id, run.workflow_type, run.run_id, 1, run.created_at)


def started_event(
    run: RunRow,
    *,
    input: Payload,
    seed: int,
    last_failure: Failure | None = None,
    headers: Any = None,
    parent: dict[str, Any] | None = None,
) -> WorkflowStarted:
    """The first event of a run: what its row says, and its input."""
    deadline, run_deadline = run.execution_deadline_at, run.run_deadline_at
    delay = run.not_before - run.created_at
    return WorkflowStarted(
        workflow_id=run.workflow_id,
        workflow_type=run.workflow_type,
        task_queue=run.task_queue,
        input=input,
        first_run_id=run.first_run_id,
        run_number=run.run_number,
        attempt=run.attempt,
        seed=seed,
        priority=run.priority,
        execution_timeout_seconds=seconds(run.execution_timeout),
        run_timeout_seconds=seconds(run.run_timeout),
        execution_deadline_at=iso(deadline) if deadline is not None else None,
        run_deadline_at=iso(run_deadline) if run_deadline is not None else None,
        previous_run_id=run.previous_run_id,
        start_delay_seconds=seconds(delay) if run.start_delayed and delay > 0 else None,
        retry_policy=orjson.loads(run.retry_policy) if run.retry_policy is not None else None,
        memo=Payload(run.memo.encode()) if run.memo is not None else None,
        search_attributes=orjson.loads(run.search_attributes) if run.search_attributes is not None else None,
        last_failure=last_failure,
        parent=parent,
        headers=headers,
    )


def next_run(
    run: RunRow,
    *,
    run_id: str,
    now: int,
    attempt: int = 1,
    backoff: int = 0,
    owner_id: str | None = None,
    workflow_type: str | None = None,
    task_queue: str | None = None,
    run_timeout: int | None = None,
    memo: str | None = None,
    search_attributes: Document | None = None,
) -> RunRow:
    """The next run of a chain: the execution deadline is carried unchanged, the run deadline is computed afresh.

    It has something to do from ``now + backoff`` on. With ``owner_id`` that worker owns it from the first write.
    """
    row = run.copy()
    run_timeout = run_timeout if run_timeout is not None else run.run_timeout
    begins = now + backoff
    run_deadline = begins + run_timeout if run_timeout is not None else None
    vars(row).update(
        run_id=run_id,
        run_number=run.run_number + 1,
        previous_run_id=run.run_id,
        next_run_id=None,
        workflow_type=workflow_type or run.workflow_type,
        task_queue=task_queue or run.task_queue,
        status=RunStatus.PENDING.value,
        created_at=now,
        started_at=None,
        closed_at=None,
        run_timeout=run_timeout,
        run_deadline_at=run_deadline,
        next_deadline_at=earliest(run.execution_deadline_at, run_deadline),
        last_seq=0,
        last_event_at=now,
        inbox=0,
        wake_at=begins,
        not_before=begins if backoff else 0,
        start_delayed=False,
        owner_id=owner_id,
        fence=1 if owner_id is not None else 0,
        owner_losses=0,
        cascade_at=None,
        attempt=attempt,
        memo=memo if memo is not None else run.memo,
        cancel_requested_at=None,
        task_failures=0,
        attention=None,
        attention_since=None,
        build_id=None,
        history_bytes=0,
    )
    if search_attributes is not None:
        row.search_attributes = orjson.dumps(search_attributes).decode() if search_attributes else None
    return row


def add_next_run(batch: Batch, run: RunRow, following: RunRow, started: WorkflowStarted) -> RunRow:
    """Insert the next run with its first event, and point its instance and its predecessor to it."""
    row = batch.add_run(following)
    batch.append(row, started)
    run.next_run_id = row.run_id
    if run.inbox:
        requests.move_updates(batch, run, row)
    instance = batch.lock_instance(run.workflow_id)
    if instance is not None and instance.current_run_id == run.run_id:
        instance.current_run_id = row.run_id
        instance.run_count = row.run_number
        instance.workflow_type = row.workflow_type
    return row


def first_event(batch: Batch, run_id: str) -> WorkflowStarted:
    """A run's ``WorkflowStarted``: this batch's, or read back."""
    for seq, event, _ in batch.appended(run_id):
        if seq == 1 and isinstance(event, WorkflowStarted):
            return event
    text = "SELECT payload FROM history_events WHERE run_id = ? AND seq = 1"
    return WorkflowStarted.from_document(orjson.loads(batch.scan(text, (run_id,))[0][0]))


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
    """End a run: close what is open (marked with ``by``), append the terminal event, take the row out of every index.

    The parent is told where the chain ends, and the open children await their close policy. ``nothing_open`` spares
    the reads where the owner knows that no activity, no timer and no child is open.
    """
    if not nothing_open:
        for activity in batch.open_activities(run.run_id):
            cancel_activity(batch, run, activity, by=by)
        for timer_id in batch.open_timers(run.run_id):
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
    run.status = str(status)  # for `value` Python takes two calls of its own
    run.closed_at = run.last_event_at
    run.wake_at = None
    run.owner_id = None
    run.next_deadline_at = None
    run.attention = None
    run.attention_since = None


def cancel_activity(batch: Batch, run: RunRow, activity: ActivityRow, *, by: str | None = None) -> None:
    """Close an open activity as cancelled, with its event; its running attempt, if any, gets its row."""
    batch.append(run, ActivityCancelled(activity.activity_id, by=by))
    if activity.status == ActivityStatus.RUNNING:
        batch.add_attempt(
            AttemptRow(
                activity.run_id,
                activity.activity_id,
                activity.attempt,
                activity.claimed_by,
                activity.started_at,
                batch.now,
                AttemptOutcome.CANCELLED.value,
                None,
                None,
            )
        )
    close_activity(activity, ActivityStatus.CANCELLED, batch.now)


def close_activity(activity: ActivityRow, status: ActivityStatus, now: int) -> None:
    """Take an activity's row out of every index."""
    activity.status = str(status)
    activity.closed_at = now
    activity.next_deadline_at = None


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
    """The failure row of a run that ended other than well."""
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
    """Return the run if it is open and has time left; a deadline that has passed ends it here, whoever asks.

    Every change of an open run asks this first, so that nothing is written to a run past its deadline.

    Args:
        batch: The batch.
        run: The run's row in the batch.
    """
    if run.closed_at is not None:
        return Ended(run.run_id, run.status, run.next_run_id, None)
    passed = deadline_passed(run, batch.now)
    if passed is None:
        return run
    time_out_run(batch, run, passed)
    return Ended(run.run_id, run.status, run.next_run_id, passed)


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
    execution = kind is TimeoutKind.EXECUTION_TIMEOUT
    noun = "execution" if execution else "run"
    failure = run_failure(
        batch,
        run,
        FailureCategory.TIMEOUT,
        PropagationKind.TIMEOUT,
        exception_class="WorkflowTimeoutError",
        message=f"the {noun} timeout of workflow {run.workflow_id} passed",
        timeout_kind=kind,
        deadline_at=deadline_at,
    )
    event = WorkflowTimedOut(kind.value, iso(deadline_at))
    if not execution:
        failed = {"category": "timeout", "type": "WorkflowTimeoutError", "message": failure.message}
        event.next_run_id = retry_run(batch, run, failed)
    close_run(batch, run, event, RunStatus.TIMED_OUT, by=kind.value, failure=failure)


def retry_run(batch: Batch, run: RunRow, failure: Failure, *, delay: int | None = None) -> str | None:
    """Start the next run of a chain whose run failed, where its retry policy allows; returns its id.

    A cancelled run is not retried, nor is one whose backoff would end at or after the execution deadline.
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
        input=started.input,
        seed=new_seed(batch),
        last_failure=failure,
        headers=started.headers,
        parent=started.parent,
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


def new_seed(batch: Batch) -> int:
    """A seed for a run's random numbers: 52 bits, exact in any JSON reader."""
    return int(batch.random() * (1 << 52))


def request_cancel(batch: Batch, run: RunRow, event: Event) -> bool:
    """Ask an open run to cancel, once; ends a start delay and a run's retry backoff. Returns whether it is news."""
    if run.cancel_requested_at is not None:
        return False
    batch.append(run, event)
    run.cancel_requested_at = batch.now
    if run.status == RunStatus.PENDING:
        run.not_before = 0
        run.start_delayed = False
    run.wake(batch.now)
    return True


def first_run(
    *,
    run_id: str,
    workflow_id: str,
    workflow_type: str,
    task_queue: str,
    options: StartOptions,
    memo: Payload | None,
    search_attributes: Document | None = None,
    now: int,
    owner_id: str | None,
) -> RunRow:
    """The row of a chain's first run. The execution deadline counts from now, the run deadline from its beginning."""
    delay = options.start_delay_us
    begins = now + delay if delay else now
    execution_deadline = (
        now + options.execution_timeout_us if options.execution_timeout_us is not None else None
    )
    run_deadline = begins + options.run_timeout_us if options.run_timeout_us is not None else None
    policy = options.retry_policy
    return RunRow(
        run_id=run_id,
        workflow_id=workflow_id,
        run_number=1,
        first_run_id=run_id,
        previous_run_id=None,
        next_run_id=None,
        workflow_type=workflow_type,
        task_queue=task_queue,
        priority=options.priority,
        status="pending",
        created_at=now,
        started_at=None,
        closed_at=None,
        execution_timeout=options.execution_timeout_us,
        execution_deadline_at=execution_deadline,
        run_timeout=options.run_timeout_us,
        run_deadline_at=run_deadline,
        next_deadline_at=earliest(execution_deadline, run_deadline),
        last_seq=0,
        last_event_at=now,
        inbox=0,
        wake_at=begins,
        not_before=begins if delay else 0,
        start_delayed=bool(delay),
        owner_id=owner_id,
        fence=1 if owner_id is not None else 0,
        owner_losses=0,
        parent_run_id=None,
        parent_command_id=None,
        parent_close_policy=None,
        cascade_at=None,
        attempt=1,
        retry_policy=orjson.dumps(policy.to_document()).decode() if policy is not None else None,
        memo=memo.json.decode() if memo is not None else None,
        cancel_requested_at=None,
        task_failures=0,
        attention=None,
        attention_since=None,
        build_id=None,
        history_bytes=0,
        search_attributes=orjson.dumps(search_attributes).decode() if search_attributes else None,
    )
