"""Taking over runs: those that wait for an owner, and those that a live owner leaves waiting.

A worker takes over only as many runs as it has activity slots free, less those that are on their way. What it took
over beyond that would schedule activities that wait, be evicted while they do, and be replayed once they have run; with
several workers they would run in one process and their runs live in another. So the backlog stays where all can see
it, and who has room takes from it.

But a run need not begin with an activity, and slots may be taken for hours: :data:`ANYWAY_AFTER_S` seconds after the
last claim some are taken over in any case.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from outlast.runtime.runtime import Runtime
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.runs.loader import RunLoader
from outlast.worker.settings import WorkerSettings
from outlast_runs.claims import ClaimRuns, StealRuns
from outlast_store.schema.rows import RunRow

logger = logging.getLogger("outlast.worker")

MOST_CLAIMED = 100
CLAIM_AGAIN_AFTER = 0.05
ANYWAY_AFTER_S = 1.0


class RunClaimer:
    """Takes over runs for one worker, and has them loaded.

    Args:
        runtime: Where the claims go.
        settings: Whose they are, and of which queues.
        types: The workflow types that the worker knows.
        dispatcher: Knows how much room there is, and tells when there is some.
        loader: Brings runs into memory.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        types: frozenset[str],
        dispatcher: ActivityDispatcher,
        loader: RunLoader,
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._types = types
        self._dispatcher = dispatcher
        self._loader = loader
        self.arriving: set[str] = set()
        """Runs claimed and not activated yet: they may need slots."""
        self._claiming = False
        self._again = False
        self._anyway: asyncio.TimerHandle | None = None
        self._stopped = False
        self.paused = False
        """While its worker is not registered nothing is claimed: who claims it would be nobody."""

    def claim(self) -> None:
        """Take over runs that wait for an owner, as there is room."""
        if self._claiming:  # what waits now may have come behind its look
            self._again = True
        else:
            self._claim_for_room()

    def _claim_for_room(self) -> None:
        if self._stopped or self.paused or not self._types:
            return
        room = self._dispatcher.room
        limit = MOST_CLAIMED if room is None else min(MOST_CLAIMED, room - len(self.arriving))
        if limit > 0:
            self._claim(limit)
            return
        self._dispatcher.on_room = self._has_room
        if self._anyway is None:
            self._anyway = self._runtime.loop.call_later(ANYWAY_AFTER_S, self._claim_anyway)

    def _has_room(self) -> None:
        """A slot is free: what waited for it is claimed, once the runs on their way have had their choice."""
        if not self.arriving:
            self.claim()

    def arrived(self, run_id: str) -> None:
        """A run was activated, or will not be: it waits for slots no more than others do."""
        self.arriving.discard(run_id)
        if self._dispatcher.on_room is not None:
            self._has_room()

    def _claim_anyway(self) -> None:
        self._anyway = None
        self.arriving.clear()
        if not self._claiming and not self._stopped and not self.paused:
            self._claim(MOST_CLAIMED)

    def _claim(self, limit: int) -> None:
        if self._anyway is not None:
            self._anyway.cancel()
            self._anyway = None
        self._dispatcher.on_room = None
        self._claiming = True
        change = ClaimRuns(self._settings.worker_id, sorted(self._settings.task_queues), self._types, limit)
        self._runtime.journal.submit(change, partial(self._claimed, change))

    def _claimed(self, change: ClaimRuns, runs: list[RunRow] | None, error: BaseException | None) -> None:
        self._claiming = False
        again, self._again = self._again, False
        if error is not None:
            logger.debug("no runs could be claimed: %s", error)
            return
        for run in runs or ():
            self.arriving.add(run.run_id)
            history = change.histories.get(run.run_id)
            if history is None:
                self._loader.load(run.run_id)
            else:
                self._loader.hand_in((run, history))
        if again or (change.more and runs):
            self._claim_for_room()
        elif change.more:  # another transaction holds them all: it will be over soon
            self._runtime.loop.call_later(CLAIM_AGAIN_AFTER, self.claim)

    def steal(self, run_ids: Sequence[str]) -> None:
        """Take over runs that their owner leaves waiting."""
        if not self._stopped:
            self._runtime.journal.submit(StealRuns(self._settings.worker_id, run_ids), self._stolen)

    def _stolen(self, runs: list[RunRow] | None, error: BaseException | None) -> None:
        for run in runs or ():
            logger.warning("run %s was awake for long; it is taken from its owner", run.run_id)
            self._loader.load(run.run_id)

    def stop(self) -> None:
        """Take over nothing more."""
        self._stopped = True
        if self._anyway is not None:
            self._anyway.cancel()
