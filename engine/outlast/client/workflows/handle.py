"""A handle: one workflow, as code outside it waits for it, messages it and observes it.

Each verb has one body. A client's interceptors, if it has any, are called around that body.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, overload

from outlast.client.intercepted_calls import (
    QueryWorkflow,
    SignalWorkflow,
    UpdateWorkflow,
)
from outlast.client.workflows.control import RunControl
from outlast.client.workflows.encoded_calls import StoredHeaders, query_request, signal_event, update_request
from outlast.client.workflows.query_routing import DEFAULT_TIMEOUT_S, query_run, value_of
from outlast.client.workflows.run_rows import final_row, row_of
from outlast.client.workflows.update_handle import UpdateHandle, WaitFor, check_stage
from outlast_runs.signals import SendSignal
from outlast_runs.updates import SendUpdate
from outlast_workflow.data.headers import checked_headers
from outlast_workflow.declare.handlers import QueryCall, SignalCall, UpdateCall, call_of
from outlast_workflow.options.options import timeout_seconds
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.primitives.lazy_names import names_of_class

if TYPE_CHECKING:
    from outlast.client.user_connection import UserConnection

T = TypeVar("T")
R = TypeVar("R")
X = TypeVar("X")
Ts = TypeVarTuple("Ts")


class WorkflowHandle(RunControl[T]):
    """One workflow: wait for it, message it, observe it, stop it.

    Attributes:
        workflow_id: The workflow id.
        run_id: The run that the handle is about; ``None`` for the current run at the time of each call.
        existed: Whether the start that returned the handle found the workflow there already.
    """

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("WorkflowHandle")

    # --- requests ---------------------------------------------------------------------------------------------------

    @overload
    async def signal(
        self,
        signal: Callable[[*Ts], SignalCall],
        *args: *Ts,
        request_id: str | None = None,
        connection: UserConnection | None = None,
    ) -> None: ...

    @overload
    async def signal(
        self, signal: SignalCall, *, request_id: str | None = None, connection: UserConnection | None = None
    ) -> None: ...

    @overload
    async def signal(
        self,
        signal: str,
        *args: Any,
        request_id: str | None = None,
        connection: UserConnection | None = None,
    ) -> None: ...

    async def signal(  # type: ignore[misc]  # mypy does not see that `*args: Any` takes any `*Ts`
        self,
        signal: Any,
        *args: Any,
        request_id: str | None = None,
        connection: UserConnection | None = None,
        **unknown: Any,
    ) -> None:
        """Send a signal. When this returns, the signal is durable; signals are handled in their order of arrival.

        Args:
            signal: ``Order.approve``, ``Order.approve("ada")``, or a signal's name.
            *args: The signal's arguments.
            request_id: A key of your own. Signals with the same key reach the workflow once, however often you retry.
            connection: A connection or session of yours, on the engine's database: the signal is sent if and only if
                its transaction commits. See ``docs/outbox.md``.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            WorkflowClosedError: It has ended already.
            StructuralLimitError: Too many signals are waiting already; this one was refused.
            InvalidOptionError: The signal or the key cannot be one.
            PayloadEncodeError: An argument has no JSON form.
        """
        if unknown:
            refuse_unknown("signal", unknown, ("request_id", "connection"))
        asked = call_of(SignalCall, signal, args)
        interceptors = self._context.interceptors
        if not interceptors:
            await self._send_signal(asked, request_id, None, connection)
            return

        async def innermost(call: SignalWorkflow) -> None:
            changed = SignalCall(call.name, call.args, asked.signature)
            await self._send_signal(changed, call.request_id, checked_headers(call.headers), connection)

        call = SignalWorkflow(self.workflow_id, self.run_id, asked.name, asked.args, request_id)
        await interceptors.call("signal_workflow", call, innermost)

    def _send_signal(
        self, signal: SignalCall, request_id: str | None, headers: StoredHeaders, connection: object
    ) -> Coroutine[Any, Any, None]:
        context = self._context
        event = signal_event(context, signal, request_id, headers, self.workflow_id)
        if connection is not None:
            from outlast.outbox.writing import write_signal

            return write_signal(context.runtime, connection, self.workflow_id, self._run_in_outbox, event)
        return self._send(lambda run_id: SendSignal(self.workflow_id, run_id, event, context.limits))

    @overload
    async def execute_update(
        self,
        update: Callable[[*Ts], UpdateCall[R]],
        *args: *Ts,
        id: str | None = None,
        timeout: float | None = None,
    ) -> R: ...

    @overload
    async def execute_update(
        self, update: UpdateCall[R], *, id: str | None = None, timeout: float | None = None
    ) -> R: ...

    @overload
    async def execute_update(
        self,
        update: str,
        *args: Any,
        id: str | None = None,
        timeout: float | None = None,
        result_type: type[R],
    ) -> R: ...

    @overload
    async def execute_update(
        self, update: str, *args: Any, id: str | None = None, timeout: float | None = None
    ) -> Any: ...

    async def execute_update(  # type: ignore[misc]  # as above
        self,
        update: Any,
        *args: Any,
        id: str | None = None,
        timeout: float | None = None,
        result_type: Any = None,
        **unknown: Any,
    ) -> Any:
        """Send the workflow an update, and wait for its result.

        Args:
            update: ``Order.set_price``, ``Order.set_price(5)``, or an update's name.
            *args: The update's arguments.
            id: A key of your own: updates with the same id happen once in the chain. A UUIDv7 by default.
            timeout: Seconds to wait for the result; without limit if ``None``. The update itself continues.
            result_type: How to read the result of an update that is given by name.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            UpdateRejectedError: Its validator refused it, or there is no such update; nothing is in the history.
            UpdateFailedError: It was accepted, and then its handler raised or the run ended.
            WorkflowClosedError: The workflow ended before it accepted the update.
            WorkflowNotFoundError: There is no such workflow.
            StructuralLimitError: Too many updates are open already; this one was refused.
            RequestTimeoutError: There was no result in time.
        """
        if unknown:
            refuse_unknown("execute_update", unknown, ("id", "timeout", "result_type"))
        made = await self._update(update, args, id, result_type, timeout)
        return await made.result(timeout)

    @overload
    async def start_update(
        self,
        update: Callable[[*Ts], UpdateCall[R]],
        *args: *Ts,
        id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
    ) -> UpdateHandle[R]: ...

    @overload
    async def start_update(
        self,
        update: UpdateCall[R],
        *,
        id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
    ) -> UpdateHandle[R]: ...

    @overload
    async def start_update(
        self,
        update: str,
        *args: Any,
        id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
        result_type: type[R],
    ) -> UpdateHandle[R]: ...

    @overload
    async def start_update(
        self,
        update: str,
        *args: Any,
        id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
    ) -> UpdateHandle[Any]: ...

    async def start_update(  # type: ignore[misc]  # as above
        self,
        update: Any,
        *args: Any,
        id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
        result_type: Any = None,
        **unknown: Any,
    ) -> UpdateHandle[Any]:
        """Send the workflow an update, and wait until it is accepted; the returned handle has the result.

        Args:
            update: As for :meth:`execute_update`.
            *args: The update's arguments.
            id: As for :meth:`execute_update`.
            wait_for: ``accepted``: the update is in the history and will be handled; ``completed``: it was handled.
            timeout: Seconds to wait for that stage; without limit if ``None``.
            result_type: As for :meth:`execute_update`.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            RequestError: As for :meth:`execute_update`. What the handler raises comes from the returned handle.
        """
        if unknown:
            refuse_unknown("start_update", unknown, ("id", "wait_for", "timeout", "result_type"))
        check_stage(wait_for)
        made = await self._update(update, args, id, result_type, timeout)
        await made.reach(wait_for, timeout)
        return made

    async def _update(
        self, update: Any, args: tuple[Any, ...], id: str | None, result_type: Any, timeout: float | None
    ) -> UpdateHandle[Any]:
        if timeout is not None:
            timeout_seconds("timeout", timeout)
        asked = call_of(UpdateCall, update, args)
        hint = asked.result_hint if result_type is None else result_type
        update_id = id if id is not None else self._context.runtime.environment.ids.next()
        interceptors = self._context.interceptors
        if not interceptors:
            return await self._send_update(asked, update_id, None, hint)

        async def innermost(call: UpdateWorkflow) -> UpdateHandle[Any]:
            changed: UpdateCall[Any] = UpdateCall(call.name, call.args, asked.signature)
            return await self._send_update(changed, call.id, checked_headers(call.headers), hint)

        call = UpdateWorkflow(self.workflow_id, self.run_id, asked.name, asked.args, update_id)
        return await interceptors.call("update_workflow", call, innermost)

    async def _send_update(
        self, update: UpdateCall[Any], update_id: str, headers: StoredHeaders, hint: Any
    ) -> UpdateHandle[Any]:
        request = update_request(self._context, update, update_id, headers, self.workflow_id)
        subscription = self._context.runtime.request_waits.subscribe("update", request.update_id)
        row = await self._send(lambda run_id: SendUpdate(self.workflow_id, run_id, request))
        return UpdateHandle(self._context, self.workflow_id, row, subscription, hint)

    # --- queries ----------------------------------------------------------------------------------------------------

    @overload
    async def query(
        self, query: Callable[[*Ts], QueryCall[R]], *args: *Ts, timeout: float = DEFAULT_TIMEOUT_S
    ) -> R: ...

    @overload
    async def query(self, query: QueryCall[R], *, timeout: float = DEFAULT_TIMEOUT_S) -> R: ...

    @overload
    async def query(
        self, query: str, *args: Any, timeout: float = DEFAULT_TIMEOUT_S, result_type: type[R]
    ) -> R: ...

    @overload
    async def query(self, query: str, *args: Any, timeout: float = DEFAULT_TIMEOUT_S) -> Any: ...

    async def query(  # type: ignore[misc]  # as above
        self,
        query: Any,
        *args: Any,
        timeout: float = DEFAULT_TIMEOUT_S,
        result_type: Any = None,
        **unknown: Any,
    ) -> Any:
        """Query the workflow, open or closed, without changing it.

        Messages that were sent before are handled first, unless the run makes no progress. The query ``__stack_trace``
        returns where the code waits, ``__handlers`` which signals, queries and updates it handles.

        Args:
            query: ``Order.status``, ``Order.status()``, or a query's name.
            *args: The query's arguments.
            timeout: Seconds to wait for the result.
            result_type: How to read the result of a query that is given by name.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            UnknownHandlerError: It has no such query.
            QueryFailedError: The query raised, or the run's code could not be replayed; ``__cause__`` says why.
            NoWorkerError: No live worker has the workflow's code and serves its task queue.
            RequestTimeoutError: There was no result in time.
        """
        if unknown:
            refuse_unknown("query", unknown, ("timeout", "result_type"))
        timeout = timeout_seconds("timeout", timeout)
        asked = call_of(QueryCall, query, args)
        hint = asked.result_hint if result_type is None else result_type
        interceptors = self._context.interceptors
        if not interceptors:
            return await self._ask_query(asked, None, hint, timeout)

        async def innermost(call: QueryWorkflow) -> Any:
            changed: QueryCall[Any] = QueryCall(call.name, call.args, asked.signature)
            return await self._ask_query(changed, checked_headers(call.headers), hint, timeout)

        call = QueryWorkflow(self.workflow_id, self.run_id, asked.name, asked.args)
        return await interceptors.call("query_workflow", call, innermost)

    async def _ask_query(
        self, query: QueryCall[Any], headers: StoredHeaders, hint: Any, timeout_s: float
    ) -> Any:
        runtime, workflow_id = self._context.runtime, self.workflow_id
        request = query_request(self._context, query, headers, workflow_id)
        while True:
            run = await (self._row() if self._pinned else final_row(runtime, workflow_id, self.run_id))
            result = await query_run(runtime, run, request, timeout_s)
            if not self._pinned and run.is_open and not runtime.is_owned_here(run.run_id):
                # What was sent before the query may have made the run continue as new: then the next run is asked.
                # An owner in this process would know.
                now = await row_of(runtime, workflow_id, run.run_id)
                if now.next_run_id is not None:
                    continue
            return value_of(result, run, request.name, self._context.converter, hint)
