"""Reads of alerts: what is armed and what was fired, of one run and of all."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection

from outlast_store.alerts.marks import OF_CHAINS, RUN
from outlast_store.database.sql_text import fetch, marks, select
from outlast_store.schema import tables
from outlast_store.schema.rows import AlertRow, AlertTimerRow

_ARMED: Final = select(tables.alert_timers, "run_id = ? ORDER BY due_at, activity_id, kind, mark LIMIT ?")
# What a chain has once was perhaps fired in an earlier run.
_OF_RUN: Final = select(
    tables.alerts,
    f"run_id = ? OR (scope = ? AND activity_id = ? AND kind IN ({marks([*OF_CHAINS])})) ORDER BY alert_id DESC LIMIT ?",
)


def find_armed(connection: Connection, run_id: str, limit: int) -> list[AlertTimerRow]:
    """Return what is armed of a run and its activities, the next one first.

    Args:
        connection: Where to read.
        run_id: The run.
        limit: Rows at most.
    """
    return [AlertTimerRow(*row) for row in fetch(connection, _ARMED, (run_id, limit))]


def find_alerts(connection: Connection, run_id: str, first_run_id: str, limit: int) -> list[AlertRow]:
    """Return the alerts of a run, of its activities and of its chain, the newest first.

    Args:
        connection: Where to read.
        run_id: The run.
        first_run_id: The first run of its chain.
        limit: Rows at most.
    """
    values = (run_id, first_run_id, RUN, *sorted(OF_CHAINS), limit)
    return [AlertRow(*row) for row in fetch(connection, _OF_RUN, values)]


def read_page(
    connection: Connection,
    before: str | None,
    limit: int,
    *,
    workflow_id: str | None = None,
    workflow_type: str | None = None,
    kind: str | None = None,
) -> list[AlertRow]:
    """Return a page of alerts, the newest first.

    Args:
        connection: Where to read.
        before: The id of the alert to continue after; ``None`` for the first page.
        limit: Rows at most.
        workflow_id: Only those of this workflow; an index serves that.
        workflow_type: Only those of workflows of this type.
        kind: Only those of this kind.
    """
    given: dict[str, Any] = {
        "workflow_id = ?": workflow_id,
        "workflow_type = ?": workflow_type,
        "kind = ?": kind,
        "alert_id < ?": before,
    }
    wanted = {text: value for text, value in given.items() if value is not None}
    text = select(tables.alerts, f"{' AND '.join(wanted) or '1 = 1'} ORDER BY alert_id DESC LIMIT ?")
    return [AlertRow(*row) for row in fetch(connection, text, (*wanted.values(), limit))]
