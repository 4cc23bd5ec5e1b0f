"""Interceptors of workflow code: what may be put around a run, its handlers, and what its code asks for.

::

    a run, a signal, an update, a query ──▶ first interceptor ──▶ second ──▶ the workflow's code
    an activity, a child, a signal, …   ◀── the command ◀── second ◀── first interceptor ◀── the workflow's code

Each method gets the call, which it may change and passes to ``next``. The code of an interceptor is workflow code: it
must be deterministic, and replay runs it too (:func:`outlast.workflow.in_replay` tells).

The interceptors of a run are a :class:`~outlast_workflow.primitives.interceptor_chain.Chain` in its definition. Each
verb is called through it in one place: the run in the machine, handlers where their tasks run, commands where they are
numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any

from outlast_workflow.data.headers import Headers
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.primitives.interceptor_chain import Chain
from outlast_workflow.run.activity_calls import ActivityFuture
from outlast_workflow.run.child_calls import ChildWorkflowHandle
from outlast_workflow.run.external_signals import ExternalSignalFuture
from outlast_workflow.run.intercepted_calls import (
    ContinueAsNewCall,
    HandleQuery,
    HandleSignal,
    HandleUpdate,
    ReceiveMessage,
    RunWorkflow,
    SignalExternal,
    StartActivity,
    StartChild,
)


class WorkflowInterceptor:
    """The part of an interceptor that stands around workflow code: override the methods that you need.

    One object serves all runs of a worker. Keep what it must remember of a run in a context variable that is set in
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

    def receive_message(self, call: ReceiveMessage, next: Callable[[ReceiveMessage], Any]) -> Any:
        """Around a message that the code receives, in the context of the code; returns what it gets."""
        return next(call)

    async def handle_update(
        self, call: HandleUpdate, next: Callable[[HandleUpdate], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Around the handler of an update."""
        return await next(call)

    def handle_query(self, call: HandleQuery, next: Callable[[HandleQuery], Any]) -> Any:
        """Around the handler of a query."""
        return next(call)

    def start_activity(
        self, call: StartActivity, next: Callable[[StartActivity], ActivityFuture[Any]]
    ) -> ActivityFuture[Any]:
        """Around the call of an activity."""
        return next(call)

    def start_child(
        self, call: StartChild, next: Callable[[StartChild], ChildWorkflowHandle[Any]]
    ) -> ChildWorkflowHandle[Any]:
        """Around the start of a child."""
        return next(call)

    def signal_external(
        self, call: SignalExternal, next: Callable[[SignalExternal], ExternalSignalFuture]
    ) -> ExternalSignalFuture:
        """Around a signal to another workflow."""
        return next(call)

    def continue_as_new(self, call: ContinueAsNewCall, next: Callable[[ContinueAsNewCall], None]) -> None:
        """Around the end of a run that continues as new."""
        next(call)


def intercepted(
    definition: WorkflowDefinition, interceptors: Iterable[WorkflowInterceptor]
) -> WorkflowDefinition:
    """Return a workflow's definition with interceptors; the same one where none of them overrides anything.

    Args:
        definition: The workflow.
        interceptors: The interceptors, the outermost first.
    """
    chain = Chain(interceptors, WorkflowInterceptor)
    return replace(definition, interceptors=chain) if chain else definition


def enter_intercepted(
    definition: WorkflowDefinition,
    instance: object | None,
    arguments: tuple[Any, ...],
    headers: Headers | None,
) -> Coroutine[Any, Any, Any]:
    """Return the coroutine of a run's code with its interceptors around it.

    Args:
        definition: The workflow.
        instance: What its code runs on; ``None`` for a function.
        arguments: The run's input.
        headers: The headers that the run was started with.
    """
    call = RunWorkflow(definition.name, arguments, dict(headers or {}))
    return definition.interceptors.call(
        "run_workflow", call, lambda call: definition.enter(instance, call.args)
    )
