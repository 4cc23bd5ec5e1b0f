"""Queries for another process: a row asks, a row answers, and is deleted when it was read or nobody waits any more.

Nothing of a run changes by being asked. Expired rows are swept by whoever asks next, so what an asker that died leaves
behind does not gather.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from outlast_store.database.sql_text import columns_of, fetch, marks
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema import tables
from outlast_store.schema.rows import RequestKey, RequestRow
from outlast_store.transitions.requests import ANSWERED, OPEN, add

_KEY = "first_run_id = ? AND kind = ? AND request_id = ?"
_COLUMNS = ", ".join(f"q.{name}" for name in columns_of(tables.workflow_requests))


# --- changes --------------------------------------------------------------------------------------------------------


class AskQuery(BaseChange):
    """Leave a query for another process, for so long."""

    def __init__(self, row: RequestRow, patience: int) -> None:
        self.row = row
        self.patience = patience
        self.weight = 512 + len(row.input)

    def apply(self, batch: Batch) -> RequestKey:
        """Returns the key under which the answer will stand."""
        batch.execute("DELETE FROM workflow_requests WHERE expires_at <= ?", (batch.now,))
        self.row.created_at = batch.now
        self.row.expires_at = batch.now + self.patience
        add(batch, self.row)
        batch.asked = True
        return self.row.key


class AnswerQuery(BaseChange):
    """Answer a query that another process asks; the first answer counts."""

    def __init__(self, key: RequestKey, answer: str) -> None:
        self.key = key
        self.answer = answer
        self.weight = 512 + len(answer)

    def apply(self, batch: Batch) -> bool:
        """Returns whether anybody still waited for it."""
        text = f"UPDATE workflow_requests SET state = ?, answer = ? WHERE {_KEY} AND state = ?"
        if batch.execute(text, (ANSWERED, self.answer, *self.key, OPEN)) == 0:
            return False
        batch.answered[self.key] = (ANSWERED, self.answer)
        return True


class ForgetQuery(BaseChange):
    """A query was answered, or nobody waits any more."""

    def __init__(self, key: RequestKey) -> None:
        self.key = key

    def apply(self, batch: Batch) -> None:
        """Delete its row."""
        batch.execute(f"DELETE FROM workflow_requests WHERE {_KEY}", self.key)


# --- reads ----------------------------------------------------------------------------------------------------------


def open_queries(
    connection: Connection, queues: Sequence[str], types: Sequence[str], now: int
) -> list[tuple[RequestRow, str | None]]:
    """The queries that wait about runs of these queues and types, with who owns the run; at most a hundred."""
    text = (
        f"SELECT {_COLUMNS}, r.owner_id FROM workflow_requests q JOIN workflow_runs r ON r.run_id = q.run_id "
        f"WHERE q.expires_at > ? AND q.state = 'open' AND r.task_queue IN ({marks(queues)}) "
        f"AND r.workflow_type IN ({marks(types)}) LIMIT 100"
    )
    return [(RequestRow(*row[:-1]), row[-1]) for row in fetch(connection, text, (now, *queues, *types))]
