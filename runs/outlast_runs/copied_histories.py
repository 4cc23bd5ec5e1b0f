"""New runs that continue the history of another run from a point: what a reset and a fork have in common.

The new run's history is that of the other one up to the point, event by event under the same numbers, so that replay
brings the code back to where it was. Only its ``WorkflowStarted`` differs: it has the new run's own place and
deadlines, and names the run and the event that it was taken from, with the *seed from there on*. Everything decided
before the point keeps the old seed (or seeds, if there are several points by now); otherwise replay would differ.

What was open at the point is open again: timers with their old times, activities from their first attempt. Children
that have ended since are told to the new run. Signals that came after the point follow in order.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

from outlast_activities.attempts import schedule
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.queues.gates import check_queue
from outlast_store.schema.rows import RunRow
from outlast_store.transitions import copies
from outlast_store.transitions.new_runs import new_seed
from outlast_store.transitions.parents import adopt_children, find_children
from outlast_store.transitions.queued_runs import enter_queue
from outlast_store.transitions.run_deadlines import lower_run_deadline, nearest_deadline
from outlast_store.transitions.run_ends import Ended, open_run
from outlast_workflow.errors.refusals import ResetRefusedError
from outlast_workflow.history.events import (
    WorkflowDeadlineLowered,
    WorkflowDequeued,
    WorkflowStartChanged,
    WorkflowStarted,
)
from outlast_workflow.history.reset_plan import History, ResetPlan
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.enums import KEEP, Keep, RunStatus
from outlast_workflow.primitives.times import iso, later, microseconds, seconds


@dataclass(slots=True, kw_only=True)
class NewPlace:
    """What the caller decides about a run that continues a history.

    Attributes:
        reason: Why, for the history.
        timeout: A new execution timeout from now, in microseconds; ``None`` keeps the deadline.
        signals: Whether the signals after the point are taken over.
        queue: Its queue, or none; ``KEEP`` for that of the run before it.
        partition_key: Its partition there; ``KEEP`` likewise.
        task_queue: Its task queue; ``None`` keeps it.
    """

    reason: str | None = None
    timeout: int | None = None
    signals: bool = True
    queue: str | Keep | None = KEEP
    partition_key: str | Keep | None = KEEP
    task_queue: str | None = None


def being_deleted(run: RunRow) -> ResetRefusedError:
    """Return the error for continuing a run of whose history a part is gone."""
    return ResetRefusedError(
        f"a part of the history of run {run.run_id} is gone, because a deletion of {run.workflow_id} is under way or "
        "was interrupted: nothing can continue from it; delete the workflow to finish that"
    )


class CopiedHistory(BaseChange):
    """A change that starts a run with the history of another one up to a point.

    Args:
        run: The run that is continued.
        history: Its history.
        plan: What the new run keeps.
        place: What the caller decides about the new run.
    """

    verb: str
    fork = False
    """Whether the run begins another chain."""

    def __init__(self, run: RunRow, history: History, plan: ResetPlan, place: NewPlace) -> None:
        self.run_id = run.run_id
        self.runs = (run.run_id,)
        self.history = history
        self.plan = plan
        self.place = place
        self.weight = 4096 + plan.size
        self.children: Mapping[int, RunRow] = {}

    def check(self, batch: Batch, run: RunRow) -> None:
        """Check what the new run needs. Nothing is written but deadlines of children that have passed.

        Raises:
            ResetRefusedError: The execution deadline has passed, the run is being deleted, or a child has changed.
            QueueNotFoundError: A queue is gone whose line the run, or an activity that it called, would have to join.
        """
        queue = self.queue_of(run)
        if queue is not None and (run.slot_queue is None or queue != run.queue):
            check_queue(batch, queue)
        for _, event in self.plan.scheduled.values():
            if event.queue is not None:
                check_queue(batch, event.queue)
        if self.place.timeout is None and (run.execution_deadline_at or batch.now + 1) <= batch.now:
            raise ResetRefusedError(
                f"the execution deadline of {run.workflow_id} has passed: give a new execution timeout with the "
                f"{self.verb}"
            )
        if not run.is_open:
            # A deletion takes several steps, and the run itself goes last.
            text = "SELECT COUNT(*) FROM history_events WHERE run_id = ?"
            stored = batch.scan(text, (run.run_id,))[0][0] + len(batch.appended(run.run_id))
            if stored != run.last_seq:
                raise being_deleted(run)
        if self.plan.children:
            last_runs = {command_id: child.run_id for command_id, child in self.plan.children.items()}
            found = find_children(batch, last_runs, fork=self.fork)
            self.children = {command_id: _enforced(batch, child) for command_id, child in found.items()}

    def queue_of(self, run: RunRow) -> str | None:
        """Return the queue of the new run."""
        return run.queue if self.place.queue is KEEP else self.place.queue

    def prepare(self, batch: Batch, run: RunRow, row: RunRow) -> None:
        """Give a new row what it has of the point, of the caller's decisions, and of its queue.

        Args:
            batch: The batch.
            run: The run that is continued.
            row: The new run's row, not inserted yet.
        """
        plan, place = self.plan, self.place
        row.memo = plan.memo.json.decode() if plan.memo is not None else None
        row.cancel_requested_at = plan.cancel_requested_at
        row.task_failures = int(plan.task_failing)
        if plan.activated:
            row.status = RunStatus.RUNNING.value
            row.started_at = batch.now
        if place.timeout is not None:
            row.execution_timeout = place.timeout
            row.execution_deadline_at = later(batch.now, place.timeout)
        row.queue = self.queue_of(run)
        if row.queue != run.queue:
            row.slot_queue = None
        if row.queue is None:
            row.partition_key = None
        elif place.partition_key is not KEEP:
            row.partition_key = place.partition_key or ""
        elif row.partition_key is None:
            row.partition_key = ""
        row.next_deadline_at = nearest_deadline(row)
        if row.queue is not None and row.slot_queue is None:
            self._enter(run, row, batch.now)

    def _enter(self, run: RunRow, row: RunRow, now: int) -> None:
        """Let the new run join the end of its line."""
        enter_queue(row, now)

    def started(self, batch: Batch, run: RunRow, row: RunRow) -> tuple[WorkflowStarted, list[list[int]]]:
        """Return the first event of the new run, and the seeds that hold after its points."""
        event = self.history[0][1]
        assert isinstance(event, WorkflowStarted)
        started = copy.copy(event)
        started.run_number = row.run_number
        started.previous_run_id = row.previous_run_id
        started.attempt = row.attempt
        started.task_queue = row.task_queue
        started.execution_timeout_seconds = seconds(row.execution_timeout)
        started.execution_deadline_at = _iso(row.execution_deadline_at)
        if row.queue is None:
            started.run_deadline_at = _iso(row.run_deadline_at)
        elif event.queue is None:
            started.run_deadline_at = None
        started.queue = row.queue
        started.partition_key = row.partition_key or None
        if row.queue is None:
            started.schedule_to_start_timeout_seconds = None
        seq = self.plan.seq
        before = (event.reset or {}).get("seeds") or (event.forked_from or {}).get("seeds") or ()
        return started, [*(pair for pair in before if pair[0] < seq), [seq, new_seed(batch)]]

    def copy(self, batch: Batch, run: RunRow, row: RunRow, started: WorkflowStarted) -> None:
        """Copy what the new run keeps: events, activities, attempts, timers; and what it learns at once.

        Args:
            batch: The batch.
            run: The run that is continued.
            row: The new run's row, inserted.
            started: Its first event.
        """
        plan = self.plan
        payload = started.to_json()
        recorded_at = self.history[0][2]
        copies.insert_first_event(batch, row.run_id, WorkflowStarted.type, recorded_at, payload.decode())
        copies.copy_events(batch, run.run_id, row.run_id, plan.seq)
        row.last_seq = plan.seq
        row.last_event_at = self.history[plan.seq - 1][2]
        row.history_bytes = plan.size - self.history[0][3] + len(payload)
        copies.copy_activities(batch, run.run_id, row.run_id, plan.ended)
        for seq, event in plan.scheduled.values():
            schedule(batch, row, seq, event, ActivityOptions.from_snapshot(event.options.json), None)
        if plan.limit is not None and (row.queue is None or row.slot_queue is not None):
            begins_at = max(batch.now, row.not_before)
            lower_run_deadline(row, later(begins_at, microseconds(plan.limit)))
        told = any(
            isinstance(event, WorkflowStartChanged | WorkflowDequeued | WorkflowDeadlineLowered)
            for _, event, *_ in self.history[: plan.seq]
        )
        if (row.slot_queue is not None or told) and row.run_deadline_at is not None:
            # The events that were copied tell of the old run's admission, start or limit, and of its run deadline.
            batch.append(row, WorkflowStartChanged(iso(batch.now), iso(row.run_deadline_at)))
        for timer in plan.timers.values():
            batch.add_timer(row.run_id, timer.command_id, timer.fire_at, timer.summary)
        if self.children:
            adopt_children(batch, row, self.children)


def _enforced(batch: Batch, child: RunRow) -> RunRow:
    """Return the last run of a child's chain, once a deadline of it that has passed is enforced."""
    found = open_run(batch, child)
    if isinstance(found, Ended) and found.passed is not None and found.next_run_id is not None:
        following = batch.run(found.next_run_id)
        assert following is not None
        return following
    return child


def _iso(us: int | None) -> str | None:
    return None if us is None else iso(us)
