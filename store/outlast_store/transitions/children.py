"""Child workflows: how they start in their parent's change, are asked to cancel, and get their parent close policy.

A child's instance and first run are written by the change that holds the parent's command: all or nothing. Where the
child's id is in use, that change is not refused: the parent's history gets ``ChildWorkflowStartFailed``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import Batch
from outlast_store.queues.contents import queue_not_found
from outlast_store.queues.gates import find_queue
from outlast_store.schema.rows import InstanceRow, RunRow
from outlast_store.transitions.new_runs import first_run, new_instance, new_seed, started_event
from outlast_store.transitions.queued_runs import add_start_timer
from outlast_store.transitions.run_deadlines import earliest, nearest_deadline
from outlast_store.transitions.run_ends import Ended, open_run, request_cancel, terminate
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import failure_of
from outlast_workflow.history.events import (
    ChildWorkflowCancelRequested,
    ChildWorkflowScheduled,
    ChildWorkflowStarted,
    ChildWorkflowStartFailed,
    ParentClosePolicyApplied,
    WorkflowCancelRequested,
)
from outlast_workflow.options.alerts import AlertPolicy
from outlast_workflow.options.options import RetryPolicy, StartOptions
from outlast_workflow.primitives.enums import ParentClosePolicy
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.child_failures import already_started_failure

_PLAIN = DataConverter()

CHILDREN_IN_A_STEP = 100
RUNS_IN_A_STEP = 100


# --- the start ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class NewChild:
    """A child that a workflow task starts, as its parent's owner prepares it.

    Attributes:
        run_id: Its first run.
        owner_id: The worker that owns it from the first write; ``None`` leaves it to any worker that serves its queue.
        awaited: Whether the parent's code waits for its start.
        instance: The instance row to make for it.
    """

    run_id: str
    owner_id: str | None
    awaited: bool
    instance: InstanceRow


def new_child(
    command: ChildWorkflowScheduled, run_id: str, owner_id: str | None, *, awaited: bool
) -> NewChild:
    """Prepare a child.

    Args:
        command: The parent's command.
        run_id: The id of the child's first run.
        owner_id: The worker that owns it from the first write, if any.
        awaited: Whether the parent's code waits for its start.
    """
    return NewChild(
        run_id, owner_id, awaited, InstanceRow(command.workflow_id, command.workflow_type, run_id, 1, 0)
    )


def waits_before_start(command: ChildWorkflowScheduled) -> bool:
    """Return whether a child begins only later, by a queue or a start delay, so that nobody owns it from the start."""
    if command.options.json == b"{}":
        return False
    options: dict[str, Any] = orjson.loads(command.options.json)
    return options.get("queue") is not None or bool(options.get("start_delay"))


def start_child(
    batch: Batch, parent: RunRow, command: ChildWorkflowScheduled, child: NewChild
) -> ChildWorkflowStarted | ChildWorkflowStartFailed:
    """Write a child's rows and first event; return the event for the parent's history.

    Args:
        batch: The batch.
        parent: The parent's run.
        command: The parent's command.
        child: The child as it was prepared.
    """
    instance = batch.instance(command.workflow_id)
    if instance is not None:
        batch.more_runs((instance.current_run_id,))
        current = batch.run(instance.current_run_id)
        if current is not None and current.is_open:
            batch.require_locks()
            failure = already_started_failure(command.workflow_id, current.run_id, current.status)
            return ChildWorkflowStartFailed(command.command_id, failure)
    run, started_with = _first_run(batch, parent, command, child)
    if run.queue is not None and find_queue(batch, run.queue) is None:
        return ChildWorkflowStartFailed(
            command.command_id, failure_of(queue_not_found(batch.scan, run.queue), _PLAIN)
        )
    if instance is None:
        batch.confirm_instance(new_instance(run))
    else:
        instance.workflow_type = run.workflow_type
        instance.current_run_id = run.run_id
        instance.run_count = 1
    row = batch.add_run(run)
    started = started_event(
        row, input=command.input, seed=new_seed(batch), headers=command.headers, parent=started_with
    )
    batch.append(row, started)
    if row.queue is not None:
        add_start_timer(batch, row)
    return ChildWorkflowStarted(command.command_id, row.run_id)


def _first_run(
    batch: Batch, parent: RunRow, command: ChildWorkflowScheduled, child: NewChild
) -> tuple[RunRow, dict[str, Any]]:
    """Return the child's row, and what its first event records of the parent."""
    options: dict[str, Any] = orjson.loads(command.options.json)
    policy = options.get("retry_policy")
    memo, alerts = options.get("memo"), options.get("alerts")
    deadline = options.get("execution_deadline")
    run = first_run(
        run_id=child.run_id,
        workflow_id=command.workflow_id,
        workflow_type=command.workflow_type,
        task_queue=command.task_queue,
        options=StartOptions(
            execution_timeout=options.get("execution_timeout"),
            execution_deadline=None if deadline is None else datetime.fromisoformat(deadline),
            run_timeout=options.get("run_timeout"),
            retry_policy=RetryPolicy.from_document(policy) if policy is not None else None,
            priority=command.priority,
            start_delay=options.get("start_delay"),
            queue=options.get("queue"),
            partition_key=options.get("partition_key"),
            schedule_to_start_timeout=options.get("schedule_to_start_timeout"),
            alerts=None if alerts is None else AlertPolicy.from_document(alerts),
        ),
        memo=Payload.of(memo) if memo is not None else None,
        search_attributes=options.get("search_attributes"),
        now=batch.now,
        owner_id=child.owner_id,
    )
    run.parent_run_id = parent.run_id
    run.parent_command_id = command.command_id
    run.parent_close_policy = command.parent_close_policy
    run.summary = command.summary
    if command.parent_close_policy == ParentClosePolicy.TERMINATE:
        run.execution_deadline_at = earliest(run.execution_deadline_at, parent.execution_deadline_at)
        run.next_deadline_at = nearest_deadline(run)
    return run, {
        "workflow_id": parent.workflow_id,
        "run_id": parent.run_id,
        "command_id": command.command_id,
        "close_policy": command.parent_close_policy,
    }


# --- a cancel request -----------------------------------------------------------------------------------------------


def cancel_child(batch: Batch, parent: RunRow, command: ChildWorkflowCancelRequested) -> None:
    """Ask the latest run of a child's chain to cancel; do nothing where the chain has ended."""
    run = _latest_of_chain(batch, command)
    if run is None or isinstance(open_run(batch, run), Ended):
        return
    request_cancel(batch, run, WorkflowCancelRequested(f"its parent {parent.workflow_id} asked for it"))


def _latest_of_chain(batch: Batch, command: ChildWorkflowCancelRequested) -> RunRow | None:
    instance = batch.instance(command.workflow_id)
    if instance is not None:
        run_id: str | None = instance.current_run_id
    else:
        text = "SELECT current_run_id FROM workflow_instances WHERE workflow_id = ?"
        rows = batch.scan(text, (command.workflow_id,))
        run_id = rows[0][0] if rows else None
    run = None
    # The chain may have continued since the instance was read.
    while run_id is not None:
        batch.more_runs((run_id,))
        run = batch.run(run_id)
        if run is None or run.first_run_id != command.run_id:
            # The id belongs to another chain by now.
            return None
        run_id = run.next_run_id
    return run


# --- parent close policy --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class AppliedClosePolicy:
    """What one step of parent close policy did.

    Attributes:
        terminated: The children that were terminated.
        cancel_requested: Those that were asked to cancel.
        timed_out: Those that were past a deadline of their own, which ended them instead.
        due: The runs whose children need another step.
    """

    terminated: list[str] = field(default_factory=list)
    cancel_requested: list[str] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)
    due: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        """The number of children that it was applied to."""
        return len(self.terminated) + len(self.cancel_requested) + len(self.timed_out)


_CHILDREN = """
    WITH RECURSIVE chain (run_id, previous_run_id, depth) AS (
        SELECT run_id, previous_run_id, 1 FROM workflow_runs WHERE run_id = ?
        UNION ALL
        SELECT r.run_id, r.previous_run_id, chain.depth + 1 FROM chain
        JOIN workflow_runs r ON r.run_id = chain.previous_run_id WHERE chain.depth < ?
    )
    SELECT c.run_id, c.parent_run_id FROM chain JOIN workflow_runs c ON c.parent_run_id = chain.run_id
    WHERE c.closed_at IS NULL AND c.parent_command_id IS NOT NULL AND c.parent_close_policy <> 'abandon'
    ORDER BY c.run_id LIMIT ?"""

_OLDER = """
    WITH RECURSIVE chain (run_id, previous_run_id, depth) AS (
        SELECT run_id, previous_run_id, 1 FROM workflow_runs WHERE run_id = ?
        UNION ALL
        SELECT r.run_id, r.previous_run_id, chain.depth + 1 FROM chain
        JOIN workflow_runs r ON r.run_id = chain.previous_run_id WHERE chain.depth < ?
    )
    SELECT previous_run_id FROM chain WHERE depth = ?"""


def apply_close_policy(batch: Batch, run: RunRow) -> AppliedClosePolicy:
    """Apply the parent close policy to at most a hundred children of a run whose ``cascade_at`` has passed.

    When no child is left, the marker moves to an older run of the chain, or is cleared. A child that is asked to cancel
    loses its command id: its parent is notified of nothing further, and the next step does not find it again. A child
    past its own deadline is timed out instead. A run that its retry policy starts then is left to the next step, as is
    the next run of a child that has continued as new meanwhile.

    Args:
        batch: The batch.
        run: The closed run whose children are open.
    """
    applied = AppliedClosePolicy()
    found: dict[str, str] = dict(batch.scan(_CHILDREN, (run.run_id, RUNS_IN_A_STEP, CHILDREN_IN_A_STEP)))
    for child in batch.lock_runs(list(found)):
        # A reset may have given it to a later run of its parent's chain before it was locked.
        if child.is_open and child.parent_run_id == found[child.run_id]:
            _apply_policy(batch, run, child, applied)
            if child.closed_at is not None and child.cascade_at is not None:
                applied.due.append(child.run_id)
    closed = len(applied.terminated) + len(applied.cancel_requested)
    if len(found) < CHILDREN_IN_A_STEP and closed == len(found):
        _move_on(batch, run, applied)
    else:
        applied.due.append(run.run_id)
    return applied


def next_children(connection: Connection, run_id: str) -> list[str]:
    """Return the children of the next step for a run, so that its change names them and locks them in order."""
    return [row[0] for row in fetch(connection, _CHILDREN, (run_id, RUNS_IN_A_STEP, CHILDREN_IN_A_STEP))]


def _apply_policy(batch: Batch, run: RunRow, child: RunRow, applied: AppliedClosePolicy) -> None:
    if isinstance(open_run(batch, child), Ended):
        applied.timed_out.append(child.run_id)
        return
    policy = ParentClosePolicy(child.parent_close_policy or ParentClosePolicy.ABANDON)
    assert child.parent_run_id is not None
    reason = f"its parent {run.workflow_id} has ended"
    if policy is ParentClosePolicy.TERMINATE:
        batch.append(child, ParentClosePolicyApplied(policy.value, child.parent_run_id))
        terminate(batch, child, reason)
        applied.terminated.append(child.run_id)
    elif policy is ParentClosePolicy.REQUEST_CANCEL:
        batch.append(child, ParentClosePolicyApplied(policy.value, child.parent_run_id))
        request_cancel(batch, child, WorkflowCancelRequested(reason))
        child.parent_command_id = None
        applied.cancel_requested.append(child.run_id)


def _move_on(batch: Batch, run: RunRow, applied: AppliedClosePolicy) -> None:
    """Clear the marker of runs with no child left, and set it on the older runs of the chain, if there are any."""
    run.cascade_at = None
    rows = batch.scan(_OLDER, (run.run_id, RUNS_IN_A_STEP, RUNS_IN_A_STEP))
    if not rows or rows[0][0] is None:
        return
    batch.more_runs((rows[0][0],))
    older = batch.run(rows[0][0])
    if older is not None:
        older.cascade_at = batch.now
        applied.due.append(older.run_id)
