"""Reads of requests: updates without an answer, signals that wait, and what became of a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection

from outlast_store.database.sql_text import Values, columns_of, fetch, matching
from outlast_store.schema import tables
from outlast_store.schema.rows import RequestKey, RequestRow
from outlast_workflow.data.headers import taken_apart
from outlast_workflow.errors import DamagedHistoryError
from outlast_workflow.history.events import WorkflowTaskCompleted, stored_event, stored_json, stored_payload
from outlast_workflow.primitives.payloads import Payload

COLUMNS: Final = ", ".join(columns_of(tables.workflow_requests))
SELECT: Final = f"SELECT {COLUMNS} FROM workflow_requests WHERE "
KEY: Final = "first_run_id = ? AND kind = ? AND request_id = ?"
WAITING: Final = "run_id = ? AND state = 'open' AND kind = 'update' AND answer_seq IS NULL"
"""The condition of a run's updates that nobody has accepted."""
LAST_RECORD: Final = (
    "SELECT seq, payload FROM history_events WHERE run_id = ? AND type = 'WorkflowTaskCompleted' "
    "ORDER BY seq DESC LIMIT 1"
)
"""The statement that reads the record of a run's latest workflow task."""


def read_record(rows: Sequence[Values], run_id: str) -> tuple[int, dict[str, int]]:
    """Return how far the run's latest workflow task has seen, and which signals it keeps without a handler, by name.

    Args:
        rows: What :data:`LAST_RECORD` returns.
        run_id: The run.

    Raises:
        DamagedHistoryError: The record cannot be read.
    """
    record = _record(rows, run_id)
    return (0, {}) if record is None else (record.through, record.buffered or {})


def _record(rows: Sequence[Values], run_id: str) -> WorkflowTaskCompleted | None:
    if not rows:
        return None
    seq, payload = rows[0]
    record = stored_event(run_id, seq, WorkflowTaskCompleted.type, payload)
    assert isinstance(record, WorkflowTaskCompleted)
    return record


def input_of(row: RequestRow) -> tuple[Payload, dict[str, Any] | None]:
    """Return the input and the headers of a request.

    Raises:
        DamagedHistoryError: They cannot be read.
    """
    try:
        return taken_apart(row.input)
    except (TypeError, LookupError, ValueError):
        raise DamagedHistoryError(row.run_id, f"{row.kind} {row.request_id}") from None


def answer_to(row: RequestRow) -> dict[str, Any]:
    """Return the failure that answers a request which was rejected.

    Raises:
        DamagedHistoryError: It cannot be read.
    """
    what = f"answer to {row.kind} {row.request_id}"
    failure = stored_json(row.answer if row.answer is not None else "{}", row.run_id, what)
    if not isinstance(failure, dict):
        raise DamagedHistoryError(row.run_id, what)
    return failure


def find_unanswered_updates(connection: Connection, run_id: str) -> list[RequestRow]:
    """Return the updates of a run that have no answer, accepted or not, oldest first."""
    text = f"{SELECT}run_id = ? AND state = 'open' AND kind = 'update' ORDER BY created_at, request_id"
    return [RequestRow(*row) for row in fetch(connection, text, (run_id,))]


@dataclass(slots=True)
class Messages:
    """The signals of a run that wait, and what its code waits for.

    Attributes:
        without_handler: How many signals of each name no handler takes and nobody has received.
        unseen: How many signals of each name no workflow task has seen.
        receiving: The names that the code waits to receive.
    """

    without_handler: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    receiving: Sequence[str] = ()


def read_messages(connection: Connection, run_id: str, most: int) -> Messages:
    """Count the signals of a run that wait, by name, and tell what its code waits to receive.

    Args:
        connection: Where to read.
        run_id: Which run.
        most: How many of the unseen ones are counted at most, the oldest first.
    """
    try:
        record = _record(fetch(connection, LAST_RECORD, (run_id,)), run_id)
    except DamagedHistoryError:
        return Messages()
    text = (
        "SELECT seq, payload FROM history_events WHERE run_id = ? AND seq > ? AND type = 'SignalReceived' "
        f"ORDER BY seq LIMIT {int(most)}"
    )
    rows = fetch(connection, text, (run_id, 0 if record is None else record.through))
    unseen = Counter[str](_name_of_signal(run_id, *row) for row in rows)
    if record is None:
        return Messages(unseen=unseen)
    return Messages(record.buffered or {}, unseen, record.receiving or ())


def _name_of_signal(run_id: str, seq: int, payload: str) -> str:
    """Return the name of a signal; of one that cannot be read, that it cannot: the task that meets it says more."""
    try:
        return str(stored_payload(payload, run_id, seq).get("name"))
    except DamagedHistoryError:
        return f"(event {seq} is damaged)"


def find_waiting_updates(connection: Connection, run_id: str) -> list[RequestRow]:
    """Return the updates of a run that nobody has accepted, oldest first."""
    text = SELECT + WAITING + " ORDER BY created_at, request_id"
    return [RequestRow(*row) for row in fetch(connection, text, (run_id,))]


def find_answered(connection: Connection, keys: Sequence[RequestKey]) -> list[RequestRow]:
    """Return those of the requests (a few hundred at most) that were accepted or answered."""
    text = f"{SELECT}{_among(keys)} AND (state <> 'open' OR answer_seq IS NOT NULL)"
    return [RequestRow(*row) for row in fetch(connection, text, _parts(keys))]


def find_deleted(connection: Connection, keys: Sequence[RequestKey]) -> list[RequestKey]:
    """Return those of the keys (a few hundred at most) whose requests no longer exist."""
    text = f"SELECT first_run_id, kind, request_id FROM workflow_requests WHERE {_among(keys)}"
    there = {tuple(row) for row in fetch(connection, text, _parts(keys))}
    return [key for key in keys if key not in there]


def _among(keys: Sequence[RequestKey]) -> str:
    return matching(("first_run_id", "kind", "request_id"), len(keys))


def _parts(keys: Sequence[RequestKey]) -> tuple[str, ...]:
    return tuple(part for key in keys for part in key)
