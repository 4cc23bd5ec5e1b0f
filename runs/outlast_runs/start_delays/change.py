"""Moving the start of a run because a client asks for it."""

from __future__ import annotations

from outlast_runs.run_change import RunChange
from outlast_runs.start_delays.moves import may_be_moved, move_start
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.run_ends import Ended
from outlast_workflow.errors import InvalidOptionError, WorkflowAlreadyBegunError
from outlast_workflow.options.validation import check_end
from outlast_workflow.primitives.times import iso


class SetStartDelay(RunChange):
    """Move the start of a run that has not begun, to a later or an earlier instant.

    A run of a queue leaves its line until then. A run that may begin already, and is to begin at once, stays as it is:
    one in line keeps its place.

    Args:
        workflow_id: The workflow.
        run_id: Its run.
        delay: How long it waits from now on, in microseconds; or
        until: when it may begin, in microseconds since the epoch. What has passed is now.
    """

    def __init__(self, workflow_id: str, run_id: str, *, delay: int | None, until: int | None) -> None:
        super().__init__(workflow_id, run_id)
        self.delay = delay
        self.until = until

    def apply(self, batch: Batch) -> Ended | None:
        """Move the start; return how the run ended where it is closed.

        Raises:
            WorkflowAlreadyBegunError: It has begun, a worker has it, or it waits for something else than its start.
            InvalidOptionError: The start would come too late for the execution deadline, or for the calendar.
        """
        run = self.open_run(batch)
        if isinstance(run, Ended):
            return run
        if not may_be_moved(run, batch.now):
            raise WorkflowAlreadyBegunError(run.workflow_id, run_id=run.run_id, status=run.status)
        move_start(batch, run, self._start(run, batch.now))
        return None

    def _start(self, run: RunRow, now: int) -> int:
        """Return when the run is to start, no earlier than now; nothing has been written yet."""
        if self.until is not None:
            field, start = "until", max(self.until, now)
            check_end(field, start, 0)
        else:
            field, wait = "delay", self.delay or 0
            check_end(field, now, wait)
            start = now + wait
        if start > now:
            if run.execution_deadline_at is not None and start >= run.execution_deadline_at:
                raise InvalidOptionError(
                    f"{field} must end before the execution deadline, {iso(run.execution_deadline_at)}: "
                    "give an earlier start",
                    field=field,
                )
            check_end("run timeout", start, run.run_timeout)
            if run.start_deadline_at is not None:
                joins_at = run.queued_at if run.queued_at is not None else run.not_before
                check_end("schedule-to-start timeout", start, run.start_deadline_at - joins_at)
        return start
