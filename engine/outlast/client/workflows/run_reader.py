"""What code outside a workflow reads of it: its result, its description, its history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, TypeVar, overload

import orjson

from outlast.client.context import ClientContext
from outlast.client.intercepted_calls import DescribeWorkflow
from outlast.client.workflows.results import End, Follow, end_of, result_of
from outlast.client.workflows.run_rows import current_run_id, row_of
from outlast.client.workflows.streams import StreamItems
from outlast.histories.exporter import export_run
from outlast.histories.history_pages import EVENTS_PER_PAGE, HistoryEvent, history_page
from outlast.runtime.result_waits import RunEnd
from outlast.runtime.runtime import Runtime
from outlast_store.schema.rows import RunRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import WorkflowNotFoundError
from outlast_workflow.errors.result import StillRunningError
from outlast_workflow.options.options import timeout_seconds
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import Seconds
from outlast_workflow.run.mailbox import NO_DEFAULT

if TYPE_CHECKING:
    from outlast.visibility.views import WorkflowDescription

T = TypeVar("T")
R = TypeVar("R")


class RunReader(Generic[T]):
    """One workflow, or one run of it, to wait for and to look at.

    Attributes:
        workflow_id: The workflow id.
        run_id: The run that is read; ``None`` for the current run at the time of each call.
        existed: Whether the start that returned this found the workflow there already.
    """

    def __init__(
        self,
        context: ClientContext,
        workflow_id: str,
        run_id: str | None,
        result_type: Any = None,
        ending: RunEnd | None = None,
        *,
        pinned: bool = False,
        existed: bool = False,
        outbox: Literal["starts", "joins"] | None = None,
    ) -> None:
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.existed = existed
        self._context = context
        self._result_type = result_type
        self._ending = ending
        self._pinned = pinned
        self._follows: Follow = "own" if pinned else "all"
        self._outbox = outbox
        """What a start does that was written in a user's transaction, until it is known to be applied."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.workflow_id!r} run {self.run_id or 'current'}>"

    # --- the result -------------------------------------------------------------------------------------------------

    async def result(
        self, timeout: float | None = None, *, follow_runs: bool | None = None, **unknown: Never
    ) -> T:
        """Wait until the workflow has ended, through all runs of its chain, and return what it returned.

        Args:
            timeout: Seconds to wait at most; without limit if ``None``.
            follow_runs: Whether to go on to the run that follows this one where it does not complete: it continues as
                new, is retried, or is reset, perhaps after it ended. ``False`` waits for this run alone. By default
                all are followed, but a handle with a run id leaves out a reset after that run's end.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            WorkflowContinuedAsNewError: Another run follows, and ``follow_runs`` is ``False``.
            StillRunningError: It has not ended within ``timeout``, and continues.
            WorkflowFailedError: Its code raised; ``__cause__`` is the failure.
            WorkflowTimeoutError: One of its deadlines passed; ``timeout_kind`` says which.
            WorkflowCancelledError: It ended because of a cancel request.
            WorkflowTerminatedError: It was terminated.
            WorkflowNotFoundError: There is no such workflow.
            StartNotCommittedError: It is started in a transaction that has not committed, or was rolled back.
            OutboxRefusedError: It is started in a transaction that has committed, and the start was refused then.
            PayloadDecodeError: The result cannot be read as its type hint says.
            InvalidOptionError: The timeout is not a number of seconds.
        """
        if unknown:
            refuse_unknown("result", unknown, ("timeout", "follow_runs"))
        if timeout is not None:
            return await self._result_within(timeout_seconds("timeout", timeout), follow_runs)
        context = self._context
        first = self._ending or context.runtime.run_ends.subscribe(await self.resolve())
        follow: Follow = "all" if follow_runs else "none"
        if follow_runs is None:
            follow = self._follows
        end = await end_of(context.runtime, first, follow)
        value: T = result_of(end, self.workflow_id, context.converter, self._result_type)
        return value

    @property
    def converter(self) -> DataConverter:
        """How arguments and results become JSON."""
        return self._context.converter

    @property
    def runtime(self) -> Runtime:
        """The database of the workflow, as this process has it open."""
        return self._context.runtime

    async def wait_for_end(self, first: RunEnd) -> End:
        """Wait for the end of the handle's run and of those that follow it; for the engine's own use.

        Args:
            first: Where the end of the handle's run is noted. The caller has looked if it has been closed already.
        """
        return await end_of(self._context.runtime, first, self._follows, look=False)

    async def _result_within(self, seconds: float, follow_runs: bool | None) -> T:
        waiting = asyncio.ensure_future(self.result(follow_runs=follow_runs))
        try:
            await asyncio.wait([waiting], timeout=seconds)
            if not waiting.done():
                raise StillRunningError(self.workflow_id, seconds)
            return waiting.result()
        finally:
            waiting.cancel()

    async def resolve(self) -> str:
        """Return the id of the run that the handle is about.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
        """
        if self.run_id is not None:
            return self.run_id if self._outbox is None else await self._leave_outbox(self.run_id)
        return await current_run_id(self._context.runtime, self.workflow_id)

    async def _leave_outbox(self, run_id: str) -> str:
        """Return the run of a start that was written in a user's transaction, once it is applied."""
        from outlast.outbox.waits import started_run

        joins = self._outbox == "joins"
        found = await started_run(self._context.runtime, self.workflow_id, run_id, joins=joins)
        self.run_id, self.existed, self._outbox = found, found != run_id, None
        return found

    async def memo_value(
        self,
        name: str,
        *,
        timeout: Seconds | None = None,
        default: Any = NO_DEFAULT,
        result_type: Any = None,
        **unknown: Never,
    ) -> Any:
        """Return a field of the workflow's memo, and wait until its code has set it. No worker need be alive for that.

        Args:
            name: The field, as the code set it with ``workflow.upsert_memo``, or the start gave it.
            timeout: Seconds to wait at most; without limit if ``None``. 0 looks once.
            default: What to return if the field is not set in time, or the workflow ends without it.
            result_type: What to read the value as; by default plain JSON.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            TimeoutError: The field was not set in time, and there is no default.
            WorkflowClosedError: The workflow has ended without it, and there is no default.
            WorkflowNotFoundError: There is no such workflow.
            PayloadDecodeError: The value cannot be read as that type, or the memo not at all.
            InvalidOptionError: The name or the timeout cannot be used.
        """
        if unknown:
            refuse_unknown("memo_value", unknown, ("timeout", "default", "result_type"))
        from outlast.client.workflows.memo_values import memo_value

        run_id = None if self.run_id is None else await self.resolve()
        return await memo_value(self._context, self.workflow_id, run_id, name, timeout, default, result_type)

    # --- what it looks like -----------------------------------------------------------------------------------------

    async def _row(self) -> RunRow:
        return await row_of(self._context.runtime, self.workflow_id, await self.resolve())

    async def describe(self, *, follow_runs: bool | None = None, **unknown: Never) -> WorkflowDescription:
        """Describe the workflow, from one snapshot of the database.

        Args:
            follow_runs: Whether to describe the run that decides the result: the latest of the chain, or the first from
                here on that completed. By default a handle from ``client.start`` does, and one with a run id describes
                that run.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
        """
        if unknown:
            refuse_unknown("describe", unknown, ("follow_runs",))
        interceptors = self._context.interceptors
        if not interceptors:
            return await self._describe(follow_runs)
        call = DescribeWorkflow(self.workflow_id, self.run_id)
        return await interceptors.call("describe_workflow", call, lambda call: self._describe(follow_runs))

    async def _describe(self, follow_runs: bool | None) -> WorkflowDescription:
        # What is read without it needs no pydantic.
        from outlast.visibility.describe import describe

        context = self._context
        follow = not self._pinned if follow_runs is None else follow_runs
        if self._outbox is not None:
            await self.resolve()
        try:
            return await describe(
                context.runtime, context.converter, self.workflow_id, self.run_id, follow=follow
            )
        except WorkflowNotFoundError:
            # Where the start waits in the outbox, this applies it.
            run_id = await self.resolve()
            return await describe(context.runtime, context.converter, self.workflow_id, run_id, follow=follow)

    async def is_open(self) -> bool:
        """Return whether the handle's run is open.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
        """
        return (await self._row()).is_open

    async def history(self, *, after_seq: int = 0) -> AsyncIterator[HistoryEvent]:
        """Yield the events of the handle's run, in order.

        Args:
            after_seq: The number of the event to start after.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
        """
        run_id = await self.resolve()
        _ = await row_of(self._context.runtime, self.workflow_id, run_id)
        while True:
            page = await history_page(self._context.runtime, run_id, after_seq)
            for event in page:
                yield event
                after_seq = event.seq
            if len(page) < EVENTS_PER_PAGE:
                return

    @overload
    def stream(
        self, name: str, *, start: int = 0, timeout: float | None = None, item_type: type[R]
    ) -> StreamItems[R]: ...

    @overload
    def stream(
        self, name: str, *, start: int = 0, timeout: float | None = None, item_type: Any = None
    ) -> StreamItems[Any]: ...

    def stream(
        self,
        name: str,
        *,
        start: int = 0,
        timeout: float | None = None,
        item_type: Any = None,
        **unknown: Never,
    ) -> StreamItems[Any]:
        """Read a stream of the workflow, as it is written: ``async for item in handle.stream("tokens")``.

        The runs of a chain share their streams. Reading ends where the workflow has closed the stream, or has ended. A
        stream that there is not yet is waited for.

        Args:
            name: The stream's name.
            start: The offset of the first item: a reader that was interrupted goes on behind its last item.
            timeout: Seconds to wait for each item; without limit if ``None``.
            item_type: How to read the values.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            InvalidOptionError: An option cannot be used.
            StreamTimeoutError: While reading: the next item did not come in time.
            WorkflowNotFoundError: While reading: there is no such workflow.
            RunNotFoundError: While reading: it has no such run.
            PayloadDecodeError: While reading: a value cannot be read as ``item_type``.
        """
        if unknown:
            refuse_unknown("stream", unknown, ("start", "timeout", "item_type"))
        return StreamItems(
            self._context,
            self.workflow_id,
            self.run_id,
            name,
            start=start,
            timeout=timeout,
            item_type=item_type,
        )

    async def export_history(self) -> dict[str, Any]:
        """Return the handle's run and its history as one JSON document, whose format is in ``docs/replaying.md``.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
        """
        document: dict[str, Any] = orjson.loads(
            await export_run(
                self._context.runtime,
                self.workflow_id,
                self.run_id if self._outbox is None else await self.resolve(),
            )
        )
        return document

    async def history_page(self, after_seq: int = 0) -> Sequence[HistoryEvent]:
        """Return the next events of the handle's run, at most a thousand; none at the end.

        Args:
            after_seq: The number of the last event that was read.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
        """
        run_id = await self.resolve()
        page = await history_page(self._context.runtime, run_id, after_seq)
        _ = await row_of(self._context.runtime, self.workflow_id, run_id)
        return page
