"""Waiting for a start that is in the outbox: whoever asks for the workflow applies it himself."""

from __future__ import annotations

import asyncio
from typing import Final

import orjson
from sqlalchemy import Connection

from outlast.outbox.bells import bell_of
from outlast.runtime.runtime import Runtime
from outlast_store.reads.outbox import find_start
from outlast_store.reads.runs import find_instance, find_run
from outlast_store.schema.rows import InstanceRow, OutboxRow
from outlast_workflow.errors import OutboxRefusedError, StartNotCommittedError

_AGAIN_AFTER_S: Final = 0.02


async def started_run(runtime: Runtime, workflow_id: str, run_id: str, *, joins: bool) -> str:
    """Return the run of a start that was written in a user's transaction, once it is applied.

    Args:
        runtime: The database.
        workflow_id: The workflow.
        run_id: The run that it has if the start makes one.
        joins: Whether the start takes a run that is there already.

    Raises:
        StartNotCommittedError: Its transaction has not committed, or it was rolled back.
        OutboxRefusedError: It could not be applied.
    """
    while True:
        waiting, refused, applied, instance = await runtime.read(_look, workflow_id, run_id)
        if applied:
            return run_id
        if refused is not None:
            raise OutboxRefusedError(
                workflow_id, outbox_id=refused.outbox_id, reason=refused.reason or "no reason is known"
            )
        if not waiting:
            if joins and instance is not None:
                return instance.current_run_id
            raise StartNotCommittedError(workflow_id)
        await _apply(runtime)


async def apply_start(runtime: Runtime, workflow_id: str) -> None:
    """Apply the start of a workflow if one waits in the outbox.

    Args:
        runtime: The database.
        workflow_id: The workflow.
    """
    while await runtime.read(find_start, workflow_id):
        await _apply(runtime)


async def _apply(runtime: Runtime) -> None:
    drained = await bell_of(runtime).drain()
    if not drained.applied and not drained.refused:
        # Somebody else has just applied it, and this process has yet to see that.
        await asyncio.sleep(_AGAIN_AFTER_S)


def _look(
    connection: Connection, workflow_id: str, run_id: str
) -> tuple[bool, OutboxRow | None, bool, InstanceRow | None]:
    """Return whether the start waits, its refusal, whether its run is there, and the workflow's instance."""
    # What is not in the outbox any more is in the tables that are read next.
    waiting = _of_run(find_start(connection, workflow_id), run_id)
    refused = _of_run(find_start(connection, workflow_id, "refused"), run_id)
    applied = find_run(connection, run_id) is not None
    return waiting is not None, refused, applied, find_instance(connection, workflow_id)


def _of_run(rows: list[OutboxRow], run_id: str) -> OutboxRow | None:
    for row in rows:
        if orjson.loads(row.options).get("run_id") == run_id:
            return row
    return None
