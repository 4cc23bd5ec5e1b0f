"""Reading streams: the items that a workflow and its activities publish, as they come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from outlast.client.context import ClientContext
from outlast.client.workflows.run_rows import current_run_id, row_of
from outlast_store.reads.streams import PageSize, look_at_stream
from outlast_store.schema.rows import StreamItemRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import InvalidOptionError, StreamTimeoutError
from outlast_workflow.history.events import stored_json
from outlast_workflow.options.validation import timeout_seconds, validate_stream
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import to_datetime

T = TypeVar("T")

PAGE: Final = PageSize(items=500, bytes=4 * 1024 * 1024)
"""How much is read at once: what is more waits in the database, and not in the memory of whoever reads."""


@dataclass(frozen=True, slots=True)
class StreamItem(Generic[T]):
    """One item of a stream.

    Attributes:
        offset: Its place in the stream, counted from 0 without gaps. To read on behind it, start at ``offset + 1``.
        value: What was written.
        written_at: When it was written.
        run_id: The run that wrote it, or whose activity did.
        activity_id: The activity that wrote it; ``None`` if the workflow's own code did.
        attempt: The attempt of the activity, which rises with every claim, also after its worker has died. A higher one
            has begun again.
    """

    offset: int
    value: T
    written_at: datetime
    run_id: str
    activity_id: int | None = None
    attempt: int | None = None


class StreamItems(Generic[T]):
    """The items of a stream, as they come: ``async for item in handle.stream("tokens")``, or page by page.

    Attributes:
        offset: The offset of the next item that is to be read from the database.
        ended: Whether it is known that no item will come at that offset: the stream is closed, or its chain.
    """

    def __init__(
        self,
        context: ClientContext,
        workflow_id: str,
        run_id: str | None,
        name: str,
        *,
        start: int = 0,
        timeout: float | None = None,
        item_type: Any = None,
    ) -> None:
        """Read a stream; the parameters and the errors are those of :meth:`outlast.WorkflowHandle.stream`."""
        given: Any = start
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**63:
            raise InvalidOptionError(
                "start must be the offset of an item, a whole number from 0 to 2**63 - 1", field="start"
            )
        self.offset = start
        self.ended = False
        self._name = validate_stream(name)
        self._timeout = None if timeout is None else timeout_seconds("timeout", timeout)
        self._item_type = item_type
        self._context = context
        self._workflow_id = workflow_id
        self._run_id = run_id
        self._first_run_id = self._last_run_id = ""
        self._page: deque[StreamItem[T]] = deque()

    def __aiter__(self) -> AsyncIterator[StreamItem[T]]:
        return self

    async def __anext__(self) -> StreamItem[T]:
        if not self._page:
            self._page.extend(await self.page())
        if not self._page:
            raise StopAsyncIteration
        return self._page.popleft()

    async def page(self) -> Sequence[StreamItem[T]]:
        """Wait for the next items and return them; none at the end of the stream.

        A page has 500 items at most, and ends with the item that fills 4 MiB.

        Raises:
            StreamTimeoutError: No item came in time.
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
            PayloadDecodeError: A value cannot be read as the item type.
            JournalClosedError: The client was closed.
        """
        try:
            async with asyncio.timeout(self._timeout):
                rows = await self._next_rows()
        except TimeoutError:
            if self._timeout is None:
                raise
            raise StreamTimeoutError(
                self._workflow_id, self._name, offset=self.offset, timeout_seconds=self._timeout
            ) from None
        return self._items(rows)

    async def ready(self) -> Sequence[StreamItem[T]]:
        """Return the next items that are there already, a page at most, without waiting; the errors are as above.

        Behind the last page ``ended`` says whether more may come.
        """
        await self._find_chain()
        return self._items(await self._look(tell_end=True))

    def _items(self, rows: Sequence[StreamItemRow]) -> Sequence[StreamItem[T]]:
        items = [item_of(row, self._context.converter, self._item_type) for row in rows]
        if rows:
            self.offset = rows[-1].item_offset + 1
        return items

    async def _next_rows(self) -> Sequence[StreamItemRow]:
        run_id = await self._find_chain()
        waits = self._context.runtime.stream_waits
        with waits.waiting((self._first_run_id, self._name), run_id) as wait:
            while True:
                # Before the look: what comes during it is news.
                wait.news.clear()
                rows = await self._look()
                wait.run_id = self._last_run_id
                if rows or self.ended:
                    return rows
                await wait.news.wait()

    async def _find_chain(self) -> str:
        """Find the chain at the first look; return its last run, as far as it is known."""
        runtime = self._context.runtime
        if not self._last_run_id:
            run_id = self._run_id
            if run_id is None:
                run_id = await current_run_id(runtime, self._workflow_id)
            run = await row_of(runtime, self._workflow_id, run_id)
            self._first_run_id, self._last_run_id = run.first_run_id, run.run_id
        return self._last_run_id

    async def _look(self, *, tell_end: bool = False) -> Sequence[StreamItemRow]:
        found = await self._context.runtime.read(
            look_at_stream,
            self._first_run_id,
            self._name,
            self.offset,
            self._last_run_id,
            PAGE,
            tell_end=tell_end,
        )
        self._last_run_id = found.run_id
        self.ended = found.ended
        return found.items


def item_of(row: StreamItemRow, converter: DataConverter, item_type: Any = None) -> StreamItem[Any]:
    """Return an item as readers see it.

    Args:
        row: Its row.
        converter: Decodes the value.
        item_type: How to read the value.

    Raises:
        PayloadDecodeError: It cannot be read as that type.
        DamagedHistoryError: What is stored is no JSON any more.
    """
    what = f"item {row.item_offset} of stream {row.name!r}"
    payload = Payload(row.value.encode(), stored_json(row.value, row.run_id, what))
    value = converter.decode(payload, item_type, what)
    return StreamItem(
        row.item_offset, value, to_datetime(row.written_at), row.run_id, row.activity_id, row.attempt
    )
