"""What workflow code sees when a child workflow ends without a result."""

from __future__ import annotations

from typing import ClassVar

from outlast_workflow.errors.failure import FailureError
from outlast_workflow.primitives.enums import FailureCategory, RetryState


class ChildWorkflowError(FailureError):
    """A child workflow ended without a result, or was never started; ``__cause__`` says why.

    The cause is what the child raised, or a :class:`WorkflowTimeoutError`, :class:`WorkflowCancelledError` (cancelled
    by something other than this workflow), :class:`WorkflowTerminatedError` or :class:`WorkflowAlreadyStartedError`.

    Attributes:
        workflow_type: The child's type.
        workflow_id: The child's id.
        run_id: The id of its first run; None if it was not started.
        retry_state: Why its retry policy started no further run, if it has one.
    """

    category = FailureCategory.CHILD_WORKFLOW
    joins_cause = ": "
    facts: ClassVar[tuple[str, ...]] = ("workflow_type", "workflow_id", "run_id", "retry_state")

    def __init__(
        self,
        *,
        workflow_type: str,
        workflow_id: str,
        run_id: str | None,
        retry_state: RetryState | None = None,
        message: str = "failed",
    ) -> None:
        super().__init__(f"child workflow {workflow_type} ({workflow_id!r}) {message}")
        self.workflow_type = workflow_type
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.retry_state = retry_state
