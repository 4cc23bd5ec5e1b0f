"""Reads of alerts: what is armed and what was fired, of one run and of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import orjson
from sqlalchemy import Connection

from outlast_store.alerts.marks import OF_CHAINS, RUN
from outlast_store.database.bounded_pages import MOST_LOOKED_AT, BoundedPage, page_of, walk
from outlast_store.database.sql_text import Values, fetch, marks, select
from outlast_store.schema import tables
from outlast_store.schema.rows import AlertRow, AlertTimerRow

_ARMED: Final = select(tables.alert_timers, "run_id = ? ORDER BY due_at, activity_id, kind, mark LIMIT ?")
# What a chain has once was perhaps fired in an earlier run.
_OF_RUN: Final = select(
    tables.alerts,
    f"run_id = ? OR (scope = ? AND activity_id = ? AND kind IN ({marks([*OF_CHAINS])})) ORDER BY alert_id DESC LIMIT ?",
)
FIND_ALERT: Final = select(tables.alerts, "alert_id = ?")
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


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """Which alerts a page shows.

    Attributes:
        workflow_id: Only those of this workflow.
        workflow_type: Only those of workflows of this type.
        kind: Only those of this kind.
        acknowledged: Only those that somebody has acknowledged, or (``False``) nobody.
    """

    workflow_id: str | None = None
    workflow_type: str | None = None
    kind: str | None = None
    acknowledged: bool | None = None

    @property
    def indexed(self) -> dict[str, Values]:
        """The condition that an index serves, with its values: each row that is read meets it."""
        if self.workflow_id is not None:
            return {"workflow_id = ?": (self.workflow_id,)}
        return {"acknowledged_at IS NULL": ()} if self.acknowledged is False else {}

    def takes(self, row: AlertRow) -> bool:
        """Return whether an alert is shown."""
        return (
            (self.workflow_type is None or row.workflow_type == self.workflow_type)
            and (self.kind is None or row.kind == self.kind)
            and (self.acknowledged is None or (row.acknowledged_at is not None) == self.acknowledged)
        )


def read_page(
    connection: Connection, wanted: AlertFilter, before: str | None, limit: int
) -> BoundedPage[AlertRow]:
    """Return a page of alerts, the newest first.

    Args:
        connection: Where to read.
        wanted: Which alerts.
        before: The id of the alert to continue after; ``None`` for the first page.
        limit: Rows at most.
    """

    def read(last: AlertRow | None, size: int) -> list[AlertRow]:
        conditions = wanted.indexed
        place = before if last is None else last.alert_id
        if place is not None:
            conditions["alert_id < ?"] = (place,)
        text = select(tables.alerts, f"{' AND '.join(conditions) or '1 = 1'} ORDER BY alert_id DESC LIMIT ?")
        values = [value for given in conditions.values() for value in given]
        return [AlertRow(*row) for row in fetch(connection, text, (*values, size))]

    return page_of(walk(read, limit), wanted.takes, limit)


def count_unacknowledged(connection: Connection) -> int:
    """Return how many alerts nobody has acknowledged, counted up to ten thousand."""
    text = "SELECT count(*) FROM (SELECT 1 FROM alerts WHERE acknowledged_at IS NULL LIMIT ?) AS unseen"
    count: int = fetch(connection, text, (MOST_LOOKED_AT,))[0][0]
    return count


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
    connection: Connection, wanted: AlertFilter, before: str | None, limit: int
) -> tuple[BoundedPage[AlertRow], dict[str, DeliveryState]]:
    """Return what :func:`read_page` does, and how far the deliveries of these alerts are.

    Args:
        connection: Where to read.
        wanted: Which alerts.
        before: The id of the alert to continue after.
        limit: Rows at most.
    """
    page = read_page(connection, wanted, before, limit)
    return page, read_deliveries(connection, page.found)


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
