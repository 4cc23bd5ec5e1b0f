"""Late results: activity results that are committed on their own, without a workflow task.

A worker holds an activity's result until a commit has acknowledged it. Normally the result is committed with the
workflow task that it leads to. If the run is not cached, or if that commit was refused, the result is written here,
guarded only by its claim token.
"""

from __future__ import annotations

import logging
from functools import partial

from outlast.runtime.runtime import Runtime
from outlast.worker.runs.loader import RELOAD_AFTER_S, Result
from outlast_activities.attempts import UNWRITABLE
from outlast_activities.changes import CompleteAttempt, EndAttempt
from outlast_activities.task import ActivityTask
from outlast_store.database.driver_errors import lasts
from outlast_workflow.errors import JournalClosedError, RefusedError, StoreError
from outlast_workflow.history.events import ActivityCompleted

logger = logging.getLogger("outlast.worker")


class LateResults:
    """Commits activity results on their own, until the store has taken or refused them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def commit(self, results: list[Result]) -> None:
        """Commit results whose run or workflow task is gone."""
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
                self._runtime.loop.call_later(RELOAD_AFTER_S, self._submit, task, change)
            elif lasts(error):
                self._end_unwritable(task)

    def _end_unwritable(self, task: ActivityTask) -> None:
        """End an attempt whose result can never be written."""
        change = EndAttempt(task.run_id, task.activity_id, task.attempt, UNWRITABLE)
        try:
            self._runtime.journal.submit(change, lambda value, error: None)
        except JournalClosedError:
            logger.debug("the client was closed before the end of %r could be written", task)
