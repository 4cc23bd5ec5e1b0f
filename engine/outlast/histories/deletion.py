"""Deleting workflows: all chains of an id, or what is left of one chain."""

from __future__ import annotations

from outlast.runtime.runtime import Runtime
from outlast_store.transitions import deletion
from outlast_store.transitions.deletion import DeleteChainStep
from outlast_workflow.errors import WorkflowNotFoundError
from outlast_workflow.errors.refusals import DeleteRefusedError


async def delete_workflow(runtime: Runtime, workflow_id: str) -> int:
    """Delete all runs of a closed workflow; returns how many there were.

    Raises:
        WorkflowNotFoundError: There is none.
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
    """Delete what is left of a closed chain, step by step; returns how many runs that were."""
    deleted = 0
    for run_id in await runtime.read_aside(deletion.chain_backwards, last_run_id):
        while not await runtime.journal.apply(DeleteChainStep(run_id, last_run_id, workflow_id)):
            pass
        deleted += 1
    return deleted
