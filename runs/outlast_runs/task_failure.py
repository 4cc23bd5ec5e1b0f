"""A workflow task that failed: it is counted, recorded if it is the first of a streak, and tried again later."""

from __future__ import annotations

from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.run_ends import Ended, open_run, run_failure
from outlast_workflow.data.failures import message_of
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import WorkflowTaskFailed
from outlast_workflow.primitives.enums import Attention, FailureCategory, PropagationKind

FAILURES_TO_ATTENTION = 3
MOST_FAILURE_ROWS = 10
"""How many failures of one streak get a failure row."""
FIRST_TASK_BACKOFF_US = 1_000_000
LONGEST_TASK_BACKOFF_US = 60_000_000


class FailWorkflowTask(BaseChange):
    """Count a workflow task that failed, record the first of a streak, and delay the next.

    Args:
        run: The run.
        worker_id: Its owner.
        fence: The fence that the owner claimed it with.
        event: The failure, as the history gets it.
    """

    def __init__(self, run: RunRow, worker_id: str, fence: int, event: WorkflowTaskFailed) -> None:
        self.run_id = run.run_id
        self.runs = (run.run_id,)
        self.worker_id = worker_id
        self.fence = fence
        self.event = event

    def _add_failure(self, batch: Batch, run: RunRow) -> None:
        """Write a failure row, so that ``describe`` shows why the task fails and whether the reason has changed."""
        document = self.event.failure
        failure = run_failure(
            batch,
            run,
            FailureCategory.TASK_FAILURE,
            PropagationKind.TASK,
            exception_class=str(document.get("type", "")),
            message=message_of(document),
        )
        failure.source_kind = "workflow_task"
        batch.add_failure(failure)

    def apply(self, batch: Batch) -> int | Ended:
        """Return when the next workflow task may run, in microseconds, or how the run's deadline ended it."""
        run = batch.run(self.run_id)
        if run is None or not run.is_open or run.owner_id != self.worker_id or run.fence != self.fence:
            raise RefusedError("fenced", f"run {self.run_id} is closed or owned by another worker")
        found = open_run(batch, run)
        if isinstance(found, Ended):
            return found
        if run.task_failures == 0:
            batch.append(run, self.event)
        run.task_failures += 1
        if run.task_failures <= MOST_FAILURE_ROWS:
            self._add_failure(batch, run)
        backoff = min(FIRST_TASK_BACKOFF_US << min(run.task_failures - 1, 16), LONGEST_TASK_BACKOFF_US)
        run.not_before = batch.now + backoff
        run.start_delayed = False
        run.wake(batch.now)
        if run.task_failures >= FAILURES_TO_ATTENTION and run.attention is None:
            run.attention = Attention.TASK_KEEPS_FAILING.value
            run.attention_since = batch.now
        return run.not_before
