"""The command that ends a run: its terminal event, and the next run of the chain with what moves there."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from outlast_runs.workflow_task import Applied, WorkflowTask
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.new_runs import add_next_run, first_event, new_seed, next_run, started_event
from outlast_store.transitions.parents import parent_of
from outlast_store.transitions.requests import end_start_delay, move_signals, unapplied_signals
from outlast_store.transitions.run_ends import cancelled_failure, close_run, retry_run, run_failure
from outlast_store.transitions.streams import reopen, reopen_streams
from outlast_workflow.data.failures import message_of
from outlast_workflow.history.events import (
    Event,
    SignalReceived,
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
)
from outlast_workflow.options.options import RetryPolicy
from outlast_workflow.options.search_attributes import with_reserved
from outlast_workflow.primitives.enums import (
    FailureCategory,
    PropagationKind,
    RetryState,
    RunStatus,
)
from outlast_workflow.primitives.times import microseconds


def end_run(batch: Batch, run: RunRow, workflow_task: WorkflowTask, command: Event, applied: Applied) -> None:
    """Carry out the command that ends the run.

    Args:
        batch: The batch.
        run: The run.
        workflow_task: The workflow task that the command belongs to.
        command: The command.
        applied: Gets the next run, if the run continues as new.
    """
    nothing_open = workflow_task.nothing_open
    if isinstance(command, WorkflowCompleted):
        close_run(batch, run, command, RunStatus.COMPLETED, by="completed", nothing_open=nothing_open)
    elif isinstance(command, WorkflowContinuedAsNew):
        applied.following = following = _continue(batch, run, workflow_task, command)
        unapplied = _unapplied(batch, run, workflow_task, applied)
        move_signals(batch, following, [*workflow_task.buffered, *unapplied])
        if following.start_delayed and (unapplied or following.inbox):
            # What came too late for this run ends the wait of the next, as what comes a moment later does.
            end_start_delay(batch, following)
            following.wake(batch.now)
        close_run(
            batch, run, command, RunStatus.CONTINUED_AS_NEW, by="continued_as_new", nothing_open=nothing_open
        )
    elif isinstance(command, WorkflowCancelled):
        failure = cancelled_failure(batch, run, command.reason or "the workflow was cancelled")
        close_run(
            batch,
            run,
            command,
            RunStatus.CANCELLED,
            by="cancelled",
            failure=failure,
            nothing_open=nothing_open,
        )
    elif isinstance(command, WorkflowFailed):
        _fail(batch, run, workflow_task, command)
    else:
        raise AssertionError(f"{command.type} does not end a run")


def _fail(batch: Batch, run: RunRow, workflow_task: WorkflowTask, command: WorkflowFailed) -> None:
    """End the run as failed; its retry policy may start the next one."""
    document = command.failure
    delay = document.get("next_retry_delay")
    command.next_run_id = retry_run(
        batch, run, document, delay=microseconds(delay) if delay is not None else None
    )
    if command.next_run_id is not None:
        if workflow_task.record is None:
            reopen_streams(batch, run)
        elif workflow_task.closed_streams:
            reopen(batch, run.first_run_id, workflow_task.closed_streams)
    command.retry_state = None
    if command.next_run_id is None and run.retry_policy is not None:
        command.retry_state = _retry_state(run, document).value
    details = document.get("details")
    failure = run_failure(
        batch,
        run,
        str(document.get("category", FailureCategory.APPLICATION.value)),
        PropagationKind.TERMINAL,
        exception_class=str(document.get("type", "")),
        message=message_of(document),
        details=orjson.dumps(details).decode() if details is not None else None,
    )
    close_run(
        batch,
        run,
        command,
        RunStatus.FAILED,
        by="failed",
        failure=failure,
        nothing_open=workflow_task.nothing_open,
    )


def _retry_state(run: RunRow, failure: dict[str, object]) -> RetryState:
    """Return why the retry policy of a failed run starts no other run."""
    if run.cancel_requested_at is not None:
        return RetryState.CANCEL_REQUESTED
    policy = RetryPolicy.from_document(orjson.loads(run.retry_policy or "{}"))
    if policy.is_non_retryable(failure):
        return RetryState.NON_RETRYABLE_FAILURE
    if not policy.allows(run.attempt):
        return RetryState.MAXIMUM_ATTEMPTS_REACHED
    return RetryState.TIMEOUT


def _unapplied(
    batch: Batch, run: RunRow, workflow_task: WorkflowTask, applied: Applied
) -> Sequence[SignalReceived]:
    """Return the signals that this workflow task had not seen, in order; read only where there may be any."""
    if applied.first_seq - 1 == workflow_task.seen_seq:
        return ()
    return unapplied_signals(batch, run, workflow_task.seen_seq)


def _continue(
    batch: Batch, run: RunRow, workflow_task: WorkflowTask, command: WorkflowContinuedAsNew
) -> RunRow:
    """Write the next run of the chain; a worker that serves it owns it from the first write."""
    assert workflow_task.next_run_id is not None
    following = next_run(
        run,
        run_id=workflow_task.next_run_id,
        now=batch.now,
        owner_id=workflow_task.next_owner_id,
        workflow_type=command.workflow_type,
        task_queue=command.task_queue,
        run_timeout=microseconds(command.run_timeout_seconds)
        if command.run_timeout_seconds is not None
        else None,
        memo=command.memo.json.decode() if command.memo is not None else None,
        search_attributes=with_reserved(command.search_attributes, run.search_attributes),
        retry_policy=orjson.dumps(command.retry_policy).decode()
        if command.retry_policy is not None
        else None,
        start_delay=microseconds(command.start_delay_seconds or 0),
    )
    before = workflow_task.started or first_event(batch, run.run_id)
    started = started_event(
        following,
        input=command.input,
        seed=new_seed(batch),
        parent=parent_of(run, before.parent),
        headers=command.headers,
        last_failure=before.last_failure,
        last_result=before.last_result,
        schedule=before.schedule,
    )
    command.next_run_id = following.run_id
    return add_next_run(batch, run, following, started)
