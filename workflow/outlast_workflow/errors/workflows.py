"""Workflows and schedules that are missing, closed, or already there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from outlast_workflow.errors.root import OutlastError


class WorkflowAlreadyStartedError(OutlastError):
    """The workflow id is taken, and the duplicate policy refuses another start."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id", "status")

    def __init__(self, workflow_id: str, *, run_id: str, status: str) -> None:
        super().__init__(
            f"workflow {workflow_id!r} was already started (run {run_id}, {status}): "
            "choose another id, or StartOptions.return_existing() to get its handle"
        )
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.status = status


class WorkflowNotFoundError(OutlastError):
    """No workflow has this id."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id",)

    def __init__(self, workflow_id: str, message: str | None = None) -> None:
        super().__init__(
            message
            or f"there is no workflow {workflow_id!r}: check the id and the database, or see `outlast list`"
        )
        self.workflow_id = workflow_id


class RunNotFoundError(WorkflowNotFoundError):
    """No run has this id, or the run belongs to another workflow."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id")

    def __init__(self, run_id: str, *, workflow_id: str = "") -> None:
        whose = f" of workflow {workflow_id!r}" if workflow_id else ""
        super().__init__(
            workflow_id,
            f"there is no run {run_id!r}{whose}: check the id, or leave it out for the latest run",
        )
        self.run_id = run_id


class StartNotCommittedError(WorkflowNotFoundError):
    """The transaction that the workflow is started in has not committed, or it was rolled back."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(
            workflow_id,
            f"there is no workflow {workflow_id!r} yet: the transaction that it is started in has not committed, or it "
            "was rolled back. Commit first, then wait for it",
        )


class WorkflowClosedError(OutlastError):
    """The workflow has already ended."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id", "status")

    def __init__(self, workflow_id: str, *, run_id: str, status: str, lacks: str | None = None) -> None:
        """Say that a workflow has ended.

        Args:
            workflow_id: The workflow.
            run_id: Its last run.
            status: How that ended.
            lacks: The field of its memo that the caller waited for.
        """
        end = f"workflow {workflow_id!r} has ended already (run {run_id}, {status})"
        super().__init__(
            f"{end}: see its result or its history"
            if lacks is None
            else f"{end} and has never set field {lacks!r} of its memo: give a default for that case, or see its result"
        )
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.status = status


class WorkflowAlreadyBegunError(OutlastError):
    """The start of the workflow cannot be moved: it has begun, or has ended."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id", "status")

    def __init__(self, workflow_id: str, *, run_id: str, status: str) -> None:
        super().__init__(
            f"the start of workflow {workflow_id!r} can no longer be moved (run {run_id}, {status}): it has begun, "
            "is about to, or has ended; cancel or terminate it if it should not run"
        )
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.status = status


class UnknownWorkflowTypeError(OutlastError):
    """No workflow of this name is registered on this worker."""

    facts: ClassVar[tuple[str, ...]] = ("type_name", "known")

    def __init__(self, type_name: str, *, known: Sequence[str] = ()) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"workflow {type_name!r} is not known here (known: {listed}): "
            "check the name, or add it to the worker's workflows"
        )
        self.type_name = type_name
        self.known = list(known)


class ScheduleNotFoundError(OutlastError):
    """No schedule has this id.

    Attributes:
        schedule_id: The id.
        similar: Ids that look like it.
    """

    facts: ClassVar[tuple[str, ...]] = ("schedule_id", "similar")

    def __init__(self, schedule_id: str, *, similar: Sequence[str] = ()) -> None:
        meant = f"did you mean {' or '.join(map(repr, similar))}? Otherwise " if similar else ""
        super().__init__(
            f"there is no schedule {schedule_id!r}: {meant}check the id and the database, or see "
            "`outlast schedule list`"
        )
        self.schedule_id = schedule_id
        self.similar = list(similar)


class DamagedScheduleError(OutlastError):
    """A stored value of a schedule cannot be read: something else has changed the database, or a disk has.

    Attributes:
        schedule_id: The schedule.
        what: Which value it is.
    """

    facts: ClassVar[tuple[str, ...]] = ("schedule_id", "what")

    def __init__(self, schedule_id: str, what: str) -> None:
        super().__init__(
            f"schedule {schedule_id!r} is damaged and starts nothing: its {what} cannot be read; restore the database "
            "from a backup, or delete the schedule and create it anew"
        )
        self.schedule_id = schedule_id
        self.what = what


class ScheduleExistsError(OutlastError):
    """The schedule id is taken."""

    facts: ClassVar[tuple[str, ...]] = ("schedule_id",)

    def __init__(self, schedule_id: str) -> None:
        super().__init__(
            f"there is a schedule {schedule_id!r} already: choose another id, or say what to do about it: if_exists is "
            "update (it becomes this one) or keep (it stays as it is)"
        )
        self.schedule_id = schedule_id
