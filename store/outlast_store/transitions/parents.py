"""What the end of a run means to its parent and its children.

The parent gets one event, at the end of the child's chain, in the change that ends it. Where the parent is closed or
gone, the notice is dropped.

``cascade_at`` is when the parent close policy of the children is due. A chain that continues keeps its children, those
of its earlier runs included. So its open run carries ``NOT_YET`` once an earlier run has left children behind, and only
the end of the chain (or of a run that has open children itself) sets the time. A run without children costs nothing.
"""

from __future__ import annotations

from typing import Final

from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import FailureRow, RunRow
from outlast_workflow.data.failures import message_of
from outlast_workflow.history.events import (
    ChildWorkflowCancelled,
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowTerminated,
    ChildWorkflowTimedOut,
    Event,
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from outlast_workflow.primitives.enums import FailureCategory, PropagationKind, TimeoutKind
from outlast_workflow.primitives.times import from_iso

NOT_YET: Final = 1 << 62
"""The ``cascade_at`` of an open run whose chain left children behind in an earlier run."""


def note_children(batch: Batch, run: RunRow, *, nothing_open: bool) -> None:
    """Mark that a closing run, or an earlier run of its chain, has left open children.

    The next run of its chain, if there is one, is among the batch's rows already.

    Args:
        batch: The batch.
        run: The run that closes.
        nothing_open: Whether its owner knows that it has no open child.
    """
    left_behind = run.cascade_at is not None
    if not left_behind and not nothing_open:
        left_behind = batch.has_open_children(run.run_id)
    if run.next_run_id is None:
        run.cascade_at = batch.now if left_behind else None
        return
    run.cascade_at = None
    following = batch.run(run.next_run_id)
    if left_behind and following is not None:
        following.cascade_at = NOT_YET


def tell_parent(batch: Batch, run: RunRow, event: Event) -> None:
    """Append the end of a child's chain to its parent's history and wake the parent.

    Nothing is written where the parent is closed or gone, or the chain continues.

    Args:
        batch: The batch.
        run: The child's run that closes.
        event: Its terminal event.
    """
    if run.parent_run_id is None or run.parent_command_id is None or run.next_run_id is not None:
        return
    batch.more_runs((run.parent_run_id,))
    parent = batch.run(run.parent_run_id)
    if parent is None or not parent.is_open:
        return
    notice = _notice(run.parent_command_id, event)
    if notice is None:
        return
    seq = batch.append(parent, notice)
    if not isinstance(notice, ChildWorkflowCompleted | ChildWorkflowCancelled):
        batch.add_failure(_failure(batch, parent, run, notice, seq))
    parent.wake(batch.now)


def _notice(command_id: int, event: Event) -> Event | None:
    if isinstance(event, WorkflowCompleted):
        return ChildWorkflowCompleted(command_id, event.result)
    if isinstance(event, WorkflowFailed):
        state = event.retry_state
        return ChildWorkflowFailed(command_id, event.failure, state)
    if isinstance(event, WorkflowTimedOut):
        return ChildWorkflowTimedOut(command_id, event.timeout_kind, event.deadline_at)
    if isinstance(event, WorkflowCancelled):
        return ChildWorkflowCancelled(command_id, event.reason)
    if isinstance(event, WorkflowTerminated):
        return ChildWorkflowTerminated(command_id, event.reason)
    return None


def _failure(batch: Batch, parent: RunRow, child: RunRow, notice: Event, seq: int) -> FailureRow:
    """Return the failure row of a child, written for its parent."""
    kind = deadline_at = None
    if isinstance(notice, ChildWorkflowFailed):
        name, message = str(notice.failure.get("type", "")), message_of(notice.failure)
    elif isinstance(notice, ChildWorkflowTimedOut):
        kind, deadline_at = TimeoutKind(notice.timeout_kind).value, from_iso(notice.deadline_at)
        name, message = "WorkflowTimeoutError", f"the {kind.replace('_', ' ')} of {child.workflow_id} passed"
    else:
        assert isinstance(notice, ChildWorkflowTerminated)
        name, message = "WorkflowTerminatedError", notice.reason or f"{child.workflow_id} was terminated"
    return FailureRow(
        failure_id=batch.ids.next(),
        run_id=parent.run_id,
        event_seq=seq,
        recorded_at=batch.now,
        source_kind="child_workflow",
        source_id=child.workflow_id,
        failure_category=FailureCategory.CHILD_WORKFLOW.value,
        propagation_kind=PropagationKind.CHILD.value,
        exception_class=name,
        message=message,
        details=None,
        timeout_kind=kind,
        deadline_at=deadline_at,
    )
