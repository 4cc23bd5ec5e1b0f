"""Alerts that lie a year ahead, inserted directly: what passes look at when many workflows have marks."""

from __future__ import annotations

from benchmarks.harness.databases import opened
from benchmarks.harness.filling import CHUNK, Values, insert
from outlast_store.schema import tables
from outlast_store.schema.rows import AlertTimerRow
from outlast_workflow.environment import Environment

A_YEAR_US = 365 * 86_400 * 1_000_000
A_RUN = 10
"""How many marks a run has."""


def fill(url: str, number: int) -> None:
    """Add a number of armed marks; a look reads no other table where none is due."""
    environment = Environment()
    due = environment.clock.now() + A_YEAR_US
    rows: list[Values] = []
    with opened(url) as connection:
        for _ in range(number // A_RUN):
            run_id = environment.ids.next()
            for mark in range(A_RUN):
                row = AlertTimerRow(run_id, 0, "after", f"+{mark}s", 0, due + len(rows), None)
                rows.append(tuple(vars(row).values()))
            if len(rows) >= CHUNK:
                insert(connection, [(tables.alert_timers, rows)])
        insert(connection, [(tables.alert_timers, rows)])
        connection.exec_driver_sql("ANALYZE")


def armed(url: str) -> int:
    """Return how many marks are armed."""
    with opened(url) as connection:
        return int(connection.exec_driver_sql("SELECT COUNT(*) FROM alert_timers").scalar_one())
