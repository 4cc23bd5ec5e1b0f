"""What the end of a run means to its parent and its children.

The parent gets one event, at the end of the child's chain, in the change that ends it. Where the parent is closed or
gone, the notice is dropped.

``cascade_at`` is when the parent close policy of the children is due. A chain that continues keeps its children, those
of its earlier runs included. So its open run carries ``NOT_YET`` once an earlier run has left children behind, and only
the end of the chain (or of a run that has open children itself) sets the time. A run without children costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import FailureRow, RunRow
from outlast_workflow.data.failures import message_of
from outlast_workflow.errors.refusals import ResetRefusedError
from outlast_workflow.history.events import (
    ChildWorkflowCancelled,
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowTerminated,
    ChildWorkflowTimedOut,
    Event,
    ParentReset,
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowTerminated,
    WorkflowTimedOut,
    stored_event,
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
    append_end(batch, parent, run.parent_command_id, run, event)


def append_end(batch: Batch, parent: RunRow, command_id: int, child: RunRow, event: Event) -> None:
    """Append the end of a child's chain to a parent's history and wake the parent.

    Args:
        batch: The batch.
        parent: The parent's run, open.
        command_id: The command that started the child.
        child: The last run of the child's chain.
        event: Its terminal event.
    """
    notice = _notice(command_id, event)
    if notice is None:
        return
    seq = batch.append(parent, notice)
    if not isinstance(notice, ChildWorkflowCompleted | ChildWorkflowCancelled):
        batch.add_failure(_failure(batch, parent, child, notice, seq))
    parent.wake(batch.now)


def last_event(batch: Batch, run: RunRow) -> Event:
    """Return the last event of a run, from this batch or from the database.

    Raises:
        DamagedHistoryError: It cannot be read.
    """
    appended = batch.appended(run.run_id)
    if appended:
        return appended[-1][1]
    text = "SELECT type, payload FROM history_events WHERE run_id = ? AND seq = ?"
    kind, payload = batch.scan(text, (run.run_id, run.last_seq))[0]
    return stored_event(run.run_id, run.last_seq, kind, payload)


def parent_of(run: RunRow, told: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what the first event of a chain's next run says of its parent, which may have been reset meanwhile.

    Args:
        run: The run before it.
        told: What that run's first event says.
    """
    if told is None or run.parent_run_id is None or told["run_id"] == run.parent_run_id:
        return told
    return {**told, "run_id": run.parent_run_id}


def find_children(batch: Batch, children: Mapping[int, str], *, fork: bool) -> dict[int, RunRow]:
    """Lock the last runs of the chains of the children that had not ended at the point of a copy; nothing is written.

    Args:
        batch: The batch.
        children: The last run of each child's chain as it was known, by the command that started the child.
        fork: Whether the copy begins another chain, which takes no open child.

    Raises:
        ResetRefusedError: A child was deleted meanwhile; or a fork's is open again.
    """
    found: dict[int, RunRow] = {}
    batch.more_runs(sorted(children.values()))
    batch.require_locks()
    for command_id, run_id in children.items():
        child = batch.run(run_id)
        while child is not None and child.next_run_id is not None:
            batch.more_runs((child.next_run_id,))
            batch.require_locks()
            child = batch.run(child.next_run_id)
        if child is None or (fork and child.is_open):
            raise ResetRefusedError(f"the child of command {command_id} has changed meanwhile: try again")
        found[command_id] = child
    return found


def adopt_children(batch: Batch, row: RunRow, children: Mapping[int, RunRow]) -> None:
    """Give a run whose history is a copy its claim on the children that had not ended at its point.

    One that has ended since is told to it now, in the order of their ends. One that is open becomes a child of the run,
    whatever a close policy or an earlier end has taken from it: its history says so, and its owner sees it.

    Args:
        batch: The batch.
        row: The new run.
        children: The last run of each child's chain, by the command that started the child (:func:`find_children`).
    """
    ended: list[tuple[int, str, int, RunRow]] = []
    for command_id, child in children.items():
        if child.closed_at is not None:
            ended.append((child.closed_at, child.run_id, command_id, child))
            continue
        batch.append(child, ParentReset(row.run_id))
        batch.adopt(child, row.run_id, command_id)
    for _, _, command_id, child in sorted(ended, key=lambda one: one[:3]):
        append_end(batch, row, command_id, child, last_event(batch, child))


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
