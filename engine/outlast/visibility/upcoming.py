"""What fires when: the deadlines, timers, alerts and schedules of the whole system, the next one first.

A cursor names the filters that it belongs to, and the end of the window that the first page had.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import orjson

from outlast.runtime.runtime import Runtime
from outlast.visibility.views import Instant, View
from outlast_store.upcoming import pages, sources
from outlast_store.upcoming.sources import SOURCES, Place
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import (
    Seconds,
    integer,
    timeout_seconds,
    validate_list,
    validate_name,
)
from outlast_workflow.primitives.enums import AlertKind, UpcomingKind
from outlast_workflow.primitives.times import microseconds, to_datetime

MOST_PER_PAGE: Final = 1000
_LAST: Final = 2**63 - 1
_NUMBERS: Final = frozenset({"activity_id", "timer_id"})


class Due(View):
    """Something that lies ahead, or is overdue: a deadline, a timer, an alert or a schedule.

    Attributes:
        kind: One of the six deadlines, ``timer``, ``alert`` or ``schedule``.
        due_at: When it is enforced, or fires. A schedule decides then on its next slot, jitter included.
        workflow_id: Its workflow; ``None`` for a schedule.
        run_id: Its run; ``None`` for a schedule.
        workflow_type: The type of its workflow, or of those that the schedule starts.
        task_queue: The task queue of the activity that it is about, or else of the workflow.
        command_id: The number of the activity, or of the timer; ``None`` where it is about the workflow.
        name: The type of the workflow or the activity, the timer's summary, or the schedule's id.
        schedule_id: The schedule.
        alert_kind: What the alert is about.
        mark: The alert's mark: ``80%`` of the time, ``-600s`` ahead of the deadline, ``+3600s`` after the begin.
    """

    kind: UpcomingKind
    due_at: Instant
    workflow_id: str | None
    run_id: str | None
    workflow_type: str
    task_queue: str
    command_id: int | None
    name: str | None
    schedule_id: str | None = None
    alert_kind: AlertKind | None = None
    mark: str | None = None


class Upcoming(View):
    """A page of what falls due next.

    Attributes:
        due: The next one first.
        cursor: Where the next page begins; ``None`` if there is none. The next page may be empty.
        stopped: Whether the page ends early because 10,000 were looked at, of which the filters left out too many.
        now: When it was read, by the engine's clock.
    """

    due: tuple[Due, ...]
    cursor: str | None
    stopped: bool
    now: Instant


async def read_upcoming(
    runtime: Runtime,
    limit: int = 50,
    *,
    within: Seconds | None = None,
    kinds: Iterable[UpcomingKind | str] | None = None,
    workflow_type: str | None = None,
    task_queue: str | None = None,
    cursor: str | None = None,
) -> Upcoming:
    """Return what falls due next. The arguments and errors are those of :meth:`outlast.Client.upcoming`.

    Args:
        runtime: The database.
        limit: How much at most.
        within: Only what falls due within this time.
        kinds: Only these kinds.
        workflow_type: Only workflows of this type.
        task_queue: Only this task queue.
        cursor: The cursor of the page before.
    """
    limit = integer("limit", limit, 1, MOST_PER_PAGE)
    ahead = None if within is None else microseconds(timeout_seconds("within", within))
    for field, name in (("workflow type", workflow_type), ("task queue", task_queue)):
        if name is not None:
            validate_name(field, name)
    wanted = pages.Wanted(checked_kinds(kinds), workflow_type, task_queue)
    digest = _digest(wanted, ahead)
    now = runtime.environment.clock.now()
    until, after = (None if ahead is None else now + ahead), None
    if cursor is not None:
        until, after = _read_cursor(cursor, digest)
    wanted = replace(wanted, until=until)
    page = await runtime.read_aside(pages.read_upcoming, wanted, limit, after)
    return Upcoming(
        due=tuple(due_view(due) for due in page.found),
        cursor=None if page.last is None else _cursor(digest, until, page.last.place),
        stopped=page.stopped,
        now=to_datetime(now),
    )


def checked_kinds(kinds: Iterable[UpcomingKind | str] | None) -> frozenset[UpcomingKind]:
    """Return the kinds to show; by default all but heartbeats.

    Raises:
        InvalidOptionError: There is no such kind, or none is named.
    """
    if kinds is None:
        return pages.ALL_BUT_HEARTBEATS
    named = validate_list("kinds", kinds, "kinds")
    if not named:
        raise InvalidOptionError(
            "kinds must name at least one: leave it out for all but heartbeats", field="kinds"
        )
    for kind in named:
        if not isinstance(kind, str) or kind not in list(UpcomingKind):
            raise InvalidOptionError(
                f"kinds must be some of {', '.join(UpcomingKind)}, not {kind!r:.40}", field="kinds"
            )
    return frozenset(UpcomingKind(kind) for kind in named)


def due_view(due: sources.Due) -> Due:
    """Return what falls due as people and programs are shown it."""
    return Due(
        kind=due.kind,
        due_at=to_datetime(due.due_at),
        workflow_id=due.workflow_id,
        run_id=due.run_id,
        workflow_type=due.workflow_type,
        task_queue=due.task_queue,
        command_id=due.command_id,
        name=due.name,
        schedule_id=due.name if due.kind is UpcomingKind.SCHEDULE else None,
        alert_kind=None if due.alert_kind is None else AlertKind(due.alert_kind),
        mark=due.mark,
    )


def _digest(wanted: pages.Wanted, ahead: int | None) -> str:
    asked = repr((sorted(wanted.kinds), wanted.workflow_type, wanted.task_queue, ahead))
    return hashlib.blake2s(asked.encode(), digest_size=6).hexdigest()


def _cursor(digest: str, until: int | None, place: Place) -> str:
    text = orjson.dumps([1, digest, until, place.due_at, place.rank, *place.key])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_cursor(cursor: str, digest: str) -> tuple[int | None, Place]:
    """Return the end of the window, and where to go on."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        version, of, until, due_at, rank, *key = orjson.loads(
            base64.b64decode(padded, altchars=b"-_", validate=True)
        )
    except (binascii.Error, ValueError, TypeError):
        raise _bad_cursor("is not one that a page gave") from None
    if version != 1:
        raise _bad_cursor("is of another version")
    if of != digest:
        raise _bad_cursor("belongs to other filters")
    try:
        if until is not None:
            _ = _stored("until", until)
        source = SOURCES[integer("rank", rank, 0, len(SOURCES) - 1)]
        for column, part in zip(source.key, key, strict=True):
            _ = _stored(column, part) if column in _NUMBERS else validate_name(column, part)
        place = Place(_stored("due at", due_at), rank, tuple(key))
    except (InvalidOptionError, ValueError):
        raise _bad_cursor("is not one that a page gave") from None
    return until, place


def _stored(field: str, value: Any) -> int:
    """Return a number that a column may hold: an instant of the year 9999 is more than options may be."""
    if type(value) is not int or not 0 <= value <= _LAST:
        raise InvalidOptionError(f"{field} must be from 0 to {_LAST}", field=field)
    return value


def _bad_cursor(why: str) -> InvalidOptionError:
    return InvalidOptionError(f"cursor {why}: begin again without one", field="cursor")
