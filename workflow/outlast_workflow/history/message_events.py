"""Events of signals and updates, both those received and those sent to other workflows."""

from __future__ import annotations

from typing import Any

from outlast_workflow.history.event import Event, Failure, record
from outlast_workflow.primitives.payloads import Payload


@record
class SignalReceived(Event):
    """A signal arrived."""

    inbound = True
    name: str
    input: Payload
    request_id: str | None = None
    headers: dict[str, Any] | None = None


@record
class UpdateAccepted(Event):
    """An update passed its validator."""

    inbound = True
    update_id: str
    name: str
    input: Payload
    headers: dict[str, Any] | None = None


@record
class UpdateCompleted(Event):
    """An update's handler returned or raised; ``by`` if the run ended first."""

    command = True
    compared = ("update_id",)
    update_id: str
    result: Payload | None = None
    failure: Failure | None = None
    by: str | None = None


@record
class ExternalSignalRequested(Event):
    """The code signalled another workflow."""

    command = True
    compared = ("command_id", "workflow_id", "name")
    command_id: int
    workflow_id: str
    name: str
    input: Payload
    run_id: str | None = None
    headers: dict[str, Any] | None = None


@record
class ExternalSignalDelivered(Event):
    """The signal was delivered to the other workflow."""

    inbound = True
    command_id: int


@record
class ExternalSignalFailed(Event):
    """The signal could not be delivered."""

    inbound = True
    command_id: int
    failure: Failure
