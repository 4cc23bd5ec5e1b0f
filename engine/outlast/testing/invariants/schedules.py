"""What must hold of schedules: each slot is decided once, and their rows say what became of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, Final

import orjson

from outlast_schedules.specs.calendar import Calendar
from outlast_store.schema.rows import RunRow, ScheduleRow
from outlast_workflow.history.events import Event, WorkflowStarted
from outlast_workflow.options.search_attributes import FORK_ATTRIBUTE
from outlast_workflow.primitives.times import iso

MOST_COUNTED: Final = 10_000
"""So many slots of a schedule are counted at most."""
MOST_WAITING: Final = 1_000
MOST_TOLD: Final = 10
ALONE: Final = frozenset({"skip", "allow_all"})
"""The overlap policies that go with a queue."""

Histories = Mapping[str, Sequence[Event]]
Found = Iterator[tuple[str, str]]


def check_schedules(rows: Sequence[ScheduleRow], runs: Mapping[str, RunRow], histories: Histories) -> Found:
    """Check rows of schedules, and what schedules have started. Yield the place, and a sentence.

    Args:
        rows: The schedules.
        runs: All runs.
        histories: Their histories.
    """
    for row in rows:
        where = f"schedule {row.schedule_id}"
        try:
            calendar = Calendar.from_json(row.spec)
        except Exception as error:
            yield where, f"has a calendar that cannot be read: {error!r:.200}"
            continue
        for found in (
            _check_counts(row, calendar),
            _check_limit(row),
            _check_buffer(row),
            _check_next_look(row, calendar),
            _check_last(row, runs, histories),
            _check_recent(row),
        ):
            for what in found:
                yield where, what
    yield from _check_started(runs, histories)


def _waiting(row: ScheduleRow) -> list[int]:
    return orjson.loads(row.buffered) if row.buffered is not None else []


def _check_counts(row: ScheduleRow, calendar: Calendar) -> Iterator[str]:
    """Check that each slot up to the last decided one was started, left out or missed, or waits."""
    if row.decided_until < row.created_at:
        yield f"has decided slots up to {iso(row.decided_until)}, before it was created"
    if (row.started == 0) != (row.last_slot_at is None):
        yield f"has started {row.started} slots, and its last one is {row.last_slot_at}"
    if row.last_slot_at is not None and row.last_slot_at > row.decided_until:
        yield f"has started slot {iso(row.last_slot_at)}, which is not decided"
    # What a user, or a pause, has changed meanwhile may have passed over slots.
    if row.updated_at != row.created_at or row.failed_run_id is not None:
        return
    slots = sum(1 for _ in islice(_slots(calendar, row.created_at, row.decided_until), MOST_COUNTED))
    if slots == MOST_COUNTED:
        return
    decided = (row.started, row.skipped, row.missed, len(_waiting(row)))
    if sum(decided) != slots:
        yield f"has decided {slots} slots; started, skipped, missed and waiting are {decided}"


def _slots(calendar: Calendar, after: int, until: int) -> Iterator[int]:
    """Yield the slots after an instant and up to another, however many are excluded between them."""
    slot, on_from = calendar.search(after)
    while on_from is not None or (slot is not None and slot <= until):
        if slot is not None:
            yield slot
        elif on_from is not None and on_from > until:
            return
        slot, on_from = calendar.search(slot if slot is not None else (on_from or 0) - 1)


def _check_limit(row: ScheduleRow) -> Iterator[str]:
    most, left = row.max_runs, row.remaining_runs
    if (most is None) != (left is None):
        yield f"may start {most} slots in all, and {left} are left"
    elif most is not None and left is not None and not most - row.started <= left <= most:
        yield f"has started {row.started} of {most} slots, and {left} are left"


def _check_buffer(row: ScheduleRow) -> Iterator[str]:
    waiting = _waiting(row)
    if row.buffered is not None and not 0 < len(waiting) <= MOST_WAITING:
        yield f"has a buffer of {len(waiting)} slots"
    if any(after <= before for before, after in pairwise(waiting)):
        yield "has slots that wait out of their order, or twice"
    if waiting and waiting[-1] > row.decided_until:
        yield f"has slot {iso(waiting[-1])} wait, which is not decided"
    if orjson.loads(row.action).get("queue") is not None and row.overlap not in ALONE:
        yield f"has a queue and the overlap policy {row.overlap}"


def _check_next_look(row: ScheduleRow, calendar: Calendar) -> Iterator[str]:
    at = row.next_look_at
    if row.paused_at is not None:
        if at is not None:
            yield f"is paused, and is looked at again at {iso(at)}"
        return
    due = None
    if row.remaining_runs != 0:
        slot, due = calendar.search(row.decided_until)
        due = due if slot is None else calendar.fire_at(row.schedule_id, slot)
    if row.buffered is None:
        if at != due:
            yield f"is looked at again at {at}, and its next slot fires at {due}"
    elif at is None or (due is not None and at > due):
        yield f"has slots that wait, is looked at again at {at}, and its next slot fires at {due}"


def _check_last(row: ScheduleRow, runs: Mapping[str, RunRow], histories: Histories) -> Iterator[str]:
    """Check that what it started last is its own; retention may have deleted it."""
    if (row.last_workflow_id is None) != (row.last_first_run_id is None):
        yield f"has started workflow {row.last_workflow_id} last, as run {row.last_first_run_id}"
    run = runs.get(row.last_first_run_id or "")
    if run is None:
        return
    told = _schedule_of(histories.get(run.run_id, ()))
    if run.workflow_id != row.last_workflow_id or told is None or told["schedule_id"] != row.schedule_id:
        yield f"has started workflow {run.workflow_id} last, whose history does not say so"


def _check_recent(row: ScheduleRow) -> Iterator[str]:
    recent: list[dict[str, Any]] = orjson.loads(row.recent) if row.recent is not None else []
    started = [one["slot"] for one in recent if one["outcome"] == "started"]
    if len(recent) > MOST_TOLD or len(started) != len(set(started)):
        yield f"tells of {len(recent)} slots, of which it has started {started}"


def _schedule_of(history: Sequence[Event]) -> dict[str, Any] | None:
    """Return the schedule and the slot that a history says it is for."""
    first = history[0] if history else None
    return first.schedule if isinstance(first, WorkflowStarted) else None


def _check_started(runs: Mapping[str, RunRow], histories: Histories) -> Found:
    """Check what schedules have started: each says so itself, and no slot has started twice."""
    chains: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in runs.values():
        told = _schedule_of(histories.get(run.run_id, ()))
        attributes = orjson.loads(run.search_attributes) if run.search_attributes is not None else {}
        schedule_id = attributes.get("outlast_schedule")
        where = f"run {run.run_id} of {run.workflow_id}"
        if FORK_ATTRIBUTE in attributes:
            # Its code is told of the schedule, but it was started by somebody else.
            if schedule_id is not None:
                yield where, f"is a fork, and is listed with those of schedule {schedule_id}"
        elif (told and told["schedule_id"]) != schedule_id:
            yield where, f"was started by {told}, and is listed with those of schedule {schedule_id}"
        elif told is not None and run.run_id == run.first_run_id:
            if run.workflow_id == f"{schedule_id}-{told['scheduled_at']}":
                chains[told["schedule_id"], told["scheduled_at"]].add(run.run_id)
            elif not run.workflow_id.startswith(f"{schedule_id}-trigger-"):
                yield (
                    where,
                    f"is for slot {told['scheduled_at']} of schedule {schedule_id}, and has another id",
                )
    for (schedule_id, slot), started in sorted(chains.items()):
        if len(started) > 1:
            yield f"schedule {schedule_id}", f"has started slot {slot} {len(started)} times"
