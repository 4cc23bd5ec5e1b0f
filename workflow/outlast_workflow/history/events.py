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

from typing import Any

import orjson

from outlast_workflow.errors.history import DamagedHistoryError
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
    ParentReset,
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
    WorkflowDeadlineLowered,
    WorkflowDequeued,
    WorkflowFailed,
    WorkflowReset,
    WorkflowStartChanged,
    WorkflowStarted,
    WorkflowTaskCompleted,
    WorkflowTaskFailed,
    WorkflowTerminated,
    WorkflowTimedOut,
    last_input,
)
from outlast_workflow.history.stream_events import StreamClosed, StreamWritten
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
    "ParentReset",
    "SearchAttributesUpserted",
    "SideEffectRecorded",
    "SignalReceived",
    "StreamClosed",
    "StreamWritten",
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
    "WorkflowDeadlineLowered",
    "WorkflowDequeued",
    "WorkflowFailed",
    "WorkflowReset",
    "WorkflowStartChanged",
    "WorkflowStarted",
    "WorkflowTaskCompleted",
    "WorkflowTaskFailed",
    "WorkflowTerminated",
    "WorkflowTimedOut",
    "from_json",
    "last_input",
    "record",
    "stored_event",
    "stored_json",
    "stored_payload",
]


def stored_json(text: str | bytes, run_id: str, what: str, *, seq: int | None = None) -> Any:
    """Return the value of stored JSON.

    Args:
        text: What is stored.
        run_id: The run that it belongs to.
        what: What it is, in words, for the message.
        seq: The number of the event, if it is one's.

    Raises:
        DamagedHistoryError: It is not JSON any more.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise DamagedHistoryError(run_id, what, seq=seq) from None


def stored_payload(text: str | bytes, run_id: str, seq: int) -> dict[str, Any]:
    """Return the stored payload of an event.

    Args:
        text: What is stored.
        run_id: The run.
        seq: The number of the event.

    Raises:
        DamagedHistoryError: It is not a JSON object any more.
    """
    found = stored_json(text, run_id, "payload", seq=seq)
    if not isinstance(found, dict):
        raise DamagedHistoryError(run_id, "payload", seq=seq)
    return found


def stored_event(run_id: str, seq: int, event_type: str, payload: str | bytes) -> Event:
    """Return the event of a history row.

    Args:
        run_id: The run.
        seq: The number of the event.
        event_type: Its type.
        payload: Its payload.

    Raises:
        DamagedHistoryError: There is no such type, or its payload is not what it must be.
    """
    cls = REGISTRY.get(event_type)
    if cls is None:
        raise DamagedHistoryError(run_id, f"type {event_type!r:.60}", seq=seq)
    document = stored_payload(payload, run_id, seq)
    try:
        return cls.from_document(document)
    except (TypeError, AttributeError, LookupError, ValueError):
        raise DamagedHistoryError(run_id, "payload", seq=seq) from None


def from_json(event_type: str, payload: str | bytes) -> Event:
    """Return the event of a history row."""
    return REGISTRY[event_type].from_document(orjson.loads(payload))
