"""Changes of schedules that their users ask for. Each reads the row under its lock, changes it and writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import orjson

from outlast_schedules.action import options_of, slot_text
from outlast_schedules.damage import refuse_damaged, without_damage
from outlast_schedules.due_slots import next_look
from outlast_schedules.firing import MOST_RECENT, Start, StartingChange, end_other, latest_in_time
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.queues.gates import check_queue
from outlast_store.reads.schedules import schedule_not_found
from outlast_store.schema.rows import InstanceRow, RunRow, ScheduleRow
from outlast_store.transitions.schedules import (
    delete_schedule,
    insert_schedule,
    lock_schedule,
    write_schedule,
)
from outlast_workflow.environment import Environment
from outlast_workflow.errors import ScheduleExistsError, WorkflowAlreadyStartedError
from outlast_workflow.primitives.enums import Overlap

Edit = Callable[[ScheduleRow, int], None]
"""Changes a schedule's row, given the time."""

_DEFINED = (
    "workflow_type",
    "task_queue",
    "input",
    "action",
    "spec",
    "overlap",
    "catch_up",
    "catch_up_window",
    "pause_on_failure",
)


class CreateSchedule(BaseChange):
    """Create a schedule.

    Args:
        row: Its row, paused or not. Its slots count from the instant of the transaction.
        keep: Whether one that is there already stays as it is, which is an error otherwise.
        update: Whether one that is there already is changed to this one.
    """

    def __init__(self, row: ScheduleRow, *, keep: bool = False, update: bool = False) -> None:
        self.row = row
        self.keep = keep
        self.update = update
        self.weight = 2048 + len(row.input)

    def apply(self, batch: Batch) -> bool:
        """Return whether it is new.

        Raises:
            ScheduleExistsError: The id is taken.
        """
        _check_queue_of(batch, self.row)
        there = lock_schedule(batch, self.row.schedule_id)
        if there is None and insert_schedule(batch, _created(self.row, batch.now)):
            return True
        if self.update:
            there = lock_schedule(batch, self.row.schedule_id)
            if there is not None:
                define(batch, there, self.row)
        elif not self.keep:
            raise ScheduleExistsError(self.row.schedule_id)
        return False


class ChangeSchedule(BaseChange):
    """Change a schedule.

    Args:
        schedule_id: The schedule.
        edit: Changes its row.
    """

    def __init__(self, schedule_id: str, edit: Edit) -> None:
        self.schedule_id = schedule_id
        self.edit = edit

    def apply(self, batch: Batch) -> None:
        """Change it.

        Raises:
            ScheduleNotFoundError: There is none.
            QueueNotFoundError: The edit names a queue that nobody has defined.
            DamagedScheduleError: It cannot be read, so it can only be paused or deleted.
        """
        before = lock_schedule(batch, self.schedule_id)
        if before is None:
            raise schedule_not_found(batch.scan, self.schedule_id)
        row = before.copy()
        self.edit(row, batch.now)
        if row.action != before.action:
            _check_queue_of(batch, row)
        if row.paused_at is None:
            refuse_damaged(row)
        _rewrite(batch, row, before)


class DeleteSchedule(BaseChange):
    """Delete a schedule. What it has started stays."""

    def __init__(self, schedule_id: str) -> None:
        self.schedule_id = schedule_id

    def apply(self, batch: Batch) -> None:
        """Delete it.

        Raises:
            ScheduleNotFoundError: There is none.
        """
        if not delete_schedule(batch, self.schedule_id):
            raise schedule_not_found(batch.scan, self.schedule_id)


@dataclass(slots=True)
class AppliedSchedules:
    """What applying a set of schedules did.

    Attributes:
        created: The ids of those that are new.
        updated: The ids of those that were changed.
        deleted: The ids of those that were deleted because the set lacks them.
    """

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


class ApplySchedules(BaseChange):
    """Make the schedules of a set as the set says, in one transaction.

    What runs of its own accord stays: whether a schedule is paused, what it has counted, and up to where its slots are
    decided, unless its calendar is another.

    Args:
        rows: The set.
        prune: Whether schedules are deleted that are not in it.
    """

    def __init__(self, rows: Sequence[ScheduleRow], *, prune: bool) -> None:
        # All who write several schedules lock them in this order.
        self.rows = sorted(rows, key=lambda row: row.schedule_id)
        self.prune = prune
        self.weight = 2048 + sum(2048 + len(row.input) for row in rows)

    def apply(self, batch: Batch) -> AppliedSchedules:
        """Return what was created, changed and deleted."""
        applied = AppliedSchedules()
        for row in self.rows:
            _check_queue_of(batch, row)
        for row in self.rows:
            there = lock_schedule(batch, row.schedule_id)
            if there is None and insert_schedule(batch, _created(row, batch.now)):
                applied.created.append(row.schedule_id)
                continue
            there = there or lock_schedule(batch, row.schedule_id)
            if there is not None and define(batch, there, row):
                applied.updated.append(row.schedule_id)
        if self.prune:
            kept = {row.schedule_id for row in self.rows}
            text = "SELECT schedule_id FROM schedules ORDER BY schedule_id"
            for (schedule_id,) in batch.scan(text, ()):
                if schedule_id not in kept and delete_schedule(batch, schedule_id):
                    applied.deleted.append(schedule_id)
        return applied


def _check_queue_of(batch: Batch, row: ScheduleRow) -> None:
    queue = options_of(row.action)[0].queue
    if queue is not None:
        check_queue(batch, queue)


def _created(row: ScheduleRow, now: int) -> ScheduleRow:
    row = row.copy()
    row.created_at = row.updated_at = row.decided_until = now
    if row.paused_at is not None:
        row.paused_at = now
    row.next_look_at = next_look(row)
    return row


def define(batch: Batch, before: ScheduleRow, wanted: ScheduleRow) -> bool:
    """Give a schedule another definition; return whether that changed anything.

    Args:
        batch: The batch.
        before: The schedule, under its lock.
        wanted: What it is to be.
    """
    row = without_damage(before).copy()
    for name in _DEFINED:
        setattr(row, name, getattr(wanted, name))
    if wanted.note is not None:
        row.note = wanted.note
    limit_runs(row, wanted.max_runs)
    return _rewrite(batch, row, before)


def limit_runs(row: ScheduleRow, max_runs: int | None) -> None:
    """Give a schedule another limit; what it has started counts towards it.

    Args:
        row: The schedule.
        max_runs: How many slots it may start in all; ``None``: no limit.
    """
    used = row.max_runs - (row.remaining_runs or 0) if row.max_runs is not None else 0
    if row.max_runs != max_runs:
        row.max_runs = max_runs
        row.remaining_runs = None if max_runs is None else max(0, max_runs - used)


def _rewrite(batch: Batch, row: ScheduleRow, before: ScheduleRow) -> bool:
    if row.spec != before.spec:
        # Slots that another calendar names in the past were never missed.
        row.decided_until = max(row.decided_until, batch.now)
    if vars(row) == vars(before):
        return False
    row.updated_at = batch.now
    row.next_look_at = next_look(row)
    if row.buffered is not None and row.paused_at is None:
        # A slot that is due already keeps its instant: the clock of this process may be ahead.
        row.next_look_at = min(row.next_look_at or batch.now, batch.now)
    return write_schedule(batch, row, before)


def pausing(note: str | None) -> Edit:
    """Return the edit that pauses a schedule with a note."""

    def edit(row: ScheduleRow, now: int) -> None:
        # A further pause that says nothing leaves the reason of the first one.
        if row.paused_at is None or note is not None:
            row.note = note
        row.paused_at = now if row.paused_at is None else row.paused_at

    return edit


def resuming(note: str | None) -> Edit:
    """Return the edit that resumes a schedule with a note: it goes on from now."""

    def edit(row: ScheduleRow, now: int) -> None:
        if row.paused_at is not None:
            row.paused_at = None
            row.decided_until = max(row.decided_until, now)
        row.note = note

    return edit


@dataclass(slots=True)
class Triggered:
    """What a trigger did.

    Attributes:
        workflow_id: The workflow.
        run_id: Its current run.
        created: Whether the trigger started it; ``False`` where one with the same request id had.
    """

    workflow_id: str
    run_id: str
    created: bool


class TriggerSchedule(StartingChange):
    """Start what a schedule starts, now and beside its slots.

    Args:
        row: The schedule, as it was read.
        workflow_id: The id of the workflow.
        overlap: What happens to the one that is open: ``skip`` (an error), ``terminate_other`` or ``allow_all``.
        latest_run_id: The latest run of the chain that it started last, if there is one.
        environment: The source of ids, randomness and time.
    """

    def __init__(
        self,
        row: ScheduleRow,
        workflow_id: str,
        overlap: Overlap,
        latest_run_id: str | None,
        environment: Environment,
    ) -> None:
        start = Start(row, environment.clock.now(), workflow_id, environment)
        super().__init__(row, [start], latest_run_id)
        # Another process may have started one since the row was read.
        self.needs_locks = True
        self.overlap = overlap

    def apply(self, batch: Batch) -> Triggered:
        """Return the workflow.

        Raises:
            ScheduleNotFoundError: The schedule was deleted.
            WorkflowAlreadyStartedError: The one that it started last is open, and ``overlap`` is ``skip``.
        """
        self.check_queue(batch)
        [start], schedule_id = self.starts, self.row.schedule_id
        workflow_id = start.run.workflow_id
        there: InstanceRow | None = batch.instance(workflow_id)
        if there is not None:
            return Triggered(workflow_id, there.current_run_id, created=False)
        before = lock_schedule(batch, schedule_id)
        if before is None:
            raise schedule_not_found(batch.scan, schedule_id)
        last: RunRow | None = self.last_run(batch, before)
        is_open = last is not None and last.is_open
        if last is not None and is_open and self.overlap is Overlap.SKIP:
            raise WorkflowAlreadyStartedError(last.workflow_id, run_id=last.run_id, status=last.status)
        if last is not None and is_open and self.overlap is Overlap.TERMINATE_OTHER:
            last = latest_in_time(batch, last)
            if last.is_open:
                end_other(batch, last, self.overlap, schedule_id)
        handed_on = self.handed_on(batch, last)
        run = start.begin(batch, handed_on)
        row = before.copy()
        row.last_workflow_id, row.last_first_run_id = workflow_id, run.run_id
        recent = orjson.loads(row.recent) if row.recent is not None else []
        now = slot_text(batch.now)
        recent.append({"slot": None, "at": now, "outcome": "triggered", "workflow_id": workflow_id})
        row.recent = orjson.dumps(recent[-MOST_RECENT:]).decode()
        write_schedule(batch, row, before)
        return Triggered(workflow_id, run.run_id, created=True)


class BackfillSchedule(StartingChange):
    """Start some slots of a schedule again from the past. One whose workflow id is taken is left as it is."""

    def __init__(self, row: ScheduleRow, starts: Sequence[Start]) -> None:
        super().__init__(row, starts, None)

    def apply(self, batch: Batch) -> tuple[int, int]:
        """Return how many were started, and how many were there already.

        Raises:
            ScheduleNotFoundError: The schedule was deleted.
        """
        self.check_queue(batch)
        if lock_schedule(batch, self.row.schedule_id) is None:
            raise schedule_not_found(batch.scan, self.row.schedule_id)
        begun = [start for start in self.starts if batch.instance(start.run.workflow_id) is None]
        for start in begun:
            start.begin(batch, (None, None))
        return len(begun), len(self.starts) - len(begun)
