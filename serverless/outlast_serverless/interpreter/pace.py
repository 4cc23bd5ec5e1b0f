"""The pace of a run: it can be suspended between tasks, and a run that never waits takes breath."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from outlast import workflow
from outlast_workflow.errors import StructuralLimitError

TASKS_A_BREATH: Final = 1_000
"""After so many tasks without a wait a run waits for a millisecond, so that no run blocks its worker."""
MOST_TASKS: Final = 10_000_000
_BREATH_S: Final = 0.001


class Pace:
    """Counts the tasks of one run.

    Attributes:
        suspended: Whether no further task begins.
        instant: When the last task began, as expressions see it.
    """

    def __init__(self) -> None:
        self.suspended = False
        self.instant: dict[str, Any] = {}
        self._at: datetime | None = None
        self._tasks = 0
        self._since_wait = 0

    async def step(self) -> None:
        """Begin a task: wait while the run is suspended, and take breath where it is time to.

        Raises:
            StructuralLimitError: The run has executed ten million tasks.
        """
        if self.suspended:
            await workflow.wait_condition(lambda: not self.suspended)
        self._tasks += 1
        if self._tasks > MOST_TASKS:
            raise StructuralLimitError(
                "serverless_steps",
                value=self._tasks,
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
