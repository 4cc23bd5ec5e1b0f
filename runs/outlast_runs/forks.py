"""Forking a workflow: the first run of another chain, with another workflow id, that continues a history from a point.

:mod:`outlast_runs.copied_histories` says what the new run keeps. The original is only read: it may be open, and it goes
on. A fork has no parent. What belongs to the original's chain rather than to its run comes along as of the point: the
keys of its signals, the answers of its updates and what was published in its streams
(:func:`~outlast_store.transitions.copies.copy_requests` and ``copy_streams``).
"""

from __future__ import annotations

from outlast_runs.copied_histories import CopiedHistory, NewPlace
from outlast_runs.start import enforce_deadline, make_room
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import InstanceRow, RunRow
from outlast_store.transitions import copies, requests
from outlast_store.transitions.new_runs import next_run
from outlast_store.transitions.queued_runs import add_start_timer
from outlast_workflow.errors import RunNotFoundError
from outlast_workflow.history.events import StreamClosed, WorkflowStarted
from outlast_workflow.history.reset_plan import History, ResetPlan
from outlast_workflow.options.alerts import dated
from outlast_workflow.options.search_attributes import FORK_ATTRIBUTE, SCHEDULE_ATTRIBUTE
from outlast_workflow.primitives.enums import DuplicatePolicy


class ForkRun(CopiedHistory):
    """Start a chain from a point of a run's history.

    Args:
        run: The run that is forked, open or closed.
        history: Its history.
        plan: What the new run keeps.
        place: What the caller decides about the new run.
        workflow_id: The fork's workflow id.
        run_id: The id of its first run.
        policy: What to do if the workflow id is in use.
    """

    verb = "fork"
    fork = True

    def __init__(
        self,
        run: RunRow,
        history: History,
        plan: ResetPlan,
        place: NewPlace,
        *,
        workflow_id: str,
        run_id: str,
        policy: DuplicatePolicy,
    ) -> None:
        super().__init__(run, history, plan, place)
        self.original_id = run.workflow_id
        self.workflow_id = workflow_id
        self.fork_id = run_id
        self.policy = policy
        self.new_instances = [InstanceRow(workflow_id, run.workflow_type, run_id, 1, run.created_at)]

    def apply(self, batch: Batch) -> tuple[str, bool]:
        """Write the new run. Return the current run of the fork's id, and whether this has made it.

        Raises:
            RunNotFoundError: The original was deleted meanwhile.
            ResetRefusedError: The execution deadline has passed, or a child was resumed meanwhile.
            WorkflowAlreadyStartedError: The policy refuses the id.
            QueueNotFoundError: It, or an activity that it called, would have to join the line of a queue that is gone.
        """
        batch.require_locks()
        run = batch.run(self.run_id)
        if run is None:
            raise RunNotFoundError(self.run_id, workflow_id=self.original_id)
        self.check(batch, run)
        instance = batch.instance(self.workflow_id)
        if instance is not None:
            current = batch.run(instance.current_run_id)
            if current is not None:
                current = enforce_deadline(batch, current, self.policy)
                if not make_room(batch, current, self.policy):
                    return current.run_id, False
        row = self._new_run(batch, run)
        if instance is None:
            batch.confirm_instance(self.new_instances[0])
        else:
            instance.workflow_type = row.workflow_type
            instance.current_run_id = row.run_id
            instance.run_count = 1
        self.copy(batch, run, row, self._started(batch, run, row))
        kept = [event for _, event, *_ in self.history[: self.plan.seq]]
        closed = {event.name for event in kept if isinstance(event, StreamClosed)}
        copies.copy_streams(batch, run, row, self.plan.seq, closed)
        copies.copy_requests(batch, row, self.history[: self.plan.seq])
        if self.place.signals:
            for signal in requests.unapplied_signals(batch, run, self.plan.seq):
                copies.copy_requests(batch, row, [(batch.append(row, signal), signal)])
        return row.run_id, True

    def _new_run(self, batch: Batch, run: RunRow) -> RunRow:
        attributes = {**self.plan.search_attributes, FORK_ATTRIBUTE: self.original_id}
        # What a schedule starts is listed with it; this was started by somebody else.
        attributes.pop(SCHEDULE_ATTRIBUTE, None)
        row = next_run(
            run,
            run_id=self.fork_id,
            now=batch.now,
            attempt=run.attempt,
            task_queue=self.place.task_queue,
            search_attributes=attributes,
        )
        row.workflow_id = self.workflow_id
        row.first_run_id = row.run_id
        row.run_number = 1
        row.previous_run_id = None
        row.slot_queue = None
        if row.alerts is not None:
            row.alerts = dated(row.alerts, row.created_at)
        row.parent_run_id = row.parent_command_id = row.parent_close_policy = None
        self.prepare(batch, run, row)
        row = batch.add_run(row)
        if row.queue is not None:
            add_start_timer(batch, row)
        return row

    def _started(self, batch: Batch, run: RunRow, row: RunRow) -> WorkflowStarted:
        started, seeds = self.started(batch, run, row)
        started.workflow_id = row.workflow_id
        started.first_run_id = row.run_id
        started.parent = None
        started.reset = None
        attributes = dict(started.search_attributes or {})
        attributes.pop(SCHEDULE_ATTRIBUTE, None)
        started.search_attributes = {**attributes, FORK_ATTRIBUTE: self.original_id}
        started.forked_from = {
            "workflow_id": self.original_id,
            "run_id": run.run_id,
            "seq": self.plan.seq,
            "seeds": seeds,
        }
        if self.place.reason is not None:
            started.forked_from["reason"] = self.place.reason
        if not self.place.signals:
            started.forked_from["signals"] = False
        return started
