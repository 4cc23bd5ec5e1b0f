"""What ``handle.result()`` raises."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import ClassVar

from outlast_workflow.errors.root import OutlastError
from outlast_workflow.primitives.enums import FailureCategory, TimeoutKind
from outlast_workflow.primitives.times import from_datetime, iso


class WorkflowResultError(OutlastError):
    """The workflow ended without a result."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id")
    told_as_cause = False

    def __init__(self, message: str, *, workflow_id: str, run_id: str) -> None:
        super().__init__(message)
        self.workflow_id = workflow_id
        self.run_id = run_id


class WorkflowFailedError(WorkflowResultError):
    """The workflow's code raised; ``__cause__`` is the failure."""

    joins_cause = ": "

    def __init__(self, *, workflow_id: str, run_id: str) -> None:
        super().__init__(
            f"workflow {workflow_id!r} failed (see `outlast describe {shlex.quote(workflow_id)}`)",
            workflow_id=workflow_id,
            run_id=run_id,
        )


_TIMEOUT_WORDS = {
    TimeoutKind.EXECUTION_TIMEOUT: "was not done in time: its execution deadline passed",
    TimeoutKind.RUN_TIMEOUT: "took too long: its run timeout passed",
    TimeoutKind.SCHEDULE_TO_START: "did not begin in time: its schedule-to-start timeout passed in its queue,",
}


class WorkflowTimeoutError(WorkflowResultError, TimeoutError):
    """The workflow's execution or run deadline passed, or it stood in line too long.

    Attributes:
        timeout_kind: ``execution_timeout``, ``run_timeout``, or ``schedule_to_start`` of a workflow that its queue had
            not admitted.
        deadline_at: The deadline (aware, UTC).
    """

    category = FailureCategory.TIMEOUT
    facts: ClassVar[tuple[str, ...]] = (*WorkflowResultError.facts, "timeout_kind", "deadline_at")

    def __init__(
        self, *, workflow_id: str, run_id: str, timeout_kind: TimeoutKind, deadline_at: datetime
    ) -> None:
        super().__init__(
            f"workflow {workflow_id!r} {_TIMEOUT_WORDS[timeout_kind]} at {iso(from_datetime(deadline_at))}",
            workflow_id=workflow_id,
            run_id=run_id,
        )
        self.timeout_kind = timeout_kind
        self.deadline_at = deadline_at


class WorkflowCancelledError(WorkflowResultError):
    """The workflow ended as cancelled after a cancel request."""

    category = FailureCategory.CANCELLED
    facts: ClassVar[tuple[str, ...]] = (*WorkflowResultError.facts, "reason")

    def __init__(self, *, workflow_id: str, run_id: str, reason: str | None = None) -> None:
        super().__init__(
            f"workflow {workflow_id!r} was cancelled{f': {reason}' if reason else ''}",
            workflow_id=workflow_id,
            run_id=run_id,
        )
        self.reason = reason


class WorkflowTerminatedError(WorkflowResultError):
    """The workflow was terminated: it ended at once, without running its code."""

    category = FailureCategory.TERMINATED
    facts: ClassVar[tuple[str, ...]] = (*WorkflowResultError.facts, "reason")

    def __init__(self, *, workflow_id: str, run_id: str, reason: str | None = None) -> None:
        super().__init__(
            f"workflow {workflow_id!r} was terminated{f': {reason}' if reason else ''}",
            workflow_id=workflow_id,
            run_id=run_id,
        )
        self.reason = reason


class WorkflowContinuedAsNewError(WorkflowResultError):
    """The run has no result of its own, because another run of its chain follows it; raised with ``follow_runs=False``.

    ``__cause__`` is how the run ended, where that was a failure: it was retried, or reset afterwards.

    Attributes:
        next_run_id: The run that follows.
    """

    facts: ClassVar[tuple[str, ...]] = (*WorkflowResultError.facts, "next_run_id")

    def __init__(self, *, workflow_id: str, run_id: str, next_run_id: str) -> None:
        super().__init__(
            f"run {run_id} of workflow {workflow_id!r} is followed by run {next_run_id}: "
            "ask for that one's result, or follow the runs",
            workflow_id=workflow_id,
            run_id=run_id,
        )
        self.next_run_id = next_run_id


class StillRunningError(OutlastError, TimeoutError):
    """The workflow did not end within the time that the caller was willing to wait. It is still running.

    Not to be confused with :class:`~outlast.errors.WorkflowTimeoutError`, where a deadline of the workflow passed.
    """

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "timeout_seconds")

    def __init__(self, workflow_id: str, timeout_seconds: float) -> None:
        super().__init__(
            f"workflow {workflow_id!r} did not end within {timeout_seconds:g} s: it is still running, wait again later"
        )
        self.workflow_id = workflow_id
        self.timeout_seconds = timeout_seconds
