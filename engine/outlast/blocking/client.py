"""The client for code without an event loop: ``from outlast.blocking import Client``.

It has the names, arguments and errors of :class:`outlast.Client`. Calls block instead of being awaited, and may come
from any number of threads. It is for Django views and scripts; code on an event loop uses the other one.

All blocking clients of a process share one background thread with one event loop, which starts with the first client
and ends with the last. Clients of one URL therefore share a journal, and what threads write at the same time is one
commit. A client does not survive ``fork``: in the child each call raises
:class:`~outlast.errors.ForkedConnectionError`, and a client that connects there has a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, TypeVarTuple, Unpack, overload

from outlast.blocking.alerts import BlockingAlerts
from outlast.blocking.bulk import BlockingBulk
from outlast.blocking.handles import BlockingHandle, BlockingListing, BlockingUpdateHandle
from outlast.blocking.lending import call_with_connection
from outlast.blocking.outbox import BlockingOutbox
from outlast.blocking.queues import BlockingQueues
from outlast.blocking.schedules import BlockingSchedules
from outlast.blocking.thread import Caller, ThreadCaller, refuse_on_a_loop
from outlast.client import client as asynchronous
from outlast.client.activity_ids import ActivityIds
from outlast.client.interceptors import Interceptor
from outlast.client.operations import BULK_AT_ONCE
from outlast.client.workflows.addressed_signals import SignalTo
from outlast.client.workflows.handle import WorkflowHandle
from outlast.client.workflows.update_handle import UpdateHandle, WaitFor
from outlast.histories.fork import ForkOptions
from outlast.histories.importer import Imported, Progress
from outlast.histories.reset import ResetOptions, ResumeOptions
from outlast.histories.source import Source
from outlast.visibility.filters import Filters
from outlast.visibility.upcoming import Upcoming
from outlast.visibility.views import WorkerSummary, WorkflowDescription
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.handlers import SignalCall, UpdateCall
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import StartOptions
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE
from outlast_workflow.options.validation import Seconds
from outlast_workflow.primitives.enums import UpcomingKind
from outlast_workflow.primitives.lazy_names import names_of_class

if TYPE_CHECKING:
    from outlast.client.user_connection import LentConnection

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Client:
    """A connection to one database, for code without an event loop. Use it as a context manager, or close it.

    Each method does and raises what the method of the same name of :class:`outlast.Client` does. In addition each
    raises :class:`BlockedLoopError` if it is called on an event loop.
    """

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("Client")

    def __init__(self, client: asynchronous.Client, caller: Caller) -> None:
        self._client = client
        self._caller = caller
        self.queues = BlockingQueues(client.queues, caller)
        self._closing = threading.Lock()
        self._closed = False

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        converter: DataConverter | None = None,
        limits: StructuralLimits | None = None,
        interceptors: Iterable[Interceptor] = (),
        **unknown: Never,
    ) -> Self:
        """Connect to a database: ``client = Client.connect(url)`` or ``with Client.connect(url) as client``.

        Args:
            url: As for :meth:`outlast.Client.connect`, as are the other arguments and the errors.
            converter: How arguments and results become JSON.
            limits: The structural limits that starts and messages are checked against.
            interceptors: What stands around this client's calls, the outermost first.
            **unknown: Options that there are not: the error says what is meant.
        """
        refuse_on_a_loop()
        caller = ThreadCaller()

        async def connect() -> asynchronous.Client:
            return await asynchronous.Client.connect(
                url, converter=converter, limits=limits, interceptors=interceptors, **unknown
            )

        try:
            return cls(caller.call(connect), caller)
        except BaseException:
            caller.leave()
            raise

    def close(self) -> None:
        """Commit what has been handed over, and close. Calls of other threads must have returned by then.

        In a forked child this does nothing: the connection is the parent's.
        """
        if self._caller.forked:
            return
        with self._closing:
            if self._closed:
                return
            self._caller.call(self._client.close)
            self._closed = True
            self._caller.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # --- starting ---------------------------------------------------------------------------------------------------

    @overload
    def start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: LentConnection | None = None,
    ) -> BlockingHandle[T]: ...

    @overload
    def start(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: LentConnection | None = None,
        result_type: type[T],
    ) -> BlockingHandle[T]: ...

    @overload
    def start(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: LentConnection | None = None,
    ) -> BlockingHandle[Any]: ...

    # mypy cannot match a TypeVarTuple with *args: Any, as in the asynchronous client.
    def start(  # type: ignore[misc]
        self, workflow: Any, *args: Any, **options: Any
    ) -> BlockingHandle[Any]:
        """Start a workflow. When this returns, the start is durable, or part of the ``connection``'s transaction."""
        handle: WorkflowHandle[Any] = call_with_connection(
            self._caller, options, lambda given: self._client.start(workflow, *args, **given)
        )
        return BlockingHandle(handle, self._caller)

    @overload
    def debounce(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        key: str,
        period: Seconds,
        timeout: Seconds | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
    ) -> BlockingHandle[T]: ...

    @overload
    def debounce(
        self, workflow: str, *args: Any, key: str, period: Seconds, result_type: type[T], **options: Any
    ) -> BlockingHandle[T]: ...

    @overload
    def debounce(
        self, workflow: str, *args: Any, key: str, period: Seconds, **options: Any
    ) -> BlockingHandle[Any]: ...

    def debounce(self, workflow: Any, *args: Any, **options: Any) -> BlockingHandle[Any]:  # type: ignore[misc]
        """Start a workflow once no further call of the same key has come for a period."""
        return BlockingHandle(
            self._caller.call(lambda: self._client.debounce(workflow, *args, **options)), self._caller
        )

    @overload
    def execute(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
    ) -> T: ...

    @overload
    def execute(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        result_type: type[T],
    ) -> T: ...

    @overload
    def execute(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
    ) -> Any: ...

    def execute(self, workflow: Any, *args: Any, **options: Any) -> Any:  # type: ignore[misc]  # as above
        """Start a workflow and wait for its result."""
        return self._caller.call(lambda: self._client.execute(workflow, *args, **options))

    @property
    def alerts(self) -> BlockingAlerts:
        """The alerts that were fired."""
        return BlockingAlerts(self._client.alerts, self._caller)

    @property
    def outbox(self) -> BlockingOutbox:
        """The outbox of the database."""
        return BlockingOutbox(self._client.outbox, self._caller)

    @property
    def schedules(self) -> BlockingSchedules:
        """The schedules of the database."""
        return BlockingSchedules(self._client.schedules, self._caller)

    # --- signals and updates ----------------------------------------------------------------------------------------

    @overload
    def signal_with_start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        signal: SignalCall | str,
        signal_args: Sequence[Any] = (),
        request_id: str | None = None,
        id: str,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: LentConnection | None = None,
    ) -> BlockingHandle[T]: ...

    @overload
    def signal_with_start(
        self,
        workflow: str,
        *args: Any,
        signal: SignalCall | str,
        signal_args: Sequence[Any] = (),
        request_id: str | None = None,
        id: str,
        task_queue: str = DEFAULT_TASK_QUEUE,
        options: StartOptions | None = None,
        connection: LentConnection | None = None,
        result_type: Any = None,
    ) -> BlockingHandle[Any]: ...

    def signal_with_start(  # type: ignore[misc]  # as above
        self, workflow: Any, *args: Any, **options: Any
    ) -> BlockingHandle[Any]:
        """Signal a workflow, and start it first if the id is not open."""
        handle: WorkflowHandle[Any] = call_with_connection(
            self._caller, options, lambda given: self._client.signal_with_start(workflow, *args, **given)
        )
        return BlockingHandle(handle, self._caller)

    @overload
    def update_with_start(
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
    ) -> BlockingUpdateHandle[R]: ...

    @overload
    def update_with_start(
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
    ) -> BlockingUpdateHandle[Any]: ...

    def update_with_start(  # type: ignore[misc]  # as above
        self, workflow: Any, *args: Any, **options: Any
    ) -> BlockingUpdateHandle[Any]:
        """Send a workflow an update, and start it first if the id is not open."""
        made: UpdateHandle[Any] = self._caller.call(
            lambda: self._client.update_with_start(workflow, *args, **options)
        )
        return BlockingUpdateHandle(made, self._caller)

    @overload
    def signal(
        self,
        workflow_id: str,
        signal: Callable[[*Ts], SignalCall],
        *args: *Ts,
        run_id: str | None = None,
        request_id: str | None = None,
        connection: LentConnection | None = None,
    ) -> None: ...

    @overload
    def signal(
        self,
        workflow_id: str,
        signal: SignalCall,
        *,
        run_id: str | None = None,
        request_id: str | None = None,
        connection: LentConnection | None = None,
    ) -> None: ...

    @overload
    def signal(
        self,
        workflow_id: str,
        signal: str,
        *args: Any,
        run_id: str | None = None,
        request_id: str | None = None,
        connection: LentConnection | None = None,
    ) -> None: ...

    def signal(self, workflow_id: str, signal: Any, *args: Any, **options: Any) -> None:  # type: ignore[misc]  # as above
        """Send a signal to a workflow by its id."""
        call_with_connection(
            self._caller, options, lambda given: self._client.signal(workflow_id, signal, *args, **given)
        )

    def signal_many(
        self,
        signals: Iterable[SignalTo],
        *,
        to_forks: bool = False,
        connection: LentConnection | None = None,
    ) -> Sequence[str]:
        """Send signals to several workflows in one transaction: all of them, or none.

        Args:
            signals: The signals.
            to_forks: Whether the forks of those workflows get them too.
            connection: As for :meth:`signal`; see :meth:`outlast.Client.signal_many`.
        """
        options: dict[str, Any] = {"to_forks": to_forks, "connection": connection}
        return call_with_connection(
            self._caller, options, lambda given: self._client.signal_many(signals, **given)
        )

    # --- observing --------------------------------------------------------------------------------------------------

    def handle(
        self,
        workflow_id: str,
        *,
        run_id: str | None = None,
        result_type: Any = None,
        **unknown: Never,
    ) -> BlockingHandle[Any]:
        """Return a handle to a workflow that was started earlier; only using it tells whether it exists."""
        handle = self._client.handle(workflow_id, run_id=run_id, result_type=result_type, **unknown)
        return BlockingHandle(handle, self._caller)

    def reset(
        self,
        workflow_id: str,
        to: str | int = "last-workflow-task",
        *,
        run_id: str | None = None,
        **options: Unpack[ResetOptions],
    ) -> BlockingHandle[Any]:
        """Start a new run from a point of a workflow's history."""
        return self.handle(workflow_id, run_id=run_id).reset(to, **options)

    def fork(
        self,
        workflow_id: str,
        to: str | int = "last-workflow-task",
        *,
        run_id: str | None = None,
        **options: Unpack[ForkOptions],
    ) -> BlockingHandle[Any]:
        """Start another workflow with the history of one up to a point."""
        return self.handle(workflow_id, run_id=run_id).fork(to, **options)

    def resume(
        self, workflow_id: str, *, run_id: str | None = None, **options: Unpack[ResumeOptions]
    ) -> BlockingHandle[Any]:
        """Take up a workflow that was cancelled or terminated, that timed out or failed."""
        return self.handle(workflow_id, run_id=run_id).resume(**options)

    def bulk(
        self, *, cursor: str | None = None, at_once: int = BULK_AT_ONCE, **filters: Unpack[Filters]
    ) -> BlockingBulk:
        """Return what can be done to all that match: ``for outcome in client.bulk(status="running").cancel()``."""
        return BlockingBulk(self._client.bulk(cursor=cursor, at_once=at_once, **filters), self._caller)

    def delete(
        self,
        workflow_id: str,
        *,
        terminate: bool = False,
        children: bool = False,
        reason: str | None = None,
    ) -> int:
        """Delete a closed workflow, alone or with its children, and return how many runs were deleted."""
        return self._caller.call(
            lambda: self._client.delete(workflow_id, terminate=terminate, children=children, reason=reason)
        )

    def describe(self, workflow_id: str, run_id: str | None = None) -> WorkflowDescription:
        """Describe a workflow's current run, or one of its runs."""
        return self._caller.call(lambda: self._client.describe(workflow_id, run_id))

    def list(
        self, *, page_size: int = 100, order: str = "newest", **filters: Unpack[Filters]
    ) -> BlockingListing:
        """List runs, newest first: iterate over them, or read them page by page."""
        return BlockingListing(self._client.list(page_size=page_size, order=order, **filters), self._caller)

    def count(self, **filters: Unpack[Filters]) -> int:
        """Return how many runs match."""
        return self._caller.call(lambda: self._client.count(**filters))

    def upcoming(
        self,
        limit: int = 50,
        *,
        within: Seconds | None = None,
        kinds: Iterable[UpcomingKind | str] | None = None,
        workflow_type: str | None = None,
        task_queue: str | None = None,
        cursor: str | None = None,
    ) -> Upcoming:
        """Return what fires when: the next deadlines, timers, alerts and schedules of the whole database."""
        return self._caller.call(
            lambda: self._client.upcoming(
                limit,
                within=within,
                kinds=kinds,
                workflow_type=workflow_type,
                task_queue=task_queue,
                cursor=cursor,
            )
        )

    # --- activities -------------------------------------------------------------------------------------------------

    def complete_activity(self, activity: str | ActivityIds, result: Any = None) -> None:
        """Complete an activity from outside."""
        self._caller.call(lambda: self._client.complete_activity(activity, result))

    def fail_activity(
        self, activity: str | ActivityIds, error: Exception | str = "failed from outside"
    ) -> None:
        """Fail an attempt of an activity from outside; its retry policy decides what follows."""
        self._caller.call(lambda: self._client.fail_activity(activity, error))

    def cancel_activity(self, activity: str | ActivityIds) -> None:
        """Acknowledge from outside that an activity was cancelled."""
        self._caller.call(lambda: self._client.cancel_activity(activity))

    def heartbeat_activity(self, activity: str | ActivityIds, *details: Any) -> None:
        """Report from outside that an activity is alive, and how far it is."""
        self._caller.call(lambda: self._client.heartbeat_activity(activity, *details))

    # --- histories --------------------------------------------------------------------------------------------------

    def export_history(self, workflow_id: str, run_id: str | None = None) -> dict[str, Any]:
        """Return a run and its history as one JSON document."""
        return self._caller.call(lambda: self._client.export_history(workflow_id, run_id))

    def export_histories(
        self, *, chains: bool = False, page_size: int = 100, **filters: Unpack[Filters]
    ) -> Iterator[dict[str, Any]]:
        """Yield the documents of all runs that match, newest first."""
        return self._caller.each(self._client.export_histories(chains=chains, page_size=page_size, **filters))

    def import_histories(self, source: Source, *, progress: Progress | None = None) -> Imported:
        """Import closed runs of another database, to be viewed and replayed here."""
        return self._caller.call(lambda: self._client.import_histories(source, progress=progress))

    def workers(self) -> Sequence[WorkerSummary]:
        """Return the registered workers, oldest first: what each serves and how much it holds."""
        return self._caller.call(self._client.workers)
