"""The client: starts workflows and looks at them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, Self, TypeVar, TypeVarTuple, Unpack, overload

from outlast.client.bulk import AT_ONCE, PAGE, Bulk
from outlast.client.encoded_calls import signal_event
from outlast.client.handle import WorkflowHandle
from outlast.client.intercepted import InterceptedStarts, handles_of
from outlast.client.interceptors import Interceptor, checked_interceptors
from outlast.client.listings import Surveys
from outlast.client.starts import DEFAULT_QUEUE as DEFAULT_QUEUE
from outlast.client.starts import Starter
from outlast.client.update_handle import UpdateHandle, WaitFor, check_stage
from outlast.histories.deletion import delete_workflow
from outlast.runtime.runtime import Runtime
from outlast.visibility.listing import Filters
from outlast.visibility.views import WorkflowDescription
from outlast_runs.start import start_options
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.handlers import SignalCall, UpdateCall, call_of
from outlast_workflow.environment import Environment
from outlast_workflow.errors import WorkflowClosedError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import StartOptions, validate_name, validate_workflow_id
from outlast_workflow.options.validation import Seconds

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Client(Surveys, Starter):
    """A process's way to one database. Make it with :meth:`connect`; close it, or use it as a context manager."""

    interceptors: Sequence[Interceptor] = ()
    handles: Callable[..., WorkflowHandle[Any]] = WorkflowHandle

    def __init__(
        self, url: str, runtime: Runtime, converter: DataConverter, limits: StructuralLimits
    ) -> None:
        super().__init__(runtime, converter, limits)
        self.url = url
        self._closed = False

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        converter: DataConverter | None = None,
        limits: StructuralLimits | None = None,
        environment: Environment | None = None,
        interceptors: Iterable[Interceptor] = (),
    ) -> Connecting:
        """Connect to a database: ``await Client.connect(url)`` or ``async with Client.connect(url) as client``.

        A SQLite file is made and migrated where needed; PostgreSQL is migrated by ``outlast migrate``.

        Args:
            url: ``sqlite:///file.db``, ``sqlite://`` (in memory, for tests) or ``postgresql://user@host/name``.
            converter: How arguments and results become JSON.
            limits: The structural limits that starts are checked against.
            environment: Another clock, other ids: for tests.
            interceptors: Stand around what this client does, and around what its workers run.

        Raises:
            InvalidUrlError: The URL can't be used.
            StoreUnreachableError: No database answers.
            SchemaMissingError: PostgreSQL, and it has no Outlast tables; also SchemaTooOldError, SchemaTooNewError.
            StoreReadOnlyError: It can't be written.
        """
        around = checked_interceptors(interceptors)
        return Connecting(
            url, converter or DataConverter(), limits or StructuralLimits(), environment, around
        )

    async def close(self) -> None:
        """Commit what has been handed over, and close; the last client of a database closes its connections."""
        if not self._closed:
            self._closed = True
            await self.runtime.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # --- starting ---------------------------------------------------------------------------------------------------

    @overload
    async def start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
    ) -> WorkflowHandle[T]: ...

    @overload
    async def start(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
        result_type: type[T],
    ) -> WorkflowHandle[T]: ...

    @overload
    async def start(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
    ) -> WorkflowHandle[Any]: ...

    async def start(  # type: ignore[misc]  # mypy does not see that `*args: Any` takes any `*Ts`
        self,
        workflow: Any,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
        result_type: Any = None,
    ) -> WorkflowHandle[Any]:
        """Start a workflow; when this returns, the start is durable.

        Args:
            workflow: ``Order.run``, a workflow function, or a workflow type's name.
            args: Its arguments.
            id: The workflow id; a UUIDv7 if not given.
            task_queue: The queue whose workers run it.
            options: Timeouts, retries, memo, delay, priority, and what to do if the id is taken.
            result_type: How to read the result of a workflow that is named by a string.

        Raises:
            InvalidOptionError: An id, queue or argument can't be used; nothing was written.
            WorkflowAlreadyStartedError: The id is taken; ``StartOptions.return_existing()`` gets its handle.
        """
        options = start_options(options)
        run, started, result_type = self._prepare(workflow, args, id, task_queue, options, result_type)
        ending = self.runtime.ending(run.run_id)
        value = await self._submit(run, started, options)
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

    @overload
    async def signal_with_start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        signal: SignalCall | str,
        signal_args: Sequence[Any] = (),
        request_id: str | None = None,
        id: str,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
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
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
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
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
        result_type: Any = None,
    ) -> WorkflowHandle[Any]:
        """Signal a workflow, and start it first where the id is not open: one change, so nothing comes between.

        The signal is handled before the first step of a run method that it starts; ``@workflow.init`` gives the
        instance its input before that.

        Args:
            workflow: As for :meth:`start`.
            args: The workflow's arguments.
            signal: ``Order.approve("ada")``, or a signal's name.
            signal_args: The arguments of a signal that is named.
            request_id: A key of your own: a signal with the same key reaches the workflow once.
            id: The workflow id.
            task_queue: As for :meth:`start`.
            options: As for :meth:`start`; the duplicate policy says what to do if the id is closed, and
                ``terminate_existing`` also what to do if it is open.
            result_type: As for :meth:`start`.

        Raises:
            InvalidOptionError: As for :meth:`start`.
            WorkflowAlreadyStartedError: The id is closed, and the policy is ``reject_duplicate``.
            StructuralLimitError: Too many signals wait already.
        """
        options = options if options is not None else StartOptions()
        run, started, result_type = self._prepare(workflow, args, id, task_queue, options, result_type)
        event = signal_event(
            signal,
            tuple(signal_args),
            request_id,
            converter=self.converter,
            limits=self.limits,
            whose=run.workflow_id,
        )
        value = await self._submit(run, started, options, event)
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
        task_queue: str = DEFAULT_QUEUE,
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
        task_queue: str = DEFAULT_QUEUE,
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
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
        result_type: Any = None,
    ) -> UpdateHandle[Any]:
        """Ask a workflow for an update, and start it first where the id is not open: one change, all or nothing.

        The update is handled before the first step of a run method that it starts; ``@workflow.init`` gives the
        instance its input before that. A workflow whose update is rejected is started all the same.

        Args:
            workflow: As for :meth:`start`.
            args: The workflow's arguments.
            update: ``Order.set_price(5)``, or an update's name.
            update_args: The arguments of an update that is named.
            update_id: A key of your own: asked again under it, the workflow gives the same answer, even when it has
                ended since.
            wait_for: ``accepted`` or ``completed``: what to wait for.
            timeout: Seconds to wait for that.
            id: The workflow id.
            task_queue: As for :meth:`start`.
            options: As for :meth:`signal_with_start`.
            result_type: How to read the answer of an update that is named.

        Raises:
            InvalidOptionError: As for :meth:`start`.
            WorkflowAlreadyStartedError: The id is closed, and the policy is ``reject_duplicate``.
            RequestError: As for :meth:`WorkflowHandle.start_update`.
        """
        check_stage(wait_for)
        asked: Any = call_of(UpdateCall, update, tuple(update_args))
        made, _ = await self._update_with_start(
            workflow, args, id, task_queue, start_options(options), asked, update_id, result_type, None
        )
        await made.reach(wait_for, timeout)
        return made

    @overload
    async def execute(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
    ) -> T: ...

    @overload
    async def execute(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
        result_type: type[T],
    ) -> T: ...

    @overload
    async def execute(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
    ) -> Any: ...

    async def execute(self, workflow: Any, *args: Any, **options: Any) -> Any:  # type: ignore[misc]  # as above
        """Start a workflow and wait for its result: :meth:`start` and :meth:`WorkflowHandle.result` in one."""
        handle: WorkflowHandle[Any] = await self.start(workflow, *args, **options)
        return await handle.result()

    # --- looking ----------------------------------------------------------------------------------------------------

    def handle(
        self, workflow_id: str, *, run_id: str | None = None, result_type: Any = None
    ) -> WorkflowHandle[Any]:
        """A handle to a workflow that was started earlier, be it there or not; asking it finds out."""
        validate_workflow_id(workflow_id)
        if run_id is not None:
            validate_name("run id", run_id)
        return self.handles(
            self.runtime,
            self.converter,
            workflow_id,
            run_id,
            result_type,
            pinned=run_id is not None,
            limits=self.limits,
        )

    @overload
    async def signal(
        self,
        workflow_id: str,
        signal: Callable[[*Ts], SignalCall],
        *args: *Ts,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None: ...

    @overload
    async def signal(
        self,
        workflow_id: str,
        signal: SignalCall,
        *,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None: ...

    @overload
    async def signal(
        self,
        workflow_id: str,
        signal: str,
        *args: Any,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None: ...

    async def signal(  # type: ignore[misc]  # as above
        self,
        workflow_id: str,
        signal: Any,
        *args: Any,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Send a signal to a workflow by its id: :meth:`handle` and :meth:`WorkflowHandle.signal` in one."""
        await self.handle(workflow_id, run_id=run_id).signal(signal, *args, request_id=request_id)

    async def reset(
        self,
        workflow_id: str,
        to: str | int = "last-workflow-task",
        *,
        run_id: str | None = None,
        reason: str | None = None,
        execution_timeout: Seconds | None = None,
        signals: bool = True,
    ) -> WorkflowHandle[Any]:
        """Take a workflow's history up again at a point: :meth:`handle` and :meth:`WorkflowHandle.reset` in one."""
        handle = self.handle(workflow_id, run_id=run_id)
        return await handle.reset(to, reason=reason, execution_timeout=execution_timeout, signals=signals)

    def bulk(self, *, cursor: str | None = None, at_once: int = AT_ONCE, **filters: Unpack[Filters]) -> Bulk:
        """What may be done to all that match: ``async for outcome in client.bulk(workflow_type="Order").cancel()``.

        A workflow is dealt with once, if the last run of its chain matches.

        Args:
            cursor: Where an earlier walk with the same filters is taken up: an outcome's ``cursor``.
            at_once: How many are dealt with at a time.
            **filters: As for :meth:`list`.

        Raises:
            InvalidOptionError: A filter that can't be; the message says what can.
        """
        filters["latest"] = True
        return Bulk(self.runtime, self.list(page_size=PAGE, **filters), self.handle, cursor, at_once)

    async def delete(self, workflow_id: str, *, terminate: bool = False, reason: str | None = None) -> int:
        """Delete a closed workflow: all of its runs, histories and requests, in small steps. Its id is free then.

        Args:
            workflow_id: Its id.
            terminate: Whether to terminate it first if it is open.
            reason: Why it is terminated.

        Returns:
            How many runs there were.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            DeleteRefusedError: It is open, or its children await their close policy; nothing was deleted.
        """
        handle = self.handle(workflow_id)
        if terminate:
            with suppress(WorkflowClosedError):
                await handle.terminate(reason)
        return await delete_workflow(self.runtime, workflow_id)

    async def describe(self, workflow_id: str, run_id: str | None = None) -> WorkflowDescription:
        """What a workflow is doing: its current run, or the run of ``run_id``, as one state of the database.

        Raises:
            WorkflowNotFoundError: There is no such workflow; RunNotFoundError: it has no such run.
        """
        return await self.handle(workflow_id, run_id=run_id).describe()

    async def export_history(self, workflow_id: str, run_id: str | None = None) -> dict[str, Any]:
        """A run and its history as one JSON document: the current run, or that of ``run_id``.

        Raises:
            WorkflowNotFoundError: There is no such workflow; RunNotFoundError: it has no such run.
        """
        return await self.handle(workflow_id, run_id=run_id).export_history()


class InterceptedClient(InterceptedStarts, Client):  # type: ignore[misc]  # it says less of its arguments
    """A client with interceptors around what it does."""


class Connecting:
    """What :meth:`Client.connect` returns: await it, or enter it."""

    def __init__(
        self,
        url: str,
        converter: DataConverter,
        limits: StructuralLimits,
        environment: Environment | None,
        interceptors: Sequence[Interceptor],
    ) -> None:
        self._interceptors = interceptors
        self._url = url
        self._converter = converter
        self._limits = limits
        self._environment = environment
        self._client: Client | None = None

    async def _connect(self) -> Client:
        runtime = await Runtime.open(DatabaseUrl.parse(self._url), self._environment)
        runtime.measure()
        if not self._interceptors:
            return Client(self._url, runtime, self._converter, self._limits)
        client = InterceptedClient(self._url, runtime, self._converter, self._limits)
        client.interceptors = self._interceptors
        client.handles = handles_of(self._interceptors)
        return client

    def __getattr__(self, name: str) -> NoReturn:
        # Only for what it lacks: a client that was not awaited is the first mistake that everybody makes.
        raise AttributeError(
            f"not connected, so there is no {name!r}: write `client = await Client.connect(…)`, or "
            "`async with Client.connect(…) as client`"
        )

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(self, *exc_info: object) -> None:
        if self._client is not None:
            await self._client.close()
