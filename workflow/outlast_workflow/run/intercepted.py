"""Where interceptors of workflow code are put in: twins of the parts of a run that have them around.

Which twin a run gets is chosen when it is made, by its definition; a run without interceptors knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from outlast_workflow.data.headers import REQUEST_HEADERS, RUN_HEADERS, checked_headers
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.declare.handlers import Handler, HandlerSet
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.errors.control_flow import ContinueAsNew
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.loop.greenlets import in_greenlet
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.primitives.enums import CancellationType
from outlast_workflow.run.activity_calls import ActivityCalls, ActivityFuture
from outlast_workflow.run.child_calls import ChildCalls, ChildOptions, ChildWorkflowHandle
from outlast_workflow.run.external_signals import ExternalCalls, ExternalSignalFuture
from outlast_workflow.run.interceptors import (
    ContinueAsNewCall,
    HandleQuery,
    HandleSignal,
    HandleUpdate,
    RunWorkflow,
    SignalExternal,
    StartActivity,
    StartChild,
    WorkflowInterceptor,
    chained,
    looking,
)
from outlast_workflow.run.run_outcome import Outcomes

Interceptors = Sequence[WorkflowInterceptor]


# --- what comes in ----------------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True, eq=False)
class InterceptedDefinition(WorkflowDefinition):
    """A workflow with interceptors around its code and its handlers."""

    def enter(self, instance: object | None, args: tuple[Any, ...]) -> Coroutine[Any, Any, Any]:
        """The coroutine of a run on its instance."""

        def last(call: RunWorkflow) -> Coroutine[Any, Any, Any]:
            return WorkflowDefinition.enter(self, instance, call.args)

        call = RunWorkflow(self.name, args, dict(RUN_HEADERS.get() or {}))
        coroutine: Coroutine[Any, Any, Any] = _around(self.interceptors, "run_workflow", last)(call)
        return coroutine


def intercepted(definition: WorkflowDefinition, interceptors: Interceptors) -> WorkflowDefinition:
    """A workflow's definition with interceptors around it; the same one where none of them looks at workflows."""
    interceptors = looking(interceptors, WorkflowInterceptor)
    if not interceptors:
        return definition
    values = {one.name: getattr(definition, one.name) for one in fields(WorkflowDefinition)}
    values["handlers"] = _handlers(definition, interceptors)
    values["interceptors"] = tuple(interceptors)
    return InterceptedDefinition(**values)


def _handlers(definition: WorkflowDefinition, interceptors: Interceptors) -> HandlerSet:
    handlers = definition.handlers
    around = {"signal": _signal, "query": _query, "update": _update}

    def wrapped(known: dict[str, Handler]) -> dict[str, Handler]:
        return {name: around[one.kind](definition, one, interceptors) for name, one in known.items()}

    return HandlerSet(
        wrapped(handlers.signals),
        wrapped(handlers.queries),
        wrapped(handlers.updates),
        wrapped(handlers.dynamic),
    )


def _named(handler: Handler, args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """What a handler is called with: a dynamic one is told the name and a list."""
    return (handler.name, args) if handler.name is not None else (args[0], tuple(args[1]))


def _given(handler: Handler, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args if handler.name is not None else (name, list(args))


async def _handled(
    definition: WorkflowDefinition, handler: Handler, instance: object, name: str, args: tuple[Any, ...]
) -> Any:
    """Call a handler; a plain one may block where the run method may."""
    given = _given(handler, name, args)
    if handler.is_async:
        return await handler.fn(instance, *given)
    if definition.is_async:
        return handler.fn(instance, *given)
    return await in_greenlet(handler.fn, instance, *given)


def _signal(definition: WorkflowDefinition, handler: Handler, interceptors: Interceptors) -> Handler:
    async def fn(instance: object, *args: Any) -> None:
        def last(call: HandleSignal) -> Coroutine[Any, Any, Any]:
            return _handled(definition, handler, instance, call.name, call.args)

        name, given = _named(handler, args)
        call = HandleSignal(name, given, dict(REQUEST_HEADERS.get() or {}))
        await _around(interceptors, "handle_signal", last)(call)

    return replace(handler, fn=fn, is_async=True)


def _update(definition: WorkflowDefinition, handler: Handler, interceptors: Interceptors) -> Handler:
    async def fn(instance: object, *args: Any) -> Any:
        def last(call: HandleUpdate) -> Coroutine[Any, Any, Any]:
            return _handled(definition, handler, instance, call.name, call.args)

        name, given = _named(handler, args)
        call = HandleUpdate(name, given, dict(REQUEST_HEADERS.get() or {}))
        return await _around(interceptors, "handle_update", last)(call)

    return replace(handler, fn=fn, is_async=True)


def _query(definition: WorkflowDefinition, handler: Handler, interceptors: Interceptors) -> Handler:
    def fn(instance: object, *args: Any) -> Any:
        name, given = _named(handler, args)
        return _around(
            interceptors, "handle_query", lambda c: handler.fn(instance, *_given(handler, c.name, c.args))
        )(HandleQuery(name, given, dict(REQUEST_HEADERS.get() or {})))

    return replace(handler, fn=fn)


# --- what goes out ----------------------------------------------------------------------------------------------------


class InterceptedActivityCalls(ActivityCalls):
    """Activity calls with interceptors around them."""

    __slots__ = ("interceptors",)

    def __init__(self, interceptors: Interceptors, *given: Any) -> None:
        super().__init__(*given)
        self.interceptors = interceptors

    def schedule(
        self,
        activity_type: str,
        args: tuple[Any, ...],
        signature: CallSignature | None,
        options: ActivityOptions,
        result_hint: Any,
        local: bool | None = None,
    ) -> ActivityFuture[Any]:
        """As the plain one."""

        def last(call: StartActivity) -> ActivityFuture[Any]:
            schedule = super(InterceptedActivityCalls, self).schedule
            future = schedule(call.activity_type, call.args, signature, call.options, result_hint, local)
            _give_headers(self.log, future.index, call.headers)
            return future

        call = StartActivity(activity_type, args, options, bool(local))
        future: ActivityFuture[Any] = _around(self.interceptors, "start_activity", last)(call)
        return future


class InterceptedChildCalls(ChildCalls):
    """Children with interceptors around their start."""

    __slots__ = ("interceptors",)

    def __init__(self, interceptors: Interceptors, *given: Any) -> None:
        super().__init__(*given)
        self.interceptors = interceptors

    def schedule(
        self,
        workflow_type: str,
        args: tuple[Any, ...],
        signature: CallSignature | None,
        workflow_id: str | None,
        options: ChildOptions | None,
        result_hint: Any,
        cancellation: CancellationType,
    ) -> ChildWorkflowHandle[Any]:
        """As the plain one."""

        def last(call: StartChild) -> ChildWorkflowHandle[Any]:
            schedule = super(InterceptedChildCalls, self).schedule
            handle = schedule(
                call.workflow_type,
                call.args,
                signature,
                call.workflow_id,
                options,
                result_hint,
                cancellation,
            )
            _give_headers(self.log, handle.index, call.headers)
            return handle

        call = StartChild(workflow_type, args, workflow_id)
        handle: ChildWorkflowHandle[Any] = _around(self.interceptors, "start_child", last)(call)
        return handle


class InterceptedExternalCalls(ExternalCalls):
    """Signals to other workflows with interceptors around them."""

    __slots__ = ("interceptors",)

    def __init__(self, interceptors: Interceptors, *given: Any) -> None:
        super().__init__(*given)
        self.interceptors = interceptors

    def signal(
        self,
        workflow_id: str,
        run_id: str | None,
        name: str,
        args: tuple[Any, ...],
        signature: CallSignature | None,
    ) -> ExternalSignalFuture:
        """As the plain one."""

        def last(call: SignalExternal) -> ExternalSignalFuture:
            signal = super(InterceptedExternalCalls, self).signal
            future = signal(call.workflow_id, run_id, call.name, call.args, signature)
            _give_headers(self.log, future.index, call.headers)
            return future

        call = SignalExternal(workflow_id, name, args)
        future: ExternalSignalFuture = _around(self.interceptors, "signal_external", last)(call)
        return future


class InterceptedOutcomes(Outcomes):
    """The end of a run with interceptors around continue-as-new."""

    __slots__ = ("interceptors",)

    def __init__(self, interceptors: Interceptors, *given: Any) -> None:
        super().__init__(*given)
        self.interceptors = interceptors

    def continued(self, request: ContinueAsNew) -> Any:
        """As the plain one."""
        name = request.workflow_type or self.definition.name
        call = ContinueAsNewCall(name, request.arguments, dict(self.headers or {}))

        def last(call: ContinueAsNewCall) -> None:
            request.arguments = call.args
            self.headers = _checked(self.log, call.headers)

        _around(self.interceptors, "continue_as_new", last)(call)
        return super().continued(request)


def _around(interceptors: Interceptors, method: str, last: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return chained(interceptors, WorkflowInterceptor, method, last)


def _give_headers(log: CommandLog, index: int, headers: dict[str, str]) -> None:
    """Put headers into the command that was just asked for."""
    if headers and not (log.replaying or log.closed):
        command: Any = log.entries[index]
        command.headers = _checked(log, headers)


def _checked(log: CommandLog, headers: dict[str, str]) -> dict[str, Any] | None:
    if log.replaying:
        return None
    try:
        return checked_headers(headers)
    except InvalidOptionError as error:
        raise log.refuse(error) from None
