"""Damage: columns of a schedule's row that cannot be read, because something else has written them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from outlast_schedules.action import options_of
from outlast_schedules.specs.calendar import Calendar
from outlast_schedules.specs.spec import At
from outlast_store.schema.rows import ScheduleRow
from outlast_workflow.errors import DamagedScheduleError
from outlast_workflow.primitives.enums import CatchUp, Overlap
from outlast_workflow.primitives.times import from_iso, to_datetime

_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "spec": Calendar.from_json,
    "action": options_of,
    "input": orjson.loads,
    "overlap": Overlap,
    "catch_up": CatchUp,
    "buffered": lambda text: [int(slot) for slot in orjson.loads(text)],
    "recent": lambda text: [from_iso(one["at"]) for one in orjson.loads(text)],
}
"""What reads each column that is more than a name, an instant or a number."""

_INSTEAD: Final = {
    "spec": Calendar(At(to_datetime(0))).to_json(),
    "action": "{}",
    "input": "[]",
    "overlap": Overlap.SKIP.value,
    "catch_up": CatchUp.LATEST.value,
    "buffered": None,
    "recent": None,
}


def damaged_columns(row: ScheduleRow) -> list[str]:
    """Return the columns that cannot be read; none, as a rule."""
    damaged: list[str] = []
    for column, read in _READERS.items():
        text = getattr(row, column)
        if text is None:
            continue
        try:
            read(text)
        except Exception:
            damaged.append(column)
    return damaged


def without_damage(row: ScheduleRow) -> ScheduleRow:
    """Return a row of which all can be read: empty values stand for what is damaged."""
    damaged = damaged_columns(row)
    if damaged:
        row = row.copy()
        for column in damaged:
            setattr(row, column, _INSTEAD[column])
    return row


def refuse_damaged(row: ScheduleRow) -> None:
    """Refuse a row that cannot be read.

    Raises:
        DamagedScheduleError: A column cannot be read.
    """
    damaged = damaged_columns(row)
    if damaged:
        raise DamagedScheduleError(row.schedule_id, damaged[0])
