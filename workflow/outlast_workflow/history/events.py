"""History events: one slotted, typed record each, in one registry.

Events are never changed once created. This is a convention: frozen dataclasses take four times as long to create.
There are three kinds:

* **inbound** events come from outside (a result, a fired timer, a signal). They are appended under the run's row lock,
  and the next workflow task applies them;
* **commands** are what a workflow task requested. A command *is* the event that records it: workflow code creates it,
  the change appends it, replay creates it again and compares;
* the **engine's own** events frame the others (`WorkflowTaskCompleted`) or end the run without its code.

If the engine writes an event that is otherwise a command or a result (closing what is open when a run ends), the event
carries the reason as ``by``, and is neither counted nor compared in replay.

A field that is ``None`` is left out of the stored payload.
"""

from __future__ import annotations

import orjson

from outlast_workflow.history.activity_events import (
    ActivityCancelled,
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ActivityTimedOut,
)
from outlast_workflow.history.child_events import (
    ChildWorkflowCancelled,
    ChildWorkflowCancelRequested,
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowScheduled,
    ChildWorkflowStarted,
    ChildWorkflowStartFailed,
    ChildWorkflowTerminated,
    ChildWorkflowTimedOut,
    ParentClosePolicyApplied,
)
from outlast_workflow.history.event import REGISTRY, Event, Failure, record
from outlast_workflow.history.marker_events import (
    MemoUpserted,
    SearchAttributesUpserted,
    SideEffectRecorded,
    VersionMarkerRecorded,
)
from outlast_workflow.history.message_events import (
    ExternalSignalDelivered,
    ExternalSignalFailed,
    ExternalSignalRequested,
    SignalReceived,
    UpdateAccepted,
    UpdateCompleted,
)
from outlast_workflow.history.run_events import (
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
    WorkflowReset,
    WorkflowStarted,
    WorkflowTaskCompleted,
    WorkflowTaskFailed,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from outlast_workflow.history.timer_events import TimerCancelled, TimerFired, TimerScheduled

__all__ = [
    "REGISTRY",
    "ActivityCancelRequested",
    "ActivityCancelled",
    "ActivityCompleted",
    "ActivityFailed",
    "ActivityScheduled",
    "ActivityTimedOut",
    "ChildWorkflowCancelRequested",
    "ChildWorkflowCancelled",
    "ChildWorkflowCompleted",
    "ChildWorkflowFailed",
    "ChildWorkflowScheduled",
    "ChildWorkflowStartFailed",
    "ChildWorkflowStarted",
    "ChildWorkflowTerminated",
    "ChildWorkflowTimedOut",
    "Event",
    "ExternalSignalDelivered",
    "ExternalSignalFailed",
    "ExternalSignalRequested",
    "Failure",
    "MemoUpserted",
    "ParentClosePolicyApplied",
    "SearchAttributesUpserted",
    "SideEffectRecorded",
    "SignalReceived",
    "TimerCancelled",
    "TimerFired",
    "TimerScheduled",
    "UpdateAccepted",
    "UpdateCompleted",
    "VersionMarkerRecorded",
    "WorkflowCancelRequested",
    "WorkflowCancelled",
    "WorkflowCompleted",
    "WorkflowContinuedAsNew",
    "WorkflowFailed",
    "WorkflowReset",
    "WorkflowStarted",
    "WorkflowTaskCompleted",
    "WorkflowTaskFailed",
    "WorkflowTerminated",
    "WorkflowTimedOut",
    "from_json",
    "record",
]


def from_json(event_type: str, payload: str | bytes) -> Event:
    """Return the event of a history row."""
    return REGISTRY[event_type].from_document(orjson.loads(payload))
