"""Debounces: one row for each key, which names the run that the calls of the key go to."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

from outlast_store.database.sql_text import columns_of, fetch, marks
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.reads.due import EXPIRED_FOR_US
from outlast_store.schema import tables
from outlast_store.schema.rows import DebounceRow

KEPT_FOR_US: Final = 3600 * 1_000_000
"""How long a row is kept after its run should have begun; one whose run waits still is kept for as long again."""
_COLUMNS: Final = columns_of(tables.debounces)
_KEY: Final = ("workflow_type", "debounce_key")
_FIND: Final = f"SELECT {', '.join(_COLUMNS)} FROM debounces WHERE workflow_type = ? AND debounce_key = ?"
_INSERT: Final = (
    f"INSERT INTO debounces ({', '.join(_COLUMNS)}) VALUES ({marks(_COLUMNS)}) ON CONFLICT DO NOTHING"
)
_UPDATE: Final = (
    "UPDATE debounces SET workflow_id = ?, run_id = ?, deadline_at = ?, calls = ?, expires_at = ? "
    "WHERE workflow_type = ? AND debounce_key = ? AND run_id = ?"
)
_DELETE: Final = (
    "DELETE FROM debounces WHERE (workflow_type, debounce_key) IN ("
    "SELECT workflow_type, debounce_key FROM debounces WHERE expires_at <= ? ORDER BY expires_at LIMIT ?) "
    "AND expires_at <= ? AND NOT EXISTS (SELECT 1 FROM workflow_runs WHERE workflow_runs.run_id = debounces.run_id "
    "AND started_at IS NULL AND closed_at IS NULL)"
)
_KEEP: Final = (
    "UPDATE debounces SET expires_at = ? WHERE (workflow_type, debounce_key) IN ("
    "SELECT workflow_type, debounce_key FROM debounces WHERE expires_at <= ? ORDER BY expires_at LIMIT ?) "
    "AND expires_at <= ?"
)


def find_debounce(connection: Connection, workflow_type: str, key: str) -> DebounceRow | None:
    """Return the row of a key.

    Args:
        connection: Where to read.
        workflow_type: The type that is debounced.
        key: The caller's key.
    """
    found = fetch(connection, _FIND, (workflow_type, key))
    return DebounceRow(*found[0]) if found else None


def lock_debounce(batch: Batch, workflow_type: str, key: str) -> DebounceRow | None:
    """Return the row of a key under its lock.

    Args:
        batch: The batch.
        workflow_type: The type that is debounced.
        key: The caller's key.
    """
    found = batch.lock(tables.debounces, _KEY, [(workflow_type, key)])
    return DebounceRow(*found[0]) if found else None


def insert_debounce(batch: Batch, row: DebounceRow) -> bool:
    """Insert the row of a key; return whether there was none."""
    return batch.execute(_INSERT, tuple(vars(row).values())) == 1


def write_debounce(batch: Batch, row: DebounceRow, run_id: str) -> None:
    """Write the row of a key, which is locked.

    Args:
        batch: The batch.
        row: As it is to be.
        run_id: The run that it named before.
    """
    values = (row.workflow_id, row.run_id, row.deadline_at, row.calls, row.expires_at)
    written = batch.execute(_UPDATE, (*values, row.workflow_type, row.debounce_key, run_id))
    assert written == 1, "the row of a debounce is locked"


class ForgetDebounces(BaseChange):
    """Delete rows that have expired and whose runs have begun, the oldest first. The others are kept for longer.

    Args:
        limit: How many.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def apply(self, batch: Batch) -> int:
        """Delete the rows; return how many."""
        before = batch.now - EXPIRED_FOR_US
        deleted = batch.execute(_DELETE, (before, self.limit, before))
        if deleted < self.limit:
            batch.execute(_KEEP, (batch.now + KEPT_FOR_US, before, self.limit, before))
        return deleted
