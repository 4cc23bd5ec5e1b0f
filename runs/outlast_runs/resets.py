"""Resetting a workflow: a new run of its chain that continues the history from a point.

The new run's history is that of the old run up to the point, event by event under the same numbers, so that replay
brings the code back to where it was. Only its ``WorkflowStarted`` differs: it has the new run's place in the chain, its
run deadline, and in ``reset`` the run and event that it was taken from, with the *seed from there on*. Everything
decided before the point keeps the old seed (or seeds, if the run was reset before); otherwise replay would differ.

What was open at the point is open again: timers with their old times, activities from their first attempt. Signals that
came after the point follow in order. An open run ends in the same change, by ``WorkflowReset``; a closed run stays as
it ended. The whole is one compare-and-set on the current run of the id.
"""

from __future__ import annotations

import copy

from outlast_activities.attempts import schedule
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.queues.gates import check_queue
from outlast_store.schema.rows import RunRow
from outlast_store.transitions import copies, requests
from outlast_store.transitions.new_runs import new_seed, next_run
from outlast_store.transitions.queued_runs import add_start_timer, enter_queue
from outlast_store.transitions.run_deadlines import nearest_deadline
from outlast_store.transitions.run_ends import Ended, close_run, open_run, run_failure
from outlast_workflow.errors import RunNotFoundError
from outlast_workflow.errors.refusals import ResetRefusedError
from outlast_workflow.history.events import WorkflowReset, WorkflowStartChanged, WorkflowStarted
from outlast_workflow.history.reset_plan import History, ResetPlan
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.enums import FailureCategory, PropagationKind, RunStatus
from outlast_workflow.primitives.times import iso, later, seconds


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


class ResetRun(BaseChange):
    """Start a new run from a point of the latest one's history, and end that run if it is open.

    Args:
        run: The latest run.
        history: Its history.
        plan: What the new run keeps.
        reason: Why, for the history.
        timeout: A new execution timeout from now, in microseconds; ``None`` keeps the chain's deadline.
        signals: Whether the signals after the point move to the new run.
    """

    def __init__(
        self,
        run: RunRow,
        history: History,
        plan: ResetPlan,
        reason: str | None,
        timeout: int | None,
        *,
        signals: bool,
    ) -> None:
        self.run_id = run.run_id
        self.instances = (run.workflow_id,)
        self.runs = (run.run_id,)
        self.closes = (run.run_id,) if run.is_open else ()
        self.history = history
        self.plan = plan
        self.reason = reason
        self.timeout = timeout
        self.signals = signals
        self.weight = 4096 + plan.size

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
        if run.queue is not None and run.slot_queue is None:
            check_queue(batch, run.queue)
        for _, event in self.plan.scheduled.values():
            if event.queue is not None:
                check_queue(batch, event.queue)
        if instance.current_run_id != run.run_id or run.next_run_id is not None:
            raise replaced_run(run.run_id, instance.current_run_id)
        if self.timeout is None and (run.execution_deadline_at or batch.now + 1) <= batch.now:
            raise ResetRefusedError(
                f"the execution deadline of {run.workflow_id} has passed: give a new execution timeout with the reset"
            )
        found = open_run(batch, run)
        # The run's retry policy may have started the next one.
        if isinstance(found, Ended) and found.next_run_id is not None:
            return found.next_run_id
        was_open = run.is_open
        row = self._new_run(batch, run, was_open=was_open)
        self._copy(batch, run, row)
        if self.signals:
            requests.move_signals(batch, row, requests.unapplied_signals(batch, run, self.plan.seq))
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
            message=self.reason or "the workflow was reset",
        )
        event = WorkflowReset(following, self.reason)
        close_run(batch, run, event, RunStatus.TERMINATED, by="reset", failure=failure)

    # --- the new run ------------------------------------------------------------------------------------------------

    def _new_run(self, batch: Batch, run: RunRow, *, was_open: bool) -> RunRow:
        plan = self.plan
        row = next_run(
            run,
            run_id=batch.ids.next(),
            now=batch.now,
            attempt=run.attempt,
            search_attributes=plan.search_attributes,
        )
        row.memo = plan.memo.json.decode() if plan.memo is not None else None
        row.cancel_requested_at = plan.cancel_requested_at
        row.task_failures = int(plan.task_failing)
        if plan.activated:
            row.status = RunStatus.RUNNING.value
            row.started_at = batch.now
        if self.timeout is not None:
            row.execution_timeout = self.timeout
            row.execution_deadline_at = later(batch.now, self.timeout)
            row.next_deadline_at = nearest_deadline(row)
        if row.queue is not None and row.slot_queue is None:
            self._queue(run, row, batch.now)
        if not was_open:
            # The parent's history has an end of this child already.
            row.parent_command_id = None
        row = batch.add_run(row)
        if row.queue is not None:
            add_start_timer(batch, row)
        return row

    def _queue(self, run: RunRow, row: RunRow, now: int) -> None:
        """Give the new run the old one's place in its queue; one that had ended joins the end of the line."""
        if run.status != RunStatus.QUEUED:
            enter_queue(row, now)
            return
        row.not_before, row.start_delayed = run.not_before, run.start_delayed
        enter_queue(row, now)
        row.queued_at, row.start_deadline_at = run.queued_at, run.start_deadline_at
        row.next_deadline_at = nearest_deadline(row)

    def _started(self, batch: Batch, run: RunRow, row: RunRow) -> WorkflowStarted:
        event = self.history[0][1]
        assert isinstance(event, WorkflowStarted)
        started = copy.copy(event)
        started.run_number = row.run_number
        started.previous_run_id = run.run_id
        started.attempt = row.attempt
        started.execution_timeout_seconds = seconds(row.execution_timeout)
        started.execution_deadline_at = _iso(row.execution_deadline_at)
        if row.queue is None:
            started.run_deadline_at = _iso(row.run_deadline_at)
        seq = self.plan.seq
        seeds = [pair for pair in (event.reset or {}).get("seeds", ()) if pair[0] < seq]
        started.reset = {"run_id": run.run_id, "seq": seq, "seeds": [*seeds, [seq, new_seed(batch)]]}
        if self.reason is not None:
            started.reset["reason"] = self.reason
        if not self.signals:
            started.reset["signals"] = False
        return started

    def _copy(self, batch: Batch, run: RunRow, row: RunRow) -> None:
        """Copy what the new run keeps: events, activities, attempts, timers."""
        plan = self.plan
        payload = self._started(batch, run, row).to_json()
        recorded_at = self.history[0][2]
        copies.insert_first_event(batch, row.run_id, WorkflowStarted.type, recorded_at, payload.decode())
        copies.copy_events(batch, run.run_id, row.run_id, plan.seq)
        row.last_seq = plan.seq
        row.last_event_at = self.history[plan.seq - 1][2]
        row.history_bytes = plan.size - self.history[0][3] + len(payload)
        copies.copy_activities(batch, run.run_id, row.run_id, plan.ended)
        for seq, event in plan.scheduled.values():
            schedule(batch, row, seq, event, ActivityOptions.from_snapshot(event.options.json), None)
        moved = any(isinstance(event, WorkflowStartChanged) for _, event, *_ in self.history[: plan.seq])
        if (row.slot_queue is not None or moved) and row.run_deadline_at is not None:
            # The events that were copied tell of the old run's admission or start, and of its run deadline.
            batch.append(row, WorkflowStartChanged(iso(batch.now), iso(row.run_deadline_at)))
        for timer in plan.timers.values():
            batch.add_timer(row.run_id, timer.command_id, timer.fire_at, timer.summary)


def _iso(us: int | None) -> str | None:
    return None if us is None else iso(us)
