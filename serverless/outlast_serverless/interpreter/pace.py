"""The pace of a run: it can be suspended between tasks, a run that never waits takes breath, and one that has grown
long continues as new.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from outlast import workflow
from outlast_workflow.errors import StructuralLimitError

TASKS_A_BREATH: Final = 1_000
"""After so many tasks without a wait a run waits for a millisecond, so that no run blocks its worker."""
TASKS_A_RUN: Final = 100_000
"""After so many tasks, and events looked at, a run continues as new although its history is short, so that replay never
takes long. It is part of what a history means; with 1, which tests set, a run continues at every safe point.
"""
MOST_TASKS: Final = 10_000_000
_BREATH_S: Final = 0.001
_AT_ONCE: Final = 100


class Pace:
    """Counts the tasks of one run, and those of the runs before it in its chain.

    Args:
        tasks: How many tasks the runs before it have executed.
        suspended: Whether it begins suspended.

    Attributes:
        suspended: Whether no further task begins.
        instant: When the last task began, as expressions see it.
        tasks: How many tasks have been executed.
    """

    def __init__(self, tasks: int = 0, *, suspended: bool = False) -> None:
        self.suspended = suspended
        self.instant: dict[str, Any] = {}
        self.tasks = tasks
        self._at: datetime | None = None
        self._since_wait = 0
        self._moves = 0
        self._held_until = 0
        self._suggested = False
        self._looked_at: datetime | None = None

    async def step(self) -> None:
        """Begin a task: wait while the run is suspended, and take breath where it is time to.

        Raises:
            StructuralLimitError: The run has executed ten million tasks.
        """
        if self.suspended:
            await workflow.wait_condition(lambda: not self.suspended)
        self._moves += 1
        self.tasks += 1
        if self.tasks > MOST_TASKS:
            raise StructuralLimitError(
                "serverless_steps",
                value=self.tasks,
                limit=MOST_TASKS,
                advice="end the loop, or give its work to a subflow",
            )
        at = workflow.now()
        if at != self._at:
            self._begin(at)
        else:
            self._since_wait += 1
            if self._since_wait >= TASKS_A_BREATH:
                await workflow.sleep(_BREATH_S, summary="breath")
                self._begin(workflow.now())

    def move(self) -> None:
        """Count something other than a task that the run has done: it has looked at an event."""
        self._moves += 1

    @property
    def due(self) -> bool:
        """Whether it is time to continue as new: the run is long, and has done something itself."""
        if self._moves <= self._held_until:
            return False
        at = workflow.now()
        # The engine's answer changes between workflow tasks, which mostly are apart in time.
        if at != self._looked_at or not self._moves % _AT_ONCE:
            self._looked_at = at
            self._suggested = workflow.info().continue_as_new_suggested
        return self._suggested or self._moves >= TASKS_A_RUN

    def hold(self) -> None:
        """Let the run go on for a while, since it cannot continue as new now."""
        self._held_until = self._moves + _AT_ONCE

    def _begin(self, at: datetime) -> None:
        self._at = at
        self._since_wait = 0
        self.instant = told_instant(at)


def told_instant(instant: datetime) -> dict[str, Any]:
    """Return an instant as expressions see it."""
    milliseconds = int(instant.timestamp() * 1000)
    return {
        "iso8601": instant.isoformat().replace("+00:00", "Z"),
        "epoch": {"seconds": milliseconds // 1000, "milliseconds": milliseconds},
    }
