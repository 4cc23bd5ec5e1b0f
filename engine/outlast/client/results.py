"""How the end of a chain of runs reaches the caller: as a value, or as the error that says why there is none."""

from __future__ import annotations

from typing import Any

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import exception_of
from outlast_workflow.errors import (
    WorkflowCancelledError,
    WorkflowFailedError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast_workflow.history import events
from outlast_workflow.primitives.enums import TimeoutKind
from outlast_workflow.primitives.times import from_iso, to_datetime


def result_of(
    event: events.Event, workflow_id: str, run_id: str, converter: DataConverter, result_type: Any
) -> Any:
    """Return what a workflow returned.

    Args:
        event: The event that ended its last run.
        workflow_id: The workflow.
        run_id: That run.
        converter: Decodes the result or the failure.
        result_type: How to read the result.

    Raises:
        WorkflowResultError: It did not return: it failed, timed out, was cancelled or was terminated.
        PayloadDecodeError: The result cannot be read as ``result_type``.
    """
    if isinstance(event, events.WorkflowCompleted):
        return converter.decode(event.result, result_type, f"the result of {workflow_id}")
    if isinstance(event, events.WorkflowFailed):
        error = WorkflowFailedError(workflow_id=workflow_id, run_id=run_id)
        raise error from exception_of(event.failure, converter)
    if isinstance(event, events.WorkflowTimedOut):
        raise WorkflowTimeoutError(
            workflow_id=workflow_id,
            run_id=run_id,
            timeout_kind=TimeoutKind(event.timeout_kind),
            deadline_at=to_datetime(from_iso(event.deadline_at)),
        )
    if isinstance(event, events.WorkflowCancelled):
        raise WorkflowCancelledError(workflow_id=workflow_id, run_id=run_id, reason=event.reason)
    if isinstance(event, events.WorkflowTerminated):
        raise WorkflowTerminatedError(workflow_id=workflow_id, run_id=run_id, reason=event.reason)
    raise AssertionError(f"{event.type} does not end a chain")
