"""Reading requests: updates without an answer, signals that wait, and what became of a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import Connection

from outlast_store.database.sql_text import columns_of, fetch
from outlast_store.schema import tables
from outlast_store.schema.rows import RequestKey, RequestRow

COLUMNS = ", ".join(columns_of(tables.workflow_requests))


KEY = "first_run_id = ? AND kind = ? AND request_id = ?"


SELECT = f"SELECT {COLUMNS} FROM workflow_requests WHERE "


WAITING = "run_id = ? AND state = 'open' AND kind = 'update' AND answer_seq IS NULL"


LAST_RECORD = (
    "SELECT payload FROM history_events WHERE run_id = ? AND type = 'WorkflowTaskCompleted' "
    "ORDER BY seq DESC LIMIT 1"
)


def read_record(rows: Sequence[Sequence[Any]]) -> tuple[int, dict[str, int]]:
    if not rows:
        return 0, {}
    record: dict[str, Any] = orjson.loads(rows[0][0])
    return record["through"], record.get("buffered") or {}


def unanswered_updates(connection: Connection, run_id: str) -> list[RequestRow]:
    """The updates of a run that have no answer, accepted or not, oldest first."""
    text = f"{SELECT}run_id = ? AND state = 'open' AND kind = 'update' ORDER BY created_at, request_id"
    return [RequestRow(*row) for row in fetch(connection, text, (run_id,))]


def waiting_signals(connection: Connection, run_id: str, most: int) -> tuple[dict[str, int], dict[str, int]]:
    """How many signals of a run wait, by name: those without a handler, and those that no workflow task has seen.

    Of the latter the first ``most`` are looked at.
    """
    through, buffered = read_record(fetch(connection, LAST_RECORD, (run_id,)))
    text = (
        "SELECT payload FROM history_events WHERE run_id = ? AND seq > ? AND type = 'SignalReceived' "
        f"ORDER BY seq LIMIT {int(most)}"
    )
    unseen = Counter[str](orjson.loads(row[0])["name"] for row in fetch(connection, text, (run_id, through)))
    return buffered, unseen


def waiting_updates(connection: Connection, run_id: str) -> list[RequestRow]:
    """The updates of a run that nobody has accepted, oldest first."""
    text = SELECT + WAITING + " ORDER BY created_at, request_id"
    return [RequestRow(*row) for row in fetch(connection, text, (run_id,))]


def request(connection: Connection, key: RequestKey) -> RequestRow | None:
    """The request of a key."""
    rows = fetch(connection, SELECT + KEY, key)
    return RequestRow(*rows[0]) if rows else None


def answered_among(connection: Connection, keys: Sequence[RequestKey]) -> list[RequestRow]:
    """Those of the requests that were accepted or answered; at most a few hundred keys."""
    text = f"{SELECT}{_among(keys)} AND (state <> 'open' OR answer_seq IS NOT NULL)"
    return [RequestRow(*row) for row in fetch(connection, text, _parts(keys))]


def deleted_among(connection: Connection, keys: Sequence[RequestKey]) -> list[RequestKey]:
    """Those of the requests that are there no more; at most a few hundred keys."""
    text = f"SELECT first_run_id, kind, request_id FROM workflow_requests WHERE {_among(keys)}"
    there = {tuple(row) for row in fetch(connection, text, _parts(keys))}
    return [key for key in keys if key not in there]


def _among(keys: Sequence[RequestKey]) -> str:
    return f"(first_run_id, kind, request_id) IN (VALUES {', '.join(['(?, ?, ?)'] * len(keys))})"


def _parts(keys: Sequence[RequestKey]) -> tuple[str, ...]:
    return tuple(part for key in keys for part in key)
