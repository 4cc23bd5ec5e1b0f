"""The calls that interceptors of a client see, one for each verb."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from outlast.client.activity_ids import ActivityIds
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.declare.handlers import SignalCall, UpdateCall
from outlast_workflow.options.options import StartOptions
from outlast_workflow.options.validation import Seconds
from outlast_workflow.primitives.enums import Keep

if TYPE_CHECKING:
    from outlast.histories.fork import ForkOptions


@dataclass(slots=True)
class StartWorkflow:
    """A workflow is started.

    Attributes:
        id: The workflow id; ``None`` if the caller leaves it to the engine. The handle has it.
        signal: The signal of a start with a signal.
        headers: What travels with the start, and with its signal or update.
        update: The update of a start with an update.
    """

    workflow: Any
    args: tuple[Any, ...]
    id: str | None
    task_queue: str
    options: StartOptions
    signal: SignalCall | None = None
    headers: dict[str, str] = field(default_factory=dict)
    update: UpdateCall[Any] | None = None

    @property
    def workflow_type(self) -> str:
        """The workflow's type."""
        return self.workflow if isinstance(self.workflow, str) else definition_of(self.workflow).name


@dataclass(slots=True)
class SignalWorkflow:
    """A signal is sent."""

    workflow_id: str
    run_id: str | None
    name: str
    args: tuple[Any, ...]
    request_id: str | None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class SignalMany:
    """Signals are sent together, all of them or none; each has headers of its own."""

    signals: list[SignalWorkflow]
    to_forks: bool


@dataclass(slots=True)
class UpdateWorkflow:
    """A workflow is sent an update; the handle has its result."""

    workflow_id: str
    run_id: str | None
    name: str
    args: tuple[Any, ...]
    id: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class QueryWorkflow:
    """A workflow is queried."""

    workflow_id: str
    run_id: str | None
    name: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class CancelWorkflow:
    """A workflow is asked to cancel."""

    workflow_id: str
    run_id: str | None
    reason: str | None


@dataclass(slots=True)
class TerminateWorkflow:
    """A workflow is terminated."""

    workflow_id: str
    run_id: str | None
    reason: str | None


@dataclass(slots=True)
class SetStartDelay:
    """The start of a workflow that has not begun is moved, by ``delay`` or to ``until``."""

    workflow_id: str
    run_id: str | None
    delay: Seconds | None
    until: datetime | None


@dataclass(slots=True)
class ResumeWorkflow:
    """A workflow that has ended badly is taken up. ``queue`` is ``KEEP`` where it stays in the queue that it was in."""

    workflow_id: str
    run_id: str | None
    reason: str | None
    execution_timeout: Seconds | None
    queue: str | Keep | None
    signals: bool


@dataclass(slots=True)
class ForkWorkflow:
    """A workflow is forked. ``options`` are the keyword arguments of the fork."""

    workflow_id: str
    run_id: str | None
    to: str | int
    options: ForkOptions


@dataclass(slots=True)
class DescribeWorkflow:
    """A workflow is described."""

    workflow_id: str
    run_id: str | None


@dataclass(slots=True)
class CompleteActivity:
    """An activity is completed from outside. ``activity`` is a task token or ids, here and below."""

    activity: str | ActivityIds
    result: Any


@dataclass(slots=True)
class FailActivity:
    """An attempt of an activity is failed from outside."""

    activity: str | ActivityIds
    error: Exception | str


@dataclass(slots=True)
class CancelActivity:
    """The cancellation of an activity is acknowledged from outside."""

    activity: str | ActivityIds


@dataclass(slots=True)
class HeartbeatActivity:
    """An activity's heartbeat is sent from outside."""

    activity: str | ActivityIds
    details: tuple[Any, ...]
