"""The deadlines of a run, execution, run and schedule-to-start: pure functions of a row and an instant."""

from __future__ import annotations

from typing import NamedTuple

from outlast_store.schema.rows import RunRow
from outlast_workflow.primitives.enums import TimeoutKind


class PassedDeadline(NamedTuple):
    """A deadline that has passed: its kind, and when it was (microseconds)."""

    kind: TimeoutKind
    deadline_at: int


def earliest(*instants: int | None) -> int | None:
    """Return the least of the instants that are set."""
    known = [instant for instant in instants if instant is not None]
    return min(known) if known else None


def nearest_deadline(run: RunRow) -> int | None:
    """Return the nearest deadline of a run; ``None`` if it has none."""
    return earliest(run.execution_deadline_at, run.run_deadline_at, run.start_deadline_at)


def lower_run_deadline(run: RunRow, deadline_at: int) -> None:
    """Bring the run deadline nearer; one that is nearer already stays.

    Args:
        run: The run.
        deadline_at: The deadline, in microseconds.
    """
    run.run_deadline_at = earliest(run.run_deadline_at, deadline_at)
    run.next_deadline_at = nearest_deadline(run)


def deadline_passed(run: RunRow, now: int) -> PassedDeadline | None:
    """Return the deadline of a run that has passed, if any (inclusive).

    The execution deadline beats the run deadline when both have passed.

    Args:
        run: The run.
        now: The instant to compare with, in microseconds.
    """
    if run.next_deadline_at is None or now < run.next_deadline_at:
        return None
    if run.execution_deadline_at is not None and now >= run.execution_deadline_at:
        return PassedDeadline(TimeoutKind.EXECUTION_TIMEOUT, run.execution_deadline_at)
    if run.run_deadline_at is not None and now >= run.run_deadline_at:
        return PassedDeadline(TimeoutKind.RUN_TIMEOUT, run.run_deadline_at)
    if run.start_deadline_at is not None and now >= run.start_deadline_at:
        return PassedDeadline(TimeoutKind.SCHEDULE_TO_START, run.start_deadline_at)
    return None
