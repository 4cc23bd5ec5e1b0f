"""History events: one slotted, typed record each, in one registry.

An event is never changed once made (by rule, not by a frozen dataclass: that costs four times as much to make).
Three kinds of hands write them:

* **inbound** ones come from outside (a result, a fired timer, a signal): whoever has the news appends them under the
  run's row lock, and the next workflow task applies them;
* **commands** are what a workflow task asked for. A command *is* the event that records it: workflow code makes it, the
  change appends it, replay makes it again and compares;
* the **engine's own** frame the others (`WorkflowTaskCompleted`) or end the run without its code.

Where the engine writes an event that is otherwise a command or a result (closing what is open when a run ends), the
event carries ``by`` — the reason — and is neither counted nor compared in replay.

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
    """The event of a history row."""
    return REGISTRY[event_type].from_document(orjson.loads(payload))
