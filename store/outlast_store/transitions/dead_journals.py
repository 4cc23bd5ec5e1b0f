"""Journal rows that dead processes have left (see :mod:`outlast_store.journal.committer`).

A process that closes its client removes its row; one that is killed leaves it. A row that was left cannot be told from
one whose process has nothing to write, and need not be: a journal that finds its row gone inserts a new one before it
writes (:class:`~outlast_store.journal.committer.Forgotten`). But a row must not be deleted while its process is in
doubt about a commit, because the outcome could then never be found. So a row is deleted only when it is a day old and
one watchdog has seen it unchanged for an hour. A process in doubt for that long has given its callers an error long
ago.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.ids import first_id_at

Position = tuple[str, int]
"""A journal and the number of its last batch."""


def oldest(connection: Connection, made_before: int, limit: int) -> list[Position]:
    """Return the oldest rows created before an instant, which is part of their ids.

    Args:
        connection: Where to read.
        made_before: The instant, in microseconds.
        limit: How many.
    """
    text = "SELECT journal_id, batch_no FROM journals WHERE journal_id < ? ORDER BY journal_id LIMIT ?"
    return [(row[0], row[1]) for row in fetch(connection, text, (first_id_at(made_before), limit))]


class ForgetJournals(BaseChange):
    """Delete the rows of journals that have not written since their positions were read."""

    def __init__(self, positions: Sequence[Position]) -> None:
        self.positions = positions

    def apply(self, batch: Batch) -> int:
        """Delete them; return how many rows were deleted."""
        text = "DELETE FROM journals WHERE journal_id = ? AND batch_no = ?"
        return sum(batch.execute(text, position) for position in self.positions)
