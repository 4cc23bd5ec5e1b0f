"""Reads of alerts: what is armed and what was fired, of one run and of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson
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
_IDS_IN_A_READ: Final = 500


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


def find_by_ids(connection: Connection, alert_ids: Sequence[str]) -> list[AlertRow]:
    """Return those of some alerts that are there, the oldest first.

    Args:
        connection: Where to read.
        alert_ids: Their ids.
    """
    text = select(tables.alerts, f"alert_id IN ({marks(alert_ids)}) ORDER BY alert_id")
    return [AlertRow(*row) for row in fetch(connection, text, tuple(alert_ids))]


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


class DeliveryState(NamedTuple):
    """How far a delivery is.

    Attributes:
        status: The status of its workflow.
        closed_at: When that ended, in microseconds.
    """

    status: str
    closed_at: int | None


def named_deliveries(alert: AlertRow) -> dict[str, str | None]:
    """Return by channel the workflow that delivers an alert; ``None`` for one that was deleted since."""
    return orjson.loads(alert.deliveries) if alert.deliveries is not None else {}


def read_page_with_deliveries(
    connection: Connection, /, before: str | None, limit: int, **filters: str | None
) -> tuple[list[AlertRow], dict[str, DeliveryState]]:
    """Return what :func:`read_page` does, and how far the deliveries of these alerts are.

    Args:
        connection: Where to read.
        before: The id of the alert to continue after.
        limit: Rows at most.
        **filters: The filters of :func:`read_page`.
    """
    rows = read_page(connection, before, limit, **filters)
    return rows, read_deliveries(connection, rows)


def read_deliveries(connection: Connection, alerts: Sequence[AlertRow]) -> dict[str, DeliveryState]:
    """Return by workflow id how far the deliveries of some alerts are.

    Args:
        connection: Where to read.
        alerts: The alerts.
    """
    wanted = {one for alert in alerts for one in named_deliveries(alert).values() if one is not None}
    found: dict[str, DeliveryState] = {}
    ids = sorted(wanted)
    for start in range(0, len(ids), _IDS_IN_A_READ):
        part = ids[start : start + _IDS_IN_A_READ]
        text = (
            "SELECT i.workflow_id, r.status, r.closed_at FROM workflow_instances i "
            f"JOIN workflow_runs r ON r.run_id = i.current_run_id WHERE i.workflow_id IN ({marks(part)})"
        )
        for workflow_id, status, closed_at in fetch(connection, text, tuple(part)):
            found[workflow_id] = DeliveryState(status, closed_at)
    return found
