"""Rows that tests look at: what is stored of a run that a handle is about."""

from __future__ import annotations

from typing import Any

from outlast import WorkflowHandle
from outlast.client.workflows import run_rows
from outlast_store.schema.rows import RunRow


async def latest_row(handle: WorkflowHandle[Any]) -> RunRow:
    """The row of the last run of the handle's chain, or of the first that completed."""
    return await run_rows.final_row(handle._context.runtime, handle.workflow_id, handle.run_id)
