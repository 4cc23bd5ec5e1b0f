"""Changes of one open run that a client asks for: cancel it, terminate it; and the base of them all."""

from __future__ import annotations

from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.run_ends import Ended, open_run, request_cancel, terminate
from outlast_workflow.errors import (
    RunNotFoundError,
    WorkflowClosedError,
)
from outlast_workflow.history.events import WorkflowCancelRequested


class RunChange(BaseChange):
    """A change of one open run.

    Where the run is closed and its chain continued, or where its deadline closes it in this change, the change writes
    nothing else and returns :class:`~outlast_store.transitions.run_ends.Ended`: its caller asks the next run, or
    learns that the workflow has ended.
    """

    def __init__(self, workflow_id: str, run_id: str) -> None:
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.runs = (run_id,)

    def open_run(self, batch: Batch) -> RunRow | Ended:
        """Return the run if it is open and has time left, or how it ended.

        Raises:
            RunNotFoundError: There is no such run.
            WorkflowClosedError: It was closed before, and no run continued it.
        """
        run = batch.run(self.run_id)
        if run is None:
            raise RunNotFoundError(self.run_id, workflow_id=self.workflow_id)
        found = open_run(batch, run)
        # A change that raises writes nothing, so one that has enforced a deadline returns.
        if isinstance(found, Ended) and found.next_run_id is None and found.passed is None:
            raise WorkflowClosedError(run.workflow_id, run_id=run.run_id, status=run.status)
        return found


class RequestCancellation(RunChange):
    """Ask a run to cancel; its code decides. A second request adds no event."""

    def __init__(self, workflow_id: str, run_id: str, reason: str | None) -> None:
        super().__init__(workflow_id, run_id)
        self.reason = reason

    def apply(self, batch: Batch) -> Ended | None:
        """Append the request; return how the run ended where it can take none."""
        run = self.open_run(batch)
        if isinstance(run, Ended):
            return run
        request_cancel(batch, run, WorkflowCancelRequested(self.reason))
        return None


class TerminateRun(RunChange):
    """End a run at once, without its code."""

    def __init__(self, workflow_id: str, run_id: str, reason: str | None) -> None:
        super().__init__(workflow_id, run_id)
        self.reason = reason

    def apply(self, batch: Batch) -> Ended | None:
        """End the run; return how it ended where it is closed already."""
        run = self.open_run(batch)
        if isinstance(run, Ended):
            return run
        terminate(batch, run, self.reason)
        return None
