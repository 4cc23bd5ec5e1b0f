"""Deleting workflows: all chains of an id, or the rest of one chain."""

from __future__ import annotations

from outlast.runtime.runtime import Runtime
from outlast_store.transitions import deletion
from outlast_store.transitions.deletion import DeleteChainStep
from outlast_workflow.errors import WorkflowNotFoundError
from outlast_workflow.errors.refusals import DeleteRefusedError


async def delete_workflow(runtime: Runtime, workflow_id: str) -> int:
    """Delete all runs of a closed workflow.

    Args:
        runtime: The database.
        workflow_id: The workflow.

    Returns:
        How many runs were deleted.

    Raises:
        WorkflowNotFoundError: There is no such workflow.
        DeleteRefusedError: It is open; nothing was deleted.
    """
    found = await runtime.read_aside(deletion.last_runs, workflow_id)
    if not found:
        raise WorkflowNotFoundError(workflow_id)
    if any(is_open for _, is_open in found):
        raise DeleteRefusedError(
            f"workflow {workflow_id!r} is open: terminate it first, or delete it with terminate=True (`--terminate`)"
        )
    return sum([await delete_chain(runtime, last_run_id, workflow_id) for last_run_id, _ in found])


async def delete_chain(runtime: Runtime, last_run_id: str, workflow_id: str) -> int:
    """Delete what is left of a closed chain, step by step.

    Args:
        runtime: The database.
        last_run_id: The last run of the chain.
        workflow_id: The workflow.

    Returns:
        How many runs were deleted.

    Raises:
        DeleteRefusedError: The chain is open or has continued, or its close policy has yet to reach its children.
    """
    deleted = 0
    for run_id in await runtime.read_aside(deletion.chain_backwards, last_run_id):
        while not await runtime.journal.apply(DeleteChainStep(run_id, last_run_id, workflow_id)):
            pass
        deleted += 1
    return deleted
