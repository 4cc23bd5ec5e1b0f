"""The client for code without an event loop: ``from holdfast.blocking import Client``.

Same names, same arguments, same errors as :class:`holdfast.Client`; calls block instead of being awaited, and may come
from any number of threads. For Django views and scripts; code on an event loop wants the other one.

All blocking clients of a process share one background thread with one event loop, which begins with the first of them
and ends with the last; clients of one URL therefore share a journal, and what threads write at the same time is one
commit. A client does not survive ``fork``: in the child each call raises
:class:`~holdfast.errors.ForkedConnectionError`, and a client that is connected there has a thread of its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, Generic, Self, TypeVar, TypeVarTuple, Unpack, overload

from holdfast import client as asynchronous
from holdfast.client import DEFAULT_QUEUE
from holdfast.handle import HistoryEvent, WorkflowHandle
from holdfast.listing import Filters, Listing
from holdfast.views import RunPage, RunSummary, WorkerSummary, WorkflowDescription
from holdfast_workflow.converter import DataConverter
from holdfast_workflow.errors import ForkedConnectionError, HoldfastError, JournalClosedError
from holdfast_workflow.handlers import SignalCall
from holdfast_workflow.limits import StructuralLimits
from holdfast_workflow.options import StartOptions, timeout_seconds

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

__all__ = ["BlockedLoopError", "BlockingHandle", "BlockingListing", "Client", "StillRunningError"]


class StillRunningError(HoldfastError, TimeoutError):
    """The workflow did not end within the time that the caller wanted to wait. It goes on.

    Not to be confused with :class:`~holdfast.errors.WorkflowTimeoutError`, where a deadline of the workflow passed.
    """

    facts = ("workflow_id", "timeout_seconds")

    def __init__(self, workflow_id: str, timeout_seconds: float) -> None:
        super().__init__(
            f"workflow {workflow_id!r} did not end within {timeout_seconds:g} s: it goes on, ask again later"
        )
        self.workflow_id = workflow_id
        self.timeout_seconds = timeout_seconds


class BlockedLoopError(HoldfastError, RuntimeError):
    """The blocking client was called on an event loop, which would stand still meanwhile."""

    def __init__(self) -> None:
        super().__init__(
            "the blocking client was called on an event loop, which it would stop: use `await` with holdfast.Client "
            "there, or call it in a thread (asyncio.to_thread)"
        )


class _LoopThread:
    """The process's background event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._main, name="holdfast-blocking", daemon=True)
        self._thread.start()
        self._started.wait()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._started.set)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def stop(self) -> None:
        """End it; nothing may be under way any more."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine there and wait for it; one that takes too long, or whose caller gives up, is cancelled."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError:
            if future.done():  # the work's own timeout, or it ended at the last moment
                return future.result()
            future.cancel()
            raise _GaveUp from None
        except BaseException:
            future.cancel()
            raise


class _GaveUp(Exception):
    """The time to wait is over. Distinct from the timeouts that the work itself may raise."""


class _Shared:
    """Who uses the thread; replaced in a forked child, where the parent's thread does not exist."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: _LoopThread | None = None
        self.users = 0

    def enter(self) -> _LoopThread:
        with self.lock:
            if self.thread is None:
                self.thread = _LoopThread()
            self.users += 1
            return self.thread

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0 and self.thread is not None:
                self.thread.stop()
                self.thread = None


_shared = _Shared()


def _in_child() -> None:
    global _shared
    _shared = _Shared()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _refuse_on_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise BlockedLoopError


class _Caller:
    """One client's way to the thread."""

    def __init__(self) -> None:
        self._pid: Final = os.getpid()
        self._shared: Final = _shared
        self._thread: _LoopThread | None = _shared.enter()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]], timeout: float | None = None) -> T:
        _refuse_on_a_loop()
        if self.forked:
            raise ForkedConnectionError
        if self._thread is None:
            raise JournalClosedError
        return self._thread.call(work(), timeout)

    @property
    def forked(self) -> bool:
        """Whether this is not the process that connected."""
        return os.getpid() != self._pid

    def leave(self) -> None:
        """One user of the thread less."""
        if self._thread is not None:
            self._thread = None
            self._shared.leave()


class Client:
    """A process's way to one database, for code without an event loop. A context manager; else close it.

    What each method does and raises is written at its namesake of :class:`holdfast.Client`. In addition each raises
    :class:`BlockedLoopError` when it is called on an event loop.
    """

    def __init__(self, client: asynchronous.Client, caller: _Caller) -> None:
        self._client = client
        self._caller = caller
        self._closing = threading.Lock()
        self._closed = False

    @classmethod
    def connect(
        cls, url: str, *, converter: DataConverter | None = None, limits: StructuralLimits | None = None
    ) -> Self:
        """Connect to a database: ``client = Client.connect(url)`` or ``with Client.connect(url) as client``."""
        _refuse_on_a_loop()
        caller = _Caller()

        async def connect() -> asynchronous.Client:
            return await asynchronous.Client.connect(url, converter=converter, limits=limits)

        try:
            return cls(caller.call(connect), caller)
        except BaseException:
            caller.leave()
            raise

    def close(self) -> None:
        """Commit what has been handed over, and close. Calls that other threads have under way must have ended.

        In a forked child it does nothing: what there is to close is the parent's.
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
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
    ) -> BlockingHandle[T]: ...

    @overload
    def start(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
        result_type: type[T],
    ) -> BlockingHandle[T]: ...

    @overload
    def start(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
    ) -> BlockingHandle[Any]: ...

    # mypy can't match a TypeVarTuple with *args: Any, as in the asynchronous client.
    def start(  # type: ignore[misc]
        self, workflow: Any, *args: Any, **options: Any
    ) -> BlockingHandle[Any]:
        """Start a workflow; when this returns, the start is durable."""
        return BlockingHandle(
            self._caller.call(lambda: self._client.start(workflow, *args, **options)), self._caller
        )

    @overload
    def execute(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
    ) -> T: ...

    @overload
    def execute(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
        result_type: type[T],
    ) -> T: ...

    @overload
    def execute(
        self,
        workflow: str,
        *args: Any,
        id: str | None = None,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
    ) -> Any: ...

    def execute(self, workflow: Any, *args: Any, **options: Any) -> Any:  # type: ignore[misc]  # as above
        """Start a workflow and wait for its result."""
        return self._caller.call(lambda: self._client.execute(workflow, *args, **options))

    # --- signals ----------------------------------------------------------------------------------------------------

    @overload
    def signal_with_start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        signal: SignalCall | str,
        signal_args: Sequence[Any] = (),
        request_id: str | None = None,
        id: str,
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
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
        task_queue: str = DEFAULT_QUEUE,
        options: StartOptions | None = None,
        result_type: Any = None,
    ) -> BlockingHandle[Any]: ...

    def signal_with_start(  # type: ignore[misc]  # as above
        self, workflow: Any, *args: Any, **options: Any
    ) -> BlockingHandle[Any]:
        """Signal a workflow, and start it first where the id is not open."""
        handle: WorkflowHandle[Any] = self._caller.call(
            lambda: self._client.signal_with_start(workflow, *args, **options)
        )
        return BlockingHandle(handle, self._caller)

    @overload
    def signal(
        self,
        workflow_id: str,
        signal: Callable[[*Ts], SignalCall],
        *args: *Ts,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None: ...

    @overload
    def signal(
        self,
        workflow_id: str,
        signal: SignalCall,
        *,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None: ...

    @overload
    def signal(
        self,
        workflow_id: str,
        signal: str,
        *args: Any,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None: ...

    def signal(self, workflow_id: str, signal: Any, *args: Any, **options: Any) -> None:  # type: ignore[misc]  # as above
        """Send a signal to a workflow by its id."""
        self._caller.call(lambda: self._client.signal(workflow_id, signal, *args, **options))

    # --- looking ----------------------------------------------------------------------------------------------------

    def handle(
        self, workflow_id: str, *, run_id: str | None = None, result_type: Any = None
    ) -> BlockingHandle[Any]:
        """A handle to a workflow that was started earlier, be it there or not; asking it finds out."""
        handle = self._client.handle(workflow_id, run_id=run_id, result_type=result_type)
        return BlockingHandle(handle, self._caller)

    def describe(self, workflow_id: str, run_id: str | None = None) -> WorkflowDescription:
        """What a workflow is doing: its current run, or the run of ``run_id``."""
        return self._caller.call(lambda: self._client.describe(workflow_id, run_id))

    def list(self, *, page_size: int = 100, **filters: Unpack[Filters]) -> BlockingListing:
        """Runs, newest first: iterate over it, or take it page by page."""
        return BlockingListing(self._client.list(page_size=page_size, **filters), self._caller)

    def count(self, **filters: Unpack[Filters]) -> int:
        """How many runs match."""
        return self._caller.call(lambda: self._client.count(**filters))

    def workers(self) -> Sequence[WorkerSummary]:
        """The registered workers, oldest first: what each serves and how much it holds."""
        return self._caller.call(self._client.workers)


class BlockingHandle(Generic[T]):
    """One workflow: wait for it, look at it, ask it to stop. See :class:`holdfast.WorkflowHandle`."""

    def __init__(self, handle: WorkflowHandle[T], caller: _Caller) -> None:
        self._handle = handle
        self._caller = caller

    @property
    def workflow_id(self) -> str:
        """The workflow's id."""
        return self._handle.workflow_id

    @property
    def run_id(self) -> str | None:
        """The run that the handle is about; ``None`` for whichever stands for the id when it is asked."""
        return self._handle.run_id

    def __repr__(self) -> str:
        return repr(self._handle).replace("WorkflowHandle", "BlockingHandle", 1)

    def result(self, timeout: float | None = None) -> T:
        """Wait for the end of the workflow and return what it returned.

        Args:
            timeout: Seconds to wait at the most; without one, for as long as it takes.

        Raises:
            StillRunningError: It has not ended within ``timeout``; it goes on.
            WorkflowResultError: It ended without a result; see :meth:`holdfast.WorkflowHandle.result`.
        """
        if timeout is not None:
            timeout = timeout_seconds("timeout", timeout)
        try:
            return self._caller.call(self._handle.result, timeout)
        except _GaveUp:
            assert timeout is not None
            raise StillRunningError(self.workflow_id, timeout) from None

    def describe(self) -> WorkflowDescription:
        """What the workflow is doing."""
        return self._caller.call(self._handle.describe)

    def history(self, *, after_seq: int = 0) -> Iterator[HistoryEvent]:
        """The events of the handle's run, in order."""
        while True:
            page = self._page(after_seq)
            if not page:
                return
            yield from page
            after_seq = page[-1].seq

    def _page(self, after_seq: int) -> Sequence[HistoryEvent]:
        return self._caller.call(lambda: self._handle.history_page(after_seq))

    @overload
    def signal(
        self, signal: Callable[[*Ts], SignalCall], *args: *Ts, request_id: str | None = None
    ) -> None: ...

    @overload
    def signal(self, signal: SignalCall, *, request_id: str | None = None) -> None: ...

    @overload
    def signal(self, signal: str, *args: Any, request_id: str | None = None) -> None: ...

    def signal(self, signal: Any, *args: Any, request_id: str | None = None) -> None:  # type: ignore[misc]  # as above
        """Send a signal; when this returns it is durable."""
        self._caller.call(lambda: self._handle.signal(signal, *args, request_id=request_id))

    def cancel(self, reason: str | None = None) -> None:
        """Ask the workflow to cancel; its code decides."""
        self._caller.call(lambda: self._handle.cancel(reason))

    def terminate(self, reason: str | None = None) -> None:
        """End the workflow at once, without its code."""
        self._caller.call(lambda: self._handle.terminate(reason))


class BlockingListing:
    """Runs that match, newest first: iterate over all of them, or take them page by page."""

    def __init__(self, listing: Listing, caller: _Caller) -> None:
        self._listing = listing
        self._caller = caller

    def page(self, cursor: str | None = None) -> RunPage:
        """One page: the first, or the one after a cursor."""
        return self._caller.call(lambda: self._listing.page(cursor))

    def __iter__(self) -> Iterator[RunSummary]:
        cursor: str | None = None
        while True:
            page = self.page(cursor)
            yield from page.runs
            cursor = page.cursor
            if cursor is None:
                return
