"""How the end of a chain of runs reaches the caller: as a value, or as the error that says why there is none."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from outlast.runtime.result_waits import RunEnd
from outlast.runtime.runtime import Runtime
from outlast_store.reads.runs import find_run
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import exception_of
from outlast_workflow.errors import (
    WorkflowCancelledError,
    WorkflowContinuedAsNewError,
    WorkflowFailedError,
    WorkflowResultError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast_workflow.history import events
from outlast_workflow.primitives.enums import TimeoutKind
from outlast_workflow.primitives.times import from_iso, to_datetime

Follow = Literal["all", "own", "none"]
"""Which runs a wait goes on to: ``all`` that follow; those that a run's ``own`` end names, not one that a reset started
after it; or ``none``."""


class End(NamedTuple):
    """How a run ended.

    Attributes:
        run_id: The run.
        event: The event that ended it.
        next_run_id: The run that follows it, if one does.
    """

    run_id: str
    event: events.Event
    next_run_id: str | None


async def end_of(runtime: Runtime, first: RunEnd, follow: Follow, *, look: bool = True) -> End:
    """Wait for the end of a run and of those that follow it.

    Args:
        runtime: The database.
        first: The run.
        follow: Which runs to go on to.
        look: Whether to look first if another process has closed that run.

    Raises:
        RunNotFoundError: There is no such run.
        JournalClosedError: The last client was closed first.
    """
    end = first
    while True:
        event = await runtime.run_ends.wait(end, look=look or end is not first)
        following: str | None = getattr(event, "next_run_id", None)
        if following is None and follow != "own" and not isinstance(event, events.WorkflowCompleted):
            # A run that ended badly may have been reset since, which only its row says.
            row = await runtime.read(find_run, end.run_id)
            following = row.next_run_id if row is not None else None
        if following is None or follow == "none":
            return End(end.run_id, event, following)
        end = runtime.run_ends.subscribe(following)


def result_of(end: End, workflow_id: str, converter: DataConverter, result_type: Any) -> Any:
    """Return what a workflow returned.

    Args:
        end: How its last run ended.
        workflow_id: The workflow.
        converter: Decodes the result or the failure.
        result_type: How to read the result.

    Raises:
        WorkflowResultError: It did not return: it failed, timed out, was cancelled or was terminated, or another run
            follows that one.
        PayloadDecodeError: The result cannot be read as ``result_type``.
    """
    run_id, event = end.run_id, end.event
    if isinstance(event, events.WorkflowCompleted):
        return converter.decode(event.result, result_type, f"the result of {workflow_id}")
    if end.next_run_id is None:
        raise _error(event, workflow_id, run_id, converter)
    continued = WorkflowContinuedAsNewError(
        workflow_id=workflow_id, run_id=run_id, next_run_id=end.next_run_id
    )
    if isinstance(event, events.WorkflowContinuedAsNew | events.WorkflowReset):
        raise continued
    raise continued from _error(event, workflow_id, run_id, converter)


def _error(
    event: events.Event, workflow_id: str, run_id: str, converter: DataConverter
) -> WorkflowResultError:
    """Return the error of a run that did not return."""
    if isinstance(event, events.WorkflowFailed):
        error = WorkflowFailedError(workflow_id=workflow_id, run_id=run_id)
        error.__cause__ = exception_of(event.failure, converter)
        return error
    if isinstance(event, events.WorkflowTimedOut):
        return WorkflowTimeoutError(
            workflow_id=workflow_id,
            run_id=run_id,
            timeout_kind=TimeoutKind(event.timeout_kind),
            deadline_at=to_datetime(from_iso(event.deadline_at)),
        )
    if isinstance(event, events.WorkflowCancelled):
        return WorkflowCancelledError(workflow_id=workflow_id, run_id=run_id, reason=event.reason)
    if isinstance(event, events.WorkflowTerminated):
        return WorkflowTerminatedError(workflow_id=workflow_id, run_id=run_id, reason=event.reason)
    raise AssertionError(f"{event.type} does not end a chain")
