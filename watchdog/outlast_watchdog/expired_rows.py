"""Deletes what counts for nothing any more: queries, rate logs, refusals of the outbox, keys of debounced starts."""

from __future__ import annotations

import logging
from typing import Final

from outlast_runs.outbox import ForgetRefused
from outlast_store.reads.due import Expired
from outlast_store.transitions.debounces import ForgetDebounces
from outlast_store.transitions.expired_rows import ForgetQueries, ForgetRateLogs, find_rate_logs
from outlast_watchdog.watched import WatchedRuntime

logger = logging.getLogger("outlast.watchdog")

POLL_EVERY_S: Final = 60.0
MOST_AT_ONCE: Final = 500


class ExpiredRows:
    """Deletes them, once a minute at most; :mod:`outlast_store.transitions.expired_rows` says when they go."""

    def __init__(self, runtime: WatchedRuntime) -> None:
        self._runtime = runtime
        self._polled_at = runtime.environment.clock.monotonic()

    async def forget(self, now: float, expired: Expired) -> int:
        """Delete at most 500 of each kind, if the last look was a minute ago; return how many.

        Args:
            now: The clock's monotonic time, in seconds.
            expired: Which kinds there are.

        Raises:
            StoreError: The database cannot be read or written.
        """
        if now - self._polled_at < POLL_EVERY_S:
            return 0
        runtime, forgotten = self._runtime, 0
        if expired.queries:
            forgotten += await runtime.journal.apply(ForgetQueries(MOST_AT_ONCE))
        if expired.rate_logs:
            found = await runtime.read(find_rate_logs, runtime.environment.clock.now(), MOST_AT_ONCE)
            forgotten += await runtime.journal.apply(ForgetRateLogs(found))
        if expired.refusals:
            forgotten += await runtime.journal.apply(ForgetRefused(MOST_AT_ONCE))
        if expired.debounces:
            forgotten += await runtime.journal.apply(ForgetDebounces(MOST_AT_ONCE))
        # Where there may be more, the next pass goes on.
        if forgotten < MOST_AT_ONCE:
            self._polled_at = now
        if forgotten:
            logger.debug("deleted %d rows that have expired", forgotten)
        return forgotten
