"""Forgets the journals of processes that are long gone: rows that are old and have not changed for an hour."""

from __future__ import annotations

import logging
from typing import Final

from outlast_store.transitions import dead_journals
from outlast_store.transitions.dead_journals import ForgetJournals
from outlast_watchdog.watched import WatchedRuntime

logger = logging.getLogger("outlast.watchdog")

POLL_EVERY_S = 3600.0
GONE_AFTER_S = 86_400.0
MOST_AT_ONCE: Final = 500


class DeadJournals:
    """Polls the journals once an hour; :mod:`outlast_store.transitions.dead_journals` says why this is safe."""

    def __init__(self, runtime: WatchedRuntime) -> None:
        self._runtime = runtime
        self._polled_at = runtime.environment.clock.monotonic()
        self._seen: dict[str, int] = {}

    async def forget(self, now: float) -> int:
        """Delete the rows that have not changed since the last poll, if that was an hour ago; return how many.

        Args:
            now: The clock's monotonic time, in seconds.

        Raises:
            StoreError: The database cannot be read or written.
        """
        if now - self._polled_at < POLL_EVERY_S:
            return 0
        self._polled_at = now
        made_before = self._runtime.environment.clock.now() - int(GONE_AFTER_S * 1_000_000)
        found = await self._runtime.read(dead_journals.oldest, made_before, MOST_AT_ONCE)
        own = self._runtime.journal.committer.journal_id
        gone = [one for one in found if self._seen.get(one[0]) == one[1] and one[0] != own]
        self._seen = dict(found)
        if not gone:
            return 0
        forgotten: int = await self._runtime.journal.apply(ForgetJournals(gone))
        logger.debug("forgot %d journals of processes that are long gone", forgotten)
        return forgotten
