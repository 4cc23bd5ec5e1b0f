"""Reads of the events of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.sql_text import Values, fetch, marks
from outlast_workflow.errors import RunNotFoundError


def read_history(
    connection: Connection, run_id: str, after_seq: int = 0, limit: int | None = None
) -> list[Values]:
    """Return ``(seq, type, payload)`` of a run's events after a seq, in order."""
    text = "SELECT seq, type, payload FROM history_events WHERE run_id = ? AND seq > ? ORDER BY seq"
    if limit is not None:
        return fetch(connection, f"{text} LIMIT ?", (run_id, after_seq, limit))
    return fetch(connection, text, (run_id, after_seq))


def read_histories(connection: Connection, run_ids: Sequence[str]) -> list[Values]:
    """Return ``(run_id, seq, type, payload)`` of all events of some runs, each run's in order.

    Ask for a few hundred runs at most.
    """
    text = (
        "SELECT run_id, seq, type, payload FROM history_events "
        f"WHERE run_id IN ({marks(run_ids)}) ORDER BY run_id, seq"
    )
    return fetch(connection, text, tuple(run_ids))


def read_events(connection: Connection, run_id: str, after_seq: int, limit: int) -> list[Values]:
    """Return ``(seq, type, recorded_at, payload)`` of a run's events after a seq, in order."""
    text = (
        "SELECT seq, type, recorded_at, payload FROM history_events "
        "WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?"
    )
    return fetch(connection, text, (run_id, after_seq, limit))


def read_event_slice(
    connection: Connection,
    run_id: str,
    *,
    after_seq: int | None = None,
    before_seq: int | None = None,
    types: Sequence[str] = (),
    limit: int,
) -> list[Values]:
    """Return ``(seq, type, recorded_at, payload)`` of some of a run's events, in order.

    Args:
        connection: Where to read.
        run_id: Which run.
        after_seq: Only events after this one: the first of them.
        before_seq: Only events before this one: the last of them. Without either, the last events of all.
        types: Only events of these types; of all types if empty.
        limit: How many events at most.
    """
    conditions = ["run_id = ?"]
    bound = after_seq if after_seq is not None else before_seq
    if bound is not None:
        conditions.append("seq > ?" if after_seq is not None else "seq < ?")
    if types:
        conditions.append(f"type IN ({marks(types)})")
    order = "ASC" if after_seq is not None else "DESC"
    text = (
        f"SELECT seq, type, recorded_at, payload FROM history_events WHERE {' AND '.join(conditions)} "
        f"ORDER BY seq {order} LIMIT ?"
    )
    bounds = () if bound is None else (bound,)
    rows = fetch(connection, text, (run_id, *bounds, *types, limit))
    return rows if after_seq is not None else rows[::-1]


LAST_INPUT: Final = (
    "SELECT seq, payload FROM history_events WHERE run_id = ? AND type = 'WorkflowStartChanged' "
    "AND payload LIKE ? ORDER BY seq DESC LIMIT 1"
)
"""The last event that gave a debounced run another input, by the run and :data:`HAS_INPUT`."""
HAS_INPUT: Final = '%"input":%'
"""The other fields of such an event are instants."""


def find_last_input(connection: Connection, run_id: str) -> tuple[int, str] | None:
    """Return ``(seq, payload)`` of the last event that gave a debounced run another input."""
    rows = fetch(connection, LAST_INPUT, (run_id, HAS_INPUT))
    return (rows[0][0], rows[0][1]) if rows else None


def find_event(connection: Connection, run_id: str, seq: int) -> tuple[str, str] | None:
    """Return ``(type, payload)`` of one event."""
    text = "SELECT type, payload FROM history_events WHERE run_id = ? AND seq = ?"
    rows = fetch(connection, text, (run_id, seq))
    return (rows[0][0], rows[0][1]) if rows else None


def find_last_events(connection: Connection, run_ids: Sequence[str]) -> list[Values]:
    """Return ``(run_id, seq, type, recorded_at, payload)`` of the last event of each of some runs.

    Ask for a few hundred runs at most.
    """
    if not run_ids:
        return []
    text = (
        "SELECT e.run_id, e.seq, e.type, e.recorded_at, e.payload FROM workflow_runs r "
        "JOIN history_events e ON e.run_id = r.run_id AND e.seq = r.last_seq "
        f"WHERE r.run_id IN ({marks(run_ids)})"
    )
    return fetch(connection, text, tuple(run_ids))


def find_terminal_event(connection: Connection, run_id: str) -> tuple[str, str] | None:
    """Return ``(type, payload)`` of the event that ended a run; ``None`` while it is open.

    Raises:
        RunNotFoundError: There is no such run.
    """
    text = (
        "SELECT r.closed_at, e.type, e.payload FROM workflow_runs r, history_events e "
        "WHERE r.run_id = ? AND e.run_id = r.run_id AND e.seq = r.last_seq"
    )
    rows = fetch(connection, text, (run_id,))
    if not rows:
        raise RunNotFoundError(run_id)
    closed_at, kind, payload = rows[0]
    return (kind, payload) if closed_at is not None else None
