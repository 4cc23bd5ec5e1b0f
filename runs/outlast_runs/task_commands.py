"""The commands of a workflow task that do not end the run: the event and the row of each."""

from __future__ import annotations

from functools import partial

from outlast_activities.attempts import request_cancel, schedule
from outlast_runs.signals import signal_other
from outlast_runs.workflow_task import Applied, WorkflowTask
from outlast_store.journal.batch import Batch
from outlast_store.schema import search_index
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.children import cancel_child, start_child
from outlast_store.transitions.requests import completed
from outlast_store.transitions.run_deadlines import lower_run_deadline
from outlast_store.transitions.streams import close_stream, write_items
from outlast_workflow.history.events import (
    ActivityCancelRequested,
    ActivityScheduled,
    ChildWorkflowCancelRequested,
    ChildWorkflowScheduled,
    ChildWorkflowStartFailed,
    Event,
    ExternalSignalRequested,
    MemoUpserted,
    SearchAttributesUpserted,
    StreamClosed,
    StreamWritten,
    TimerCancelled,
    TimerScheduled,
    UpdateCompleted,
    WorkflowDeadlineLowered,
)
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.times import from_iso


def carry_out(
    batch: Batch, run: RunRow, workflow_task: WorkflowTask, command: Event, applied: Applied
) -> None:
    """Append a command that does not end the run, and write its row.

    Args:
        batch: The batch.
        run: The run.
        workflow_task: The workflow task that the command belongs to.
        command: The command.
        applied: Gets the activities that start here, and the consequences of the command.
    """
    seq = batch.append(run, command)
    if isinstance(command, ActivityScheduled):
        options = workflow_task.eager.get(command.command_id)
        if options is None:
            schedule(batch, run, seq, command, ActivityOptions.from_snapshot(command.options.json), None)
        else:
            row = schedule(batch, run, seq, command, options, workflow_task.worker_id)
            applied.claimed.append((row, command))
    elif isinstance(command, TimerScheduled):
        batch.add_timer(run.run_id, command.command_id, command.fire_at, command.summary)
    elif isinstance(command, TimerCancelled):
        batch.remove_timer(run.run_id, command.command_id)
    elif isinstance(command, ActivityCancelRequested):
        target = batch.activity(run.run_id, command.command_id)
        if command.wait:
            applied.consequences.append(partial(request_cancel, batch, run, target, wait=True))
        else:
            request_cancel(batch, run, target)
    elif isinstance(command, ChildWorkflowScheduled):
        child = workflow_task.children[command.command_id]
        answer = start_child(batch, run, command, child)
        wakes = child.awaited or isinstance(answer, ChildWorkflowStartFailed)
        applied.consequences.append(partial(_answer, batch, run, answer, wakes=wakes))
    elif isinstance(command, MemoUpserted):
        run.memo = command.memo.json.decode()
    elif isinstance(command, SearchAttributesUpserted):
        search_index.upsert(batch.execute, run, command.attributes)
    elif isinstance(command, WorkflowDeadlineLowered):
        lower_run_deadline(run, from_iso(command.run_deadline_at))
    elif isinstance(command, ChildWorkflowCancelRequested):
        applied.consequences.append(partial(cancel_child, batch, run, command))
    elif isinstance(command, ExternalSignalRequested):
        applied.consequences.append(partial(signal_other, batch, run, command, workflow_task.limits))
    elif isinstance(command, UpdateCompleted):
        completed(batch, (run.first_run_id, "update", command.update_id), seq, command)
    elif isinstance(command, StreamWritten):
        key = (run.first_run_id, command.name)
        write_items(batch, key, (command.value.json,), run.run_id, seq=seq)
    elif isinstance(command, StreamClosed):
        close_stream(batch, (run.first_run_id, command.name))


def _answer(batch: Batch, run: RunRow, event: Event, *, wakes: bool) -> None:
    """Append what became of a command to the run's history, unless the run ended in the same workflow task."""
    if run.is_open:
        batch.append(run, event)
        if wakes:
            run.wake(batch.now)
