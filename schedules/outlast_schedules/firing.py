"""Firing: what becomes of the due slots of one schedule, in one transaction.

:class:`FireSchedule` is made from a row as a scan has read it. It writes only if the row still has that version, so of
many processes that saw the same slot one fires it; the others write nothing. A process that dies before the commit has
done nothing, and the slot is still due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from outlast_schedules.action import first_run_of, slot_text, slot_workflow_id
from outlast_schedules.due_slots import DueSlots
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.queues.gates import check_queue
from outlast_store.schema.rows import InstanceRow, RunRow, ScheduleRow
from outlast_store.transitions.new_runs import first_event, new_instance
from outlast_store.transitions.queued_runs import add_start_timer
from outlast_store.transitions.run_ends import Ended, open_run, request_cancel, terminate
from outlast_store.transitions.schedules import write_schedule
from outlast_workflow.environment import Environment
from outlast_workflow.errors import DamagedHistoryError
from outlast_workflow.history.events import (
    Event,
    Failure,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowTimedOut,
    stored_event,
)
from outlast_workflow.primitives.enums import Overlap, RunStatus
from outlast_workflow.primitives.payloads import Payload

MOST_BUFFERED: Final = 1_000
MOST_RECENT: Final = 10
LOOK_AGAIN_US: Final = 1_000_000
"""When a schedule whose slots wait for a workflow to end is looked at again."""

_ROOM: Final = {Overlap.BUFFER_ONE: 1, Overlap.BUFFER_ALL: MOST_BUFFERED}
"""How many slots may wait under the policies that let them."""
_REPLACING: Final = frozenset({Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER})
"""The policies under which a slot takes the place of the workflow that is open."""
_FAILED: Final = frozenset({RunStatus.FAILED, RunStatus.TIMED_OUT})


@dataclass(slots=True)
class FiredSlots:
    """What became of a schedule's slots.

    Attributes:
        schedule_id: The schedule.
        at: When, in microseconds.
        started: ``(slot, workflow_id)`` of the workflows that were started.
        skipped: How many slots were left out.
        missed: How many were missed.
        paused_by: The workflow whose failure paused the schedule, if one did.
        more: Whether more is due already.
    """

    schedule_id: str
    at: int
    started: list[tuple[int, str]] = field(default_factory=list)
    skipped: int = 0
    missed: int = 0
    paused_by: str | None = None
    more: bool = False


class Start:
    """A workflow that a slot may start: its rows, made before the transaction.

    Args:
        row: The schedule.
        slot: The slot.
        workflow_id: The workflow's id.
        environment: The source of ids, randomness and time.
    """

    def __init__(self, row: ScheduleRow, slot: int, workflow_id: str, environment: Environment) -> None:
        self.slot = slot
        self.run, self.started = first_run_of(row, workflow_id, slot, environment)
        self.instance: InstanceRow = new_instance(self.run)

    def begin(self, batch: Batch, handed_on: tuple[Payload | None, Failure | None]) -> RunRow:
        """Insert the run; its id must be free.

        Args:
            batch: The batch.
            handed_on: The last result and the last failure that it gets.
        """
        batch.confirm_instance(self.instance)
        row = batch.add_run(self.run)
        self.started.last_result, self.started.last_failure = handed_on
        batch.append(row, self.started)
        if row.queue is not None:
            add_start_timer(batch, row)
        return row


class StartingChange(BaseChange):
    """A change that starts workflows of a schedule.

    Args:
        row: The schedule, as it was read.
        starts: What it may start.
        latest_run_id: The latest run of the chain that it started last, if there is one.
    """

    def __init__(self, row: ScheduleRow, starts: Sequence[Start], latest_run_id: str | None) -> None:
        self.row = row
        self.starts = starts
        self.latest_run_id = latest_run_id
        self.new_instances = [start.instance for start in starts]
        if latest_run_id is not None:
            self.runs = (latest_run_id,)
            # Whether it is open decides, and a cached row may be behind.
            self.needs_locks = True
        self.weight = 2048 * (1 + len(starts)) + len(row.input) * len(starts)

    def check_queue(self, batch: Batch) -> None:
        """Refuse to start anything in a queue that nobody has defined.

        Raises:
            QueueNotFoundError: There is none of that name.
        """
        for start in self.starts[:1]:
            if start.run.queue is not None:
                check_queue(batch, start.run.queue)

    def last_run(self, batch: Batch, row: ScheduleRow) -> RunRow | None:
        """Return the latest run of the chain that was started last; ``None`` where there is none any more.

        Args:
            batch: The batch.
            row: The schedule as it is now.
        """
        run_id = self.latest_run_id
        if row.last_first_run_id != self.row.last_first_run_id and row.last_first_run_id is not None:
            # It has started another since it was read.
            run_id = row.last_first_run_id
            batch.more_runs([run_id])
        if run_id is None:
            return None
        run = batch.run(run_id)
        while run is not None and run.next_run_id is not None:
            batch.more_runs([run.next_run_id])
            run = batch.run(run.next_run_id)
        return run

    @staticmethod
    def handed_on(batch: Batch, last: RunRow | None) -> tuple[Payload | None, Failure | None]:
        """Return the last result and the last failure that the next workflow gets from the one before it.

        One whose history cannot be read hands nothing on: it must not keep the schedule from firing.
        """
        if last is None:
            return None, None
        try:
            return _left_by(batch, last)
        except DamagedHistoryError:
            return None, None


def _left_by(batch: Batch, last: RunRow) -> tuple[Payload | None, Failure | None]:
    """Return the last result and the last failure that a run leaves.

    Raises:
        DamagedHistoryError: Its history cannot be read.
    """
    before = first_event(batch, last.run_id)
    if last.is_open:
        return before.last_result, before.last_failure
    end = _end_of(batch, last)
    if isinstance(end, WorkflowCompleted):
        return end.result, None
    if isinstance(end, WorkflowFailed):
        return before.last_result, end.failure
    if isinstance(end, WorkflowTimedOut):
        return before.last_result, _timed_out(last, end)
    return before.last_result, before.last_failure


def _end_of(batch: Batch, run: RunRow) -> Event | None:
    """Return the event that ended a run, from this batch or from the database; ``None`` where it is gone."""
    for seq, event, _ in batch.appended(run.run_id):
        if seq == run.last_seq:
            return event
    text = "SELECT type, payload FROM history_events WHERE run_id = ? AND seq = ?"
    found = batch.scan(text, (run.run_id, run.last_seq))
    return stored_event(run.run_id, run.last_seq, *found[0]) if found else None


def latest_in_time(batch: Batch, run: RunRow) -> RunRow:
    """Return the latest run of a chain once a deadline of it that has passed is enforced; a retry may follow.

    Args:
        batch: The batch.
        run: The latest run of the chain, open or not.
    """
    found = open_run(batch, run)
    while isinstance(found, Ended):
        following = None if found.next_run_id is None else batch.run(found.next_run_id)
        if following is None:
            return run
        run, found = following, open_run(batch, following)
    return run


def end_other(batch: Batch, run: RunRow, how: Overlap, schedule_id: str) -> None:
    """End what a schedule started last, or ask it to end.

    Args:
        batch: The batch.
        run: The latest run of the chain, open and in time.
        how: ``cancel_other`` or ``terminate_other``.
        schedule_id: The schedule, for the reason.
    """
    reason = f"schedule {schedule_id} starts the next one"
    if how is Overlap.TERMINATE_OTHER:
        terminate(batch, run, reason)
    else:
        request_cancel(batch, run, WorkflowCancelRequested(reason))


def _timed_out(run: RunRow, end: WorkflowTimedOut) -> Failure:
    return {
        "category": "timeout",
        "type": "WorkflowTimeoutError",
        "class": "outlast.errors.WorkflowTimeoutError",
        "message": f"the {end.timeout_kind.partition('_')[0]} timeout of workflow {run.workflow_id} passed",
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "timeout_kind": end.timeout_kind,
        "deadline_at": end.deadline_at,
    }


class FireSchedule(StartingChange):
    """Decide the due slots of a schedule, and start what they call for.

    Args:
        row: The schedule, as it was read.
        due: What is due.
        latest_run_id: The latest run of the chain that it started last, if there is one.
        environment: The source of ids, randomness and time.
    """

    def __init__(
        self, row: ScheduleRow, due: DueSlots, latest_run_id: str | None, environment: Environment
    ) -> None:
        self.due = due
        self.buffered: list[int] = orjson.loads(row.buffered) if row.buffered is not None else []
        slots = [*self.buffered[:1], *due.slots]
        starts = [
            Start(row, slot, slot_workflow_id(row.schedule_id, slot), environment)
            for slot in dict.fromkeys(slots)
        ]
        super().__init__(row, starts, latest_run_id)

    def apply(self, batch: Batch) -> FiredSlots | None:
        """Return what became of the slots; ``None`` where another process came first, or the clock was set back."""
        if self.due.at > batch.now:
            # What was due, or late, by the time of the look may be neither now: the next look decides.
            return None
        self.check_queue(batch)
        row, last = self.row.copy(), self.last_run(batch, self.row)
        if last is not None and (row.pause_on_failure or row.overlap in _REPLACING):
            # What is past its deadline has failed already, though no watchdog has come by yet.
            last = latest_in_time(batch, last)
        fired = FiredSlots(row.schedule_id, batch.now)
        if (
            row.pause_on_failure
            and last is not None
            and last.status in _FAILED
            and last.run_id != row.failed_run_id
        ):
            row.paused_at, row.failed_run_id, row.next_look_at = batch.now, last.run_id, None
            row.note = f"workflow {last.workflow_id} ended as {last.status}"
            fired.paused_by = last.workflow_id
            return fired if write_schedule(batch, row, self.row) else None
        plan = _Plan(row, last is not None and last.is_open, list(self.buffered), batch.now)
        plan.free = {
            start.slot: start for start in self.starts if batch.instance(start.run.workflow_id) is None
        }
        plan.decide(self.due)
        begun = [start for start in self.starts if start.slot in plan.begin]
        if begun:
            row.last_workflow_id = begun[-1].run.workflow_id
            row.last_first_run_id = begun[-1].run.run_id
        handed_on = self.handed_on(batch, last) if begun else (None, None)
        if not write_schedule(batch, row, self.row):
            return None
        if last is not None and plan.end is not None:
            end_other(batch, last, plan.end, row.schedule_id)
        for start in begun:
            start.begin(batch, handed_on)
            fired.started.append((start.slot, start.run.workflow_id))
        fired.skipped, fired.missed = plan.skipped, self.due.missed
        fired.more = row.next_look_at is not None and row.next_look_at <= batch.now
        return fired


class _Plan:
    """What becomes of the slots, decided before anything is written.

    Args:
        row: The schedule, a copy that this changes.
        open: Whether the workflow that it started last is open.
        buffered: The slots that wait for that to end.
        now: The time.
    """

    def __init__(self, row: ScheduleRow, open: bool, buffered: list[int], now: int) -> None:
        self.row = row
        self.open = open
        self.buffered = buffered
        self.now = now
        self.overlap = Overlap(row.overlap)
        self.free: dict[int, Start] = {}
        """What can be started: the slots whose workflow id is free."""
        self.begin: set[int] = set()
        self.skipped = 0
        self.end: Overlap | None = None
        """How the open workflow is to be ended, if it is."""
        self._recent: list[dict[str, Any]] = orjson.loads(row.recent) if row.recent is not None else []

    def decide(self, due: DueSlots) -> None:
        """Decide what becomes of each slot, and when to look again."""
        row = self.row
        row.missed += due.missed
        if due.last_missed is not None:
            self._note(due.last_missed, "missed", missed=due.missed)
        if row.remaining_runs == 0:
            self._drop_buffered()
        elif self.buffered and not self.open and not (due.slots and self.overlap in _REPLACING):
            self._start(self.buffered.pop(0))
        # Where the schedule is used up, the rest stays undecided, and a higher limit goes on from here.
        decided_until = row.decided_until if due.last_missed is None else due.last_missed
        for slot in due.slots:
            if row.remaining_runs == 0:
                break
            self._decide(slot, newest=slot == due.slots[-1])
            decided_until = slot
        else:
            decided_until = due.decided_until
        row.decided_until = max(row.decided_until, decided_until)
        row.buffered = orjson.dumps(self.buffered).decode() if self.buffered else None
        row.recent = orjson.dumps(self._recent[-MOST_RECENT:]).decode() if self._recent else None
        row.next_look_at = due.next_at if row.remaining_runs != 0 else None
        if self.buffered:
            again = self.now + LOOK_AGAIN_US
            row.next_look_at = again if row.next_look_at is None else min(row.next_look_at, again)

    def _decide(self, slot: int, *, newest: bool) -> None:
        if self.overlap in _REPLACING:
            self._replace(slot, newest=newest)
        elif self.overlap is Overlap.ALLOW_ALL or not (self.open or self.buffered):
            self._start(slot)
        elif len(self.buffered) < min(_ROOM.get(self.overlap, 0), self.row.remaining_runs or MOST_BUFFERED):
            self._buffer(slot)
        else:
            self._skip(slot, "skipped")

    def _replace(self, slot: int, *, newest: bool) -> None:
        """Let a slot take the place of what is open and of what waits; of several only the newest does."""
        if not newest:
            self._skip(slot, "skipped")
            return
        if slot not in self.free:
            self._skip(slot, "existing")
            return
        self._drop_buffered()
        if self.open:
            self.end = self.overlap
        if self.open and self.overlap is Overlap.CANCEL_OTHER:
            self._buffer(slot)
        else:
            self._start(slot)

    def _start(self, slot: int) -> None:
        """Start a slot, unless its workflow id is taken."""
        row = self.row
        start = self.free.get(slot)
        if start is None:
            self._skip(slot, "existing")
            return
        self.begin.add(slot)
        self.open = True
        row.started += 1
        row.last_slot_at = slot if row.last_slot_at is None else max(row.last_slot_at, slot)
        if row.remaining_runs:
            row.remaining_runs -= 1
        self._note(slot, "started", workflow_id=start.run.workflow_id)

    def _drop_buffered(self) -> None:
        for slot in self.buffered:
            self._skip(slot, "skipped")
        self.buffered = []

    def _buffer(self, slot: int) -> None:
        self.buffered.append(slot)
        self._note(slot, "buffered")

    def _skip(self, slot: int, outcome: str) -> None:
        self.skipped += 1
        self.row.skipped += 1
        self._note(slot, outcome)

    def _note(self, slot: int, outcome: str, **more: Any) -> None:
        self._recent.append({"slot": slot_text(slot), "at": slot_text(self.now), "outcome": outcome, **more})
