"""Results that are committed alone: without a decision, guarded by their claim token only.

A result belongs to the runner of its activity until a commit has acknowledged it. It is bundled with the decision that
it leads to where the run is in memory; where it is not, or where the bundle was refused, it is written here.
"""

from __future__ import annotations

import logging
from functools import partial

from outlast.runtime.runtime import Runtime
from outlast.worker.runs.loader import RELOAD_AFTER, Result
from outlast_activities.attempts import UNWRITABLE
from outlast_activities.changes import CompleteAttempt, EndAttempt
from outlast_activities.task import ActivityTask
from outlast_store.database.driver_errors import lasts
from outlast_workflow.errors import JournalClosedError, RefusedError, StoreError
from outlast_workflow.history.events import ActivityCompleted

logger = logging.getLogger("outlast.worker")


class Results:
    """Commits results of activities alone, until the store has taken or refused them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def commit(self, results: list[Result]) -> None:
        """A result is never lost with the decision it was bundled with."""
        for task, payload in results:
            event = ActivityCompleted(task.activity_id, payload, task.row.charged_attempt)
            change = CompleteAttempt(task.run_id, task.activity_id, task.attempt, event)
            self._submit(task, change)

    def _submit(self, task: ActivityTask, change: CompleteAttempt) -> None:
        try:
            self._runtime.journal.submit(change, partial(self._committed, task, change))
        except JournalClosedError:
            logger.debug("the client was closed before a result of run %s could be written", task.run_id)

    def _committed(
        self, task: ActivityTask, change: CompleteAttempt, in_time: bool | None, error: BaseException | None
    ) -> None:
        if isinstance(error, RefusedError):
            logger.info(
                "a late result of activity %s of run %s was refused: %s",
                task.activity_id,
                task.run_id,
                error.reason,
            )
        elif error is not None:
            logger.warning("a result of run %s could not be committed: %s", task.run_id, error)
            if isinstance(error, StoreError) and not isinstance(error, JournalClosedError):
                self._runtime.loop.call_later(RELOAD_AFTER, self._submit, task, change)
            elif lasts(error):
                self._end(task)

    def _end(self, task: ActivityTask) -> None:
        """The attempt has ended, whatever is wrong with its result."""
        change = EndAttempt(task.run_id, task.activity_id, task.attempt, UNWRITABLE)
        try:
            self._runtime.journal.submit(change, lambda value, error: None)
        except JournalClosedError:
            logger.debug("the client was closed before the end of %r could be told", task)
