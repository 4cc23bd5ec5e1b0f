"""The unsuccessful ends of children, as errors in their parent's code."""

from __future__ import annotations

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import exception_of
from outlast_workflow.errors import (
    WorkflowAlreadyStartedError,
    WorkflowCancelledError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast_workflow.errors.child import ChildWorkflowError
from outlast_workflow.history.events import (
    ChildWorkflowCancelled,
    ChildWorkflowFailed,
    ChildWorkflowStartFailed,
    ChildWorkflowTerminated,
    ChildWorkflowTimedOut,
    Failure,
)
from outlast_workflow.primitives.enums import RetryState, TimeoutKind
from outlast_workflow.primitives.times import from_iso, to_datetime

BadEnd = (
    ChildWorkflowStartFailed
    | ChildWorkflowFailed
    | ChildWorkflowTimedOut
    | ChildWorkflowCancelled
    | ChildWorkflowTerminated
)


def child_error(
    event: BadEnd, workflow_type: str, workflow_id: str, run_id: str | None, converter: DataConverter
) -> ChildWorkflowError:
    """Return what workflow code sees when a child ends without a result."""
    known = run_id or ""
    state: RetryState | None = None
    cause: BaseException
    if isinstance(event, ChildWorkflowStartFailed):
        message, cause = "was not started", exception_of(event.failure, converter)
    elif isinstance(event, ChildWorkflowFailed):
        message, cause = "failed", exception_of(event.failure, converter)
        state = RetryState(event.retry_state) if event.retry_state is not None else None
    elif isinstance(event, ChildWorkflowTimedOut):
        kind = TimeoutKind(event.timeout_kind)
        message = f"timed out: its {kind.replace('_', ' ')} passed"
        deadline_at = to_datetime(from_iso(event.deadline_at))
        cause = WorkflowTimeoutError(
            workflow_id=workflow_id, run_id=known, timeout_kind=kind, deadline_at=deadline_at
        )
    elif isinstance(event, ChildWorkflowCancelled):
        message = "was cancelled"
        cause = WorkflowCancelledError(workflow_id=workflow_id, run_id=known, reason=event.reason)
    else:
        message = "was terminated"
        cause = WorkflowTerminatedError(workflow_id=workflow_id, run_id=known, reason=event.reason)
    error = ChildWorkflowError(
        workflow_type=workflow_type,
        workflow_id=workflow_id,
        run_id=run_id,
        retry_state=state,
        message=message,
    )
    error.__cause__ = cause
    return error


def already_started_failure(workflow_id: str, run_id: str, status: str) -> Failure:
    """Return the failure document, made from rows, of a start whose id was taken."""
    error = WorkflowAlreadyStartedError(workflow_id, run_id=run_id, status=status)
    return {
        "category": error.category,
        "type": "WorkflowAlreadyStartedError",
        "class": "outlast.errors.WorkflowAlreadyStartedError",
        "message": error.message,
        "workflow_id": workflow_id,
        "run_id": run_id,
        "status": status,
    }
