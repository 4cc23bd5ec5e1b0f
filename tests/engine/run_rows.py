"""Rows of runs that never ran, for what only looks at rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from outlast_store.database.statements import statements_for
from outlast_store.schema import tables
from outlast_store.schema.rows import RunRow
from outlast_store.schema.search_index import index_rows

SECOND = 1_000_000
HOUR = 3600 * SECOND
NOW = 1_800_000_000 * SECOND


def run_id_at(us: int, number: int) -> str:
    """A UUIDv7 of an instant; the number makes it unique and orders those of one millisecond."""
    millisecond = f"{us // 1000:012x}"
    return f"{millisecond[:8]}-{millisecond[8:]}-7000-8000-{number:012x}"


def run_row(number: int, *, created_at: int, **values: Any) -> RunRow:
    """An open run that waits for nothing."""
    run_id = run_id_at(created_at, number)
    given: dict[str, Any] = {
        "run_id": run_id,
        "workflow_id": f"w-{number}",
        "run_number": 1,
        "first_run_id": run_id,
        "previous_run_id": None,
        "next_run_id": None,
        "workflow_type": "Order",
        "task_queue": "default",
        "priority": 5,
        "status": "running",
        "created_at": created_at,
        "started_at": created_at,
        "closed_at": None,
        "execution_timeout": None,
        "execution_deadline_at": None,
        "run_timeout": None,
        "run_deadline_at": None,
        "next_deadline_at": None,
        "last_seq": 1,
        "last_event_at": created_at,
        "inbox": 0,
        "wake_at": None,
        "not_before": 0,
        "start_delayed": False,
        "owner_id": None,
        "fence": 0,
        "owner_losses": 0,
        "parent_run_id": None,
        "parent_command_id": None,
        "parent_close_policy": None,
        "cascade_at": None,
        "attempt": 1,
        "retry_policy": None,
        "memo": None,
        "cancel_requested_at": None,
        "task_failures": 0,
        "attention": None,
        "attention_since": None,
        "build_id": None,
        "history_bytes": 100,
        "search_attributes": None,
        "summary": None,
        "progress": None,
    }
    return RunRow(**{**given, **values})


def insert_runs(connection: Connection, rows: Sequence[RunRow]) -> None:
    """Insert them, in one transaction."""
    statements = statements_for(connection.dialect.name)
    connection.exec_driver_sql("BEGIN")
    for start in range(0, len(rows), 5000):
        values = [tuple(vars(row).values()) for row in rows[start : start + 5000]]
        statements.insert(connection, tables.workflow_runs, values)
    indexed = [
        (row.run_id, *pair)
        for row in rows
        if row.search_attributes is not None
        for pair in index_rows(row.search_attributes)
    ]
    for start in range(0, len(indexed), 5000):
        statements.insert(connection, tables.search_attributes, indexed[start : start + 5000])
    connection.exec_driver_sql("COMMIT")
