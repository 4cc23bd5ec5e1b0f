"""Debouncing starts: the calls of one key go to one run, which begins once no further call has come for a while.

A caller reads the row of its key, and then submits one of two changes. Where the row names a run that has not begun,
:class:`DelayDebounced` gives that run the call's input and moves its start. Where it names none, or one that has begun,
:class:`StartDebounced` starts another run, and the row names that. Each is a compare-and-set on the run that the row
names: where it names another one by then, nothing is written, and the caller reads again.
"""

from __future__ import annotations

from dataclasses import dataclass

from outlast_runs.run_change import RunChange
from outlast_runs.start import Started, StartRun
from outlast_runs.start_delays.moves import may_be_moved, move_start
from outlast_store.journal.batch import Batch
from outlast_store.queues.gates import check_queue
from outlast_store.schema.rows import DebounceRow, RunRow
from outlast_store.transitions.debounces import (
    KEPT_FOR_US,
    insert_debounce,
    lock_debounce,
    write_debounce,
)
from outlast_store.transitions.run_ends import Ended
from outlast_workflow.errors import RunNotFoundError, WorkflowClosedError
from outlast_workflow.history.events import WorkflowStarted
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.payloads import Payload


@dataclass(frozen=True, slots=True)
class Debounce:
    """What a call says of its burst.

    Attributes:
        workflow_type: The type that is debounced.
        key: The caller's key.
        period: How long no further call may come before the run begins, in microseconds.
        timeout: When it begins at the latest, in microseconds after the first call; ``None`` for no limit.
    """

    workflow_type: str
    key: str
    period: int
    timeout: int | None


class DelayDebounced(RunChange):
    """Give the run of a burst another input, and let it wait for another period.

    Args:
        debounce: The call.
        known: The row of its key, as it was read.
        input: The call's input.
        limits: How many calls a burst may have, and how large a history may grow.
    """

    def __init__(
        self, debounce: Debounce, known: DebounceRow, input: Payload, limits: StructuralLimits
    ) -> None:
        super().__init__(known.workflow_id, known.run_id)
        self.debounce = debounce
        self.input = input
        self.limits = limits
        self.weight = 1024 + len(input.json)

    def apply(self, batch: Batch) -> bool:
        """Return whether the run took the call; ``False`` where it has begun, or where the row names another by now.

        Raises:
            StructuralLimitError: The burst has had too many calls, or its history would be too large.
        """
        try:
            run = self.open_run(batch)
        except (RunNotFoundError, WorkflowClosedError):
            return False
        if isinstance(run, Ended) or not may_be_moved(run, batch.now):
            return False
        row = lock_debounce(batch, self.debounce.workflow_type, self.debounce.key)
        if row is None or row.run_id != run.run_id:
            return False
        self.limits.check_next("debounced_calls", row.calls + 1, whose=run.workflow_id)
        self.limits.check("history_bytes", run.history_bytes + len(self.input.json), whose=run.workflow_id)
        start = batch.now + self.debounce.period
        if row.deadline_at is not None:
            start = max(min(start, row.deadline_at), batch.now)
        move_start(batch, run, start, self.input)
        row.calls += 1
        row.expires_at = start + KEPT_FOR_US
        write_debounce(batch, row, row.run_id)
        return True


class StartDebounced(StartRun):
    """Start the run of a new burst.

    Args:
        debounce: The call.
        run: The run's row, delayed by the period.
        started: Its first event.
        replaces: The run that the row of the key named when it was read; ``None`` if there was no row.
    """

    def __init__(
        self, debounce: Debounce, run: RunRow, started: WorkflowStarted, replaces: str | None
    ) -> None:
        super().__init__(run, started, DuplicatePolicy.ALLOW_DUPLICATE)
        self.debounce = debounce
        self.replaces = replaces

    def apply(self, batch: Batch) -> Started:
        """Start the run; one that is not ``created`` was not started, because the row names another run by now.

        Raises:
            QueueNotFoundError: Nobody has defined its queue; nothing was written.
        """
        debounce, run = self.debounce, self.run
        if run.queue is not None:
            check_queue(batch, run.queue)
        begins = batch.now + debounce.period
        row = DebounceRow(
            debounce.workflow_type,
            debounce.key,
            run.workflow_id,
            run.run_id,
            None if debounce.timeout is None else batch.now + debounce.timeout,
            1,
            begins + KEPT_FOR_US,
        )
        there = lock_debounce(batch, debounce.workflow_type, debounce.key)
        if (there.run_id if there is not None else None) != self.replaces:
            return Started(run.run_id, run.run_id, created=False)
        if there is not None:
            write_debounce(batch, row, there.run_id)
        elif not insert_debounce(batch, row):
            return Started(run.run_id, run.run_id, created=False)
        return super().apply(batch)
