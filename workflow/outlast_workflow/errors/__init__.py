"""Every error that Outlast raises, under one root.

::

    OutlastError
    ├── InvalidOptionError (ValueError)        an option, name or id that can't be used
    ├── InvalidUrlError (ValueError)           a database URL that can't be used
    ├── WorkflowAlreadyStartedError            the workflow id is taken
    ├── WorkflowNotFoundError                  no workflow has this id
    │   └── RunNotFoundError                   … or not this run
    ├── WorkflowClosedError                    the workflow has ended already
    ├── UnknownWorkflowTypeError               no such workflow is registered here
    ├── UnknownActivityTypeError               no such activity is registered here
    ├── RefusedError                           a change found the run or activity other than it expected
    ├── StoreError                             the database
    │   ├── StoreUnreachableError              … does not answer
    │   ├── StoreReadOnlyError                 … can't be written
    │   ├── OutcomeUnknownError                … was away for too long to tell what became of a change
    │   ├── SchemaMissingError                 … has no tables yet
    │   ├── SchemaTooOldError                  … has tables of an earlier version
    │   ├── SchemaTooNewError                  … has tables of a later version
    │   ├── ForkedConnectionError              … was connected to before a fork
    │   └── JournalClosedError                 … is no longer written by this process
    ├── UnstorableValueError (ValueError)      the database takes no such value, now or later
    ├── WorkflowTaskError                      fails the task, which is tried again; never the run
    │   ├── NonDeterminismError                the code no longer asks for what history says it asked for
    │   ├── PayloadDecodeError                 a value can't be read as what its type hint says
    │   │   └── PayloadCodecError              … because its codec is not at hand, or failed
    │   ├── PayloadEncodeError                 a value can't be written as JSON
    │   ├── DurableCallError                   a durable call that can't be made as written
    │   ├── RestrictedWorkflowAccessError      workflow code reached for the world (:mod:`~outlast_workflow.run.guard`)
    │   └── MissingCodeError                   history needs code that this worker doesn't have
    ├── StructuralLimitError                   something grew past its limit
    ├── FailureError                           what workflow code sees of failures elsewhere
    │   ├── ApplicationError                   user code failed; raise it yourself to say how
    │   ├── ActivityError                      an activity ended without a result; ``__cause__`` says why
    │   │   └── ActivityTimeoutError (TimeoutError)
    │   └── ChildWorkflowError                 a child workflow did (see :mod:`~outlast_workflow.errors.child`)
    └── WorkflowResultError                    what ``handle.result()`` raises
        ├── WorkflowFailedError                the run failed; ``__cause__`` is the failure
        ├── WorkflowTimeoutError (TimeoutError)
        ├── WorkflowCancelledError
        └── WorkflowTerminatedError

    ContinueAsNew (BaseException)              control flow, not an error

Facts are attributes, listed in ``facts``: they travel with the error through history and between processes. Messages
say what to do next and never hold a payload. Nobody needs to parse one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from outlast_workflow.errors.control_flow import ContinueAsNew as ContinueAsNew
from outlast_workflow.errors.root import REGISTRY as REGISTRY
from outlast_workflow.errors.root import OutlastError as OutlastError
from outlast_workflow.errors.side_by_side import first_difference, line_at, side_by_side
from outlast_workflow.primitives.enums import FailureCategory, RetryState, TimeoutKind
from outlast_workflow.primitives.times import from_datetime, iso

# --- what the caller gave --------------------------------------------------------------------------------------------


class InvalidOptionError(OutlastError, ValueError):
    """An option, a name or an id is out of range. Nothing was written."""

    facts: ClassVar[tuple[str, ...]] = ("field",)

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidUrlError(OutlastError, ValueError):
    """The database URL can't be used."""


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
    """No run has this id, or it belongs to another workflow."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id")

    def __init__(self, run_id: str, *, workflow_id: str = "") -> None:
        whose = f" of workflow {workflow_id!r}" if workflow_id else ""
        super().__init__(
            workflow_id,
            f"there is no run {run_id!r}{whose}: check the id, or leave it out for the latest run",
        )
        self.run_id = run_id


class WorkflowClosedError(OutlastError):
    """The workflow has ended already: there is nothing left to ask of it."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id", "status")

    def __init__(self, workflow_id: str, *, run_id: str, status: str) -> None:
        super().__init__(
            f"workflow {workflow_id!r} has ended already (run {run_id}, {status}): see its result or its history"
        )
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.status = status


class _UnknownTypeError(OutlastError):
    facts: ClassVar[tuple[str, ...]] = ("type_name", "known")
    noun: ClassVar[str] = ""

    def __init__(self, type_name: str, *, known: Sequence[str] = ()) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"{self.noun} {type_name!r} is not known here (known: {listed}): "
            f"check the name, or add it to the worker's {'workflows' if self.noun == 'workflow' else 'activities'}"
        )
        self.type_name = type_name
        self.known = list(known)


class UnknownWorkflowTypeError(_UnknownTypeError):
    """No workflow of this name is registered here."""

    noun = "workflow"


class UnknownActivityTypeError(_UnknownTypeError):
    """No activity of this name is registered here."""

    noun = "activity"


class RefusedError(OutlastError):
    """A change was refused as a whole: what it guards on is no longer so. ``reason`` is a short code."""

    facts: ClassVar[tuple[str, ...]] = ("reason",)

    def __init__(self, reason: str, message: str | None = None) -> None:
        super().__init__(
            message or f"the change was refused ({reason}): read the current state and decide again"
        )
        self.reason = reason


# --- the database ----------------------------------------------------------------------------------------------------


class StoreError(OutlastError):
    """The database can't serve."""

    category = FailureCategory.INTERNAL


class StoreUnreachableError(StoreError):
    """The database does not answer."""


class StoreReadOnlyError(StoreError):
    """The database can't be written."""


class OutcomeUnknownError(StoreError):
    """Whether a change was written can't be known any more: the database was away too long."""


class SchemaMissingError(StoreError):
    """The database has no Outlast tables yet."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "the database has no Outlast tables yet: run `outlast migrate`")


class SchemaTooOldError(StoreError):
    """The tables are of an earlier version than the code."""

    facts: ClassVar[tuple[str, ...]] = ("found", "needed")

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(
            f"the database's tables are at version {found}, this code needs {needed}: run `outlast migrate`"
        )
        self.found = found
        self.needed = needed


class SchemaTooNewError(StoreError):
    """The tables are of a later version than the code."""

    facts: ClassVar[tuple[str, ...]] = ("found", "needed")

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(
            f"the database's tables are at version {found}, newer than this code's {needed}: upgrade outlast"
        )
        self.found = found
        self.needed = needed


class UnstorableValueError(OutlastError, ValueError):
    """The database takes no such value; trying again does not help, and nothing was written."""


class ForkedConnectionError(StoreError):
    """A connection is used in a process that was forked after it was opened."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "this client was connected before the process forked: connect again in the child, "
            "or start processes with the 'spawn' method"
        )


class JournalClosedError(StoreError):
    """This process no longer writes to the database."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "the client is closed: connect again")


# --- what fails a task, never a run ----------------------------------------------------------------------------------


class WorkflowTaskError(OutlastError):
    """One workflow task can't be done. It is tried again with backoff; the run goes on when the code is fixed."""

    category = FailureCategory.TASK_FAILURE


class NonDeterminismError(WorkflowTaskError):
    """In replay the code asked for other commands than those that history records.

    Args:
        expected: what history records of the workflow task, one line a command.
        actual: what the code asked for now.
        command_index: where the two first differ, from 0; found if left out.
        source: the line of workflow code that asked, as ``file:line``.
        event_seq: the number of the ``WorkflowTaskCompleted`` whose commands these are; they follow it.
        workflow_type: whose code it is.
        notes: what else differs from when history was recorded: another Python, behaviours that are not known here.
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


class PayloadDecodeError(WorkflowTaskError):
    """A recorded value can't be read as what the code's type hint says."""

    facts: ClassVar[tuple[str, ...]] = ("parameter", "hint")

    def __init__(self, message: str, *, parameter: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.hint = hint


class PayloadCodecError(PayloadDecodeError):
    """A payload's codec is not at hand, or could not decode it: when it can, the value is there again."""


class PayloadEncodeError(WorkflowTaskError):
    """A value can't be written as JSON."""

    facts: ClassVar[tuple[str, ...]] = ("what",)

    def __init__(self, message: str, *, what: str | None = None) -> None:
        super().__init__(message)
        self.what = what


class DurableCallError(WorkflowTaskError):
    """A durable call can't be made as written: wrong arguments, or nothing that bounds an activity."""


class MissingCodeError(WorkflowTaskError):
    """History needs a workflow, a handler or an activity that this worker does not have."""

    facts: ClassVar[tuple[str, ...]] = ("name",)

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class StructuralLimitError(OutlastError):
    """Something grew past a limit of the engine. ``value`` and ``limit`` are bytes or a count, by ``kind``."""

    category = FailureCategory.STRUCTURAL_LIMIT
    facts: ClassVar[tuple[str, ...]] = ("kind", "value", "limit")

    def __init__(self, kind: str, *, value: int, limit: int, advice: str | None = None) -> None:
        hint = advice or "do less at once, or raise this limit in StructuralLimits"
        super().__init__(f"{kind.replace('_', ' ')} limit exceeded: {value:,} > {limit:,}: {hint}")
        self.kind = kind
        self.value = value
        self.limit = limit


# --- what workflow code sees of failures elsewhere --------------------------------------------------------------------


class FailureError(OutlastError):
    """A failure that happened elsewhere and was recorded in history."""


class ApplicationError(FailureError):
    """User code failed. Any exception of an activity is seen as one of these; raise it yourself to say more.

    Args:
        message: what went wrong.
        details: JSON-able values for whoever catches it.
        type: the name by which retry policies and handlers know it; by default the class name.
        non_retryable: trying again is useless.
        next_retry_delay: seconds (or a timedelta) until the next attempt, instead of the policy's backoff.

    Raises:
        InvalidOptionError: the delay is negative, not finite or over 100 years.
    """

    facts: ClassVar[tuple[str, ...]] = (
        "type",
        "details",
        "non_retryable",
        "next_retry_delay",
        "exception_class",
        "exception_types",
    )
    exception_class: str | None = None
    """The qualified name of the class that was raised, if it was another."""
    exception_types: tuple[str, ...] = ()
    """If an exception group was raised: the class names of what it held."""

    def __init__(
        self,
        message: str = "",
        *details: Any,
        type: str | None = None,
        non_retryable: bool = False,
        next_retry_delay: float | timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.type = type if type is not None else self.__class__.__name__
        self.details = details
        self.non_retryable = non_retryable
        self.next_retry_delay = None if next_retry_delay is None else _delay_seconds(next_retry_delay)


_MAX_DELAY_SECONDS = 100 * 31_557_600
"""100 years, as for any duration."""


def _delay_seconds(delay: float | timedelta) -> float:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not 0 <= seconds < math.inf:
        raise InvalidOptionError("next retry delay must be finite and not negative", field="next_retry_delay")
    if seconds > _MAX_DELAY_SECONDS:
        raise InvalidOptionError("next retry delay must be at most 100 years", field="next_retry_delay")
    return int(seconds) if seconds == int(seconds) else seconds


class ActivityError(FailureError):
    """An activity ended without a result and is not tried again; ``__cause__`` is the last attempt's failure.

    Attributes:
        activity_type: the activity's name.
        activity_id: its command id in the run.
        attempt: how many attempts were made.
        retry_state: why there is no further one; None on a cause, which was tried again.
    """

    category = FailureCategory.ACTIVITY
    facts: ClassVar[tuple[str, ...]] = ("activity_type", "activity_id", "attempt", "retry_state")

    def __init__(
        self,
        *,
        activity_type: str,
        activity_id: int,
        attempt: int,
        retry_state: RetryState | None,
        message: str | None = None,
    ) -> None:
        words = f"activity {activity_type} {message or 'failed'} (attempt {attempt}{_because(retry_state)})"
        super().__init__(words)
        self.activity_type = activity_type
        self.activity_id = activity_id
        self.attempt = attempt
        self.retry_state = retry_state


def _because(retry_state: RetryState | None) -> str:
    return f", {retry_state.replace('_', ' ')}" if retry_state else ""


_TIMEOUT_WORDS = {
    TimeoutKind.SCHEDULE_TO_START: "was not started in time: its schedule-to-start timeout passed",
    TimeoutKind.START_TO_CLOSE: "took too long: its start-to-close timeout passed",
    TimeoutKind.SCHEDULE_TO_CLOSE: "was not done in time: its schedule-to-close timeout passed",
    TimeoutKind.HEARTBEAT: "fell silent: its heartbeat timeout passed",
    TimeoutKind.EXECUTION_TIMEOUT: "was not done in time: its execution timeout passed",
    TimeoutKind.RUN_TIMEOUT: "took too long: its run timeout passed",
}


class ActivityTimeoutError(ActivityError, TimeoutError):
    """An activity ended by one of its four deadlines; ``__cause__`` is the previous attempt's failure, if any.

    Attributes:
        timeout_kind: which deadline it was.
        deadline_at: when that was (aware, UTC). It lies ahead only if no attempt could have begun before it.
        heartbeat_details: what the last heartbeat reported.
    """

    facts: ClassVar[tuple[str, ...]] = (
        *ActivityError.facts,
        "timeout_kind",
        "deadline_at",
        "heartbeat_details",
    )

    def __init__(
        self,
        *,
        timeout_kind: TimeoutKind,
        deadline_at: datetime,
        activity_type: str,
        activity_id: int,
        attempt: int,
        retry_state: RetryState | None,
        heartbeat_details: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(
            activity_type=activity_type,
            activity_id=activity_id,
            attempt=attempt,
            retry_state=retry_state,
            message=f"{_TIMEOUT_WORDS[timeout_kind]} at {iso(from_datetime(deadline_at))}",
        )
        self.timeout_kind = timeout_kind
        self.deadline_at = deadline_at
        self.heartbeat_details = heartbeat_details


# --- what `handle.result()` raises -----------------------------------------------------------------------------------


class WorkflowResultError(OutlastError):
    """The workflow ended without a result."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "run_id")

    def __init__(self, message: str, *, workflow_id: str, run_id: str) -> None:
        super().__init__(message)
        self.workflow_id = workflow_id
        self.run_id = run_id


class WorkflowFailedError(WorkflowResultError):
    """The workflow's code raised; ``__cause__`` is the failure."""

    def __init__(self, *, workflow_id: str, run_id: str) -> None:
        super().__init__(
            f"workflow {workflow_id!r} failed: see the cause, or `outlast describe {workflow_id}`",
            workflow_id=workflow_id,
            run_id=run_id,
        )


class WorkflowTimeoutError(WorkflowResultError, TimeoutError):
    """The workflow's execution or run deadline passed.

    Attributes:
        timeout_kind: ``execution_timeout`` or ``run_timeout``.
        deadline_at: when that was (aware, UTC).
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
    """The workflow gave way to a cancel request."""

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
    """Somebody ended the workflow at once, without its code."""

    category = FailureCategory.TERMINATED
    facts: ClassVar[tuple[str, ...]] = (*WorkflowResultError.facts, "reason")

    def __init__(self, *, workflow_id: str, run_id: str, reason: str | None = None) -> None:
        super().__init__(
            f"workflow {workflow_id!r} was terminated{f': {reason}' if reason else ''}",
            workflow_id=workflow_id,
            run_id=run_id,
        )
        self.reason = reason
