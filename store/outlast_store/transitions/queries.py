"""The rows of queries that cross processes: one process asks by a row, another answers in it.

Asking changes nothing of the run. A row is deleted when its answer was read or nobody waits any more. What a process
that died has left is deleted by a watchdog (:mod:`outlast_store.transitions.expired_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from outlast_store.database.sql_text import columns_of, fetch, marks, of_types
from outlast_store.journal.batch import Batch
from outlast_store.schema import tables
from outlast_store.schema.rows import RequestKey, RequestRow
from outlast_store.transitions.requests import ANSWERED, OPEN

_KEY = "first_run_id = ? AND kind = ? AND request_id = ?"
_COLUMNS = ", ".join(f"q.{name}" for name in columns_of(tables.workflow_requests))


def answer_query(batch: Batch, key: RequestKey, answer: str) -> bool:
    """Write the answer of an open query; ``False`` where it has one or is gone.

    Args:
        batch: The batch.
        key: The query's key.
        answer: The answer, as its row keeps it.
    """
    text = f"UPDATE workflow_requests SET state = ?, answer = ? WHERE {_KEY} AND state = ?"
    return batch.execute(text, (ANSWERED, answer, *key, OPEN)) == 1


def delete_query(batch: Batch, key: RequestKey) -> None:
    """Delete the row of a query."""
    batch.execute(f"DELETE FROM workflow_requests WHERE {_KEY}", key)


def open_queries(
    connection: Connection, queues: Sequence[str], types: Sequence[str], now: int
) -> list[tuple[RequestRow, str | None]]:
    """Return the open queries about runs of these task queues and types, with each run's owner; at most a hundred.

    Args:
        connection: Where to read.
        queues: The task queues.
        types: The workflow types, and families of them.
        now: The instant after which a query must expire, in microseconds.
    """
    known, named = of_types("r.workflow_type", types)
    text = (
        f"SELECT {_COLUMNS}, r.owner_id FROM workflow_requests q JOIN workflow_runs r ON r.run_id = q.run_id "
        f"WHERE q.expires_at > ? AND q.state = 'open' AND r.task_queue IN ({marks(queues)}) "
        f"AND {known} LIMIT 100"
    )
    return [(RequestRow(*row[:-1]), row[-1]) for row in fetch(connection, text, (now, *queues, *named))]
