"""What ``workflow.info()`` shows of a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import exception_of
from outlast_workflow.history.events import WorkflowStarted
from outlast_workflow.options.search_attributes import Document, SearchValue, from_document
from outlast_workflow.primitives.lazy_names import names_of_class
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import to_datetime


@dataclass(frozen=True, slots=True)
class ParentInfo:
    """The parent workflow: its id, and the run that started this one."""

    workflow_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """The schedule that started the workflow, and the slot that it is for."""

    schedule_id: str
    scheduled_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowInfo:
    """The run as ``workflow.info()`` shows it, the same on every replay.

    ``queue`` and ``partition_key`` are those that the run was started into.
    ``attempt`` counts the runs that a workflow retry policy made; ``run_number`` the runs of its chain.
    ``history_events``, ``history_bytes`` and ``continue_as_new_suggested`` are as of this workflow task.
    ``last_failure`` is how the latest run before this one that failed did so, ``last_result`` what the latest one that
    completed returned, as plain JSON: ``workflow.last_result(Type)`` reads it as a type. Both pass on to the runs that
    follow by retry or continue-as-new, and to what the same schedule starts next. ``schedule`` is the schedule that
    started the workflow, if one did. ``resets`` counts the resets, resumes and forks that the history went through up
    to here. It grows where the code passes the point of one, and can make anew what the run before had made outside.
    """

    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    queue: str | None
    partition_key: str | None
    attempt: int
    run_number: int
    first_run_id: str
    previous_run_id: str | None
    parent: ParentInfo | None
    start_time: datetime
    execution_deadline_at: datetime | None
    run_deadline_at: datetime | None
    execution_timeout_seconds: float | int | None
    run_timeout_seconds: float | int | None
    priority: int
    memo: dict[str, Any]
    search_attributes: dict[str, SearchValue]
    history_events: int
    history_bytes: int
    continue_as_new_suggested: bool
    last_failure: BaseException | None
    last_result: Any
    schedule: ScheduleInfo | None
    resets: int

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("WorkflowInfo")


def info_of(
    started: WorkflowStarted,
    *,
    run_id: str,
    memo: Payload | None,
    search_attributes: Document,
    start_time: int,
    history_events: int,
    history_bytes: int,
    suggested: bool,
    resets: int,
    converter: DataConverter,
) -> WorkflowInfo:
    """Return the info of a run, from its first event and the present workflow task."""
    return WorkflowInfo(
        workflow_id=started.workflow_id,
        run_id=run_id,
        workflow_type=started.workflow_type,
        task_queue=started.task_queue,
        queue=started.queue,
        partition_key=started.partition_key or None,
        attempt=started.attempt,
        run_number=started.run_number,
        first_run_id=started.first_run_id,
        previous_run_id=started.previous_run_id,
        parent=_parent(started.parent),
        start_time=to_datetime(start_time),
        execution_deadline_at=_instant(started.execution_deadline_at),
        run_deadline_at=_instant(started.run_deadline_at),
        execution_timeout_seconds=started.execution_timeout_seconds,
        run_timeout_seconds=started.run_timeout_seconds,
        priority=started.priority,
        memo={} if memo is None else dict(converter.decode(memo, what="the memo")),
        search_attributes=from_document(search_attributes),
        history_events=history_events,
        history_bytes=history_bytes,
        continue_as_new_suggested=suggested,
        last_failure=None if started.last_failure is None else exception_of(started.last_failure, converter),
        last_result=None
        if started.last_result is None
        else converter.decode(started.last_result, what="the last result"),
        schedule=_schedule(started.schedule),
        resets=resets,
    )


def _parent(document: dict[str, Any] | None) -> ParentInfo | None:
    return None if document is None else ParentInfo(document["workflow_id"], document["run_id"])


def _schedule(document: dict[str, Any] | None) -> ScheduleInfo | None:
    if document is None:
        return None
    return ScheduleInfo(document["schedule_id"], datetime.fromisoformat(document["scheduled_at"]))


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
