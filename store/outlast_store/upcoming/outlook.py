"""What lies ahead at a glance: how much by kind and by when, and the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import fetch
from outlast_store.upcoming.pages import Wanted, find_upcoming
from outlast_store.upcoming.sources import SOURCES, Due
from outlast_workflow.primitives.enums import UpcomingKind

MOST_COUNTED: Final = 10_000
MOST_LISTED: Final = 50
HEARTBEATS: Final = Wanted(kinds=frozenset({UpcomingKind.HEARTBEAT}))


@dataclass(slots=True)
class Outlook:
    """What lies ahead.

    Attributes:
        counts: By kind, how many fall due before each of the given bounds, and how many later. Of runs, activities,
            timers, alerts and schedules the nearest 10,000 each are counted.
        nearest: The nearest ones, without heartbeats.
        heartbeats: The nearest heartbeats. They stand aside: each activity that works moves its own all the time.
        more: Whether counting stopped at that limit, so that there may be more.
    """

    counts: dict[str, list[int]]
    nearest: list[Due]
    heartbeats: list[Due]
    more: bool


def outlook(connection: Connection, bounds: Sequence[int]) -> Outlook:
    """Return what lies ahead, by kind and by when it falls due.

    Args:
        connection: Where to read.
        bounds: Instants in microseconds since the epoch, rising.
    """
    counts: dict[str, list[int]] = {}
    more = False
    passed = " + ".join(["CASE WHEN {} < ? THEN 0 ELSE 1 END"] * len(bounds)) or "0"
    with snapshot(connection):
        for source in SOURCES:
            place = passed.replace("{}", f"ahead.{source.instant}")
            text = (
                f"SELECT kind, place, count(*) FROM (SELECT {source.kind} AS kind, {place} AS place "
                f"FROM ({source.nearest()}) AS ahead) AS placed GROUP BY kind, place"
            )
            found = fetch(connection, text, (*bounds, MOST_COUNTED))
            for kind, at, count in found:
                # Runs and activities have one in common.
                counts.setdefault(kind, [0] * (len(bounds) + 1))[at] += count
            more = more or sum(count for _, _, count in found) == MOST_COUNTED
        nearest = find_upcoming(connection, Wanted(), MOST_LISTED)
        heartbeats = find_upcoming(connection, HEARTBEATS, MOST_LISTED)
    return Outlook(counts=counts, nearest=nearest.found, heartbeats=heartbeats.found, more=more)
