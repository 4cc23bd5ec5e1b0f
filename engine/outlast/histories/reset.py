"""Resetting and resuming a workflow: read its current run, plan the point, apply the change."""

from __future__ import annotations

from typing import TypedDict

from sqlalchemy import Connection

from outlast.runtime.runtime import Runtime
from outlast_runs.copied_histories import NewPlace, being_deleted
from outlast_runs.resets import ResetRun
from outlast_runs.resets import replaced_run as _replaced
from outlast_store.reads.histories import read_events
from outlast_store.reads.runs import find_chain_end, find_instance, find_run
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import RunNotFoundError, WorkflowNotFoundError
from outlast_workflow.errors.refusals import WorkflowNotResumableError
from outlast_workflow.history.events import stored_event
from outlast_workflow.history.reset_plan import ChainEnd, FindChain, History, plan_reset, plan_resume
from outlast_workflow.options.validation import (
    Seconds,
    check_end,
    timeout_seconds,
    validate_name,
    validate_reason,
)
from outlast_workflow.primitives.enums import KEEP, Keep, RunStatus
from outlast_workflow.primitives.times import microseconds


class ResetOptions(TypedDict, total=False):
    """The options of a reset besides its point; see :meth:`outlast.WorkflowHandle.reset`."""

    reason: str | None
    execution_timeout: Seconds | None
    signals: bool


class ResumeOptions(ResetOptions, total=False):
    """The options of a resume; see :meth:`outlast.WorkflowHandle.resume`."""

    queue: str | Keep | None


async def reset(
    runtime: Runtime,
    workflow_id: str,
    run_id: str | None,
    to: str | int,
    reason: str | None,
    execution_timeout: Seconds | None,
    signals: bool = True,
) -> str:
    """Reset a workflow.

    Args:
        runtime: The database.
        workflow_id: The workflow.
        run_id: The run to reset, which must be the current one; the current run if ``None``.
        to: The last event to keep, by number or by name.
        reason: Why, for the history.
        execution_timeout: A new one, in seconds from now.
        signals: Whether the signals after the point are kept.

    Returns:
        The id of the new run.

    Raises:
        InvalidOptionError: ``to``, the reason or the timeout cannot be used.
        WorkflowNotFoundError: There is no such workflow.
        RunNotFoundError: It has no such run.
        ResetRefusedError: It cannot be reset, or not to that point.
    """
    place = new_place(runtime, reason, execution_timeout, signals)

    def plan(connection: Connection) -> ResetRun:
        run, history = _current(connection, workflow_id, run_id)
        return ResetRun(run, history, plan_reset(history, to, chain_finder(connection)), place)

    return await runtime.journal.apply(await runtime.read_aside(plan))


async def resume(
    runtime: Runtime,
    workflow_id: str,
    run_id: str | None,
    reason: str | None,
    execution_timeout: Seconds | None,
    queue: str | Keep | None = KEEP,
    signals: bool = True,
) -> str:
    """Resume a workflow that was stopped or has failed.

    Args:
        runtime: The database.
        workflow_id: The workflow.
        run_id: The run to resume, which must be the current one; the current run if ``None``.
        reason: Why, for the history.
        execution_timeout: A new one, in seconds from now.
        queue: Its queue from now on; ``None`` takes it out of its queue.
        signals: Whether the signals after the point are kept.

    Returns:
        The id of the new run.

    Raises:
        InvalidOptionError: The reason, the timeout or the queue's name cannot be used.
        WorkflowNotFoundError: There is no such workflow.
        RunNotFoundError: It has no such run.
        WorkflowNotResumableError: It is open, or has completed.
        ResetRefusedError: Another run is current by now, or its execution deadline has passed.
        QueueNotFoundError: Nobody has defined its queue.
    """
    place = new_place(runtime, reason, execution_timeout, signals)
    place.queue = checked_queue(queue)

    def plan(connection: Connection) -> ResetRun:
        run, history = _current(connection, workflow_id, run_id, closed=True)
        return ResetRun(run, history, plan_resume(history, chain_finder(connection)), place)

    return await runtime.journal.apply(await runtime.read_aside(plan))


def new_place(
    runtime: Runtime, reason: str | None, execution_timeout: Seconds | None, signals: bool
) -> NewPlace:
    """Return what a caller decides about a new run, checked.

    Args:
        runtime: The database.
        reason: Why, for the history.
        execution_timeout: A new one, in seconds from now.
        signals: Whether the signals after the point are kept.

    Raises:
        InvalidOptionError: The reason or the timeout cannot be used.
    """
    timeout = None
    reason = validate_reason(reason)
    if execution_timeout is not None:
        timeout = microseconds(timeout_seconds("execution timeout", execution_timeout, minimum_seconds=1))
        check_end("execution timeout", runtime.environment.clock.now(), timeout)
    return NewPlace(reason=reason, timeout=timeout, signals=signals)


def checked_queue(queue: str | Keep | None) -> str | Keep | None:
    """Return the queue that a caller gives a run.

    Raises:
        InvalidOptionError: It cannot be a queue's name.
    """
    return queue if queue is None or queue is KEEP else validate_name("queue", queue)


def _current(
    connection: Connection, workflow_id: str, run_id: str | None, *, closed: bool = False
) -> tuple[RunRow, History]:
    """Return the current run of a workflow with its history; with ``closed``, one that can be resumed."""
    instance = find_instance(connection, workflow_id)
    if instance is None:
        raise WorkflowNotFoundError(workflow_id)
    run = find_run(connection, run_id or instance.current_run_id)
    if run is None or run.workflow_id != workflow_id:
        raise RunNotFoundError(run_id or instance.current_run_id, workflow_id=workflow_id)
    if run.run_id != instance.current_run_id:
        raise _replaced(run.run_id, instance.current_run_id)
    if closed and (run.is_open or run.status == RunStatus.COMPLETED):
        raise WorkflowNotResumableError(workflow_id, run_id=run.run_id, status=run.status)
    return run, history_of(connection, run)


def history_of(connection: Connection, run: RunRow) -> History:
    """Return the history of a run, as a plan reads it.

    Args:
        connection: Where to read.
        run: The run.

    Raises:
        DamagedHistoryError: It cannot be read.
        ResetRefusedError: A deletion has taken a part of it.
    """
    history = [
        (seq, stored_event(run.run_id, seq, kind, payload), recorded_at, len(payload.encode()))
        for seq, kind, recorded_at, payload in read_events(connection, run.run_id, 0, run.last_seq)
    ]
    if len(history) != run.last_seq:
        raise being_deleted(run)
    return history


def chain_finder(connection: Connection) -> FindChain:
    """Return what finds the last run of a child's chain, for a plan."""

    def find(workflow_id: str, first_run_id: str) -> ChainEnd | None:
        run = find_chain_end(connection, workflow_id, first_run_id)
        return None if run is None else ChainEnd(run.run_id, run.status, run.is_open)

    return find
