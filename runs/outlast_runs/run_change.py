"""What a client asks of a run from outside: to cancel, to end."""

from __future__ import annotations

from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.runs import deadline_passed, request_cancel, terminate, time_out_run
from outlast_workflow.errors import RunNotFoundError, WorkflowClosedError
from outlast_workflow.history.events import WorkflowCancelRequested


class RunChange(BaseChange):
    """A change of one open run; on a closed one of a chain that went on it returns the run to ask instead."""

    def __init__(self, workflow_id: str, run_id: str) -> None:
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.runs = (run_id,)

    def open_run(self, batch: Batch) -> RunRow | str:
        """The run, or the id of the next one of its chain."""
        run = batch.run(self.run_id)
        if run is None:
            raise RunNotFoundError(self.run_id, workflow_id=self.workflow_id)
        if run.is_open and deadline_passed(run, batch.now) is not None:
            time_out_run(batch, run)
        if run.is_open:
            return run
        if run.next_run_id is not None:
            return run.next_run_id
        if batch.touched:
            return ""
        raise WorkflowClosedError(run.workflow_id, run_id=run.run_id, status=run.status)


class RequestCancel(RunChange):
    """Ask a run to cancel; its code decides. A second request adds no event."""

    def __init__(self, workflow_id: str, run_id: str, reason: str | None) -> None:
        super().__init__(workflow_id, run_id)
        self.reason = reason

    def apply(self, batch: Batch) -> str | None:
        """Returns the run to ask instead, if the chain has gone on (empty: its deadline has just ended it)."""
        run = self.open_run(batch)
        if isinstance(run, str):
            return run
        request_cancel(batch, run, WorkflowCancelRequested(self.reason))
        return None


class Terminate(RunChange):
    """End a run at once, without its code."""

    def __init__(self, workflow_id: str, run_id: str, reason: str | None) -> None:
        super().__init__(workflow_id, run_id)
        self.reason = reason

    def apply(self, batch: Batch) -> str | None:
        """As :meth:`RequestCancel.apply`."""
        run = self.open_run(batch)
        if isinstance(run, str):
            return run
        terminate(batch, run, self.reason)
        return None
