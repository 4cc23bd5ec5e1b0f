"""Waits in vain: a result or an answer that somebody waits for, and that no live worker could give.

Ten seconds after a wait has begun, the database is asked who could serve what is waited for. If nobody could, that is
logged as a warning, once for each run, with what to do. One timer serves all waits of the process; it runs only while
somebody waits. While no other wait begins, it looks ever more rarely, at last once an hour, so that a wait of months
costs little. A run that visibly moves in this process is not asked about, so such a wait costs no statement.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from outlast_store.reads.runs import find_runs
from outlast_store.reads.serving import find_lacks
from outlast_workflow.environment import Environment
from outlast_workflow.errors import StoreError

logger = logging.getLogger("outlast.client")

LOOK_AFTER_S: Final = 10.0
LONGEST_PAUSE_S: Final = 3600.0
MOST_RUNS_ASKED: Final = 200
"""How many runs one look asks about."""


class UnservedWaits:
    """Looks after the waits of one process.

    Args:
        read: Reads the database.
        spawn: Runs a coroutine.
        environment: The clock.
        waiting: Returns the runs that somebody waits for now.
        moves: Tells whether a run has moved in this process within the last so many seconds.
    """

    def __init__(
        self,
        read: Callable[..., Awaitable[Any]],
        spawn: Callable[[Any, str], None],
        environment: Environment,
        waiting: Callable[[], set[str]],
        moves: Callable[[str, float], bool],
    ) -> None:
        self._read = read
        self._spawn = spawn
        self._clock = environment.clock
        self._waiting = waiting
        self._moves = moves
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._seen: set[str] = set()
        self._told: set[str] = set()
        self._pause_s = LOOK_AFTER_S
        self.armed = False
        """Whether a look is near; a wait that finds it false calls :meth:`arm`."""

    def arm(self, run_id: str) -> None:
        """Plan a look, for a run that somebody begins to wait for."""
        self.armed = True
        self._seen.add(run_id)
        self._pause_s = LOOK_AFTER_S
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(LOOK_AFTER_S, self._look)

    def close(self) -> None:
        """Plan no more looks."""
        self.armed = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        waiting = self._waiting()
        # What was there at the last look, or planned it, has waited long enough.
        candidates = (self._seen & waiting) - self._told
        due = sorted(run_id for run_id in candidates if not self._moves(run_id, LOOK_AFTER_S))
        # A wait that has begun since the last look is due at the next one.
        self.armed = not waiting <= self._seen
        self._pause_s = LOOK_AFTER_S if self.armed else min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._seen = set(waiting)
        self._told &= waiting
        self._timer = self._loop.call_later(self._pause_s, self._look) if waiting else None
        if due:
            self._spawn(self._tell(due[:MOST_RUNS_ASKED]), "outlast-unserved-waits")

    async def _tell(self, run_ids: list[str]) -> None:
        try:
            found = await self._read(find_lacks, run_ids, self._clock.now())
            runs = await self._read(find_runs, list(found))
        except StoreError:
            # The next look asks again.
            return
        for run in runs:
            self._told.add(run.run_id)
            for lack in found[run.run_id]:
                logger.warning(
                    "workflow %s is waited for in vain: %s: %s",
                    run.workflow_id,
                    lack.cause,
                    lack.remedy,
                    extra={"workflow_id": run.workflow_id, "run_id": run.run_id},
                )
