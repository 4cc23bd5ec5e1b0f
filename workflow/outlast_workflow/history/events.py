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

from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import orjson

from outlast_workflow.primitives.payloads import Payload, dumps

Failure = dict[str, Any]
"""A failure as JSON: see :mod:`outlast_workflow.data.failures`."""


class Event:
    """What all events share: a type name, and a payload to and from JSON."""

    __slots__ = ()

    type: ClassVar[str]
    inbound: ClassVar[bool] = False
    command: ClassVar[bool] = False
    terminal: ClassVar[bool] = False
    names: ClassVar[tuple[str, ...]] = ()
    payload_names: ClassVar[frozenset[str]] = frozenset()
    compared: ClassVar[tuple[str, ...]] = ()

    def document(self) -> dict[str, Any]:
        """The payload as a dict (its :class:`Payload` fields still payloads), without the fields that are ``None``."""
        document: dict[str, Any] = {}
        for name in self.names:
            value = getattr(self, name)
            if value is not None:
                document[name] = value
        return document

    def to_json(self) -> bytes:
        """The payload as JSON text, UTF-8, as it is stored."""
        return dumps(self.document())

    def signature(self) -> tuple[Any, ...]:
        """What replay compares: the kind and the fields in ``compared``. Never inputs or durations."""
        return (self.type, *[getattr(self, name) for name in self.compared])

    @classmethod
    def recorded_signature(cls, document: dict[str, Any]) -> tuple[Any, ...]:
        """The same, of a stored payload."""
        return (cls.type, *[document.get(name) for name in cls.compared])

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """The event of a stored payload; fields of later versions are ignored."""
        values = {name: document[name] for name in cls.names if name in document}
        for name in cls.payload_names:
            if name in values:
                values[name] = Payload.of(values[name])
        return cls(**values)


REGISTRY: dict[str, type[Event]] = {}


def _writer(cls: Any) -> Any:
    """``to_json`` written out for one class, as dataclasses writes its ``__init__``: half the time of a loop."""
    needed = {field.name for field in fields(cls) if field.default is MISSING}

    def form(name: str, value: str) -> str:
        return f"fragment({value}.json)" if name in cls.payload_names else value

    always = [name for name in cls.names if name in needed]
    lines = [
        "def to_json(self):",
        "  document = {" + ", ".join(f"{name!r}: {form(name, 'self.' + name)}" for name in always) + "}",
    ]
    for name in cls.names:
        if name not in needed:
            lines.append(
                f"  if (value := self.{name}) is not None: document[{name!r}] = {form(name, 'value')}"
            )
    lines.append("  return dumps(document)")
    scope: dict[str, Any] = {"fragment": orjson.Fragment, "dumps": dumps}
    exec("\n".join(lines), scope)
    return scope["to_json"]


E = TypeVar("E", bound=Event)


@dataclass_transform()
def record(cls: type[E]) -> type[E]:
    """Make a class of annotated fields an event: slotted, constructed by field, and known to the registry."""
    made: Any = dataclass(slots=True)(cls)
    made.type = made.__name__
    made.names = tuple(field.name for field in fields(made))
    made.payload_names = frozenset(field.name for field in fields(made) if "Payload" in str(field.type))
    if not made.compared and "command_id" in made.names:
        made.compared = ("command_id",)
    made.to_json = _writer(made)
    REGISTRY[made.type] = made
    return made  # type: ignore[no-any-return]


def from_json(event_type: str, payload: str | bytes) -> Event:
    """The event of a history row."""
    return REGISTRY[event_type].from_document(orjson.loads(payload))


# --- the run itself -------------------------------------------------------------------------------------------------


@record
class WorkflowStarted(Event):
    """A run began: always the first event. Deadlines are ISO 8601, UTC.

    ``reset``, of a run that takes another one's history up again: that ``run_id``, the ``seq`` up to which the events
    are the other's, and ``seeds``: pairs of a seq and the seed that holds after it, one for each reset so far.
    """

    inbound = True
    workflow_id: str
    workflow_type: str
    task_queue: str
    input: Payload
    first_run_id: str
    run_number: int
    attempt: int
    seed: int
    priority: int
    execution_timeout_seconds: float | int | None = None
    run_timeout_seconds: float | int | None = None
    execution_deadline_at: str | None = None
    run_deadline_at: str | None = None
    previous_run_id: str | None = None
    start_delay_seconds: float | int | None = None
    retry_policy: dict[str, Any] | None = None
    memo: Payload | None = None
    search_attributes: dict[str, Any] | None = None
    last_failure: Failure | None = None
    parent: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None
    reset: dict[str, Any] | None = None


@record
class WorkflowTaskCompleted(Event):
    """One workflow task: which inbound events it applied, when it was, and how many commands follow.

    It applied every inbound event up to seq ``through`` that no earlier workflow task had applied, in seq order, and
    then the ``own`` inbound events that stand just before it. ``at`` is the workflow task's time in microseconds;
    ``history_events`` and ``history_bytes`` are what ``workflow.info()`` showed. It suggests to continue as new from an
    workflow task with ``suggested`` on, whatever the limits are later. ``flags`` names engine behaviours. ``buffered``
    is how many signals of each name wait without a handler.
    """

    through: int
    own: int
    at: int
    commands: int
    history_events: int
    history_bytes: int
    python: int
    build_id: str | None = None
    flags: list[str] | None = None
    buffered: dict[str, int] | None = None
    suggested: bool | None = None


@record
class WorkflowTaskFailed(Event):
    """A workflow task could not be done (non-determinism, missing code, undecodable input); once per streak."""

    failure: Failure
    build_id: str | None = None


@record
class WorkflowCompleted(Event):
    """The run returned."""

    command = True
    terminal = True
    result: Payload


@record
class WorkflowFailed(Event):
    """The run raised, or a limit ended it (``by``)."""

    command = True
    terminal = True
    failure: Failure
    retry_state: str | None = None
    next_run_id: str | None = None
    by: str | None = None


@record
class WorkflowTimedOut(Event):
    """The execution or the run deadline passed."""

    terminal = True
    timeout_kind: str
    deadline_at: str
    next_run_id: str | None = None
    by: str | None = None


@record
class WorkflowCancelRequested(Event):
    """Somebody asked the run to cancel; its code decides."""

    inbound = True
    reason: str | None = None


@record
class WorkflowCancelled(Event):
    """The run gave way to a cancel request."""

    command = True
    terminal = True
    reason: str | None = None
    by: str | None = None


@record
class WorkflowTerminated(Event):
    """Somebody ended the run at once, without its code."""

    terminal = True
    reason: str | None = None
    by: str | None = None


@record
class WorkflowContinuedAsNew(Event):
    """The run ended by starting the next one of its chain with a fresh history.

    As a command it names what the code asked; ``next_run_id`` is set by the change that makes the run.
    """

    command = True
    compared = ("workflow_type",)
    terminal = True
    workflow_type: str
    input: Payload
    task_queue: str | None = None
    next_run_id: str | None = None
    run_timeout_seconds: float | int | None = None
    memo: Payload | None = None
    headers: dict[str, Any] | None = None
    search_attributes: dict[str, Any] | None = None


@record
class WorkflowReset(Event):
    """The run ended because a later one was started from a point of its history."""

    terminal = True
    next_run_id: str
    reason: str | None = None


# --- activities -----------------------------------------------------------------------------------------------------


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

    def signature(self) -> tuple[Any, ...]:
        """Also compared: that it is local."""
        found = (self.type, self.command_id, self.activity_type)
        return (*found, "local") if self.local else found

    @classmethod
    def recorded_signature(cls, document: dict[str, Any]) -> tuple[Any, ...]:
        """The same, of a stored payload."""
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
    """The activity ended with a failure and is not tried again."""

    inbound = True
    command_id: int
    failure: Failure
    attempt: int
    retry_state: str


@record
class ActivityTimedOut(Event):
    """The activity ended by one of its deadlines and is not tried again. ``failure`` holds the whole error."""

    inbound = True
    command_id: int
    timeout_kind: str
    deadline_at: str
    failure: Failure
    attempt: int
    retry_state: str


@record
class ActivityCancelRequested(Event):
    """The code no longer wants the activity; with ``wait`` it goes on waiting until the activity has ended."""

    command = True
    compared = ("command_id",)
    command_id: int
    wait: bool | None = None


@record
class ActivityCancelled(Event):
    """The activity ended because it was cancelled; ``by`` when the engine closed it with its run."""

    inbound = True
    command_id: int
    details: Payload | None = None
    by: str | None = None


# --- timers ---------------------------------------------------------------------------------------------------------


@record
class TimerScheduled(Event):
    """The code began to wait. ``fire_at`` is in microseconds since the epoch."""

    command = True
    command_id: int
    fire_at: int


@record
class TimerFired(Event):
    """The time came. ``fire_at`` again: the workflow task is at least as late."""

    inbound = True
    command_id: int
    fire_at: int


@record
class TimerCancelled(Event):
    """The code stopped waiting; ``by`` when the engine closed it with its run."""

    command = True
    command_id: int
    by: str | None = None


# --- signals and updates --------------------------------------------------------------------------------------------


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
    """An update's handler returned or raised; ``by`` when the run ended first."""

    command = True
    compared = ("update_id",)
    update_id: str
    result: Payload | None = None
    failure: Failure | None = None
    by: str | None = None


# --- children and other workflows -----------------------------------------------------------------------------------


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
    """The code no longer wants the child. ``run_id`` is the child's first run."""

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
    """The child's chain ended by a deadline of its own."""

    inbound = True
    command_id: int
    timeout_kind: str
    deadline_at: str


@record
class ChildWorkflowCancelled(Event):
    """The child's chain gave way to a cancel request."""

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
    """The other workflow has it."""

    inbound = True
    command_id: int


@record
class ExternalSignalFailed(Event):
    """There was nobody to take it."""

    inbound = True
    command_id: int
    failure: Failure


# --- recorded facts -------------------------------------------------------------------------------------------------


@record
class SideEffectRecorded(Event):
    """A value that the code computed once."""

    command = True
    command_id: int
    value: Payload


@record
class VersionMarkerRecorded(Event):
    """``workflow.patched(patch_id)`` was answered with true."""

    command = True
    compared = ("patch_id",)
    patch_id: str
    deprecated: bool | None = None


@record
class SearchAttributesUpserted(Event):
    """The code set search attributes: a document, in which null takes one away."""

    command = True
    attributes: dict[str, Any]


@record
class MemoUpserted(Event):
    """The code set memo fields."""

    command = True
    memo: Payload


@record
class ParentClosePolicyApplied(Event):
    """The run's parent ended, and this is what its policy did here."""

    policy: str
    parent_run_id: str
