"""Workflow tasks that fail, and runs that grow past a limit.

A failed workflow task is recorded and retried later, unless its exception is one that fails the run. A history past its
limit ends the run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from outlast.runtime.runtime import Runtime
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.settings import WorkerSettings
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_runs.task_failure import FailWorkflowTask
from outlast_runs.workflow_task import WorkflowTask
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.run_ends import Ended
from outlast_workflow.data.failures import failure_of
from outlast_workflow.errors import JournalClosedError, RefusedError, StreamClosedError, StructuralLimitError
from outlast_workflow.history.events import Failure, WorkflowFailed, WorkflowTaskFailed
from outlast_workflow.run.handler_tasks import Considered
from outlast_workflow.run.run_outcome import BY_CLOSED_STREAM, BY_FAILURE_TYPE, BY_LIMIT

logger = logging.getLogger("outlast.worker")


class TaskFailures:
    """Records the failed workflow tasks of one worker's runs.

    Args:
        runtime: Where the journal is.
        settings: The worker's settings.
        load_at: Loads a run at an instant, in microseconds since the epoch.
    """

    def __init__(
        self, runtime: Runtime, settings: WorkerSettings, load_at: Callable[[str, int], None]
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._load_at = load_at

    def record(self, run: RunRow, error: BaseException) -> None:
        """Record that a workflow task raised, and retry it later.

        Args:
            run: The run.
            error: What its code, or the engine around it, raised.
        """
        settings = self._settings
        logger.warning(
            "the task of workflow %s (run %s) failed: %s: %s",
            run.workflow_id,
            run.run_id,
            type(error).__name__,
            error,
            extra={"workflow_id": run.workflow_id, "run_id": run.run_id},
        )
        event = WorkflowTaskFailed(failure_of(error, settings.converter), settings.build_id)
        change = FailWorkflowTask(run, settings.worker_id, run.fence, event)
        self._runtime.journal.submit(change, partial(self._recorded, run.run_id))

    def _recorded(self, run_id: str, value: int | Ended | None, error: BaseException | None) -> None:
        if isinstance(value, int):
            self._load_at(run_id, value)
        elif error is not None and not isinstance(error, RefusedError | JournalClosedError):
            logger.warning("the failed task of run %s could not be recorded: %s", run_id, error)

    def limit_passed(self, cached_run: CachedRun, error: StructuralLimitError) -> CommitWorkflowTask:
        """Return the change that fails a run whose history has grown past its limit, without another workflow task.

        Args:
            cached_run: The run.
            error: Which limit it has passed.
        """
        return self._end(cached_run.run, error, BY_LIMIT, cached_run.seen_seq, cached_run.seen_inbox)

    def run_failure(self, run: RunRow, error: BaseException, seen_seq: int) -> CommitWorkflowTask:
        """Return the change that fails a run because a workflow task of it failed with such an exception.

        Args:
            run: The run.
            error: What its code, or the engine around it, raised.
            seen_seq: The last event that was known.
        """
        logger.warning(
            "the task of workflow %s (run %s) failed, and the run with it: %s",
            run.workflow_id,
            run.run_id,
            type(error).__name__,
            extra={"workflow_id": run.workflow_id, "run_id": run.run_id},
        )
        return self._end(run, error, BY_FAILURE_TYPE, seen_seq, run.inbox)

    def stream_refused(
        self, run: RunRow, error: StreamClosedError | StructuralLimitError, seen_seq: int
    ) -> CommitWorkflowTask:
        """Return the change that fails a run because what it wrote to its streams was refused.

        Args:
            run: The run.
            error: Which limit it has passed, or that a stream was closed before.
            seen_seq: The last event that was known.
        """
        by = BY_LIMIT if isinstance(error, StructuralLimitError) else BY_CLOSED_STREAM
        return self._end(run, error, by, seen_seq, run.inbox)

    def _end(
        self, run: RunRow, error: BaseException, by: str, seen_seq: int, seen_inbox: int
    ) -> CommitWorkflowTask:
        """Return a workflow task that is not recorded, because replay ends before it, and fails the run."""
        return CommitWorkflowTask(
            run,
            WorkflowTask(
                worker_id=self._settings.worker_id,
                fence=run.fence,
                seen_seq=seen_seq,
                seen_inbox=seen_inbox,
                record=None,
                commands=[WorkflowFailed(failure_of(error, self._settings.converter), by=by)],
            ),
        )

    def rejection(
        self, cached_run: CachedRun, update_id: str | None = None, failure: Failure | None = None
    ) -> CommitWorkflowTask:
        """Return the change that rejects one update and writes nothing else.

        Without an update, it only writes that the run's inbox has been read.

        Args:
            cached_run: The run.
            update_id: An update whose validator tried to change the run, which is then restored by replay.
            failure: Why it is rejected.
        """
        considered = Considered(rejected=[(update_id, failure)] if update_id and failure else [], alone=True)
        run = cached_run.run
        return CommitWorkflowTask(
            run,
            WorkflowTask(
                worker_id=self._settings.worker_id,
                fence=run.fence,
                seen_seq=cached_run.seen_seq,
                seen_inbox=cached_run.seen_inbox if update_id is None else -1,
                record=None,
                commands=(),
                considered=considered,
            ),
        )

    def check_history(self, cached_run: CachedRun) -> None:
        """Warn if a run's history is near its limit.

        Raises:
            StructuralLimitError: It has grown past the limit.
        """
        limits, run = self._settings.limits, cached_run.run
        warned = cached_run.machine.log.warned
        limits.check("history_events", run.last_seq, whose=run.workflow_id, warned=warned)
        limits.check("history_bytes", run.history_bytes, whose=run.workflow_id, warned=warned)
