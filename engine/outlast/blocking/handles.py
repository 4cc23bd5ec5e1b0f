"""What a blocking client returns: handles of workflows and updates, and listings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, TypeVarTuple, Unpack, overload

from outlast.blocking.lending import call_with_connection
from outlast.blocking.thread import Caller
from outlast.client.workflows.handle import WorkflowHandle
from outlast.client.workflows.query_routing import DEFAULT_TIMEOUT_S
from outlast.client.workflows.streams import StreamItem, StreamItems
from outlast.client.workflows.update_handle import UpdateHandle, WaitFor
from outlast.histories.fork import ForkOptions
from outlast.histories.history_pages import HistoryEvent
from outlast.histories.reset import ResetOptions, ResumeOptions
from outlast.visibility.listing import Listing
from outlast.visibility.views import RunPage, RunSummary, WorkflowDescription
from outlast_workflow.declare.handlers import QueryCall, SignalCall, UpdateCall
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import Seconds
from outlast_workflow.primitives.lazy_names import names_of_class
from outlast_workflow.run.mailbox import NO_DEFAULT

if TYPE_CHECKING:
    from outlast.client.user_connection import LentConnection

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class BlockingHandle(Generic[T]):
    """One workflow: wait for it, message it, observe it, stop it. See :class:`outlast.WorkflowHandle`."""

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("WorkflowHandle")

    def __init__(self, handle: WorkflowHandle[T], caller: Caller) -> None:
        self._handle = handle
        self._caller = caller

    @property
    def workflow_id(self) -> str:
        """The workflow's id."""
        return self._handle.workflow_id

    @property
    def run_id(self) -> str | None:
        """The run that the handle is about; ``None`` for the current run at the time of each call."""
        return self._handle.run_id

    @property
    def existed(self) -> bool:
        """Whether the start that returned the handle found the workflow there already."""
        return self._handle.existed

    def __repr__(self) -> str:
        return repr(self._handle).replace("WorkflowHandle", "BlockingHandle", 1)

    def result(self, timeout: float | None = None, *, follow_runs: bool | None = None, **unknown: Never) -> T:
        """Wait until the workflow has ended, and return what it returned.

        Args:
            timeout: Seconds to wait at most; without limit if ``None``.
            follow_runs: Whether to go on to the runs that follow; see :meth:`outlast.WorkflowHandle.result`.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            StillRunningError: It has not ended within ``timeout``, and continues.
            WorkflowResultError: It ended without a result; see :meth:`outlast.WorkflowHandle.result`.
        """
        return self._caller.call(lambda: self._handle.result(timeout, follow_runs=follow_runs, **unknown))

    def memo_value(
        self,
        name: str,
        *,
        timeout: Seconds | None = None,
        default: Any = NO_DEFAULT,
        result_type: Any = None,
        **unknown: Never,
    ) -> Any:
        """Return a field of the workflow's memo, and wait until its code has set it.

        Args:
            name: The field.
            timeout: Seconds to wait at most; without limit if ``None``.
            default: What to return if the field is not set in time, or the workflow ends without it.
            result_type: What to read the value as; by default plain JSON.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            TimeoutError: The field was not set in time, and there is no default.
            WorkflowClosedError: The workflow has ended without it, and there is no default.
        """
        return self._caller.call(
            lambda: self._handle.memo_value(
                name, timeout=timeout, default=default, result_type=result_type, **unknown
            )
        )

    def describe(self, *, follow_runs: bool | None = None, **unknown: Never) -> WorkflowDescription:
        """Describe the workflow; for ``follow_runs`` see :meth:`outlast.WorkflowHandle.describe`."""
        return self._caller.call(lambda: self._handle.describe(follow_runs=follow_runs, **unknown))

    def history(self, *, after_seq: int = 0) -> Iterator[HistoryEvent]:
        """Yield the events of the handle's run, in order, after the one with the number ``after_seq``."""
        while True:
            page = self._page(after_seq)
            if not page:
                return
            yield from page
            after_seq = page[-1].seq

    @overload
    def stream(
        self, name: str, *, start: int = 0, timeout: float | None = None, item_type: type[R]
    ) -> Iterator[StreamItem[R]]: ...

    @overload
    def stream(
        self, name: str, *, start: int = 0, timeout: float | None = None, item_type: Any = None
    ) -> Iterator[StreamItem[Any]]: ...

    def stream(self, name: str, **options: Any) -> Iterator[StreamItem[Any]]:
        """Read a stream of the workflow, as it is written; see :meth:`outlast.WorkflowHandle.stream`."""
        return self._items(self._handle.stream(name, **options))

    def _items(self, items: StreamItems[Any]) -> Iterator[StreamItem[Any]]:
        while page := self._caller.call(items.page):
            yield from page

    def export_history(self) -> dict[str, Any]:
        """Return the handle's run and its history as one JSON document."""
        return self._caller.call(self._handle.export_history)

    def _page(self, after_seq: int) -> Sequence[HistoryEvent]:
        return self._caller.call(lambda: self._handle.history_page(after_seq))

    @overload
    def signal(
        self,
        signal: Callable[[*Ts], SignalCall],
        *args: *Ts,
        request_id: str | None = None,
        connection: LentConnection | None = None,
    ) -> None: ...

    @overload
    def signal(
        self, signal: SignalCall, *, request_id: str | None = None, connection: LentConnection | None = None
    ) -> None: ...

    @overload
    def signal(
        self,
        signal: str,
        *args: Any,
        request_id: str | None = None,
        connection: LentConnection | None = None,
    ) -> None: ...

    def signal(self, signal: Any, *args: Any, **options: Any) -> None:  # type: ignore[misc]  # as above
        """Send a signal. When this returns, it is durable, or part of the ``connection``'s transaction."""
        call_with_connection(self._caller, options, lambda given: self._handle.signal(signal, *args, **given))

    @overload
    def query(
        self, query: Callable[[*Ts], QueryCall[R]], *args: *Ts, timeout: float = DEFAULT_TIMEOUT_S
    ) -> R: ...

    @overload
    def query(self, query: QueryCall[R], *, timeout: float = DEFAULT_TIMEOUT_S) -> R: ...

    @overload
    def query(
        self, query: str, *args: Any, timeout: float = DEFAULT_TIMEOUT_S, result_type: type[R]
    ) -> R: ...

    @overload
    def query(self, query: str, *args: Any, timeout: float = DEFAULT_TIMEOUT_S) -> Any: ...

    def query(self, query: Any, *args: Any, **options: Any) -> Any:  # type: ignore[misc]  # as above
        """Query the workflow, without changing it."""
        return self._caller.call(lambda: self._handle.query(query, *args, **options))

    @overload
    def execute_update(
        self,
        update: Callable[[*Ts], UpdateCall[R]],
        *args: *Ts,
        id: str | None = None,
        timeout: float | None = None,
    ) -> R: ...

    @overload
    def execute_update(
        self, update: UpdateCall[R], *, id: str | None = None, timeout: float | None = None
    ) -> R: ...

    @overload
    def execute_update(
        self,
        update: str,
        *args: Any,
        id: str | None = None,
        timeout: float | None = None,
        result_type: Any = None,
    ) -> Any: ...

    def execute_update(self, update: Any, *args: Any, **options: Any) -> Any:  # type: ignore[misc]  # as above
        """Send the workflow an update, and wait for its result."""
        return self._caller.call(lambda: self._handle.execute_update(update, *args, **options))

    @overload
    def start_update(
        self,
        update: Callable[[*Ts], UpdateCall[R]],
        *args: *Ts,
        id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
    ) -> BlockingUpdateHandle[R]: ...

    @overload
    def start_update(
        self,
        update: UpdateCall[R],
        *,
        id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
    ) -> BlockingUpdateHandle[R]: ...

    @overload
    def start_update(
        self,
        update: str,
        *args: Any,
        id: str | None = None,
        wait_for: WaitFor = "accepted",
        timeout: float | None = None,
        result_type: Any = None,
    ) -> BlockingUpdateHandle[Any]: ...

    def start_update(  # type: ignore[misc]  # as above
        self, update: Any, *args: Any, **options: Any
    ) -> BlockingUpdateHandle[Any]:
        """Send the workflow an update, and wait until it is accepted; the returned handle has the result."""
        made: UpdateHandle[Any] = self._caller.call(
            lambda: self._handle.start_update(update, *args, **options)
        )
        return BlockingUpdateHandle(made, self._caller)

    def cancel(
        self, reason: str | None = None, *, connection: LentConnection | None = None, **unknown: Never
    ) -> None:
        """Ask the workflow to cancel; its code decides. See :meth:`outlast.WorkflowHandle.cancel`."""
        options: dict[str, Any] = {"connection": connection, **unknown}
        call_with_connection(self._caller, options, lambda given: self._handle.cancel(reason, **given))

    def reset(
        self, to: str | int = "last-workflow-task", **options: Unpack[ResetOptions]
    ) -> BlockingHandle[T]:
        """Start a new run from a point of the history."""
        return BlockingHandle(self._caller.call(lambda: self._handle.reset(to, **options)), self._caller)

    def resume(self, **options: Unpack[ResumeOptions]) -> BlockingHandle[T]:
        """Take up a workflow that was cancelled or terminated, that timed out or failed."""
        return BlockingHandle(self._caller.call(lambda: self._handle.resume(**options)), self._caller)

    def fork(self, to: str | int = "last-workflow-task", **options: Unpack[ForkOptions]) -> BlockingHandle[T]:
        """Start another workflow with the history of this one up to a point."""
        return BlockingHandle(self._caller.call(lambda: self._handle.fork(to, **options)), self._caller)

    def set_start_delay(
        self, delay: Seconds | None = None, *, until: datetime | None = None, **unknown: Never
    ) -> None:
        """Move the start of the workflow while it has not begun."""
        self._caller.call(lambda: self._handle.set_start_delay(delay, until=until, **unknown))

    def terminate(self, reason: str | None = None, **unknown: Never) -> None:
        """End the workflow at once, without running its code."""
        self._caller.call(lambda: self._handle.terminate(reason, **unknown))


class BlockingUpdateHandle(Generic[T]):
    """One update of a workflow. See :class:`outlast.UpdateHandle`."""

    def __init__(self, handle: UpdateHandle[T], caller: Caller) -> None:
        self._handle = handle
        self._caller = caller

    @property
    def id(self) -> str:
        """The update's id."""
        return self._handle.id

    @property
    def workflow_id(self) -> str:
        """The workflow's id."""
        return self._handle.workflow_id

    def __repr__(self) -> str:
        return repr(self._handle).replace("UpdateHandle", "BlockingUpdateHandle", 1)

    def result(self, timeout: float | None = None) -> T:
        """Wait until the update has ended, and return what its handler returned."""
        return self._caller.call(lambda: self._handle.result(timeout))


class BlockingListing:
    """Runs that match, newest first: iterate over all of them, or read them page by page."""

    def __init__(self, listing: Listing, caller: Caller) -> None:
        self._listing = listing
        self._caller = caller

    def page(self, cursor: str | None = None) -> RunPage:
        """Return one page: the first, or the one after a cursor."""
        return self._caller.call(lambda: self._listing.page(cursor))

    def __iter__(self) -> Iterator[RunSummary]:
        cursor: str | None = None
        while True:
            page = self.page(cursor)
            yield from page.runs
            cursor = page.cursor
            if cursor is None:
                return


def wait_first(handles: Iterable[BlockingHandle[T]], timeout: float | None = None) -> BlockingHandle[T]:
    """Wait until one of several workflows has ended, and return its handle; see :func:`outlast.wait_first`.

    Args:
        handles: The workflows, each once, all of clients of this process's background thread.
        timeout: Seconds to wait at most; without limit if ``None``.

    Raises:
        TimeoutError: None has ended in time; they continue.
        InvalidOptionError: There is no handle, or one stands for the same workflow as another.
        WorkflowNotFoundError: There is no such workflow.
    """
    given = list(handles)
    for one in given:
        if not isinstance(one, BlockingHandle):
            raise InvalidOptionError(
                f"wait_first takes handles of a blocking client, not {type(one).__name__}: on an event loop, await "
                "outlast.wait_first",
                field="handles",
            )
    if not given:
        raise InvalidOptionError("wait_first needs at least one handle to wait for", field="handles")
    # The waiting itself needs the engine, which a handle has loaded.
    from outlast.client.workflows.first_end import wait_first as first_of

    inner = [one._handle for one in given]
    first = given[0]._caller.call(lambda: first_of(inner, timeout))
    return given[inner.index(first)]
