"""Claiming what waits: when something is known to wait, and a slot is free.

A claim is made for as many as there are slots, which are taken before it and given back for what it did not find. One
that comes back full is followed by another; after one that does not, it is looked up when the next thing will wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from outlast.runtime.runtime import Runtime
from outlast_activities.changes import ClaimActivities, Claimed
from outlast_workflow.errors import JournalClosedError, OutlastError

logger = logging.getLogger("outlast.worker")

MOST_CLAIMED = 200
RETRY_AFTER = 0.5


class ActivityClaimer:
    """Claims activities of one kind for one worker.

    Args:
        runtime: Where the claims go.
        free: How many slots there are now.
        take: Takes slots.
        give_back: Gives slots back.
        change: The claim of so many.
        next_at: When the next one becomes available, by the database.
        on_claimed: Told of what was claimed.

    Attributes:
        waiting: Whether something is known to wait.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        free: Callable[[], int],
        take: Callable[[int], bool],
        give_back: Callable[[int], None],
        change: Callable[[int], ClaimActivities],
        next_at: Callable[[], Awaitable[int | None]],
        on_claimed: Callable[[ClaimActivities, list[Claimed]], None],
    ) -> None:
        self.waiting = False
        self._runtime = runtime
        self._clock = runtime.environment.clock
        self._free = free
        self._take = take
        self._give_back = give_back
        self._change = change
        self._next_at = next_at
        self._on_claimed = on_claimed
        self._claiming = False
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0

    def expect(self, available_at: int) -> None:
        """Something waits, or will from an instant on."""
        wait = available_at - self._clock.now()
        if wait <= 0:
            self.waiting = True
            self.claim()
        elif self._timer is None or available_at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = available_at
            self._timer = self._runtime.loop.call_later(wait / 1_000_000, self._due)

    def _due(self) -> None:
        self._timer = None
        self.expect(self._timer_at)

    def claim(self) -> None:
        """Claim as many as there are free slots, if something waits."""
        if not self.waiting or self._claiming or self._stopped:
            return
        wanted = min(self._free(), MOST_CLAIMED)
        if wanted <= 0 or not self._take(wanted):
            return
        self._claiming = True
        change = self._change(wanted)
        self._runtime.journal.submit(change, partial(self._claimed, change, wanted))

    def _claimed(
        self, change: ClaimActivities, wanted: int, claimed: list[Claimed] | None, error: BaseException | None
    ) -> None:
        self._claiming = False
        self._give_back(wanted - len(claimed or ()))
        if claimed is None:
            if not isinstance(error, JournalClosedError):
                logger.warning("no activities could be claimed: %s", error)
                self._runtime.loop.call_later(RETRY_AFTER, self.claim)
            return
        all_there_was = len(claimed) < wanted
        if all_there_was:
            self.waiting = False
        self._on_claimed(change, claimed)
        if all_there_was:
            self._runtime.spawn(self.look(), "outlast-look-ahead")

    async def look(self) -> None:
        """Look up when the next one becomes available."""
        try:
            available_at = await self._next_at()
        except OutlastError:
            return
        if available_at is not None and not self._stopped:
            self.expect(available_at)

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
