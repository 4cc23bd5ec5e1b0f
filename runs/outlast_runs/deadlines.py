"""Ending runs one of whose deadlines has passed: execution, run, or schedule-to-start."""

from __future__ import annotations

from dataclasses import dataclass

from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.run_deadlines import nearest_deadline
from outlast_store.transitions.run_ends import Ended, open_run
from outlast_workflow.errors import RefusedError
from outlast_workflow.primitives.enums import TimeoutKind


@dataclass(slots=True)
class Enforced:
    """A deadline that was enforced.

    Attributes:
        kind: Its kind.
        deadline_at: The deadline, in microseconds.
        at: When it was enforced, in microseconds.
        closed: Whether the run or activity ended by it; an activity may be retried instead.
    """

    kind: TimeoutKind
    deadline_at: int
    at: int
    closed: bool = True


class EnforceRunDeadline(BaseChange):
    """End a run one of whose deadlines has passed; its retry policy may start the next one.

    Args:
        run_id: The run.
        workflow_id: Its workflow id.
        retries: Whether the run has a retry policy; without one the lock on its instance is spared.
    """

    needs_locks = True

    def __init__(self, run_id: str, workflow_id: str, *, retries: bool = True) -> None:
        self.runs = self.closes = (run_id,)
        # The next run changes the instance, whose lock comes before the run's.
        if retries:
            self.instances = (workflow_id,)

    def apply(self, batch: Batch) -> Enforced | None:
        """Return what was enforced; ``None`` where the run is gone, closed or has time left."""
        run = batch.run(self.runs[0])
        if run is None:
            return None
        if not run.is_open:
            if run.next_deadline_at is not None:
                raise RefusedError("closed_run", f"run {run.run_id} has a deadline, but is {run.status}")
            return None
        enforced = enforce_run(batch, run)
        if enforced is None:
            run.next_deadline_at = nearest_deadline(run)
        return enforced


def enforce_run(batch: Batch, run: RunRow) -> Enforced | None:
    """End an open run if a deadline of its own has passed; return what was enforced."""
    found = open_run(batch, run)
    if not isinstance(found, Ended) or found.passed is None:
        return None
    return Enforced(*found.passed, batch.now)
