"""Reads of workflow ids and runs, with what hangs on a run: its open timers and its failures.

Each function is one statement on a connection that the caller provides, and each statement sees its own snapshot. A
caller that acts on an answer hands the journal a change, which checks again under the row's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch, marks, select
from outlast_store.schema import tables
from outlast_store.schema.rows import FailureRow, InstanceRow, RunRow


def find_instance(connection: Connection, workflow_id: str) -> InstanceRow | None:
    """Return the instance of a workflow id."""
    rows = fetch(connection, select(tables.workflow_instances, "workflow_id = ?"), (workflow_id,))
    return InstanceRow(*rows[0]) if rows else None


def find_known_workflows(connection: Connection, workflow_ids: Sequence[str]) -> list[str]:
    """Return those of the workflow ids (a few hundred at most) that have been started."""
    text = f"SELECT workflow_id FROM workflow_instances WHERE workflow_id IN ({marks(workflow_ids)})"
    return [row[0] for row in fetch(connection, text, tuple(workflow_ids))]


def find_current_runs(connection: Connection, workflow_ids: Sequence[str]) -> dict[str, str]:
    """Return the ids of the current runs of workflows (a thousand at most), without those that were never started."""
    text = (
        "SELECT workflow_id, current_run_id FROM workflow_instances "
        f"WHERE workflow_id IN ({marks(workflow_ids)})"
    )
    return {row[0]: row[1] for row in fetch(connection, text, tuple(workflow_ids))}


class Closing(NamedTuple):
    """How a run was closed."""

    run_id: str
    status: str
    next_run_id: str | None
    closed_at: int


def find_closings(connection: Connection, run_ids: Sequence[str]) -> list[Closing]:
    """Return those of the runs (a few hundred at most) that are closed."""
    text = (
        "SELECT run_id, status, next_run_id, closed_at FROM workflow_runs "
        f"WHERE run_id IN ({marks(run_ids)}) AND closed_at IS NOT NULL"
    )
    return [Closing(*row) for row in fetch(connection, text, tuple(run_ids))]


def find_run(connection: Connection, run_id: str) -> RunRow | None:
    """Return one run."""
    rows = fetch(connection, select(tables.workflow_runs, "run_id = ?"), (run_id,))
    return RunRow(*rows[0]) if rows else None


def find_runs(connection: Connection, run_ids: Sequence[str]) -> list[RunRow]:
    """Return some runs (a few hundred at most), in no order."""
    if not run_ids:
        return []
    where = f"run_id IN ({marks(run_ids)})"
    return [RunRow(*row) for row in fetch(connection, select(tables.workflow_runs, where), tuple(run_ids))]


def find_chain_end(connection: Connection, workflow_id: str, first_run_id: str) -> RunRow | None:
    """Return the last run of a chain; ``None`` if the chain was deleted.

    Args:
        connection: Where to read.
        workflow_id: The chain's workflow id, which may have gone to another chain since.
        first_run_id: The first run of the chain.
    """
    instance = find_instance(connection, workflow_id)
    current = find_run(connection, instance.current_run_id) if instance is not None else None
    if current is not None and current.first_run_id == first_run_id:
        return current
    where = "workflow_id = ? AND first_run_id = ? AND next_run_id IS NULL"
    rows = fetch(connection, select(tables.workflow_runs, where), (workflow_id, first_run_id))
    return RunRow(*rows[0]) if rows else None


def find_ended_runs(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return those of the runs that are closed or deleted."""
    text = f"SELECT run_id FROM workflow_runs WHERE run_id IN ({marks(run_ids)}) AND closed_at IS NULL"
    still_open = {row[0] for row in fetch(connection, text, tuple(run_ids))}
    return [run_id for run_id in run_ids if run_id not in still_open]


def find_open_timers(connection: Connection, run_id: str) -> list[tuple[int, int, str | None]]:
    """Return ``(timer_id, fire_at, summary)`` of the run's open timers, the next to fire first."""
    text = "SELECT timer_id, fire_at, summary FROM timers WHERE run_id = ? ORDER BY fire_at, timer_id"
    return [(row[0], row[1], row[2]) for row in fetch(connection, text, (run_id,))]


def find_failures(connection: Connection, run_id: str, limit: int) -> list[FailureRow]:
    """Return the run's failures, the latest first."""
    text = select(tables.workflow_failures, "run_id = ? ORDER BY failure_id DESC LIMIT ?")
    return [FailureRow(*row) for row in fetch(connection, text, (run_id, limit))]


def find_last_event_at(connection: Connection) -> int | None:
    """Return when the last event of any run was recorded, in microseconds; this reads all runs."""
    found: int | None = fetch(connection, "SELECT MAX(last_event_at) FROM workflow_runs")[0][0]
    return found
