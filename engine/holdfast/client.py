"""The client: starts workflows and looks at them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, NoReturn, Self, TypeVar, TypeVarTuple, Unpack, overload

from holdfast.describe import workers
from holdfast.handle import WorkflowHandle
from holdfast.hub import Hub
from holdfast.listing import Filters, Listing, run_filter
from holdfast.sending import signal_event
from holdfast.starting import Started, StartRun, check_memo, first_run
from holdfast.views import WorkerSummary, WorkflowDescription
from holdfast_store import listings
from holdfast_store.rows import RunRow
from holdfast_store.runs import started_event
from holdfast_store.urls import DatabaseUrl
from holdfast_workflow.converter import DataConverter
from holdfast_workflow.definitions import definition_of
from holdfast_workflow.environment import Environment
from holdfast_workflow.errors import InvalidOptionError
from holdfast_workflow.events import SignalReceived, WorkflowStarted
from holdfast_workflow.handlers import SignalCall
from holdfast_workflow.limits import StructuralLimits
from holdfast_workflow.options import StartOptions, validate_name, validate_task_queue, validate_workflow_id

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DEFAULT_QUEUE = "default"
_DEFAULTS = StartOptions()


class Client:
    """A process's way to one database. Make it with :meth:`connect`; close it, or use it as a context manager."""

    def __init__(self, url: str, hub: Hub, converter: DataConverter, limits: StructuralLimits) -> None:
        self.url = url
        self.hub = hub
        self.converter = converter
        self.limits = limits
        self._closed = False

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        converter: DataConverter | None = None,
        limits: StructuralLimits | None = None,
        environment: Environment | None = None,
    ) -> Connecting:
        """Connect to a database: ``await Client.connect(url)`` or ``async with Client.connect(url) as client``.

        A SQLite file is made and migrated where needed; PostgreSQL is migrated by ``holdfast migrate``.

        Args:
            url: ``sqlite:///file.db``, ``sqlite://`` (in memory, for tests) or ``postgresql://user@host/name``.
            converter: How arguments and results become JSON.
            limits: The structural limits that starts are checked against.
            environment: Another clock, other ids: for tests.

        Raises:
            InvalidUrlError: The URL can't be used.
            StoreUnreachableError: No database answers.
            SchemaMissingError: PostgreSQL, and it has no Holdfast tables; also SchemaTooOldError, SchemaTooNewError.
            StoreReadOnlyError: It can't be written.
        """
        return Connecting(url, converter or DataConverter(), limits or StructuralLimits(), environment)

    async def close(self) -> None:
        """Commit what has been handed over, and close; the last client of a database closes its connections."""
        if not self._closed:
            self._closed = True
            await self.hub.leave()

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
        options = _start_options(options)
        run, started, result_type = self._prepare(workflow, args, id, task_queue, options, result_type)
        ending = self.hub.ending(run.run_id)
        value = await self._submit(run, started, options)
        if not value.created:
            ending = self.hub.ending(value.run_id)
        return WorkflowHandle(
            self.hub,
            self.converter,
            run.workflow_id,
            value.run_id,
            result_type,
            ending,
            limits=self.limits,
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
        ending = self.hub.ending(value.run_id)
        return WorkflowHandle(
            self.hub,
            self.converter,
            run.workflow_id,
            value.run_id,
            result_type,
            ending,
            limits=self.limits,
        )

    def _prepare(
        self,
        workflow: Any,
        args: tuple[Any, ...],
        id: str | None,
        task_queue: str,
        options: StartOptions,
        result_type: Any,
    ) -> tuple[RunRow, WorkflowStarted, Any]:
        """The rows of a start; everything that can be wrong with it is found here."""
        environment = self.hub.environment
        if isinstance(workflow, str):
            name, signature = validate_name("workflow", workflow), None
        else:
            definition = definition_of(workflow)
            name, signature = definition.name, definition.signature
            signature.check(args, name)
            result_type = signature.result_hint
        workflow_id = validate_workflow_id(id) if id is not None else environment.ids.next()
        if task_queue != DEFAULT_QUEUE:
            validate_task_queue(task_queue)
        payload = self.converter.encode_args(args, signature, name)
        self.limits.check("payload_bytes", len(payload.json), whose=workflow_id)
        memo = self.converter.encode(options.memo, "the memo") if options.memo else None
        check_memo(memo, self.limits.memo_bytes)
        run = first_run(
            run_id=environment.ids.next(),
            workflow_id=workflow_id,
            workflow_type=name,
            task_queue=task_queue,
            options=options,
            memo=memo,
            now=environment.clock.now(),
            owner_id=None,
        )
        return run, started_event(run, input=payload, seed=environment.random.getrandbits(52)), result_type

    async def _submit(
        self,
        run: RunRow,
        started: WorkflowStarted,
        options: StartOptions,
        signal: SignalReceived | None = None,
    ) -> Started:
        change = StartRun(run, started, options.duplicate_policy, signal=signal)
        change.most_signals = self.limits.unhandled_signals
        owner = self._eager_owner(run, options)
        if owner is None:
            return await self.hub.journal.apply(change)
        run.owner_id = owner.worker_id
        run.fence = 1
        future: asyncio.Future[Started] = self.hub.loop.create_future()

        def done(value: Started | None, error: BaseException | None) -> None:
            if future.done():
                return
            if value is not None:
                future.set_result(value)
            else:
                future.set_exception(error or AssertionError("a start without an outcome"))

        owner.start(change, done)
        return await future

    def _eager_owner(self, run: RunRow, options: StartOptions) -> Any:
        """A worker of this process that can take the first activation at once."""
        if options.start_delay_us:
            return None
        for owner in self.hub.workers:
            if owner.serves(run.workflow_type, run.task_queue):
                return owner
        return None

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
        return WorkflowHandle(
            self.hub,
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

    async def describe(self, workflow_id: str, run_id: str | None = None) -> WorkflowDescription:
        """What a workflow is doing: its current run, or the run of ``run_id``, as one state of the database.

        Raises:
            WorkflowNotFoundError: There is no such workflow; RunNotFoundError: it has no such run.
        """
        return await self.handle(workflow_id, run_id=run_id).describe()

    def list(self, *, page_size: int = 100, **filters: Unpack[Filters]) -> Listing:
        """Runs, newest first: ``async for run in client.list(status="failed")``, or ``await client.list().page()``.

        All filters that are given must match.

        Args:
            page_size: How many runs are read at a time, 1 to 1000.
            status: A status or several: pending, running, completed, failed, timed_out, cancelled, terminated,
                continued_as_new.
            workflow_type: The workflow's name.
            task_queue: Its task queue.
            workflow_id: Its id: all runs of it.
            created_after: Created then or later; aware.
            created_before: Created earlier.
            closed_after: Closed then or later.
            closed_before: Closed earlier.
            deadline_before: Open, and the nearer of its two deadlines is earlier.
            attention: Only runs that need a person; ``describe`` says why.
            overdue: Only runs of which a deadline or a timer has passed and nobody enforced it.
            open: Only open runs, or (``False``) only closed ones.

        Raises:
            InvalidOptionError: A filter that can't be; the message says what can.
        """
        return Listing(self.hub, run_filter(**filters), page_size)

    async def count(self, **filters: Unpack[Filters]) -> int:
        """How many runs match; the filters are those of :meth:`list`.

        Raises:
            InvalidOptionError: A filter that can't be; the message says what can.
        """
        return await self.hub.read(listings.count, run_filter(**filters), self.hub.environment.clock.now())

    async def workers(self) -> Sequence[WorkerSummary]:
        """The registered workers, oldest first: what each serves and how much it holds."""
        return await workers(self.hub)


def _start_options(options: object) -> StartOptions:
    if options is None:
        return _DEFAULTS
    if not isinstance(options, StartOptions):
        raise InvalidOptionError(
            f"options must be StartOptions, not {type(options).__name__}", field="options"
        )
    return options


class Connecting:
    """What :meth:`Client.connect` returns: await it, or enter it."""

    def __init__(
        self, url: str, converter: DataConverter, limits: StructuralLimits, environment: Environment | None
    ) -> None:
        self._url = url
        self._converter = converter
        self._limits = limits
        self._environment = environment
        self._client: Client | None = None

    async def _connect(self) -> Client:
        hub = await Hub.open(DatabaseUrl.parse(self._url), self._environment)
        return Client(self._url, hub, self._converter, self._limits)

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
