"""Listing runs: what may be asked for, checked at once, and the pages of the answer."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypedDict

import orjson

from outlast.runtime.runtime import Runtime
from outlast.visibility.describe import attributes, instant
from outlast.visibility.views import RunPage, RunSummary
from outlast.visibility.where import Range, wanted_attributes
from outlast_store.reads import run_listing
from outlast_store.reads.run_listing import ListedRun, RunFilter
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.options import validate_name, validate_workflow_id
from outlast_workflow.options.validation import integer
from outlast_workflow.primitives.enums import OPEN_RUN_STATUSES, Attention, RunStatus
from outlast_workflow.primitives.times import from_datetime, to_datetime

MOST_PER_PAGE: Final = 1000
Statuses = RunStatus | str | Iterable[RunStatus | str]


WhereValue = str | int | float | bool | datetime | Range | Iterable[str | int | float | bool | datetime]


class Filters(TypedDict, total=False):
    """What ``client.list`` and ``client.count`` can be asked for; see :func:`run_filter`."""

    status: Statuses | None
    workflow_type: str | None
    task_queue: str | None
    workflow_id: str | None
    id_prefix: str | None
    parent: str | None
    where: Mapping[str, WhereValue] | None
    created_after: datetime | None
    created_before: datetime | None
    started_after: datetime | None
    started_before: datetime | None
    closed_after: datetime | None
    closed_before: datetime | None
    deadline_before: datetime | None
    attention: bool
    overdue: bool
    open: bool | None
    latest: bool


def run_filter(
    *,
    status: Statuses | None = None,
    workflow_type: str | None = None,
    task_queue: str | None = None,
    workflow_id: str | None = None,
    id_prefix: str | None = None,
    parent: str | None = None,
    where: Mapping[str, WhereValue] | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    started_after: datetime | None = None,
    started_before: datetime | None = None,
    closed_after: datetime | None = None,
    closed_before: datetime | None = None,
    deadline_before: datetime | None = None,
    attention: bool = False,
    overdue: bool = False,
    open: bool | None = None,
    latest: bool = False,
    **unknown: Any,
) -> RunFilter:
    """Check what was asked for.

    Raises:
        InvalidOptionError: A filter that there is not, an unknown status (the message has the choices), a name that
            can't be one, a datetime without a time zone, a window that ends before it begins.
    """
    if unknown:
        name = min(unknown)
        meant = "; the workflow's id is workflow_id" if name == "id" else ""
        known = ", ".join(Filters.__annotations__)
        raise InvalidOptionError(f"there is no filter {name!r}{meant}: there are {known}", field=name)
    chosen = RunFilter(
        statuses=_statuses(status),
        workflow_type=None if workflow_type is None else validate_name("workflow type", workflow_type),
        task_queue=None if task_queue is None else validate_name("task queue", task_queue),
        workflow_id=None if workflow_id is None else validate_workflow_id(workflow_id),
        id_prefix=None if id_prefix is None else validate_name("id prefix", id_prefix),
        parent=None if parent is None else validate_name("parent", parent),
        where=wanted_attributes(where),
        created_after=_instant("created after", created_after),
        created_before=_instant("created before", created_before),
        started_after=_instant("started after", started_after),
        started_before=_instant("started before", started_before),
        closed_after=_instant("closed after", closed_after),
        closed_before=_instant("closed before", closed_before),
        deadline_before=_instant("deadline before", deadline_before),
        attention=_flag("attention", attention),
        overdue=_flag("overdue", overdue),
        open=None if open is None else _flag("open", open),
        latest=_flag("latest", latest),
    )
    for what in ("created", "started", "closed"):
        after, before = getattr(chosen, f"{what}_after"), getattr(chosen, f"{what}_before")
        if after is not None and before is not None and after >= before:
            raise InvalidOptionError(f"{what} before must lie after {what} after", field=f"{what}_before")
    if chosen.open is not None:
        for name in chosen.statuses:
            if (name in OPEN_RUN_STATUSES) is not chosen.open:
                raise InvalidOptionError(
                    f"a run that is {name} is not {'open' if chosen.open else 'closed'}: leave one of the two out",
                    field="open",
                )
    return chosen


def _statuses(status: Any) -> tuple[str, ...]:
    if status is None:
        return ()
    given = [status] if isinstance(status, str) else status
    if not isinstance(given, Iterable):
        raise _unknown_status(status)
    chosen: dict[str, None] = {}
    for name in given:
        try:
            chosen[RunStatus(name).value] = None
        except ValueError:
            raise _unknown_status(name) from None
    if not chosen:
        raise InvalidOptionError("status must name at least one: leave it out for all", field="status")
    return tuple(chosen)


def _unknown_status(name: object) -> InvalidOptionError:
    shown = repr(name) if isinstance(name, str) else type(name).__name__
    return InvalidOptionError(
        f"status must be one of {', '.join(RunStatus)}, not {shown:.80}", field="status"
    )


def _instant(words: str, moment: Any) -> int | None:
    field = words.replace(" ", "_")
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InvalidOptionError(f"{words} must be a datetime, not {type(moment).__name__}", field=field)
    try:
        return from_datetime(moment)
    except ValueError as error:
        raise InvalidOptionError(f"{words}: {error}", field=field) from None


def _flag(words: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidOptionError(f"{words} must be True or False, not {type(value).__name__}", field=words)
    return value


class Listing:
    """Runs that match, newest first: iterate over all of them, or take them page by page.

    A walk sees every run exactly once that existed when it began and matches all the while. Runs that are started
    meanwhile are newer than where the walk is, and belong to the next one.
    """

    def __init__(self, runtime: Runtime, wanted: RunFilter, page_size: int) -> None:
        self._runtime = runtime
        self._wanted = wanted
        self._page_size = integer("page size", page_size, 1, MOST_PER_PAGE)

    async def page(self, cursor: str | None = None) -> RunPage:
        """One page: the first, or the one after a cursor.

        Raises:
            InvalidOptionError: The cursor is none of these filters'.
        """
        before = None if cursor is None else self._read_cursor(cursor)
        now = self._runtime.environment.clock.now()
        # One more than asked for says whether there is a next page.
        found = await self._runtime.read_aside(
            run_listing.page, self._wanted, now, before=before, limit=self._page_size + 1
        )
        runs = tuple(summary(run, attention) for run, attention in found[: self._page_size])
        more = len(found) > self._page_size
        return RunPage(runs=runs, cursor=self._cursor(runs[-1].run_id) if more else None)

    async def __aiter__(self) -> AsyncIterator[RunSummary]:
        cursor: str | None = None
        while True:
            page = await self.page(cursor)
            for run in page.runs:
                yield run
            cursor = page.cursor
            if cursor is None:
                return

    def _cursor(self, run_id: str) -> str:
        text = orjson.dumps([1, self._digest(), run_id])
        return base64.urlsafe_b64encode(text).decode().rstrip("=")

    def _read_cursor(self, cursor: str) -> str:
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            version, digest, run_id = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (binascii.Error, ValueError, TypeError):
            raise _bad_cursor("is not one that a page gave") from None
        if version != 1 or not isinstance(run_id, str):
            raise _bad_cursor("is of another version")
        if digest != self._digest():
            raise _bad_cursor("belongs to other filters")
        return run_id

    def _digest(self) -> str:
        return hashlib.blake2s(repr(self._wanted).encode(), digest_size=6).hexdigest()


def _bad_cursor(why: str) -> InvalidOptionError:
    return InvalidOptionError(f"cursor {why}: begin again without one", field="cursor")


def summary(run: ListedRun, attention: Iterable[str]) -> RunSummary:
    """What is shown of a listed run."""
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
        attention=tuple(Attention(kind) for kind in attention),
        attention_since=instant(run.attention_since),
        build_id=run.build_id,
        parent_run_id=run.parent_run_id,
        search_attributes=attributes(run.search_attributes),
    )
