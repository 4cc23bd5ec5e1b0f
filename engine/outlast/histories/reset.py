"""Resetting a workflow: read its current run, plan the point, apply the change."""

from __future__ import annotations

from typing import TypedDict

from sqlalchemy import Connection

from outlast.runtime.runtime import Runtime
from outlast_runs.resets import ResetRun
from outlast_runs.resets import replaced_run as _replaced
from outlast_store.reads.histories import read_events
from outlast_store.reads.runs import find_instance, find_run
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import RunNotFoundError, WorkflowNotFoundError
from outlast_workflow.history.events import stored_event
from outlast_workflow.history.reset_plan import History, plan_reset
from outlast_workflow.options.validation import Seconds, check_end, timeout_seconds, validate_reason
from outlast_workflow.primitives.times import microseconds


class ResetOptions(TypedDict, total=False):
    """The options of a reset besides its point; see :meth:`outlast.WorkflowHandle.reset`."""

    reason: str | None
    execution_timeout: Seconds | None
    signals: bool


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
    reason = validate_reason(reason)
    timeout = None
    if execution_timeout is not None:
        timeout = microseconds(timeout_seconds("execution timeout", execution_timeout, minimum_seconds=1))
        check_end("execution timeout", runtime.environment.clock.now(), timeout)
    run, history = await runtime.read_aside(_run_and_history, workflow_id, run_id)
    return await runtime.journal.apply(
        ResetRun(run, history, plan_reset(history, to), reason, timeout, signals=signals)
    )


def _run_and_history(connection: Connection, workflow_id: str, run_id: str | None) -> tuple[RunRow, History]:
    instance = find_instance(connection, workflow_id)
    if instance is None:
        raise WorkflowNotFoundError(workflow_id)
    run = find_run(connection, run_id or instance.current_run_id)
    if run is None or run.workflow_id != workflow_id:
        raise RunNotFoundError(run_id or instance.current_run_id, workflow_id=workflow_id)
    if run.run_id != instance.current_run_id:
        raise _replaced(run.run_id, instance.current_run_id)
    rows = read_events(connection, run.run_id, 0, run.last_seq)
    return run, [
        (seq, stored_event(run.run_id, seq, kind, payload), recorded_at, len(payload.encode()))
        for seq, kind, recorded_at, payload in rows
    ]
