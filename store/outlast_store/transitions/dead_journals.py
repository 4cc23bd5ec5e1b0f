"""The rows of the journals (see :mod:`outlast_store.journal.committer`), and those that dead processes have left.

A process that closes its client removes its row; one that is killed leaves it. Nobody can tell a row that was left from
one whose process has nothing to write, and need not: a journal that finds its row gone makes it anew before it writes
(:class:`~outlast_store.journal.committer.Forgotten`). What must not happen is that a row goes while its process
is in doubt about a commit, for then nobody would ever know. So a row goes only when it is a day old and has not changed
for an hour, by the watch of one watchdog: a process in doubt that long has given its callers an error long ago.
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
    """The oldest rows that were made before an instant, which their ids begin with."""
    text = "SELECT journal_id, batch_no FROM journals WHERE journal_id < ? ORDER BY journal_id LIMIT ?"
    return [(row[0], row[1]) for row in fetch(connection, text, (first_id_at(made_before), limit))]


class ForgetJournals(BaseChange):
    """Delete the rows of journals that have not written since."""

    def __init__(self, positions: Sequence[Position]) -> None:
        self.positions = positions

    def apply(self, batch: Batch) -> int:
        """Returns how many rows are gone."""
        text = "DELETE FROM journals WHERE journal_id = ? AND batch_no = ?"
        return sum(batch.execute(text, position) for position in self.positions)
