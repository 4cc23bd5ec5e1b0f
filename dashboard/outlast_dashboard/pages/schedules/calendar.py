"""The calendar of a schedule's page: the days to come, and the slots of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

DAYS: Final = 14
MOST_SLOTS: Final = 500
"""How many slots are read for it."""
TIMES_SHOWN: Final = 3


@dataclass(slots=True)
class Day:
    """A day of the calendar strip, in UTC.

    Attributes:
        day: The day.
        slots: The slots of the day, as far as they were read.
        known: Whether all slots of the day were read.
    """

    day: date
    slots: list[datetime] = field(default_factory=list)
    known: bool = True

    @property
    def shown(self) -> list[datetime]:
        """The first slots of the day; one more than usual rather than the words that there is one more."""
        return self.slots if len(self.slots) == TIMES_SHOWN + 1 else self.slots[:TIMES_SHOWN]

    @property
    def more(self) -> int:
        """How many slots follow those."""
        return len(self.slots) - len(self.shown)


def calendar_of(slots: Sequence[datetime], now: datetime, most: int = MOST_SLOTS) -> list[Day]:
    """Return the days to come with their slots.

    Args:
        slots: The slots to come, in order, as many as were read.
        now: The time.
        most: How many were read at most.
    """
    today = now.date()
    days = [Day(today + timedelta(days=number)) for number in range(DAYS)]
    for slot in slots:
        place = (slot.date() - today).days
        if place < DAYS:
            days[place].slots.append(slot)
    if len(slots) == most:
        # What comes after the last slot that was read is not known.
        last = slots[-1].date()
        for day in days:
            day.known = day.day < last
    return days
