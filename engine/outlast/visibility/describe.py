"""Describing a workflow: its rows as one :class:`~outlast.visibility.views.WorkflowDescription`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from outlast.runtime.runtime import Runtime
from outlast.visibility.alerts import alerts_view
from outlast.visibility.columns import attributes, decoded, instant, progress
from outlast.visibility.reasons import kinds_of, reasons
from outlast.visibility.views import (
    FailureCause,
    FailureView,
    PendingActivity,
    PendingChild,
    PendingSignal,
    PendingTimer,
    PendingUpdate,
    QueuePlace,
    RunDescription,
    StreamView,
    WorkerView,
    WorkflowDescription,
)
from outlast_activities.deadlines import options_of
from outlast_store.reads.description import OpenChild, StoredDescription, describe_run
from outlast_store.schema.rows import ActivityRow, FailureRow, RequestRow, RunRow, WorkerRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import RunNotFoundError, WorkflowNotFoundError
from outlast_workflow.history.events import stored_json
from outlast_workflow.options.activity import is_transactional
from outlast_workflow.primitives.enums import (
    ActivityStatus,
    FailureCategory,
    PropagationKind,
    RunStatus,
    TimeoutKind,
)
from outlast_workflow.primitives.times import seconds, to_datetime

MOST_FAILURES: Final = 20


async def describe(
    runtime: Runtime,
    converter: DataConverter,
    workflow_id: str,
    run_id: str | None = None,
    *,
    follow: bool = False,
) -> WorkflowDescription:
    """Describe one run of a workflow, from one snapshot of the database.

    Args:
        runtime: The database.
        converter: Decodes the memo and heartbeat details.
        workflow_id: The workflow.
        run_id: One of its runs; the current run if ``None``.
        follow: Whether to describe the latest run of that run's chain instead, or the first from there that completed.

    Raises:
        WorkflowNotFoundError: There is no such workflow.
        RunNotFoundError: It has no such run.
    """
    now = runtime.environment.clock.now()
    found = await runtime.read(describe_run, workflow_id, run_id, now, follow=follow, failures=MOST_FAILURES)
    if found is None:
        if run_id is not None:
            raise RunNotFoundError(run_id, workflow_id=workflow_id)
        raise WorkflowNotFoundError(workflow_id)
    return _description(found, now, converter)


def _description(found: StoredDescription, now: int, converter: DataConverter) -> WorkflowDescription:
    run = found.run
    return WorkflowDescription(
        workflow_id=run.workflow_id,
        workflow_type=run.workflow_type,
        execution_timeout_seconds=seconds(run.execution_timeout),
        run_count=found.run_count,
        run=_run(found, now, converter),
        pending_activities=tuple(_activity(row, found, now, converter) for row in found.activities),
        pending_timers=tuple(
            PendingTimer(timer_id=id, fire_at=to_datetime(at), summary=summary)
            for id, at, summary in found.timers
        ),
        pending_children=tuple(_child(row) for row in found.children),
        pending_updates=tuple(_update(row) for row in found.updates),
        pending_signals=tuple(
            PendingSignal(name=name, count=count, without_handler=kept)
            for kept, names in (
                (True, found.messages.without_handler),
                (False, found.messages.unseen),
            )
            for name, count in sorted(names.items())
        ),
        receiving=tuple(found.messages.receiving),
        streams=tuple(
            StreamView(
                name=row.name, items=row.next_offset, bytes=row.bytes, closed_at=instant(row.closed_at)
            )
            for row in found.streams
        ),
        failures=tuple(_failure(row, found.failure_events) for row in found.failures),
        attention=kinds_of(found.attention),
        attention_reasons=reasons(
            found.attention,
            workflow_id=run.workflow_id,
            task_failures=run.task_failures,
            last_task_failure=_last_task_failure(found.failures),
        ),
        described_at=to_datetime(now),
        forks=tuple(found.forks),
        alerts=alerts_view(found.armed, found.alerts, found.deliveries),
    )


def _run(found: StoredDescription, now: int, converter: DataConverter) -> RunDescription:
    run, workers = found.run, found.workers
    return RunDescription(
        run_id=run.run_id,
        run_number=run.run_number,
        first_run_id=run.first_run_id,
        previous_run_id=run.previous_run_id,
        next_run_id=run.next_run_id,
        status=RunStatus(run.status),
        task_queue=run.task_queue,
        priority=run.priority,
        attempt=run.attempt,
        created_at=to_datetime(run.created_at),
        started_at=instant(run.started_at),
        closed_at=instant(run.closed_at),
        run_timeout_seconds=seconds(run.run_timeout),
        execution_deadline_at=instant(run.execution_deadline_at),
        run_deadline_at=instant(run.run_deadline_at),
        execution_time_left_seconds=_left(run, run.execution_deadline_at, now),
        run_time_left_seconds=_left(run, run.run_deadline_at, now),
        begins_at=to_datetime(run.not_before) if run.is_open and run.not_before > now else None,
        start_delayed=bool(run.start_delayed),
        owner=_worker(run.owner_id, workers, now),
        history_length=run.last_seq,
        history_bytes=run.history_bytes,
        memo=decoded(run.memo, converter, run.run_id),
        parent_run_id=run.parent_run_id,
        search_attributes=attributes(run.search_attributes, run.run_id),
        cancel_requested_at=instant(run.cancel_requested_at),
        build_id=run.build_id,
        task_failures=run.task_failures,
        attention_since=instant(run.attention_since),
        summary=run.summary,
        progress=progress(run.progress, run.run_id),
        queue=_queue(run, found),
        owner_losses=run.owner_losses,
    )


def _queue(run: RunRow, found: StoredDescription) -> QueuePlace | None:
    if run.queue is None:
        return None
    delayed = run.status == RunStatus.QUEUED and run.queued_at is None
    return QueuePlace(
        name=run.queue,
        partition_key=run.partition_key or None,
        queued_at=instant(run.queued_at),
        start_at=to_datetime(run.not_before) if delayed and run.not_before else None,
        start_deadline_at=instant(run.start_deadline_at),
        ahead=found.ahead,
        holds_slot=run.slot_queue is not None,
        held_up_by=found.held_up(run) if run.queued_at is not None else None,
    )


def _queue_of_activity(row: ActivityRow, found: StoredDescription, now: int) -> QueuePlace | None:
    if row.queue is None:
        return None
    pending = row.status == ActivityStatus.PENDING
    in_line = pending and row.available_at <= now
    return QueuePlace(
        name=row.queue,
        partition_key=row.partition_key or None,
        queued_at=to_datetime(row.available_at) if in_line else None,
        start_at=to_datetime(row.available_at) if pending and not in_line else None,
        start_deadline_at=instant(row.schedule_to_start_deadline_at),
        ahead=None,
        holds_slot=not pending,
        held_up_by=found.held_up(row) if in_line else None,
    )


def _activity(
    row: ActivityRow, found: StoredDescription, now: int, converter: DataConverter
) -> PendingActivity:
    pending = row.status == ActivityStatus.PENDING
    return PendingActivity(
        activity_id=row.activity_id,
        activity_type=row.activity_type,
        task_queue=row.public_task_queue,
        local=row.local,
        priority=row.priority,
        status=ActivityStatus(row.status),
        attempt=row.charged_attempt,
        max_attempts=options_of(row).policy.max_attempts,
        scheduled_at=to_datetime(row.scheduled_at),
        available_at=to_datetime(row.available_at) if pending else None,
        started_at=instant(row.started_at),
        schedule_to_start_deadline_at=instant(row.schedule_to_start_deadline_at),
        start_to_close_deadline_at=instant(row.start_to_close_deadline_at),
        schedule_to_close_deadline_at=instant(row.schedule_to_close_deadline_at),
        heartbeat_deadline_at=instant(row.heartbeat_deadline_at),
        next_deadline_at=instant(row.next_deadline_at),
        last_heartbeat_at=instant(row.heartbeat_at),
        heartbeat_details=_details(decoded(row.heartbeat_details, converter, row.run_id)),
        last_failure=cause_of(stored_json(row.last_failure, row.run_id, "last failure"))
        if row.last_failure is not None
        else None,
        worker=_worker(row.claimed_by, found.workers, now),
        cancel_requested=bool(row.cancel_requested),
        summary=row.summary,
        deferred=row.is_deferred,
        queue=_queue_of_activity(row, found, now),
        transactional=is_transactional(row.options),
    )


def _details(found: Any) -> tuple[Any, ...]:
    """Return the details of a heartbeat; what a missing codec left undecoded is one value."""
    if found is None:
        return ()
    return tuple(found) if isinstance(found, list) else (found,)


def _child(row: OpenChild) -> PendingChild:
    return PendingChild(
        workflow_id=row.workflow_id,
        run_id=row.run_id,
        workflow_type=row.workflow_type,
        status=RunStatus(row.status),
        created_at=to_datetime(row.created_at),
        summary=row.summary,
        progress=progress(row.progress, row.run_id),
    )


def _update(row: RequestRow) -> PendingUpdate:
    return PendingUpdate(
        update_id=row.request_id,
        name=row.name,
        accepted=row.answer_seq is not None,
        asked_at=to_datetime(row.created_at),
    )


def cause_of(document: Mapping[str, Any]) -> FailureCause:
    """Return the view of a failure's document, with its causes."""
    inner = document.get("cause")
    return FailureCause(
        category=FailureCategory(document.get("category", FailureCategory.APPLICATION)),
        exception_class=str(document.get("type", "")),
        message=str(document.get("message", "")),
        timeout_kind=_timeout_kind(document.get("timeout_kind")),
        deadline_at=_moment(document.get("deadline_at")),
        stack=document.get("stack") or None,
        cause=cause_of(inner) if inner else None,
    )


def _last_task_failure(failures: Sequence[FailureRow]) -> str | None:
    """Return what the last workflow task that failed raised."""
    last = next((row for row in failures if row.propagation_kind == PropagationKind.TASK), None)
    return None if last is None else f"{last.exception_class}: {last.message}"


def _failure(row: FailureRow, events: Mapping[int, str]) -> FailureView:
    event = stored_json(events.get(row.event_seq or 0, "{}"), row.run_id, "payload", seq=row.event_seq)
    document = event.get("failure") or {}
    inner = document.get("cause")
    return FailureView(
        failure_id=row.failure_id,
        recorded_at=to_datetime(row.recorded_at),
        event_seq=row.event_seq,
        source_kind=row.source_kind,
        source_id=row.source_id,
        failure_category=FailureCategory(row.failure_category),
        propagation_kind=PropagationKind(row.propagation_kind),
        exception_class=row.exception_class,
        message=row.message,
        timeout_kind=_timeout_kind(row.timeout_kind),
        deadline_at=instant(row.deadline_at),
        stack=document.get("stack") or None,
        cause=cause_of(inner) if inner else None,
    )


def _worker(worker_id: str | None, workers: Mapping[str, WorkerRow], now: int) -> WorkerView | None:
    if worker_id is None:
        return None
    row = workers.get(worker_id)
    if row is None:
        return WorkerView(worker_id=worker_id, host=None, pid=None, alive=False)
    return WorkerView(worker_id=worker_id, host=row.host, pid=row.pid, alive=row.lease_expires_at > now)


def _left(run: RunRow, deadline: int | None, now: int) -> int | float | None:
    return seconds(deadline - now) if deadline is not None and run.is_open else None


def _timeout_kind(kind: str | None) -> TimeoutKind | None:
    return None if kind is None else TimeoutKind(kind)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
