"""Moving the start of a run that has not begun: to another instant, and to another input where it is debounced."""

from __future__ import annotations

from outlast_runs.run_change import RunChange
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.queued_runs import join_line, leave_line
from outlast_store.transitions.run_deadlines import nearest_deadline
from outlast_store.transitions.run_ends import Ended
from outlast_workflow.errors import InvalidOptionError, WorkflowAlreadyBegunError
from outlast_workflow.history.events import WorkflowStartChanged
from outlast_workflow.options.validation import check_end
from outlast_workflow.primitives.enums import RunStatus
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import iso, later


def may_be_moved(run: RunRow, now: int) -> bool:
    """Return whether a run has not begun and waits for nothing but its start, its queue or a worker."""
    if run.started_at is not None or run.cancel_requested_at is not None:
        return False
    if run.status == RunStatus.QUEUED:
        return True
    if run.owner_id is not None:
        return False
    if run.start_delayed and run.not_before > now:
        return True
    # With a slot it was admitted; with failures its code has run; what is left waits for a worker, or in a backoff.
    return run.slot_queue is None and run.task_failures == 0 and run.not_before <= now


def move_start(batch: Batch, run: RunRow, start: int, input: Payload | None = None) -> None:
    """Move the start of a run that may be moved, and record that. What is as it should be already stays unrecorded.

    Args:
        batch: The batch.
        run: The run, locked.
        start: When it is to begin or to join its line, in microseconds; no earlier than now.
        input: Its input from now on; ``None`` leaves that as it is.
    """
    queued = run.status == RunStatus.QUEUED
    ready = run.queued_at is not None if queued else run.not_before <= batch.now
    stays = (ready and start <= batch.now) or (run.start_delayed and start == run.not_before)
    if stays and input is None:
        return
    if not stays:
        if queued and start <= batch.now:
            join_line(batch, run, batch.now)
        elif queued:
            leave_line(batch, run, start)
        else:
            _wait(run, start, batch.now)
    deadline = iso(run.run_deadline_at) if run.run_deadline_at is not None else None
    batch.append(run, WorkflowStartChanged(iso(start), deadline, input))


def _wait(run: RunRow, start: int, now: int) -> None:
    run.wake_at = start
    run.start_delayed = start > now
    run.not_before = start if run.start_delayed else 0
    if run.run_timeout is not None:
        run.run_deadline_at = later(max(start, run.created_at), run.run_timeout)
        run.next_deadline_at = nearest_deadline(run)


class MoveStart(RunChange):
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
