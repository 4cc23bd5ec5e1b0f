"""The run claimer: claims runs that wait for an owner, and steals runs that a live owner leaves waiting.

A worker claims only as many runs as it has free activity slots, less the claimed runs that are not running yet. Any
further run would schedule activities that wait, be evicted meanwhile, and be replayed for each result; with several
workers, the activities would run in one process and their runs live in another. So the backlog stays in the database,
and the worker that has room claims from it.

But a run need not start with an activity, and slots may be taken for hours. So :data:`ANYWAY_AFTER_S` after the last
claim, the worker claims runs whether it has room or not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from outlast.runtime.runtime import Runtime
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.runs.loader import RunLoader
from outlast.worker.settings import WorkerSettings
from outlast_runs.claims import ClaimRuns, StealRuns
from outlast_store.schema.rows import RunRow

logger = logging.getLogger("outlast.worker")

MOST_RUNS_CLAIMED: Final = 100
"""How many runs one claim takes."""
CLAIM_AGAIN_AFTER_S: Final = 0.05
"""How long to wait while another transaction holds the runs that could be claimed."""
ANYWAY_AFTER_S: Final = 1.0
"""How long a worker without room waits before it claims anyway."""


class RunClaimer:
    """Claims runs for one worker and has them loaded.

    Args:
        runtime: Where the claims are written.
        settings: The worker's settings.
        types: The workflow types that the worker runs.
        dispatcher: Knows how much room there is, and calls back when there is some.
        loader: Loads what was claimed.
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
        """Claimed runs that have not had a workflow task yet: they may need slots."""
        self._claiming = False
        self._again = False
        self._anyway: asyncio.TimerHandle | None = None
        self._stopped = False
        self.on_room: list[Callable[..., None]] = []
        """Called when there may be room for runs of other sources; with ``anyway=True`` where they do without."""
        self.paused = False
        """Whether claims are off because the worker is not registered: its claims would belong to nobody."""

    def claim(self) -> None:
        """Claim runs that wait for an owner, if there is room."""
        if self._claiming:
            # The claim in flight may have missed what waits now.
            self._again = True
        else:
            self._claim_for_room()

    @property
    def limit(self) -> int:
        """How many runs the worker has room for now."""
        if self._stopped or self.paused or not self._types:
            return 0
        room = self._dispatcher.room
        return MOST_RUNS_CLAIMED if room is None else min(MOST_RUNS_CLAIMED, room - len(self.arriving))

    def _claim_for_room(self) -> None:
        if self._stopped or self.paused or not self._types:
            return
        limit = self.limit
        if limit > 0:
            self._claim(limit)
            return
        self.wait_for_room()

    def _has_room(self) -> None:
        """Claim for a slot that is free, once the runs claimed before have had their choice of it."""
        if not self.arriving:
            self._tell_of_room()
            self.claim()

    def _tell_of_room(self, *, anyway: bool = False) -> None:
        for waiting in self.on_room:
            waiting(anyway=anyway)

    def wait_for_room(self) -> None:
        """Have :attr:`on_room` called once there is room, or soon anyway."""
        self._dispatcher.on_room = self._has_room
        if self._anyway is None:
            self._anyway = self._runtime.loop.call_later(ANYWAY_AFTER_S, self._claim_anyway)

    def arrived(self, run_id: str) -> None:
        """Count a claimed run no more: it has had its first workflow task, or will not get one."""
        self.arriving.discard(run_id)
        if self._dispatcher.on_room is not None:
            self._has_room()

    def _claim_anyway(self) -> None:
        self._anyway = None
        self.arriving.clear()
        if not self._stopped and not self.paused:
            self._tell_of_room(anyway=True)
        if not self._claiming and not self._stopped and not self.paused:
            self._claim(MOST_RUNS_CLAIMED)

    def _claim(self, limit: int) -> None:
        if self._anyway is not None:
            self._anyway.cancel()
            self._anyway = None
        self._dispatcher.on_room = None
        self._claiming = True
        change = ClaimRuns(self._settings.worker_id, sorted(self._settings.task_queues), self._types, limit)
        self._runtime.journal.submit(change, partial(self._claimed, change))
        self._tell_of_room()

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
        elif change.more:
            # Another transaction holds all of them, and will end soon.
            self._runtime.loop.call_later(CLAIM_AGAIN_AFTER_S, self.claim)

    def steal(self, run_ids: Sequence[str]) -> None:
        """Steal runs that their live owner leaves waiting."""
        if not self._stopped:
            most_losses = self._settings.limits.owner_losses
            change = StealRuns(self._settings.worker_id, run_ids, most_losses)
            self._runtime.journal.submit(change, self._stolen)

    def _stolen(self, runs: list[RunRow] | None, error: BaseException | None) -> None:
        for run in runs or ():
            logger.warning("run %s was left waiting by its owner; it is stolen", run.run_id)
            self._loader.load(run.run_id)

    def stop(self) -> None:
        """Claim and steal nothing more."""
        self._stopped = True
        if self._anyway is not None:
            self._anyway.cancel()
