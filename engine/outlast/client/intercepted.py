"""A client and its handles with interceptors around what they do.

Which twin a program gets is chosen when it connects: a client without interceptors knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from outlast.client.encoded_calls import query_request_of, signal_event, update_request
from outlast.client.handle import WorkflowHandle
from outlast.client.interceptors import (
    CancelWorkflow,
    ClientInterceptor,
    DescribeWorkflow,
    QueryWorkflow,
    SignalWorkflow,
    StartWorkflow,
    TerminateWorkflow,
    UpdateWorkflow,
)
from outlast.client.query_routing import DEFAULT_TIMEOUT_S
from outlast.client.update_handle import UpdateHandle, WaitFor, check_stage
from outlast.visibility.views import WorkflowDescription
from outlast_runs.signals import SendSignal
from outlast_runs.start import start_options
from outlast_workflow.data.headers import checked_headers
from outlast_workflow.declare.handlers import QueryCall, SignalCall, UpdateCall, call_of
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.history.events import SignalReceived
from outlast_workflow.options.options import StartOptions, timeout_seconds
from outlast_workflow.primitives.interceptor_chain import Chain

T = TypeVar("T")

Interceptors = Sequence[ClientInterceptor]


def _around(interceptors: Interceptors, method: str, last: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda call: Chain(interceptors, ClientInterceptor).call(method, call, last)


class InterceptedHandle(WorkflowHandle[T]):
    """A handle with interceptors around what it is asked for."""

    _interceptors: Interceptors = ()

    async def signal(  # type: ignore[override]  # it says less of its arguments
        self, signal: Any, *args: Any, request_id: str | None = None
    ) -> None:
        """As the plain one."""
        asked = call_of(SignalCall, signal, args)

        async def last(call: SignalWorkflow) -> None:
            event = signal_event(
                SignalCall(call.name, call.args, asked.signature),
                (),
                call.request_id,
                converter=self._converter,
                limits=self._limits,
                whose=self.workflow_id,
            )
            event.headers = checked_headers(call.headers)
            await self._ask(lambda run_id: SendSignal(self.workflow_id, run_id, event, self._limits))

        call = SignalWorkflow(self.workflow_id, self.run_id, asked.name, asked.args, request_id)
        await _around(self._interceptors, "signal_workflow", last)(call)

    async def _update(
        self, update: Any, args: tuple[Any, ...], id: str | None, result_type: Any, timeout: float | None
    ) -> UpdateHandle[Any]:
        if timeout is not None:
            timeout_seconds("timeout", timeout)
        asked = call_of(UpdateCall, update, args)

        async def last(call: UpdateWorkflow) -> UpdateHandle[Any]:
            request, hint = update_request(
                UpdateCall(call.name, call.args, asked.signature, asked.result_hint),
                (),
                call.id,
                converter=self._converter,
                limits=self._limits,
                whose=self.workflow_id,
            )
            request = replace(request, headers=checked_headers(call.headers))
            return await self._send_update(request, hint if result_type is None else result_type)

        update_id = id if id is not None else self.runtime.environment.ids.next()
        call = UpdateWorkflow(self.workflow_id, self.run_id, asked.name, asked.args, update_id)
        made: UpdateHandle[Any] = await _around(self._interceptors, "update_workflow", last)(call)
        return made

    async def query(  # type: ignore[override]  # as above
        self, query: Any, *args: Any, timeout: float = DEFAULT_TIMEOUT_S, result_type: Any = None
    ) -> Any:
        """As the plain one."""
        timeout = timeout_seconds("timeout", timeout)
        asked = call_of(QueryCall, query, args)

        def last(call: QueryWorkflow) -> Coroutine[Any, Any, Any]:
            question, hint = query_request_of(
                QueryCall(call.name, call.args, asked.signature, asked.result_hint),
                (),
                converter=self._converter,
                limits=self._limits,
                whose=self.workflow_id,
            )
            question = replace(question, headers=checked_headers(call.headers))
            return self._query(question, hint if result_type is None else result_type, timeout)

        call = QueryWorkflow(self.workflow_id, self.run_id, asked.name, asked.args)
        return await _around(self._interceptors, "query_workflow", last)(call)

    async def cancel(self, reason: str | None = None) -> None:
        """As the plain one."""

        def last(call: CancelWorkflow) -> Coroutine[Any, Any, None]:
            return super(InterceptedHandle, self).cancel(call.reason)

        call = CancelWorkflow(self.workflow_id, self.run_id, reason)
        await _around(self._interceptors, "cancel_workflow", last)(call)

    async def terminate(self, reason: str | None = None) -> None:
        """As the plain one."""

        def last(call: TerminateWorkflow) -> Coroutine[Any, Any, None]:
            return super(InterceptedHandle, self).terminate(call.reason)

        call = TerminateWorkflow(self.workflow_id, self.run_id, reason)
        await _around(self._interceptors, "terminate_workflow", last)(call)

    async def describe(self) -> WorkflowDescription:
        """As the plain one."""

        def last(call: DescribeWorkflow) -> Coroutine[Any, Any, WorkflowDescription]:
            return super(InterceptedHandle, self).describe()

        call = DescribeWorkflow(self.workflow_id, self.run_id)
        description: WorkflowDescription = await _around(self._interceptors, "describe_workflow", last)(call)
        return description


def handles_of(interceptors: Interceptors) -> type[InterceptedHandle[Any]]:
    """The class of a client's handles: whatever makes another of the kind has the interceptors too."""
    return type("InterceptedHandle", (InterceptedHandle,), {"_interceptors": tuple(interceptors)})


class InterceptedStarts:
    """What a client with interceptors does in another way; to be put before the plain client's class."""

    async def start(self: Any, workflow: Any, *args: Any, result_type: Any = None, **given: Any) -> Any:
        """As the plain one."""
        options = start_options(given.pop("options", None))
        return await self._start_intercepted(workflow, args, result_type, options, None, None, **given)

    async def signal_with_start(
        self: Any,
        workflow: Any,
        *args: Any,
        signal: Any,
        signal_args: Sequence[Any] = (),
        request_id: str | None = None,
        result_type: Any = None,
        **given: Any,
    ) -> Any:
        """As the plain one."""
        options = start_options(given.pop("options", None))
        call: Any = call_of(SignalCall, signal, tuple(signal_args))
        return await self._start_intercepted(workflow, args, result_type, options, call, request_id, **given)

    async def update_with_start(
        self: Any,
        workflow: Any,
        *args: Any,
        update: Any,
        update_args: Sequence[Any] = (),
        update_id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
        id: str,
        task_queue: str = "default",
        options: StartOptions | None = None,
        result_type: Any = None,
    ) -> Any:
        """As the plain one."""
        check_stage(wait_for)
        asked: Any = call_of(UpdateCall, update, tuple(update_args))
        made: UpdateHandle[Any] | None = None

        async def last(call: StartWorkflow) -> Any:
            nonlocal made
            headers = checked_headers(call.headers)
            asked_of, started = await self._update_with_start(
                call.workflow, call.args, call.id, call.task_queue, call.options, call.update, update_id, result_type,
                headers,
            )  # fmt: skip
            made = asked_of
            return self.handle(asked_of.workflow_id, run_id=started.run_id)

        call = StartWorkflow(workflow, args, id, task_queue, start_options(options), update=asked)
        await _around(self.interceptors, "start_workflow", last)(call)
        if made is None:
            raise InvalidOptionError(
                "an interceptor's start_workflow did not call next, and an update that is not asked has no answer",
                field="interceptors",
            )
        await made.reach(wait_for, timeout)
        return made

    async def _start_intercepted(
        self: Any,
        workflow: Any,
        args: tuple[Any, ...],
        result_type: Any,
        options: StartOptions,
        signal: SignalCall | None,
        request_id: str | None,
        *,
        id: str | None = None,
        task_queue: str = "default",
    ) -> Any:
        last = partial(self._start_last, result_type, request_id)
        call = StartWorkflow(workflow, args, id, task_queue, options, signal)
        return await _around(self.interceptors, "start_workflow", last)(call)

    async def _start_last(self: Any, result_type: Any, request_id: str | None, call: StartWorkflow) -> Any:
        run, started, result_type = self._prepare(
            call.workflow, call.args, call.id, call.task_queue, call.options, result_type
        )
        started.headers = headers = checked_headers(call.headers)
        event: SignalReceived | None = None
        if call.signal is not None:
            event = signal_event(
                call.signal,
                (),
                request_id,
                converter=self.converter,
                limits=self.limits,
                whose=run.workflow_id,
            )
            event.headers = headers
        ending = self.runtime.ending(run.run_id)
        value = await self._submit(run, started, call.options, event)
        if not value.created:
            ending = self.runtime.ending(value.run_id)
        return self.handles(
            self.runtime,
            self.converter,
            run.workflow_id,
            value.run_id,
            result_type,
            ending,
            limits=self.limits,
            existed=not value.created,
        )
