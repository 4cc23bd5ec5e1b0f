"""Reads of alerts: what is armed and what was fired, of one run and of all."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection

from outlast_store.database.sql_text import columns_of, fetch
from outlast_store.schema import tables
from outlast_store.schema.rows import AlertRow, AlertTimerRow

_TIMER: Final = ", ".join(columns_of(tables.alert_timers))
_ALERT: Final = ", ".join(columns_of(tables.alerts))
_ARMED: Final = (
    f"SELECT {_TIMER} FROM alert_timers WHERE run_id = ? ORDER BY due_at, activity_id, kind, mark LIMIT ?"
)
# What a chain has once was perhaps fired in an earlier run.
_OF_RUN: Final = (
    f"SELECT {_ALERT} FROM alerts WHERE run_id = ? OR (scope = ? AND activity_id = 0 "
    "AND kind IN ('execution', 'after', 'at_instant')) ORDER BY alert_id DESC LIMIT ?"
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
    return [AlertRow(*row) for row in fetch(connection, _OF_RUN, (run_id, first_run_id, limit))]


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
    where = f"WHERE {' AND '.join(wanted)} " if wanted else ""
    text = f"SELECT {_ALERT} FROM alerts {where}ORDER BY alert_id DESC LIMIT ?"
    return [AlertRow(*row) for row in fetch(connection, text, (*wanted.values(), limit))]
