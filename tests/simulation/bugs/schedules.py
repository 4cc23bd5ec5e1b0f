"""Bugs of schedules."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast_schedules import changes, firing
from outlast_schedules.due_slots import DueSlots, due_slots
from outlast_schedules.specs.cron import Cron
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import ScheduleRow
from outlast_store.transitions import schedules
from outlast_watchdog import passes


@bug
def schedules_without_guard(stack: ExitStack) -> None:
    """A schedule is written whatever has been written meanwhile."""
    text = "UPDATE schedules SET {} WHERE schedule_id = ? AND ? > 0 AND ? > 0"
    patch(stack, schedules, "_UPDATE", text)


@bug
def folds_fire_twice(stack: ExitStack) -> None:
    """Wall times that come twice when a clock is put back fire both times."""
    patch(stack, Cron, "_segment_begin", lambda self, at, offset: (at, offset))


@bug
def missed_slots_count_again(stack: ExitStack) -> None:
    """Missed slots are counted and not decided: who looks next, or after a crash, counts them again."""

    def wrong(calendar: Any, row: ScheduleRow, now: int) -> DueSlots:
        due = due_slots(calendar, row, now)
        if not due.missed:
            return due
        return replace(due, slots=[], last_missed=None, decided_until=row.decided_until)

    patch(stack, passes, "due_slots", wrong)


@bug
def buffers_forget(stack: ExitStack) -> None:
    """A slot that is to wait is told of, and forgotten."""
    patch(stack, firing._Plan, "_buffer", lambda self, slot: self._note(slot, "buffered"))


@bug
def pauses_are_not_looked_at(stack: ExitStack) -> None:
    """A watchdog that saw a schedule before it was paused fires it all the same."""
    right = schedules.write_schedule

    def wrong(batch: Batch, row: ScheduleRow, before: ScheduleRow) -> bool:
        written = right(batch, row, before)
        if row.paused_at is not None and before.paused_at is None:
            text = "UPDATE schedules SET version = ? WHERE schedule_id = ? AND version = ? AND created_at = ?"
            batch.execute(text, (before.version, row.schedule_id, row.version, row.created_at))
        return written

    patch(stack, changes, "write_schedule", wrong)


@bug
def triggers_count_as_slots(stack: ExitStack) -> None:
    """What is started by hand is counted as a slot, and uses one up."""
    right = schedules.write_schedule

    def wrong(batch: Batch, row: ScheduleRow, before: ScheduleRow) -> bool:
        if isinstance(batch.change, changes.TriggerSchedule):
            row.started += 1
        return right(batch, row, before)

    patch(stack, changes, "write_schedule", wrong)


@bug
def limits_are_off_by_one(stack: ExitStack) -> None:
    """The first slot that a schedule starts does not count towards its limit."""
    right = firing._Plan._start

    def wrong(self: Any, slot: int) -> None:
        right(self, slot)
        if self.row.started == 1 and self.row.remaining_runs is not None:
            self.row.remaining_runs += 1

    patch(stack, firing._Plan, "_start", wrong)


@bug
def chains_end_with_their_first_run(stack: ExitStack) -> None:
    """A workflow that continues as new, or is reset, is taken for one that has ended."""

    def wrong(self: Any, batch: Batch, row: ScheduleRow) -> Any:
        if row.last_first_run_id is None:
            return None
        batch.more_runs([row.last_first_run_id])
        return batch.run(row.last_first_run_id)

    patch(stack, firing.StartingChange, "last_run", wrong)


@bug
def failures_pause_again(stack: ExitStack) -> None:
    """A schedule that was resumed pauses once more for the failure for which it was paused."""
    right = firing.FireSchedule.__init__

    def wrong(self: Any, row: ScheduleRow, *rest: Any) -> None:
        right(self, row, *rest)
        self.row = row.copy()
        self.row.failed_run_id = None

    patch(stack, firing.FireSchedule, "__init__", wrong)


@bug
def outages_start_everything(stack: ExitStack) -> None:
    """Nothing is ever missed, whatever the policy says."""

    def wrong(calendar: Any, row: ScheduleRow, now: int) -> DueSlots:
        row = row.copy()
        row.catch_up = "all"
        return due_slots(calendar, row, now)

    patch(stack, passes, "due_slots", wrong)
