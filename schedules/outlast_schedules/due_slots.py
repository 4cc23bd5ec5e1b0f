"""Which slots of a schedule are due, which of them were missed, and when to look again. Pure: a row, and the time.

A slot that is found within a minute is on time. An older one was *missed*, because nobody was there to fire it, and
the catch-up policy says what becomes of it. Slots up to ``decided_until`` are decided, for good: nothing is fired again
when a clock is set back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from outlast_schedules.specs.calendar import Calendar
from outlast_store.schema.rows import ScheduleRow
from outlast_workflow.primitives.enums import CatchUp

ON_TIME_US: Final = 60_000_000
"""How late a slot may be found that is fired whatever the catch-up policy says."""
MOST_SLOTS: Final = 1_000
"""How many slots one look decides."""
MOST_STARTS: Final = 100
"""How many workflows one look starts."""


@dataclass(slots=True)
class DueSlots:
    """What one look at a schedule found.

    Attributes:
        at: When it looked, in microseconds.
        slots: The slots to act on, in order.
        missed: How many were missed; all of them come before those.
        last_missed: The newest of them.
        decided_until: Up to when slots are decided after this look.
        next_at: When the next one is due that is not decided; in the past if more are due already.
    """

    at: int = 0
    slots: list[int] = field(default_factory=list)
    missed: int = 0
    last_missed: int | None = None
    decided_until: int = 0
    next_at: int | None = None

    @property
    def found(self) -> int:
        """How many slots it found, whatever becomes of them."""
        return len(self.slots) + self.missed


def due_slots(calendar: Calendar, row: ScheduleRow, now: int) -> DueSlots:
    """Return what is due in a schedule that is not paused.

    Args:
        calendar: Its calendar.
        row: Its row.
        now: Microseconds since the epoch.
    """
    due: list[int] = []
    after, next_at = row.decided_until, None
    while True:
        slot, on_from = calendar.search(after)
        if on_from is not None:
            # So much is excluded that the search goes on with the next look.
            next_at = on_from
            if on_from <= now:
                after = on_from - 1
            break
        if slot is None:
            break
        at = calendar.fire_at(row.schedule_id, slot)
        if at > now or len(due) == MOST_SLOTS:
            next_at = at
            break
        due.append(slot)
        after = slot
    found = DueSlots(now, decided_until=after, next_at=next_at)
    late = sum(now - calendar.fire_at(row.schedule_id, slot) > ON_TIME_US for slot in due)
    keep = late
    if row.catch_up == CatchUp.ALL:
        keep = sum(now - slot > row.catch_up_window for slot in due[:late])
    elif row.catch_up == CatchUp.LATEST and late == len(due) > 0:
        # Something newer fires anyway, unless the newest of all is late.
        more = len(due) == MOST_SLOTS and next_at is not None and next_at <= now
        if not more and now - due[-1] <= row.catch_up_window:
            keep = late - 1
    found.missed, found.slots = keep, due[keep:]
    if keep:
        found.last_missed = due[keep - 1]
    if len(found.slots) > MOST_STARTS:
        after = found.slots[MOST_STARTS]
        found.slots = found.slots[:MOST_STARTS]
        found.decided_until = found.slots[-1]
        found.next_at = calendar.fire_at(row.schedule_id, after)
    return found


def next_look(row: ScheduleRow) -> int | None:
    """Return when a schedule has a slot to fire next, or ``None`` where it has none, is paused or used up."""
    if row.paused_at is not None or row.remaining_runs == 0:
        return None
    calendar = Calendar.from_json(row.spec)
    slot, on_from = calendar.search(row.decided_until)
    return on_from if slot is None else calendar.fire_at(row.schedule_id, slot)
