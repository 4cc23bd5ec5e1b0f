"""Resetting a workflow: a new run of its chain that continues the history from a point.

:mod:`outlast_runs.copied_histories` says what the new run keeps. An open run ends in the same change, by
``WorkflowReset``; a closed run stays as it ended. The whole is one compare-and-set on the current run of the id. A
*resume* is a reset whose point follows from how the run ended.
"""

from __future__ import annotations

from outlast_runs.copied_histories import CopiedHistory, NewPlace
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import RunRow
from outlast_store.transitions import requests
from outlast_store.transitions.new_runs import next_run
from outlast_store.transitions.parents import parent_of
from outlast_store.transitions.queued_runs import add_start_timer, enter_queue
from outlast_store.transitions.run_deadlines import nearest_deadline
from outlast_store.transitions.run_ends import Ended, close_run, open_run, run_failure
from outlast_store.transitions.streams import reopen_streams
from outlast_workflow.errors import RunNotFoundError
from outlast_workflow.errors.refusals import ResetRefusedError
from outlast_workflow.history.events import WorkflowReset, WorkflowStarted
from outlast_workflow.history.reset_plan import History, ResetPlan
from outlast_workflow.primitives.enums import FailureCategory, PropagationKind, RunStatus


def replaced_run(run_id: str, current: str) -> ResetRefusedError:
    """Return the error for resetting a run that is not the current one.

    Args:
        run_id: The run.
        current: The current run of its workflow id.
    """
    return ResetRefusedError(
        f"run {run_id} is no longer the current run of its workflow, run {current} is: "
        "see what that one does, and reset it if need be"
    )


class ResetRun(CopiedHistory):
    """Start a new run from a point of the latest one's history, and end that run if it is open.

    Args:
        run: The latest run.
        history: Its history.
        plan: What the new run keeps.
        place: What the caller decides about the new run.
    """

    verb = "reset"

    def __init__(self, run: RunRow, history: History, plan: ResetPlan, place: NewPlace) -> None:
        super().__init__(run, history, plan, place)
        self.instances = (run.workflow_id,)
        self.closes = (run.run_id,) if run.is_open else ()

    def apply(self, batch: Batch) -> str:
        """Write the new run and return its id, or that of the run that a retry policy has started instead.

        Raises:
            ResetRefusedError: Another run is current by now, or the execution deadline has passed.
            QueueNotFoundError: It, or an activity that it called, would have to join the line of a queue that is gone.
        """
        batch.require_locks()
        run = batch.run(self.run_id)
        instance = batch.instance(self.instances[0])
        if run is None or instance is None:
            raise RunNotFoundError(self.run_id, workflow_id=self.instances[0])
        if instance.current_run_id != run.run_id or run.next_run_id is not None:
            raise replaced_run(run.run_id, instance.current_run_id)
        self.check(batch, run)
        found = open_run(batch, run)
        # The run's retry policy may have started the next one.
        if isinstance(found, Ended) and found.next_run_id is not None:
            return found.next_run_id
        was_open = run.is_open
        row = self._new_run(batch, run, was_open=was_open)
        self.copy(batch, run, row, self._started(batch, run, row))
        if self.place.signals:
            requests.move_signals(batch, row, requests.unapplied_signals(batch, run, self.plan.seq))
        reopen_streams(batch, run, self.plan.seq)
        run.next_run_id = row.run_id
        if run.inbox:
            requests.move_updates(batch, run, row)
        instance.current_run_id = row.run_id
        instance.run_count = row.run_number
        instance.workflow_type = row.workflow_type
        if was_open:
            self._end(batch, run, row.run_id)
        return row.run_id

    def _end(self, batch: Batch, run: RunRow, following: str) -> None:
        failure = run_failure(
            batch,
            run,
            FailureCategory.TERMINATED,
            PropagationKind.TERMINATED,
            exception_class="WorkflowResetError",
            message=self.place.reason or "the workflow was reset",
        )
        event = WorkflowReset(following, self.place.reason)
        close_run(batch, run, event, RunStatus.TERMINATED, by="reset", failure=failure)

    def _new_run(self, batch: Batch, run: RunRow, *, was_open: bool) -> RunRow:
        row = next_run(
            run,
            run_id=batch.ids.next(),
            now=batch.now,
            attempt=run.attempt,
            search_attributes=self.plan.search_attributes,
        )
        self.prepare(batch, run, row)
        if not was_open:
            # The parent's history has an end of this child already.
            row.parent_command_id = None
        row = batch.add_run(row)
        if row.queue is not None:
            add_start_timer(batch, row)
        return row

    def _enter(self, run: RunRow, row: RunRow, now: int) -> None:
        """Give the new run the old one's place in its queue; one that had ended joins the end of the line."""
        if run.status != RunStatus.QUEUED or row.queue != run.queue:
            enter_queue(row, now)
            return
        row.not_before, row.start_delayed = run.not_before, run.start_delayed
        enter_queue(row, now)
        row.queued_at, row.start_deadline_at = run.queued_at, run.start_deadline_at
        row.next_deadline_at = nearest_deadline(row)

    def _started(self, batch: Batch, run: RunRow, row: RunRow) -> WorkflowStarted:
        started, seeds = self.started(batch, run, row)
        started.parent = parent_of(row, started.parent)
        started.reset = {"run_id": run.run_id, "seq": self.plan.seq, "seeds": seeds}
        if self.place.reason is not None:
            started.reset["reason"] = self.place.reason
        if not self.place.signals:
            started.reset["signals"] = False
        return started
