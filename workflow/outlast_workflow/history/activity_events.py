"""Events of activities."""

from __future__ import annotations

from typing import Any

from outlast_workflow.history.event import Event, Failure, record
from outlast_workflow.primitives.payloads import Payload


@record
class ActivityScheduled(Event):
    """The code called an activity. ``options`` is the snapshot that every attempt obeys."""

    command = True
    compared = ("command_id", "activity_type")
    command_id: int
    activity_type: str
    task_queue: str
    input: Payload
    options: Payload
    priority: int
    local: bool | None = None
    headers: dict[str, Any] | None = None
    summary: str | None = None
    queue: str | None = None
    partition_key: str | None = None

    def signature(self) -> tuple[Any, ...]:
        """Return what replay compares; for a local activity also that it is local."""
        found = (self.type, self.command_id, self.activity_type)
        return (*found, "local") if self.local else found

    @classmethod
    def recorded_signature(cls, document: dict[str, Any]) -> tuple[Any, ...]:
        """Return the same for a stored payload."""
        found = (cls.type, document["command_id"], document["activity_type"])
        return (*found, "local") if document.get("local") else found


@record
class ActivityCompleted(Event):
    """An attempt returned. ``attempt`` is the user's count, rescues not included."""

    inbound = True
    command_id: int
    result: Payload
    attempt: int


@record
class ActivityFailed(Event):
    """The activity ended with a failure and is not retried."""

    inbound = True
    command_id: int
    failure: Failure
    attempt: int
    retry_state: str


@record
class ActivityTimedOut(Event):
    """The activity passed one of its deadlines and is not retried. ``failure`` holds the whole error."""

    inbound = True
    command_id: int
    timeout_kind: str
    deadline_at: str
    failure: Failure
    attempt: int
    retry_state: str


@record
class ActivityCancelRequested(Event):
    """The code cancelled the activity; with ``wait`` it continues to wait until the activity has ended."""

    command = True
    compared = ("command_id",)
    command_id: int
    wait: bool | None = None


@record
class ActivityCancelled(Event):
    """The activity ended as cancelled; ``by`` if the engine closed it with its run."""

    inbound = True
    command_id: int
    details: Payload | None = None
    by: str | None = None
