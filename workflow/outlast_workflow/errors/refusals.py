"""Operations that were refused because of the state of a run or an activity. Nothing was written."""

from __future__ import annotations

from typing import ClassVar

from outlast_workflow.errors.root import OutlastError


class RefusedError(OutlastError):
    """A change was refused as a whole because its guard no longer holds. ``reason`` is a short code."""

    facts: ClassVar[tuple[str, ...]] = ("reason",)

    def __init__(self, reason: str, message: str | None = None) -> None:
        super().__init__(
            message or f"the change was refused ({reason}): read the current state and decide again"
        )
        self.reason = reason


class DeleteRefusedError(OutlastError):
    """The workflow cannot be deleted now. The message says why and what to do."""


class ResetRefusedError(OutlastError):
    """The workflow cannot be reset, or not to that point. The message says why, and what is possible instead."""


class WorkflowNotResumableError(ResetRefusedError):
    """There is nothing to resume: the workflow is open, or has completed. The message says what to do instead.

    Attributes:
        workflow_id: The workflow.
        run_id: Its current run.
        status: That run's status.
    """

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id", "status")

    def __init__(self, workflow_id: str, *, run_id: str, status: str) -> None:
        if status == "completed":
            why = "it has completed: reset it to a point, to do again what came after that"
        else:
            why = f"it is {status}: only what has ended can be resumed; to take it back to a point, reset it"
        super().__init__(f"workflow {workflow_id!r} cannot be resumed, because {why}")
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.status = status


class DeferRefusedError(OutlastError):
    """The activity cannot be deferred: nothing bounds it, or it is local. The attempt fails and is not retried."""

    facts: ClassVar[tuple[str, ...]] = ("non_retryable",)
    non_retryable: bool = True


class ActivityNotFoundError(OutlastError):
    """The run has no activity of that id."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id", "activity_id")

    def __init__(self, activity_id: int, *, workflow_id: str, run_id: str) -> None:
        super().__init__(
            f"run {run_id} of workflow {workflow_id!r} has no activity {activity_id}: check the id, which "
            "activity.info() and `outlast describe` show"
        )
        self.activity_id = activity_id
        self.workflow_id = workflow_id
        self.run_id = run_id


class AttemptNotRunningError(OutlastError):
    """The attempt that a task token or ids name is not running, or no longer. Nothing was written.

    Attributes:
        workflow_id: The workflow.
        run_id: The run.
        activity_id: The activity.
        status: The activity's status now.
        outcome: How the attempt that was named ended: ``completed``, ``failed``, ``timed_out``, ``cancelled``,
            ``rescued`` or ``handed_back``; ``None`` if that is not known, or if ids name no attempt.
    """

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id", "activity_id", "status", "outcome")

    def __init__(
        self, why: str, *, workflow_id: str, run_id: str, activity_id: int, status: str, outcome: str | None
    ) -> None:
        super().__init__(f"activity {activity_id} of workflow {workflow_id!r} was not changed: {why}")
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.activity_id = activity_id
        self.status = status
        self.outcome = outcome


class ActivityCancelRequestedError(OutlastError):
    """The workflow no longer wants the activity that was heartbeaten from outside. The heartbeat was recorded."""

    facts: ClassVar[tuple[str, ...]] = ("run_id", "activity_id")

    def __init__(self, *, run_id: str, activity_id: int) -> None:
        super().__init__(
            f"activity {activity_id} of run {run_id} is to be cancelled: stop its work, then say so with "
            "cancel_activity, or complete or fail it"
        )
        self.run_id = run_id
        self.activity_id = activity_id


class OutboxRefusedError(OutlastError):
    """What was written in a user's own transaction could not be applied after its commit."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "outbox_id", "reason")

    def __init__(self, workflow_id: str, *, outbox_id: int, reason: str, kind: str = "start") -> None:
        super().__init__(
            f"the {kind} of workflow {workflow_id!r} was committed, but then refused (row {outbox_id} of the outbox): "
            f"{reason}"
        )
        self.workflow_id = workflow_id
        self.outbox_id = outbox_id
        self.reason = reason


class OutboxRowNotFoundError(OutlastError):
    """The outbox has no such row: it was applied or deleted, or never was."""

    facts: ClassVar[tuple[str, ...]] = ("outbox_id",)

    def __init__(self, outbox_id: int) -> None:
        super().__init__(
            f"there is no row {outbox_id} in the outbox to do this with: it was applied or deleted already; see "
            "`outlast outbox list`"
        )
        self.outbox_id = outbox_id


class AlertNotFoundError(OutlastError):
    """No alert of this id was fired, or it was deleted with its workflow."""

    facts: ClassVar[tuple[str, ...]] = ("alert_id",)

    def __init__(self, alert_id: str) -> None:
        super().__init__(
            f"there is no alert {alert_id!r:.80}: it was deleted with its workflow, or it was never fired; see "
            "`outlast alerts list`"
        )
        self.alert_id = alert_id


class AlertAcknowledgedError(OutlastError):
    """Somebody else has acknowledged the alert already; that stands.

    Attributes:
        alert_id: The alert.
        acknowledged_by: Who has.
        acknowledged_at: When, as ISO 8601.
    """

    facts: ClassVar[tuple[str, ...]] = ("alert_id", "acknowledged_by", "acknowledged_at")

    def __init__(self, alert_id: str, *, acknowledged_by: str, acknowledged_at: str) -> None:
        super().__init__(
            f"alert {alert_id} was acknowledged by {acknowledged_by!r} at {acknowledged_at}: there is nothing to do"
        )
        self.alert_id = alert_id
        self.acknowledged_by = acknowledged_by
        self.acknowledged_at = acknowledged_at
