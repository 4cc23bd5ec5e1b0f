"""Deciding an approval that a run of a DAG waits for."""

from __future__ import annotations

from typing import Any

from outlast.client.workflows.handle import WorkflowHandle
from outlast_dag.run.approvals import UPDATE, Decision, Verdict
from outlast_workflow.errors import UpdateRejectedError
from outlast_workflow.errors.documents import DagApprovalError


async def approve(
    handle: WorkflowHandle[Any],
    node: str,
    *,
    decision: Verdict = "approve",
    comment: str | None = None,
    by: str | None = None,
    id: str | None = None,
    timeout: float | None = None,
) -> Decision:
    """Decide an approval, and return the decision. The first one counts; nobody can change it.

    Args:
        handle: The run of the DAG.
        node: The approval's node.
        decision: ``approve`` or ``reject``.
        comment: What to say about it; a part of what the node returns.
        by: Who decides. Whoever comes later is told.
        id: A key of your own: to decide again with the same id has the same answer, be it the decision or a refusal.
        timeout: Seconds to wait for the run to take it; without limit if ``None``.

    Raises:
        DagApprovalError: It was decided before, and the error says how and by whom; or nobody waits for it.
        UpdateRejectedError: The workflow is no DAG, or has no code for this decision.
        WorkflowClosedError: The run has ended.
        WorkflowNotFoundError: There is no such workflow.
        RequestTimeoutError: No worker took it in time. It is taken once one does.
    """
    try:
        return await handle.execute_update(
            UPDATE, node, decision, comment, by, id=id, timeout=timeout, result_type=Decision
        )
    except UpdateRejectedError as error:
        if isinstance(error.__cause__, DagApprovalError):
            raise error.__cause__ from None
        raise
