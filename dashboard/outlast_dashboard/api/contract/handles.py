"""The dependency that finds the run of a request before the answer starts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends

from outlast.client.workflows.handle import WorkflowHandle
from outlast_dashboard.api.contract.fields import RunId, WorkflowId
from outlast_dashboard.authorization import Reader, TheWeb


async def _pinned(
    workflow_id: WorkflowId, web: TheWeb, reader: Reader, run_id: RunId = None
) -> WorkflowHandle[Any]:
    client = web.client
    if run_id is None:
        run_id = await client.handle(workflow_id).resolve()
    handle = client.handle(workflow_id, run_id=run_id)
    _ = await handle.is_open()
    return handle


PinnedHandle = Annotated[WorkflowHandle[Any], Depends(_pinned)]
"""A handle to an existing run: that of ``run_id``, or the workflow's current one."""
