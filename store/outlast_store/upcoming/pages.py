"""Pages of what lies ahead: the sources merged by instant, from any place on, at a bounded cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from heapq import merge
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.bounded_pages import BoundedPage, page_of, walk
from outlast_store.database.snapshots import snapshot
from outlast_store.upcoming.sources import SOURCES, Due, Place
from outlast_workflow.primitives.enums import UpcomingKind

ALL_BUT_HEARTBEATS: Final = frozenset(UpcomingKind) - {UpcomingKind.HEARTBEAT}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a page shows.

    Attributes:
        kinds: Of these kinds.
        workflow_type: Of workflows of this type.
        task_queue: Of this task queue.
        until: Up to this instant, in microseconds.
    """

    kinds: frozenset[UpcomingKind] = ALL_BUT_HEARTBEATS
    workflow_type: str | None = None
    task_queue: str | None = None
    until: int | None = None

    def takes(self, due: Due) -> bool:
        """Return whether it is shown."""
        return (
            due.kind in self.kinds
            and (self.workflow_type is None or due.workflow_type == self.workflow_type)
            and (self.task_queue is None or due.task_queue == self.task_queue)
        )


def read_upcoming(
    connection: Connection, wanted: Wanted, limit: int, after: Place | None = None
) -> BoundedPage[Due]:
    """Return what falls due next, by instant; at one instant by source, and there by key.

    Args:
        connection: Where to read.
        wanted: What to show.
        limit: How much at most.
        after: Where the page begins: behind this place.
    """
    with snapshot(connection):
        return find_upcoming(connection, wanted, limit, after)


def find_upcoming(
    connection: Connection, wanted: Wanted, limit: int, after: Place | None = None
) -> BoundedPage[Due]:
    """Do the same in a snapshot that the caller has.

    Args:
        connection: Where to read.
        wanted: What to show.
        limit: How much at most.
        after: Where the page begins: behind this place.
    """
    walks = [
        walk(partial(_read, connection, rank, after, wanted.until), limit)
        for rank, source in enumerate(SOURCES)
        if source.kinds & wanted.kinds
    ]
    return page_of(merge(*walks, key=lambda due: due.place[:2]), wanted.takes, limit)


def _read(
    connection: Connection, rank: int, after: Place | None, until: int | None, last: Due | None, limit: int
) -> list[Due]:
    return SOURCES[rank].read(connection, rank, last.place if last is not None else after, until, limit)
