"""How rows of schedules are written: each write names the version that it was made from."""

from __future__ import annotations

from typing import Final

from outlast_store.database.sql_text import columns_of, marks
from outlast_store.journal.batch import Batch
from outlast_store.schema import tables
from outlast_store.schema.rows import ScheduleRow

_COLUMNS: Final = columns_of(tables.schedules)
_INSERT: Final = (
    f"INSERT INTO schedules ({', '.join(_COLUMNS)}) VALUES ({marks(_COLUMNS)}) ON CONFLICT DO NOTHING"
)
_UPDATE: Final = "UPDATE schedules SET {} WHERE schedule_id = ? AND version = ? AND created_at = ?"
_DELETE: Final = "DELETE FROM schedules WHERE schedule_id = ?"


def lock_schedule(batch: Batch, schedule_id: str) -> ScheduleRow | None:
    """Return a schedule under its lock, or ``None`` if there is none of this id."""
    found = batch.lock(tables.schedules, ("schedule_id",), [(schedule_id,)])
    return ScheduleRow(*found[0]) if found else None


def insert_schedule(batch: Batch, row: ScheduleRow) -> bool:
    """Insert a schedule; return whether its id was free."""
    inserted = batch.execute(_INSERT, tuple(vars(row).values())) == 1
    if inserted and row.next_look_at is not None:
        batch.note_due(row.next_look_at)
    return inserted


def write_schedule(batch: Batch, row: ScheduleRow, before: ScheduleRow) -> bool:
    """Write what changed in a schedule; return whether it was still the one that the change was made from.

    Args:
        batch: The batch.
        row: The schedule as it is to be. It gets the next version.
        before: The schedule as it was read.
    """
    row.version = before.version + 1
    was = vars(before)
    changed = {name: value for name, value in vars(row).items() if value != was[name]}
    text = _UPDATE.format(", ".join(f"{name} = ?" for name in changed))
    # A schedule that was deleted and created again has the same versions, and is another.
    guard = (before.schedule_id, before.version, before.created_at)
    written = batch.execute(text, (*changed.values(), *guard)) == 1
    if written and row.next_look_at is not None:
        batch.note_due(row.next_look_at)
    return written


def delete_schedule(batch: Batch, schedule_id: str) -> bool:
    """Delete a schedule; return whether there was one."""
    return batch.execute(_DELETE, (schedule_id,)) == 1
