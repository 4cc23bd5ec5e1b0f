"""Deletes rows that count for nothing any more: queries that nobody waits for, and rate logs that have passed."""

from __future__ import annotations

import logging
from typing import Final

from outlast_store.transitions.expired_rows import ForgetQueries, ForgetRateLogs, find_expired
from outlast_watchdog.passes import WatchedRuntime

logger = logging.getLogger("outlast.watchdog")

POLL_EVERY_S: Final = 60.0
MOST_AT_ONCE: Final = 500


class ExpiredRows:
    """Deletes them, once a minute at most; :mod:`outlast_store.transitions.expired_rows` says when they go."""

    def __init__(self, runtime: WatchedRuntime) -> None:
        self._runtime = runtime
        self._polled_at = runtime.environment.clock.monotonic()

    async def forget(self, now: float) -> int:
        """Delete at most 500 of each kind, if the last look was a minute ago; return how many.

        Args:
            now: The clock's monotonic time, in seconds.

        Raises:
            StoreError: The database cannot be read or written.
        """
        if now - self._polled_at < POLL_EVERY_S:
            return 0
        runtime = self._runtime
        found = await runtime.read(find_expired, runtime.environment.clock.now(), MOST_AT_ONCE)
        forgotten = 0
        if found.queries:
            forgotten += await runtime.journal.apply(ForgetQueries(MOST_AT_ONCE))
        if found.rate_logs:
            forgotten += await runtime.journal.apply(ForgetRateLogs(found.rate_logs))
        # Where there may be more, the next pass goes on.
        if forgotten < MOST_AT_ONCE:
            self._polled_at = now
        if forgotten:
            logger.debug("deleted %d rows that have expired", forgotten)
        return forgotten
