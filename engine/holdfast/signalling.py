"""Signals on their way into histories: from clients, with a start, and from other workflows."""

from __future__ import annotations

from holdfast_store import requests
from holdfast_store.batch import Batch
from holdfast_store.requests import DELIVERED, RequestRow
from holdfast_store.rows import RunRow
from holdfast_store.runs import deadline_passed, time_out_run
from holdfast_workflow.converter import DataConverter
from holdfast_workflow.errors import (
    RunNotFoundError,
    StructuralLimitError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)
from holdfast_workflow.events import (
    Event,
    ExternalSignalDelivered,
    ExternalSignalFailed,
    ExternalSignalRequested,
    SignalReceived,
)
from holdfast_workflow.failures import failure_of
from holdfast_workflow.limits import StructuralLimits

_PLAIN = DataConverter()


def deliver(batch: Batch, run: RunRow, signal: SignalReceived, limits: StructuralLimits) -> bool:
    """Append a signal to an open run and wake it; ``False`` where one with its key was there already.

    Args:
        batch: The batch.
        run: The run, open.
        signal: The signal.
        limits: Say how many signals may wait.

    Raises:
        StructuralLimitError: Too many signals wait already: this one is refused alone.
    """
    if was_delivered(batch, run, signal):
        return False
    # Each signal is an event: a shorter history can't have so many.
    most = limits.unhandled_signals
    if most and (run.last_seq + 1) * 5 >= most * 4:
        waiting = requests.unhandled_signals(batch, run) + 1
        limits.check_next("unhandled_signals", waiting, whose=run.workflow_id)
    if signal.request_id is not None and not requests.add(batch, _row(batch, run, signal, signal.request_id)):
        return False
    batch.append(run, signal)
    requests.end_start_delay(run)
    run.wake(batch.now)
    return True


def was_delivered(batch: Batch, run: RunRow, signal: SignalReceived) -> bool:
    """Whether a signal with the same key has reached the chain before."""
    if signal.request_id is None:
        return False
    return requests.find(batch, (run.first_run_id, "signal", signal.request_id)) is not None


def _row(batch: Batch, run: RunRow, signal: SignalReceived, request_id: str) -> RequestRow:
    return RequestRow(
        first_run_id=run.first_run_id,
        kind="signal",
        request_id=request_id,
        run_id=run.run_id,
        name=signal.name,
        input="null",  # it is in the history
        state=DELIVERED,
        answer=None,
        answer_seq=run.last_seq + 1,
        created_at=batch.now,
        expires_at=None,
    )


def signal_other(
    batch: Batch, run: RunRow, command: ExternalSignalRequested, limits: StructuralLimits
) -> None:
    """Deliver what a workflow sends to another one, in the same change, and tell it what became of it."""
    signal = SignalReceived(command.name, command.input, headers=command.headers)
    answer: Event
    try:
        deliver(batch, _target(batch, command), signal, limits)
        answer = ExternalSignalDelivered(command.command_id)
    except (WorkflowNotFoundError, WorkflowClosedError, StructuralLimitError) as error:
        answer = ExternalSignalFailed(command.command_id, failure_of(error, _PLAIN))
    if run.is_open:
        batch.append(run, answer)
        run.wake(batch.now)


def _target(batch: Batch, command: ExternalSignalRequested) -> RunRow:
    """The open run that a signal is for."""
    workflow_id, run_id = command.workflow_id, command.run_id
    if run_id is None:
        instance = batch.lock_instance(workflow_id)
        if instance is None:
            raise WorkflowNotFoundError(workflow_id)
        run_id = instance.current_run_id
    while True:
        batch.more_runs([run_id])
        run = batch.run(run_id)
        if run is None or run.workflow_id != workflow_id:
            raise RunNotFoundError(run_id, workflow_id=workflow_id)
        if run.is_open and deadline_passed(run, batch.now) is not None:
            time_out_run(batch, run)
        if run.is_open:
            return run
        if run.next_run_id is None:
            raise WorkflowClosedError(workflow_id, run_id=run_id, status=run.status)
        run_id = run.next_run_id
