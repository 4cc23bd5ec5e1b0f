"""The client: one connection to a database, through which workflows are started, messaged and observed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, overload

from outlast.client.intercepted_calls import (
    StartWorkflow,
)
from outlast.client.operations import Operations
from outlast_workflow.declare.handlers import SignalCall, UpdateCall, call_of
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.ambient import start_options
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE, StartOptions
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.lazy_names import names_of_class

if TYPE_CHECKING:
    from outlast.client.user_connection import UserConnection
    from outlast.client.workflows.handle import WorkflowHandle
    from outlast.client.workflows.update_handle import UpdateHandle, WaitFor
    from outlast_workflow.options.validation import Seconds

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Client(Operations):
    """A connection to one database. Make it with :meth:`connect`; close it, or use it as a context manager.

    Attributes:
        url: The database's URL, as it was given.
        interceptors: The client's interceptors, the outermost first; those of its workers come after them.
        queues: The queues: define, update, pause, resume, describe, list and delete them.
    """

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("Client")

    @overload
    async def start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: UserConnection | None = None,
    ) -> WorkflowHandle[T]: ...

    @overload
    async def start(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: UserConnection | None = None,
        result_type: type[T],
    ) -> WorkflowHandle[T]: ...

    @overload
    async def start(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: UserConnection | None = None,
    ) -> WorkflowHandle[Any]: ...

    async def start(  # type: ignore[misc]  # mypy does not see that `*args: Any` takes any `*Ts`
        self,
        workflow: Any,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: UserConnection | None = None,
        result_type: Any = None,
        **unknown: Any,
    ) -> WorkflowHandle[Any]:
        """Start a workflow. When this returns, the start is durable.

        Args:
            workflow: ``Order.run``, a workflow function, or a workflow type's name.
            args: The workflow's arguments.
            id: The workflow id; a UUIDv7 if not given.
            task_queue: The task queue whose workers run it.
            options: Timeouts, retries, memo, search attributes, delay, priority, and what to do if the id is taken.
            connection: A connection or session of yours, on the engine's database: the workflow is started if and only
                if its transaction commits. The deadlines count from this call. See ``docs/outbox.md``.
            result_type: How to read the result of a workflow that is named by a string.
            **unknown: Options that there are not: the error says what is meant.

        The handle's ``existed`` says whether the workflow was there already.

        Raises:
            InvalidOptionError: An id, a task queue or an option cannot be used; nothing was written.
            PayloadEncodeError: An argument has no JSON form; nothing was written.
            DurableCallError: The arguments are not those of the workflow; nothing was written.
            StructuralLimitError: The arguments, the memo or the search attributes are too large; nothing was written.
            WorkflowAlreadyStartedError: The id is taken; ``StartOptions.return_existing()`` returns its handle.
            StoreError: The database did not take the start.
        """
        if unknown:
            refuse_unknown("start", unknown, ("id", "task_queue", "options", "connection", "result_type"))
        call = StartWorkflow(workflow, args, id, task_queue, start_options(options))
        return await self._starts.start(call, result_type, connection=connection)

    @overload
    async def debounce(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        key: str,
        period: Seconds,
        timeout: Seconds | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
    ) -> WorkflowHandle[T]: ...

    @overload
    async def debounce(
        self,
        workflow: str,
        *args: Any,
        key: str,
        period: Seconds,
        timeout: Seconds | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        result_type: type[T],
    ) -> WorkflowHandle[T]: ...

    @overload
    async def debounce(
        self,
        workflow: str,
        *args: Any,
        key: str,
        period: Seconds,
        timeout: Seconds | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
    ) -> WorkflowHandle[Any]: ...

    async def debounce(  # type: ignore[misc]  # as above
        self,
        workflow: Any,
        *args: Any,
        key: str,
        period: Seconds,
        timeout: Seconds | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        result_type: Any = None,
        **unknown: Any,
    ) -> WorkflowHandle[Any]:
        """Start a workflow once no further call of the same key has come for a period; the last call's input counts.

        The calls before it begins all return a handle to the same workflow. Its options are those of the first call.
        A call after it has begun starts another one.

        Args:
            workflow: As for :meth:`start`, as are ``args``, ``task_queue``, ``options`` and ``result_type``.
            *args: The input; that of the last call counts.
            key: Which calls of this workflow type go together, for example a user's id.
            period: How long no further call may come, in seconds or as a timedelta.
            timeout: When it begins at the latest, after the first call; without limit if ``None``.
            task_queue: Its task queue.
            options: Its options, without a start delay and a duplicate policy.
            result_type: How to read its result.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            InvalidOptionError: Something cannot be used, or there is no such option; nothing was written.
            DurableCallError: The workflow cannot be called with these arguments.
            QueueNotFoundError: Nobody has defined its queue.
            StructuralLimitError: An argument is too large, or the workflow has been given too many inputs.
        """
        if unknown:
            known = ("key", "period", "timeout", "task_queue", "options", "result_type")
            refuse_unknown("debounce", unknown, known)
        from outlast.client.workflows.burst import Burst

        burst = Burst.checked(key, period, timeout, options)
        given = start_options(options).replace(
            start_delay=burst.period, duplicate_policy=DuplicatePolicy.ALLOW_DUPLICATE
        )
        call = StartWorkflow(workflow, args, None, task_queue, given)
        return await self._starts.debounce(call, result_type, burst)

    @overload
    async def signal_with_start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        signal: SignalCall | str,
        signal_args: Sequence[Any] = (),
        request_id: str | None = None,
        id: str,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: UserConnection | None = None,
    ) -> WorkflowHandle[T]: ...

    @overload
    async def signal_with_start(
        self,
        workflow: str,
        *args: Any,
        signal: SignalCall | str,
        signal_args: Sequence[Any] = (),
        request_id: str | None = None,
        id: str,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: UserConnection | None = None,
        result_type: Any = None,
    ) -> WorkflowHandle[Any]: ...

    async def signal_with_start(  # type: ignore[misc]  # as above
        self,
        workflow: Any,
        *args: Any,
        signal: SignalCall | str,
        signal_args: Sequence[Any] = (),
        request_id: str | None = None,
        id: str,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: UserConnection | None = None,
        result_type: Any = None,
        **unknown: Any,
    ) -> WorkflowHandle[Any]:
        """Signal a workflow, and start it first if the id is not open. Both are one transaction.

        A run that this starts handles the signal before the first step of its run method; with ``@workflow.init`` its
        instance has the input by then.

        Args:
            workflow: As for :meth:`start`.
            args: The workflow's arguments.
            signal: ``Order.approve("ada")``, or a signal's name.
            signal_args: The arguments of a signal that is given by name.
            request_id: A key of your own. Signals with the same key reach the workflow once.
            id: The workflow id.
            task_queue: As for :meth:`start`.
            options: As for :meth:`start`; the duplicate policy is about a closed id, ``terminate_existing`` any id.
            connection: As for :meth:`start`.
            result_type: As for :meth:`start`.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            OutlastError: As for :meth:`start`.
            WorkflowAlreadyStartedError: The id is closed, and the duplicate policy refuses it.
            StructuralLimitError: Too many signals are waiting already.
        """
        if unknown:
            known = (
                "signal",
                "signal_args",
                "request_id",
                "id",
                "task_queue",
                "options",
                "connection",
                "result_type",
            )
            refuse_unknown("signal_with_start", unknown, known)
        sent: SignalCall = call_of(SignalCall, signal, tuple(signal_args))
        call = StartWorkflow(workflow, args, id, task_queue, start_options(options), sent)
        return await self._starts.start(call, result_type, request_id, connection=connection)

    @overload
    async def update_with_start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        update: UpdateCall[R],
        update_id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
        id: str,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
    ) -> UpdateHandle[R]: ...

    @overload
    async def update_with_start(
        self,
        workflow: str | Callable[..., Coroutine[Any, Any, Any]],
        *args: Any,
        update: str,
        update_args: Sequence[Any] = (),
        update_id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
        id: str,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        result_type: Any = None,
    ) -> UpdateHandle[Any]: ...

    async def update_with_start(  # type: ignore[misc]  # as above
        self,
        workflow: Any,
        *args: Any,
        update: UpdateCall[Any] | str,
        update_args: Sequence[Any] = (),
        update_id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
        id: str,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        result_type: Any = None,
        **unknown: Any,
    ) -> UpdateHandle[Any]:
        """Send a workflow an update, and start it first if the id is not open. Both are one transaction.

        A run that this starts handles the update as in :meth:`signal_with_start`, and starts even if it is rejected.

        Args:
            workflow: As for :meth:`start`.
            args: The workflow's arguments.
            update: ``Order.set_price(5)``, or an update's name.
            update_args: The arguments of an update that is given by name.
            update_id: A key of your own, a UUIDv7 by default. Updates with the same id have one result, for good.
            wait_for: The stage to wait for: ``accepted`` or ``completed``.
            timeout: Seconds to wait for that stage; without limit if ``None``.
            id: The workflow id.
            task_queue: As for :meth:`start`.
            options: As for :meth:`signal_with_start`.
            result_type: How to read the result of an update that is given by name.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            OutlastError: As for :meth:`start`.
            WorkflowAlreadyStartedError: The id is closed, and the duplicate policy refuses it.
            RequestError: As for :meth:`WorkflowHandle.start_update`.
        """
        if unknown:
            known = (
                "update",
                "update_args",
                "update_id",
                "wait_for",
                "timeout",
                "id",
                "task_queue",
                "options",
            )
            refuse_unknown("update_with_start", unknown, (*known, "result_type"))
        sent: UpdateCall[Any] = call_of(UpdateCall, update, tuple(update_args))
        call = StartWorkflow(workflow, args, id, task_queue, start_options(options), update=sent)
        return await self._starts.start_with_update(call, update_id, result_type, wait_for, timeout)

    @overload
    async def execute(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
    ) -> T: ...

    @overload
    async def execute(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        result_type: type[T],
    ) -> T: ...

    @overload
    async def execute(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
    ) -> Any: ...

    async def execute(self, workflow: Any, *args: Any, **options: Any) -> Any:  # type: ignore[misc]  # as above
        """Start a workflow and wait for its result: :meth:`start` and :meth:`WorkflowHandle.result` in one.

        Args:
            workflow: As for :meth:`start`.
            args: The workflow's arguments.
            options: The keyword arguments of :meth:`start`.

        Raises:
            OutlastError: As for :meth:`start` and :meth:`WorkflowHandle.result`.
        """
        if options.get("connection") is not None:
            raise InvalidOptionError(
                "execute waits for the result, and what is started in your transaction begins after its commit: "
                "give connection= to start, commit, and then wait for handle.result()",
                field="connection",
            )
        handle: WorkflowHandle[Any] = await self.start(workflow, *args, **options)
        return await handle.result()

    @overload
    async def signal(
        self,
        workflow_id: str,
        signal: Callable[[*Ts], SignalCall],
        *args: *Ts,
        run_id: str | None = None,
        request_id: str | None = None,
        connection: UserConnection | None = None,
    ) -> None: ...

    @overload
    async def signal(
        self,
        workflow_id: str,
        signal: SignalCall,
        *,
        run_id: str | None = None,
        request_id: str | None = None,
        connection: UserConnection | None = None,
    ) -> None: ...

    @overload
    async def signal(
        self,
        workflow_id: str,
        signal: str,
        *args: Any,
        run_id: str | None = None,
        request_id: str | None = None,
        connection: UserConnection | None = None,
    ) -> None: ...

    async def signal(  # type: ignore[misc]  # as above
        self,
        workflow_id: str,
        signal: Any,
        *args: Any,
        run_id: str | None = None,
        request_id: str | None = None,
        connection: UserConnection | None = None,
        **unknown: Any,
    ) -> None:
        """Send a signal to a workflow by its id: :meth:`handle` and :meth:`WorkflowHandle.signal` in one.

        Args:
            workflow_id: The workflow.
            signal: ``Order.approve``, ``Order.approve("ada")``, or a signal's name.
            args: The signal's arguments.
            run_id: One of the workflow's runs; the current run if not given.
            request_id: A key of your own. Signals with the same key reach the workflow once.
            connection: As for :meth:`WorkflowHandle.signal`.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            OutlastError: As for :meth:`WorkflowHandle.signal`.
        """
        handle = self.handle(workflow_id, run_id=run_id)
        await handle.signal(signal, *args, request_id=request_id, connection=connection, **unknown)
