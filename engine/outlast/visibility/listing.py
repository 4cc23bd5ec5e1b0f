"""Listing runs page by page. A cursor names the filters and the order that it belongs to, so it fits no others."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import orjson

from outlast.runtime.runtime import Runtime
from outlast.visibility.columns import attributes, instant, progress
from outlast.visibility.reasons import kinds_of, reasons
from outlast.visibility.views import RunPage, RunSummary
from outlast_store.reads import run_listing
from outlast_store.reads.attention import Need
from outlast_store.reads.run_listing import ListedRun, Order, Position, RunFilter
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import integer, validate_name
from outlast_workflow.primitives.enums import RunStatus
from outlast_workflow.primitives.times import to_datetime

MOST_PER_PAGE: Final = 1000


class Listing:
    """Runs that match, in an order: iterate over all of them, or read them page by page.

    A walk by age sees every run exactly once that existed when the walk began and matches throughout. Runs that start
    during the walk are newer than its position: newest first, they are left to the next walk; oldest first, it ends
    with them.

    Args:
        runtime: The database.
        wanted: The filters.
        page_size: How many runs a page has, 1 to 1000.
        order: ``newest``, ``oldest`` or ``deadline``.

    Raises:
        InvalidOptionError: The page size is out of range, or there is no such order.
    """

    def __init__(
        self, runtime: Runtime, wanted: RunFilter, page_size: int, order: str = Order.NEWEST
    ) -> None:
        self._runtime = runtime
        self._wanted = wanted
        self._order = _checked_order(order)
        self._page_size = integer("page size", page_size, 1, MOST_PER_PAGE)

    async def page(self, cursor: str | None = None) -> RunPage:
        """Return one page.

        Args:
            cursor: The cursor of the page before; ``None`` for the first page.

        Raises:
            InvalidOptionError: The cursor belongs to other filters, or is none.
        """
        after = None if cursor is None else self._read_cursor(cursor)
        now = self._runtime.environment.clock.now()
        # One run more than the page holds tells whether there is a next page.
        found = await self._runtime.read_aside(
            run_listing.page,
            self._wanted,
            now,
            after=after,
            limit=self._page_size + 1,
            order=self._order,
        )
        runs = tuple(summary(*one) for one in found[: self._page_size])
        more = len(found) > self._page_size
        return RunPage(runs=runs, cursor=self._cursor(found[len(runs) - 1][0]) if more else None)

    async def __aiter__(self) -> AsyncIterator[RunSummary]:
        cursor: str | None = None
        while True:
            page = await self.page(cursor)
            for run in page.runs:
                yield run
            cursor = page.cursor
            if cursor is None:
                return

    def _cursor(self, last: ListedRun) -> str:
        position: list[Any] = [last.run_id]
        if self._order is Order.DEADLINE:
            deadlines = (last.execution_deadline_at, last.run_deadline_at)
            position.append(min(at for at in deadlines if at is not None))
        text = orjson.dumps([1, self._digest(), *position])
        return base64.urlsafe_b64encode(text).decode().rstrip("=")

    def _read_cursor(self, cursor: str) -> Position:
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            version, digest, *position = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (binascii.Error, ValueError, TypeError):
            raise _bad_cursor("is not one that a page gave") from None
        if version != 1 or [type(part) for part in position] not in ([str], [str, int]):
            raise _bad_cursor("is of another version")
        if digest != self._digest():
            raise _bad_cursor("belongs to other filters")
        try:
            _ = validate_name("run id", position[0])
            _ = [integer("deadline", at, 0) for at in position[1:]]
        except InvalidOptionError:
            raise _bad_cursor("is not one that a page gave") from None
        return Position(*position)

    def _digest(self) -> str:
        asked = repr(self._wanted) + ("" if self._order is Order.NEWEST else self._order.value)
        return hashlib.blake2s(asked.encode(), digest_size=6).hexdigest()


def _checked_order(order: str) -> Order:
    try:
        return Order(order)
    except ValueError:
        shown = f"{order!r:.80}"
        raise InvalidOptionError(
            f"order must be one of {', '.join(Order)}, not {shown}", field="order"
        ) from None


def _bad_cursor(why: str) -> InvalidOptionError:
    return InvalidOptionError(f"cursor {why}: begin again without one", field="cursor")


def summary(run: ListedRun, needs: Sequence[Need], held_up_by: str | None = None) -> RunSummary:
    """Return a listed run as people and programs are shown it.

    Args:
        run: The run.
        needs: Why it needs attention.
        held_up_by: What holds it up, if it stands in the line of a queue.
    """
    return RunSummary(
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        workflow_type=run.workflow_type,
        status=RunStatus(run.status),
        task_queue=run.task_queue,
        priority=run.priority,
        run_number=run.run_number,
        first_run_id=run.first_run_id,
        attempt=run.attempt,
        created_at=to_datetime(run.created_at),
        started_at=instant(run.started_at),
        closed_at=instant(run.closed_at),
        execution_deadline_at=instant(run.execution_deadline_at),
        run_deadline_at=instant(run.run_deadline_at),
        history_length=run.last_seq,
        history_bytes=run.history_bytes,
        owner_id=run.owner_id,
        cancel_requested_at=instant(run.cancel_requested_at),
        task_failures=run.task_failures,
        attention=kinds_of(needs),
        attention_reasons=reasons(needs, workflow_id=run.workflow_id, task_failures=run.task_failures),
        attention_since=instant(run.attention_since),
        build_id=run.build_id,
        parent_run_id=run.parent_run_id,
        search_attributes=attributes(run.search_attributes, run.run_id),
        summary=run.summary,
        progress=progress(run.progress, run.run_id),
        queue=run.queue,
        partition_key=run.partition_key or None,
        queued_at=instant(run.queued_at),
        held_up_by=held_up_by,
    )
