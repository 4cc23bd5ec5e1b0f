"""Events of child workflows, and of the parent close policy."""

from __future__ import annotations

from typing import Any

from outlast_workflow.history.event import Event, Failure, record
from outlast_workflow.primitives.payloads import Payload


@record
class ChildWorkflowScheduled(Event):
    """The code started a child."""

    command = True
    compared = ("command_id", "workflow_type", "workflow_id")
    command_id: int
    workflow_id: str
    workflow_type: str
    task_queue: str
    input: Payload
    options: Payload
    parent_close_policy: str
    priority: int
    headers: dict[str, Any] | None = None
    summary: str | None = None


@record
class ChildWorkflowStarted(Event):
    """The child's first run exists."""

    inbound = True
    command_id: int
    run_id: str


@record
class ChildWorkflowStartFailed(Event):
    """The child could not be started."""

    inbound = True
    command_id: int
    failure: Failure


@record
class ChildWorkflowCancelRequested(Event):
    """The code cancelled the child. ``run_id`` is the child's first run."""

    command = True
    command_id: int
    workflow_id: str
    run_id: str


@record
class ChildWorkflowCompleted(Event):
    """The child's chain ended with a result."""

    inbound = True
    command_id: int
    result: Payload


@record
class ChildWorkflowFailed(Event):
    """The child's chain ended with a failure."""

    inbound = True
    command_id: int
    failure: Failure
    retry_state: str | None = None


@record
class ChildWorkflowTimedOut(Event):
    """The child's chain passed a deadline of its own."""

    inbound = True
    command_id: int
    timeout_kind: str
    deadline_at: str


@record
class ChildWorkflowCancelled(Event):
    """The child's chain ended as cancelled."""

    inbound = True
    command_id: int
    reason: str | None = None


@record
class ChildWorkflowTerminated(Event):
    """The child was terminated."""

    inbound = True
    command_id: int
    reason: str | None = None


@record
class ParentClosePolicyApplied(Event):
    """The run's parent ended, and its parent close policy was applied to this run."""

    policy: str
    parent_run_id: str


@record
class ParentReset(Event):
    """The run's parent was reset to a point at which this run was open: its end goes to the parent's new run."""

    parent_run_id: str
