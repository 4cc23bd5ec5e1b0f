"""Children: how they begin in their parent's change, are asked to cancel, and meet their parent's end.

A child's instance and first run are written by the change that holds the parent's command: all or nothing. An id that
is taken is no reason to refuse that change: the parent is told by ``ChildWorkflowStartFailed``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import InstanceRow, RunRow
from outlast_store.transitions.new_runs import first_run, new_instance, new_seed, started_event
from outlast_store.transitions.run_deadlines import earliest
from outlast_store.transitions.run_ends import Ended, open_run, request_cancel, terminate
from outlast_workflow.history.events import (
    ChildWorkflowCancelRequested,
    ChildWorkflowScheduled,
    ChildWorkflowStarted,
    ChildWorkflowStartFailed,
    ParentClosePolicyApplied,
    WorkflowCancelRequested,
)
from outlast_workflow.options.options import RetryPolicy, StartOptions
from outlast_workflow.primitives.enums import ParentClosePolicy
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.child_failures import already_started_failure

CHILDREN_IN_A_STEP = 100
RUNS_IN_A_STEP = 100


# --- the beginning --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class NewChild:
    """A child that a workflow task asks for, as its parent's owner prepares it.

    Attributes:
        run_id: Its first run.
        owner_id: The worker that owns it from the first write, or ``None``: whoever serves its queue may claim it.
        awaited: Whether the parent's code waits to hear that it has started.
        instance: The instance row to make for it.
    """

    run_id: str
    owner_id: str | None
    awaited: bool
    instance: InstanceRow


def new_child(
    command: ChildWorkflowScheduled, run_id: str, owner_id: str | None, *, awaited: bool
) -> NewChild:
    """Prepare a child."""
    return NewChild(
        run_id, owner_id, awaited, InstanceRow(command.workflow_id, command.workflow_type, run_id, 1, 0)
    )


def start_child(
    batch: Batch, parent: RunRow, command: ChildWorkflowScheduled, child: NewChild
) -> ChildWorkflowStarted | ChildWorkflowStartFailed:
    """Write a child's rows and first event. Returns what its parent is to be told."""
    instance = batch.instance(command.workflow_id)
    if instance is not None:
        batch.more_runs((instance.current_run_id,))
        current = batch.run(instance.current_run_id)
        if current is not None and current.is_open:
            batch.require_locks()
            failure = already_started_failure(command.workflow_id, current.run_id, current.status)
            return ChildWorkflowStartFailed(command.command_id, failure)
    run, started_with = _first_run(batch, parent, command, child)
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
    return ChildWorkflowStarted(command.command_id, row.run_id)


def _first_run(
    batch: Batch, parent: RunRow, command: ChildWorkflowScheduled, child: NewChild
) -> tuple[RunRow, dict[str, Any]]:
    """The child's row, and what its first event says of its parent."""
    options: dict[str, Any] = orjson.loads(command.options.json)
    policy = options.get("retry_policy")
    memo = options.get("memo")
    run = first_run(
        run_id=child.run_id,
        workflow_id=command.workflow_id,
        workflow_type=command.workflow_type,
        task_queue=command.task_queue,
        options=StartOptions(
            execution_timeout=options.get("execution_timeout"),
            run_timeout=options.get("run_timeout"),
            retry_policy=RetryPolicy.from_document(policy) if policy is not None else None,
            priority=command.priority,
        ),
        memo=Payload.of(memo) if memo is not None else None,
        search_attributes=options.get("search_attributes"),
        now=batch.now,
        owner_id=child.owner_id,
    )
    run.parent_run_id = parent.run_id
    run.parent_command_id = command.command_id
    run.parent_close_policy = command.parent_close_policy
    if command.parent_close_policy == ParentClosePolicy.TERMINATE:
        run.execution_deadline_at = earliest(run.execution_deadline_at, parent.execution_deadline_at)
        run.next_deadline_at = earliest(run.execution_deadline_at, run.run_deadline_at)
    return run, {
        "workflow_id": parent.workflow_id,
        "run_id": parent.run_id,
        "command_id": command.command_id,
        "close_policy": command.parent_close_policy,
    }


# --- a cancel request -----------------------------------------------------------------------------------------------


def cancel_child(batch: Batch, parent: RunRow, command: ChildWorkflowCancelRequested) -> None:
    """Ask the latest run of a child's chain to cancel; nothing where the chain has ended."""
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
    while run_id is not None:  # it may have gone on since the instance was read
        batch.more_runs((run_id,))
        run = batch.run(run_id)
        if run is None or run.first_run_id != command.run_id:
            return None  # the id stands for another chain by now
        run_id = run.next_run_id
    return run


# --- the parent's end -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class AppliedClosePolicy:
    """What one step did for the children of a chain that has ended; ``due`` are the runs that need a step next."""

    terminated: list[str] = field(default_factory=list)
    cancel_requested: list[str] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)
    due: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        """How many children it was about."""
        return len(self.terminated) + len(self.cancel_requested) + len(self.timed_out)


_CHILDREN = """
    WITH RECURSIVE chain (run_id, previous_run_id, depth) AS (
        SELECT run_id, previous_run_id, 1 FROM workflow_runs WHERE run_id = ?
        UNION ALL
        SELECT r.run_id, r.previous_run_id, chain.depth + 1 FROM chain
        JOIN workflow_runs r ON r.run_id = chain.previous_run_id WHERE chain.depth < ?
    )
    SELECT c.run_id FROM chain JOIN workflow_runs c ON c.parent_run_id = chain.run_id
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


def cascade(batch: Batch, run: RunRow) -> AppliedClosePolicy:
    """One step for a run whose ``cascade_at`` has come: at most a hundred children, then the marker moves on or goes.

    A child that was asked to cancel is told nothing further: its command id goes, which also keeps it out of the next
    step. One past its own deadline is timed out instead; where its retry policy starts another run, that is met by the
    next step, as is the next run of a child that has gone on meanwhile.
    """
    cascaded = AppliedClosePolicy()
    found = [row[0] for row in batch.scan(_CHILDREN, (run.run_id, RUNS_IN_A_STEP, CHILDREN_IN_A_STEP))]
    for child in batch.lock_runs(found):
        if child.is_open:
            _apply_policy(batch, run, child, cascaded)
            if child.closed_at is not None and child.cascade_at is not None:
                cascaded.due.append(child.run_id)
    settled = len(cascaded.terminated) + len(cascaded.cancel_requested)
    if len(found) < CHILDREN_IN_A_STEP and settled == len(found):
        _move_on(batch, run, cascaded)
    else:
        cascaded.due.append(run.run_id)
    return cascaded


def next_children(connection: Connection, run_id: str) -> list[str]:
    """The children that the next step for a run will be about: to be named by its change, so that locks keep order."""
    return [row[0] for row in fetch(connection, _CHILDREN, (run_id, RUNS_IN_A_STEP, CHILDREN_IN_A_STEP))]


def _apply_policy(batch: Batch, run: RunRow, child: RunRow, cascaded: AppliedClosePolicy) -> None:
    if isinstance(open_run(batch, child), Ended):
        cascaded.timed_out.append(child.run_id)
        return
    policy = ParentClosePolicy(child.parent_close_policy or ParentClosePolicy.ABANDON)
    assert child.parent_run_id is not None
    reason = f"its parent {run.workflow_id} has ended"
    if policy is ParentClosePolicy.TERMINATE:
        batch.append(child, ParentClosePolicyApplied(policy.value, child.parent_run_id))
        terminate(batch, child, reason)
        cascaded.terminated.append(child.run_id)
    elif policy is ParentClosePolicy.REQUEST_CANCEL:
        batch.append(child, ParentClosePolicyApplied(policy.value, child.parent_run_id))
        request_cancel(batch, child, WorkflowCancelRequested(reason))
        child.parent_command_id = None
        cascaded.cancel_requested.append(child.run_id)


def _move_on(batch: Batch, run: RunRow, cascaded: AppliedClosePolicy) -> None:
    """The runs looked at have no child left that awaits its policy: go on with those before them, if there are any."""
    run.cascade_at = None
    rows = batch.scan(_OLDER, (run.run_id, RUNS_IN_A_STEP, RUNS_IN_A_STEP))
    if not rows or rows[0][0] is None:
        return
    batch.more_runs((rows[0][0],))
    older = batch.run(rows[0][0])
    if older is not None:
        older.cascade_at = batch.now
        cascaded.due.append(older.run_id)
