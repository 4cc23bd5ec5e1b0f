"""Copying what one run has to another: the rows that a reset or a fork keeps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Table

from outlast_store.database.sql_text import columns_of, marks
from outlast_store.journal.batch import Batch
from outlast_store.schema import tables
from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions import requests
from outlast_workflow.data.headers import stored
from outlast_workflow.history.events import SignalReceived, UpdateAccepted, UpdateCompleted

ACTIVITIES_A_STATEMENT: Final = 400


def insert_first_event(batch: Batch, run_id: str, type_: str, recorded_at: int, payload: str) -> None:
    """Insert the first event of a run whose history is a copy.

    Args:
        batch: The batch.
        run_id: The run.
        type_: The event's type.
        recorded_at: When it was recorded, in microseconds.
        payload: Its payload, as JSON text.
    """
    batch.execute(
        "INSERT INTO history_events (run_id, seq, type, recorded_at, payload) VALUES (?, ?, ?, ?, ?)",
        (run_id, 1, type_, recorded_at, payload),
    )


def copy_events(batch: Batch, source: str, target: str, last_seq: int) -> None:
    """Copy a run's events but the first to another run, under the same numbers.

    Args:
        batch: The batch.
        source: The run to copy from.
        target: The run to copy to.
        last_seq: The last event to copy.
    """
    batch.execute(f"{_copying(tables.history_events)} AND seq > 1 AND seq <= ?", (target, source, last_seq))


def copy_activities(batch: Batch, source: str, target: str, activity_ids: Sequence[int]) -> None:
    """Copy activities of a run, with the rows of their attempts, to another run.

    Args:
        batch: The batch.
        source: The run to copy from.
        target: The run to copy to.
        activity_ids: The activities.
    """
    for table in (tables.activity_executions, tables.activity_attempts):
        for start in range(0, len(activity_ids), ACTIVITIES_A_STATEMENT):
            some = activity_ids[start : start + ACTIVITIES_A_STATEMENT]
            text = f"{_copying(table)} AND activity_id IN ({marks(some)})"
            batch.execute(text, (target, source, *some))


def copy_streams(batch: Batch, source: RunRow, target: RunRow, seq: int, closed: Collection[str]) -> None:
    """Give a new chain the streams of another one as they were at a point, with offsets of its own.

    What an activity has written that has not ended there is left out: it runs again in the new chain.

    Args:
        batch: The batch; the activities that had ended have been copied.
        source: The run whose history was taken over.
        target: The first run of the new chain.
        seq: The point.
        closed: The streams that were closed there.
    """
    if not batch.scan("SELECT COUNT(*) FROM streams WHERE first_run_id = ?", (source.first_run_id,))[0][0]:
        return
    own = "CASE WHEN i.run_id = ? THEN i.{0} END"
    batch.execute(
        "INSERT INTO stream_items "
        "(first_run_id, name, item_offset, value, written_at, run_id, seq, activity_id, attempt) "
        "SELECT CAST(? AS TEXT), i.name, ROW_NUMBER() OVER (PARTITION BY i.name ORDER BY i.item_offset) - 1, "
        f"i.value, i.written_at, CAST(? AS TEXT), {own.format('seq')}, {own.format('activity_id')}, "
        f"{own.format('attempt')} FROM stream_items i LEFT JOIN workflow_runs r ON r.run_id = i.run_id "
        # A run that is gone came before those that are left: a chain is deleted from its first run on.
        "WHERE i.first_run_id = ? AND (COALESCE(r.run_number, 0) < ? OR i.run_id = ? AND "
        "(i.seq <= ? OR i.activity_id IN (SELECT activity_id FROM activity_executions "
        "WHERE run_id = ? AND closed_at IS NOT NULL)))",
        (
            *(target.first_run_id, target.run_id, source.run_id, source.run_id, source.run_id),
            *(source.first_run_id, source.run_number, source.run_id, seq, target.run_id),
        ),
    )
    size = "LENGTH(CAST(value AS BLOB))" if batch.raw.qmark else "OCTET_LENGTH(value)"
    # What PostgreSQL sums up is no whole number any more.
    text = f"SELECT name, COUNT(*), CAST(SUM({size}) AS BIGINT) FROM stream_items WHERE first_run_id = ? GROUP BY name"
    copied = dict.fromkeys(closed, (0, 0))
    copied |= {name: (count, total) for name, count, total in batch.scan(text, (target.first_run_id,))}
    for name, (count, total) in sorted(copied.items()):
        batch.execute(
            "INSERT INTO streams (first_run_id, name, next_offset, bytes, version, closed_at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (target.first_run_id, name, count, total, 1, batch.now if name in closed else None),
        )


def copy_requests(batch: Batch, row: RunRow, kept: Sequence[tuple[Any, ...]]) -> None:
    """Give a new chain the keys of the signals, and the answers of the updates, in the history that it has taken over.

    So a signal of the same key arrives once there, too, and an update that is sent again gets the same answer.

    Args:
        batch: The batch.
        row: The chain's first run.
        kept: Its history: the seq and the event of each, and perhaps more.
    """
    accepted: dict[str, UpdateAccepted] = {}
    for seq, event, *_ in kept:
        if isinstance(event, SignalReceived) and event.request_id is not None:
            _add_request(batch, row, seq, "signal", event.request_id, event.name, "null", requests.DELIVERED)
        elif isinstance(event, UpdateAccepted):
            accepted[event.update_id] = event
        elif isinstance(event, UpdateCompleted):
            update = accepted[event.update_id]
            text = stored(update.input, update.headers)
            _add_request(batch, row, seq, "update", event.update_id, update.name, text, requests.COMPLETED)


def _add_request(
    batch: Batch, row: RunRow, seq: int, kind: str, request_id: str, name: str, text: str, state: str
) -> None:
    requests.add(
        batch,
        RequestRow(
            first_run_id=row.first_run_id,
            kind=kind,
            request_id=request_id,
            run_id=row.run_id,
            name=name,
            input=text,
            state=state,
            answer=None,
            answer_seq=seq,
            created_at=batch.now,
            expires_at=None,
        ),
    )


def _copying(table: Table) -> str:
    """Return the statement that copies a run's rows of a table, for the target's id and the source's."""
    names = columns_of(table)
    assert names[0] == "run_id"
    rest = ", ".join(names[1:])
    into = f"INSERT INTO {table.name} (run_id, {rest})"
    return f"{into} SELECT CAST(? AS TEXT), {rest} FROM {table.name} WHERE run_id = ?"
