"""The calls that interceptors of workflow code see: what enters a run, and what its code asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outlast_workflow.options.activity import ActivityOptions

# --- what comes in ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class RunWorkflow:
    """A run's code is entered; ``headers`` are those that the run was started with."""

    workflow_type: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class HandleSignal:
    """A signal is handled."""

    name: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ReceiveMessage:
    """The code receives a message that it has asked for: :func:`outlast.workflow.receive`."""

    name: str
    message: Any
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class HandleUpdate:
    """An update is handled; its validator has accepted it."""

    name: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class HandleQuery:
    """A query is handled. Its handler must not change the run, and neither may an interceptor."""

    name: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


# --- what goes out ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class StartActivity:
    """The code calls an activity; ``options`` are those of the declaration, overridden by those of the call."""

    activity_type: str
    args: tuple[Any, ...]
    options: ActivityOptions
    local: bool
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class StartChild:
    """The code starts a child; ``workflow_id`` is ``None`` if the code gave none."""

    workflow_type: str
    args: tuple[Any, ...]
    workflow_id: str | None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class SignalExternal:
    """The code signals another workflow, perhaps its own child."""

    workflow_id: str
    name: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ContinueAsNewCall:
    """The code continues the run as new; ``headers`` are this run's unless an interceptor changes them."""

    workflow_type: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)
