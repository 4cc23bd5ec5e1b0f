"""A handle: one workflow, as code outside it waits for it, messages it and observes it.

Each verb has one body. A client's interceptors, if it has any, are called around that body.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, Never, TypeVar, TypeVarTuple, overload

from outlast.client.encoded_calls import StoredHeaders, query_request, signal_event, update_request
from outlast.client.intercepted_calls import (
    CancelWorkflow,
    QueryWorkflow,
    SetStartDelay,
    SignalWorkflow,
    TerminateWorkflow,
    UpdateWorkflow,
)
from outlast.client.query_routing import DEFAULT_TIMEOUT_S, query_run, value_of
from outlast.client.run_reader import RunReader
from outlast.client.run_rows import final_row, row_of
from outlast.client.update_handle import UpdateHandle, WaitFor, check_stage
from outlast.histories.reset import reset
from outlast_runs import run_change
from outlast_runs.run_change import RequestCancellation, TerminateRun
from outlast_runs.signals import SendSignal
from outlast_runs.updates import SendUpdate
from outlast_store.journal.batch import Change
from outlast_store.transitions.run_ends import Ended
from outlast_workflow.data.headers import checked_headers
from outlast_workflow.declare.handlers import QueryCall, SignalCall, UpdateCall, call_of
from outlast_workflow.errors import InvalidOptionError, WorkflowAlreadyBegunError, WorkflowClosedError
from outlast_workflow.options.options import timeout_seconds
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import Seconds, duration_seconds, validate_reason
from outlast_workflow.primitives.lazy_names import names_of_class
from outlast_workflow.primitives.times import from_datetime, microseconds

T = TypeVar("T")
R = TypeVar("R")
X = TypeVar("X")
Ts = TypeVarTuple("Ts")


class WorkflowHandle(RunReader[T]):
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
        self, signal: Callable[[*Ts], SignalCall], *args: *Ts, request_id: str | None = None
    ) -> None: ...

    @overload
    async def signal(self, signal: SignalCall, *, request_id: str | None = None) -> None: ...

    @overload
    async def signal(self, signal: str, *args: Any, request_id: str | None = None) -> None: ...

    async def signal(  # type: ignore[misc]  # mypy does not see that `*args: Any` takes any `*Ts`
        self,
        signal: Any,
        *args: Any,
        request_id: str | None = None,
        **unknown: Any,
    ) -> None:
        """Send a signal. When this returns, the signal is durable; signals are handled in their order of arrival.

        Args:
            signal: ``Order.approve``, ``Order.approve("ada")``, or a signal's name.
            *args: The signal's arguments.
            request_id: A key of your own. Signals with the same key reach the workflow once, however often you retry.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            WorkflowClosedError: It has ended already.
            StructuralLimitError: Too many signals are waiting already; this one was refused.
            InvalidOptionError: The signal or the key cannot be one.
            PayloadEncodeError: An argument has no JSON form.
        """
        if unknown:
            refuse_unknown("signal", unknown, ("request_id",))
        asked = call_of(SignalCall, signal, args)
        interceptors = self._context.interceptors
        if not interceptors:
            await self._send_signal(asked, request_id, None)
            return

        async def innermost(call: SignalWorkflow) -> None:
            changed = SignalCall(call.name, call.args, asked.signature)
            await self._send_signal(changed, call.request_id, checked_headers(call.headers))

        call = SignalWorkflow(self.workflow_id, self.run_id, asked.name, asked.args, request_id)
        await interceptors.call("signal_workflow", call, innermost)

    def _send_signal(
        self, signal: SignalCall, request_id: str | None, headers: StoredHeaders
    ) -> Coroutine[Any, Any, None]:
        context = self._context
        event = signal_event(context, signal, request_id, headers, self.workflow_id)
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

    async def cancel(self, reason: str | None = None, **unknown: Never) -> None:
        """Ask the workflow to cancel: its code gets ``asyncio.CancelledError``, and decides.

        Args:
            reason: Why, for the history.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            InvalidOptionError: The reason is not text that can be stored.
            WorkflowClosedError: It has ended already.
            WorkflowNotFoundError: There is no such workflow.
        """
        if unknown:
            refuse_unknown("cancel", unknown, ("reason",))
        interceptors = self._context.interceptors
        if not interceptors:
            await self._send_cancel(reason)
            return
        call = CancelWorkflow(self.workflow_id, self.run_id, reason)
        await interceptors.call("cancel_workflow", call, lambda call: self._send_cancel(call.reason))

    async def _send_cancel(self, reason: str | None) -> None:
        reason = validate_reason(reason)
        await self._send(lambda run_id: RequestCancellation(self.workflow_id, run_id, reason))

    async def terminate(self, reason: str | None = None, **unknown: Never) -> None:
        """End the workflow at once, without running its code.

        Args:
            reason: Why, for the history.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            InvalidOptionError: The reason is not text that can be stored.
            WorkflowClosedError: It has ended already.
            WorkflowNotFoundError: There is no such workflow.
        """
        if unknown:
            refuse_unknown("terminate", unknown, ("reason",))
        interceptors = self._context.interceptors
        if not interceptors:
            await self._send_terminate(reason)
            return
        call = TerminateWorkflow(self.workflow_id, self.run_id, reason)
        await interceptors.call("terminate_workflow", call, lambda call: self._send_terminate(call.reason))

    async def _send_terminate(self, reason: str | None) -> None:
        reason = validate_reason(reason)
        await self._send(lambda run_id: TerminateRun(self.workflow_id, run_id, reason))

    async def set_start_delay(
        self, delay: Seconds | None = None, *, until: datetime | None = None, **unknown: Never
    ) -> None:
        """Move the start of the workflow while it has not begun: later or sooner, delayed or in line, queue or none.

        A workflow in line leaves it, keeps its priority and joins the line anew. One that may begin already stays as it
        is where the new start is now. A signal, an update or a cancel request ends the new delay like any other.

        Args:
            delay: Seconds from now, or a timedelta; 0 for at once. Give this or ``until``.
            until: When it may begin: a datetime with a time zone. One that has passed means at once.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            InvalidOptionError: Not exactly one is given, it cannot be used, or the start would come at or after the
                execution deadline, or after the year 9999. Nothing was written.
            WorkflowAlreadyBegunError: It has begun, is about to, or has ended.
            WorkflowNotFoundError: There is no such workflow.
        """
        if unknown:
            refuse_unknown("set_start_delay", unknown, ("delay", "until"))
        interceptors = self._context.interceptors
        if not interceptors:
            await self._send_start_delay(delay, until)
            return
        call = SetStartDelay(self.workflow_id, self.run_id, delay, until)
        await interceptors.call(
            "set_start_delay", call, lambda call: self._send_start_delay(call.delay, call.until)
        )

    async def _send_start_delay(self, delay: Seconds | None, until: datetime | None) -> None:
        wait, begin = start_of(delay, until)
        try:
            await self._send(
                lambda run_id: run_change.SetStartDelay(self.workflow_id, run_id, delay=wait, until=begin)
            )
        except WorkflowClosedError as error:
            raise WorkflowAlreadyBegunError(
                error.workflow_id, run_id=error.run_id, status=error.status
            ) from None

    async def reset(
        self,
        to: str | int = "last-workflow-task",
        *,
        reason: str | None = None,
        execution_timeout: Seconds | None = None,
        signals: bool = True,
    ) -> WorkflowHandle[T]:
        """Start a new run from a point of the history; an open run ends in the same transaction. See ``docs/reset.md``.

        Args:
            to: The last event to keep: its number, ``first-workflow-task``, ``last-workflow-task`` (the code makes its
                last decisions again) or ``last-successful`` (the activity or child that failed last is repeated).
            reason: Why, for the history.
            execution_timeout: A new one, in seconds from now; without it, the chain's execution deadline is kept.
            signals: Whether the signals after the point are kept. ``False`` drops them, for a signal that the code
                cannot handle.

        Returns:
            A handle to the new run.

        Raises:
            InvalidOptionError: An option cannot be used.
            ResetRefusedError: The workflow cannot be reset, or not to that point; another point may work.
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
        """
        pinned = self.run_id if self._pinned else None
        run_id = await reset(
            self._context.runtime, self.workflow_id, pinned, to, reason, execution_timeout, signals
        )
        return WorkflowHandle(self._context, self.workflow_id, run_id, self._result_type)

    async def _send(self, change: Callable[[str], Change[Ended | X]]) -> X:
        run_id = await self.resolve()
        while True:
            try:
                outcome = await self._context.runtime.journal.apply(change(run_id))
            except WorkflowClosedError:
                # The id may have been started anew in the meantime.
                if self.run_id is None and (now := await self.resolve()) != run_id:
                    run_id = now
                    continue
                raise
            if not isinstance(outcome, Ended):
                return outcome
            if outcome.next_run_id is None:
                raise WorkflowClosedError(self.workflow_id, run_id=run_id, status=outcome.status)
            run_id = outcome.next_run_id

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
            if not self._pinned and run.is_open:
                # What was sent before the query may have made the run continue as new: then the next run is asked.
                now = await row_of(runtime, workflow_id, run.run_id)
                if now.next_run_id is not None:
                    continue
            return value_of(result, run, request.name, self._context.converter, hint)


def start_of(delay: Seconds | None, until: datetime | None) -> tuple[int | None, int | None]:
    """Return a new start delay or a new start, in microseconds: exactly one of them is given.

    Args:
        delay: Seconds or a timedelta.
        until: A datetime with a time zone.

    Raises:
        InvalidOptionError: Both or neither are given, or it cannot be used.
    """
    if (delay is None) == (until is None):
        raise InvalidOptionError("delay or until is needed, and only one of the two", field="delay")
    if delay is not None:
        return microseconds(duration_seconds("delay", delay)), None
    if not isinstance(until, datetime):
        raise InvalidOptionError(f"until must be a datetime, not {type(until).__name__}", field="until")
    try:
        return None, from_datetime(until)
    except ValueError as error:
        raise InvalidOptionError(f"until: {error}", field="until") from None
