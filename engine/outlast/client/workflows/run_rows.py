"""The stored rows of a workflow's runs, for handles and for pages that draw them: never part of the public face."""

from __future__ import annotations

from outlast.runtime.runtime import Runtime
from outlast_store.reads.runs import find_instance, find_run
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import RunNotFoundError, WorkflowNotFoundError
from outlast_workflow.primitives.enums import RunStatus


async def current_run_id(runtime: Runtime, workflow_id: str) -> str:
    """Return the id of a workflow's current run; a start that waits in the outbox is applied first.

    Args:
        runtime: The database.
        workflow_id: The workflow.

    Raises:
        WorkflowNotFoundError: There is no such workflow.
    """
    instance = await runtime.read(find_instance, workflow_id)
    if instance is None:
        from outlast.outbox.waits import apply_start

        await apply_start(runtime, workflow_id)
        # Read again even if nothing waited: the start may have been applied between the two reads.
        instance = await runtime.read(find_instance, workflow_id)
    if instance is None:
        raise WorkflowNotFoundError(workflow_id)
    return instance.current_run_id


async def row_of(runtime: Runtime, workflow_id: str, run_id: str) -> RunRow:
    """Return the row of one run.

    Args:
        runtime: The database.
        workflow_id: The workflow.
        run_id: One of its runs.

    Raises:
        RunNotFoundError: The workflow has no such run.
    """
    run = await runtime.read(find_run, run_id)
    if run is None or run.workflow_id != workflow_id:
        raise RunNotFoundError(run_id, workflow_id=workflow_id)
    return run


async def final_row(runtime: Runtime, workflow_id: str, run_id: str | None = None) -> RunRow:
    """Return the row of the run that decides a workflow's result: the last of a chain, or the first that completed.

    A run that completed has a next one only if it was reset afterwards.

    Args:
        runtime: The database.
        workflow_id: The workflow.
        run_id: A run of the chain; the workflow's current run if ``None``.

    Raises:
        WorkflowNotFoundError: There is no such workflow.
        RunNotFoundError: It has no such run.
    """
    if run_id is None:
        run_id = await current_run_id(runtime, workflow_id)
    while True:
        run = await row_of(runtime, workflow_id, run_id)
        if run.next_run_id is None or run.status == RunStatus.COMPLETED:
            return run
        run_id = run.next_run_id
