"""The calls that interceptors of a client see, one for each verb."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.declare.handlers import SignalCall, UpdateCall
from outlast_workflow.options.options import StartOptions


@dataclass(slots=True)
class StartWorkflow:
    """A start. ``id`` is ``None`` where the caller leaves it to the engine; the handle knows it.

    With ``signal`` it is a start with a signal, with ``update`` one with an update; ``headers`` then go with both.
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
class UpdateWorkflow:
    """A workflow is asked for an update; its answer comes by the handle."""

    workflow_id: str
    run_id: str | None
    name: str
    args: tuple[Any, ...]
    id: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class QueryWorkflow:
    """A workflow is asked a query."""

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
    """A workflow is ended at once."""

    workflow_id: str
    run_id: str | None
    reason: str | None


@dataclass(slots=True)
class DescribeWorkflow:
    """A workflow is looked at."""

    workflow_id: str
    run_id: str | None
