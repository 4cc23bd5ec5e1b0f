"""The activity claimer: claims pending activities if some are known to wait and slots are free.

A claim asks for as many activities as there are free slots. It reserves the slots first and releases those that it did
not need. After a claim that filled its slots, another one follows; after one that did not, the claimer looks up when
the next activity becomes available.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from outlast.runtime.runtime import Runtime
from outlast_activities.changes import ClaimActivities, Claimed
from outlast_workflow.errors import JournalClosedError, OutlastError

logger = logging.getLogger("outlast.worker")

MOST_ACTIVITIES_CLAIMED: Final = 200
"""How many activities one claim takes."""
CLAIM_AGAIN_AFTER_S: Final = 0.5
"""How long after a failed claim the next one is made."""


class ActivityClaimer:
    """Claims activities of one kind for one worker.

    Args:
        runtime: Where the claims are written.
        free: Returns how many slots are free.
        reserve: Reserves that many slots; returns whether it could.
        release: Releases that many reserved slots.
        change: Makes the claim of that many activities.
        next_at: Reads when the next activity becomes available, in microseconds since the epoch.
        on_claimed: Called with what was claimed.

    Attributes:
        waiting: Whether an activity is known to wait.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        free: Callable[[], int],
        reserve: Callable[[int], bool],
        release: Callable[[int], None],
        change: Callable[[int], ClaimActivities],
        next_at: Callable[[], Awaitable[int | None]],
        on_claimed: Callable[[ClaimActivities, list[Claimed]], None],
    ) -> None:
        self.waiting = False
        self._runtime = runtime
        self._clock = runtime.environment.clock
        self._free = free
        self._reserve = reserve
        self._release = release
        self._change = change
        self._next_at = next_at
        self._on_claimed = on_claimed
        self._claiming = False
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0

    def expect(self, available_at: int) -> None:
        """Claim once an activity becomes available.

        Args:
            available_at: When it does, in microseconds since the epoch.
        """
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
        """Claim as many activities as there are free slots, if any wait."""
        if not self.waiting or self._claiming or self._stopped:
            return
        wanted = min(self._free(), MOST_ACTIVITIES_CLAIMED)
        if wanted <= 0 or not self._reserve(wanted):
            return
        self._claiming = True
        change = self._change(wanted)
        self._runtime.journal.submit(change, partial(self._claimed, change, wanted))

    def _claimed(
        self, change: ClaimActivities, wanted: int, claimed: list[Claimed] | None, error: BaseException | None
    ) -> None:
        self._claiming = False
        self._release(wanted - len(claimed or ()))
        if claimed is None:
            if not isinstance(error, JournalClosedError):
                logger.warning("no activities could be claimed: %s", error)
                self._runtime.loop.call_later(CLAIM_AGAIN_AFTER_S, self.claim)
            return
        emptied = len(claimed) < wanted
        if emptied:
            self.waiting = False
        self._on_claimed(change, claimed)
        if emptied:
            self._runtime.spawn(self._look_ahead(), "outlast-look-ahead")

    async def _look_ahead(self) -> None:
        """Look up when the next activity becomes available."""
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
