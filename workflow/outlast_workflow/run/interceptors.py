"""Interceptors of workflow code: what may be put around a run, its handlers, and what its code asks for.

::

    a run, a signal, an update, a query ──▶ first interceptor ──▶ second ──▶ the workflow's code
    an activity, a child, a signal, …   ◀── the command ◀── second ◀── first interceptor ◀── the workflow's code

Each method gets the call, which it may change, and ``next``, which it calls with it. The code of an interceptor is
workflow code: it must be deterministic, and replay runs it too (:func:`outlast.workflow.in_replay` tells).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.run.activity_calls import ActivityFuture
from outlast_workflow.run.child_calls import ChildWorkflowHandle
from outlast_workflow.run.external_signals import ExternalSignalFuture

C = TypeVar("C")
R = TypeVar("R")


# --- what comes in ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class RunWorkflow:
    """A run's code is entered; ``headers`` are those that it was started with."""

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
class HandleUpdate:
    """An update is handled; its validator has passed it."""

    name: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class HandleQuery:
    """A query is answered. It may only look, and so may what stands around it."""

    name: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


# --- what goes out ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class StartActivity:
    """The code calls an activity; ``options`` are those of the declaration with those of the call over them."""

    activity_type: str
    args: tuple[Any, ...]
    options: ActivityOptions
    local: bool
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class StartChild:
    """The code starts a child; ``workflow_id`` is ``None`` where it gave none."""

    workflow_type: str
    args: tuple[Any, ...]
    workflow_id: str | None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class SignalExternal:
    """The code signals another workflow, which may be a child of its own."""

    workflow_id: str
    name: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ContinueAsNewCall:
    """The code ends this run by starting the next one; ``headers`` are this run's until somebody changes them."""

    workflow_type: str
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


class WorkflowInterceptor:
    """The part of an interceptor that stands around workflow code: override what you want to see.

    One object serves all runs of a worker: what it must remember of a run belongs into a context variable, set in
    :meth:`run_workflow`.
    """

    async def run_workflow(
        self, call: RunWorkflow, next: Callable[[RunWorkflow], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Around a run's code, from its first step to its end."""
        return await next(call)

    async def handle_signal(
        self, call: HandleSignal, next: Callable[[HandleSignal], Coroutine[Any, Any, None]]
    ) -> None:
        """Around the handler of a signal."""
        await next(call)

    async def handle_update(
        self, call: HandleUpdate, next: Callable[[HandleUpdate], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Around the handler of an update."""
        return await next(call)

    def handle_query(self, call: HandleQuery, next: Callable[[HandleQuery], Any]) -> Any:
        """Around the answer to a query."""
        return next(call)

    def start_activity(
        self, call: StartActivity, next: Callable[[StartActivity], ActivityFuture[Any]]
    ) -> ActivityFuture[Any]:
        """When the code calls an activity."""
        return next(call)

    def start_child(
        self, call: StartChild, next: Callable[[StartChild], ChildWorkflowHandle[Any]]
    ) -> ChildWorkflowHandle[Any]:
        """When the code starts a child."""
        return next(call)

    def signal_external(
        self, call: SignalExternal, next: Callable[[SignalExternal], ExternalSignalFuture]
    ) -> ExternalSignalFuture:
        """When the code signals another workflow."""
        return next(call)

    def continue_as_new(self, call: ContinueAsNewCall, next: Callable[[ContinueAsNewCall], None]) -> None:
        """When the run ends by starting the next one."""
        next(call)


def chained(
    interceptors: Sequence[object], base: type[Any], method: str, last: Callable[[C], R]
) -> Callable[[C], R]:
    """One function out of the interceptors that override ``method`` of ``base``, the first outermost, and ``last``."""
    for interceptor in reversed(interceptors):
        if getattr(type(interceptor), method, None) not in (None, getattr(base, method)):
            last = partial(_link, getattr(interceptor, method), last)
    return last


def looking(interceptors: Sequence[Any], base: type[Any]) -> tuple[Any, ...]:
    """The interceptors that override anything of ``base``."""
    names = [name for name in vars(base) if not name.startswith("_")]
    return tuple(
        one
        for one in interceptors
        if any(getattr(type(one), name, None) not in (None, getattr(base, name)) for name in names)
    )


def _link(function: Callable[[C, Callable[[C], R]], R], next: Callable[[C], R], call: C) -> R:
    return function(call, next)
