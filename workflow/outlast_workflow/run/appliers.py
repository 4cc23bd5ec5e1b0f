"""Which part of a run applies an inbound event.

Each entry finds a bound method from the run's :class:`~outlast_workflow.run.machine.WorkflowMachine`: its own, or one
of its activity calls, children, handlers or external signals. ``attrgetter`` follows the dots without a Python call.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from outlast_workflow.history.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityTimedOut,
    ChildWorkflowCancelled,
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowStarted,
    ChildWorkflowStartFailed,
    ChildWorkflowTerminated,
    ChildWorkflowTimedOut,
    Event,
    ExternalSignalDelivered,
    ExternalSignalFailed,
    SignalReceived,
    TimerFired,
    UpdateAccepted,
    WorkflowCancelRequested,
    WorkflowDequeued,
    WorkflowStartChanged,
    WorkflowStarted,
)

APPLIERS: dict[type[Event], Callable[[Any], Callable[[Any], None]]] = {
    WorkflowStarted: attrgetter("apply_started"),
    WorkflowCancelRequested: attrgetter("apply_cancel_request"),
    WorkflowDequeued: attrgetter("apply_run_deadline"),
    WorkflowStartChanged: attrgetter("apply_run_deadline"),
    TimerFired: attrgetter("apply_timer"),
    UpdateAccepted: attrgetter("apply_update"),
    SignalReceived: attrgetter("handling.signal"),
    ActivityCompleted: attrgetter("calls.completed"),
    ActivityFailed: attrgetter("calls.ended_badly"),
    ActivityTimedOut: attrgetter("calls.ended_badly"),
    ActivityCancelled: attrgetter("calls.cancelled"),
    ChildWorkflowStarted: attrgetter("children.started"),
    ChildWorkflowStartFailed: attrgetter("children.ended_badly"),
    ChildWorkflowCompleted: attrgetter("children.completed"),
    ChildWorkflowFailed: attrgetter("children.ended_badly"),
    ChildWorkflowTimedOut: attrgetter("children.ended_badly"),
    ChildWorkflowCancelled: attrgetter("children.ended_badly"),
    ChildWorkflowTerminated: attrgetter("children.ended_badly"),
    ExternalSignalDelivered: attrgetter("externals.delivered"),
    ExternalSignalFailed: attrgetter("externals.failed"),
}
"""The applier of each inbound event; commands and the engine's own events have none."""
