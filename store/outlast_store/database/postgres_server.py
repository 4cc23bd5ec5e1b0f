"""What a PostgreSQL server is asked about itself: what it can do, and what time it has."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from outlast_workflow.environment import Clock

_CLOCK_ROUND_TRIPS: Final = 5
_NOT_SUPPORTED: Final = frozenset({"42601", "0A000"})
"""The states "syntax error" and "feature not supported"."""


def has_skip_locked(connection: Connection) -> bool:
    """Return whether the server has ``FOR UPDATE SKIP LOCKED``; some that speak PostgreSQL's protocol do not."""
    try:
        connection.exec_driver_sql(
            "SELECT journal_id FROM journals WHERE journal_id = '' FOR UPDATE SKIP LOCKED"
        )
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in _NOT_SUPPORTED:
            return False
        raise
    return True


def database_clock_offset(connection: Connection, clock: Clock) -> int:
    """Return how far the server's clock is ahead of this process's monotonic clock, in microseconds.

    The engine of a shared database runs on the database's clock, so that deadlines mean the same in every process.
    Of a few round trips the fastest counts, because its answer is the most recent one (Cristian, 1989).

    Args:
        connection: A connection to PostgreSQL.
        clock: The process's clock, of which the monotonic one counts.
    """
    best_trip, best_offset = None, 0
    for _ in range(_CLOCK_ROUND_TRIPS):
        before = round(clock.monotonic() * 1_000_000)
        row = connection.exec_driver_sql(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        ).one()
        trip = round(clock.monotonic() * 1_000_000) - before
        if best_trip is None or trip < best_trip:
            best_trip, best_offset = trip, row[0] - (before + trip // 2)
    return best_offset
