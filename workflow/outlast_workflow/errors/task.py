"""What fails a workflow task, but never its run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from outlast_workflow.errors.root import OutlastError
from outlast_workflow.primitives.enums import FailureCategory
from outlast_workflow.primitives.side_by_side import first_difference, line_at, side_by_side


class WorkflowTaskError(OutlastError):
    """A workflow task failed. It is retried with backoff, and the run continues once the code is fixed."""

    category = FailureCategory.TASK_FAILURE


class NonDeterminismError(WorkflowTaskError):
    """During replay the code asked for commands other than those in history.

    Args:
        expected: What history records for the workflow task, one line per command.
        actual: What the code asked for during replay, one line per command.
        command_index: The index at which the two first differ, from 0; computed if omitted.
        source: The line of workflow code that made the call, as ``file:line``.
        event_seq: The seq of the ``WorkflowTaskCompleted`` event that these commands follow.
        workflow_type: The type of the workflow whose code it is.
        notes: What else has changed since history was recorded: the Python version, or engine behaviours that this
            version does not know.
    """

    facts: ClassVar[tuple[str, ...]] = (
        "command_index",
        "expected",
        "actual",
        "first_difference",
        "source",
        "workflow_type",
        "notes",
        "event_seq",
    )

    def __init__(
        self,
        *,
        expected: Sequence[str],
        actual: Sequence[str],
        command_index: int | None = None,
        source: str | None = None,
        workflow_type: str | None = None,
        notes: Sequence[str] = (),
        event_seq: int | None = None,
    ) -> None:
        self.notes = list(notes)
        self.expected = list(expected)
        self.actual = list(actual)
        self.command_index = first_difference(expected, actual) if command_index is None else command_index
        self.source = source
        self.workflow_type = workflow_type
        self.event_seq = event_seq
        self.first_difference = (
            f"command {self.command_index + 1}: history has {line_at(expected, self.command_index)}, "
            f"the code asks for {line_at(actual, self.command_index)}"
        )
        whose = f" {workflow_type}" if workflow_type else ""
        where = f"\n  at {source}" if source else ""
        after = f" after event {event_seq}" if event_seq is not None else ""
        super().__init__(
            f"workflow{whose} no longer does what its history records{after}. First difference: {self.first_difference}"
            f"{where}\n{side_by_side(self.expected, self.actual, self.command_index)}\n"
            f"{''.join(f'Note: {note}.' + chr(10) for note in notes)}"
            "Restore the order of calls for runs that are under way: put the new code behind "
            "`if workflow.patched('…'):`, or reset the run to a point before the change."
        )


class DurableCallError(WorkflowTaskError):
    """A durable call cannot be made as written: wrong arguments, or an activity without a timeout."""


class MissingCodeError(WorkflowTaskError):
    """History needs a workflow, a handler or an activity that is not registered on this worker."""

    facts: ClassVar[tuple[str, ...]] = ("name",)

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class ReadOnlyContextError(DurableCallError):
    """Read-only code (a query, a validator, a ``wait_condition`` predicate) tried to change the run."""


class RestrictedWorkflowAccessError(WorkflowTaskError):
    """Workflow code attempted I/O, which it would repeat on each replay. ``event`` is the name of the audit event."""

    facts: ClassVar[tuple[str, ...]] = ("event",)

    def __init__(self, message: str, *, event: str) -> None:
        super().__init__(message)
        self.event = event


class WorkflowTaskBlockedError(WorkflowTaskError):
    """Workflow code blocked its worker: it ran for too long without awaiting anything."""
