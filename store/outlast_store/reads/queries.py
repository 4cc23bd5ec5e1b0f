"""The reads: one function a question, on a connection that is handed in.

They run outside the journal, each statement its own snapshot. Whoever decides something from an answer hands the
journal a change that looks again under the lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table

from outlast_store.database.statements import columns_of
from outlast_store.schema import tables
from outlast_store.schema.rows import LOCAL, ActivityRow, FailureRow, InstanceRow, RunRow, WorkerRow
from outlast_workflow.errors import RunNotFoundError

Values = tuple[Any, ...]


def fetch(connection: Connection, text: str, values: Values = ()) -> list[Values]:
    """The rows of a statement written with ``?`` marks."""
    if connection.dialect.paramstyle != "qmark":
        text = text.replace("?", "%s")
    return [tuple(row) for row in connection.exec_driver_sql(text, values)]


def marks(values: Sequence[Any]) -> str:
    """``?, ?, ?`` — as many as there are values."""
    return ", ".join("?" * len(values))


def _select(table: Table, where: str) -> str:
    return f"SELECT {', '.join(columns_of(table))} FROM {table.name} WHERE {where}"


# --- runs -----------------------------------------------------------------------------------------------------------


def instance(connection: Connection, workflow_id: str) -> InstanceRow | None:
    """The instance of a workflow id."""
    rows = fetch(connection, _select(tables.workflow_instances, "workflow_id = ?"), (workflow_id,))
    return InstanceRow(*rows[0]) if rows else None


def known_workflows(connection: Connection, workflow_ids: Sequence[str]) -> list[str]:
    """Those of the workflow ids that have been started; at most a few hundred."""
    text = f"SELECT workflow_id FROM workflow_instances WHERE workflow_id IN ({marks(workflow_ids)})"
    return [row[0] for row in fetch(connection, text, tuple(workflow_ids))]


def run(connection: Connection, run_id: str) -> RunRow | None:
    """One run."""
    rows = fetch(connection, _select(tables.workflow_runs, "run_id = ?"), (run_id,))
    return RunRow(*rows[0]) if rows else None


def runs(connection: Connection, run_ids: Sequence[str]) -> list[RunRow]:
    """Some runs, in no order; at most a few hundred."""
    if not run_ids:
        return []
    where = f"run_id IN ({marks(run_ids)})"
    return [RunRow(*row) for row in fetch(connection, _select(tables.workflow_runs, where), tuple(run_ids))]


def history(
    connection: Connection, run_id: str, after_seq: int = 0, limit: int | None = None
) -> list[Values]:
    """``(seq, type, payload)`` of a run's events after a seq, in order."""
    text = "SELECT seq, type, payload FROM history_events WHERE run_id = ? AND seq > ? ORDER BY seq"
    if limit is not None:
        return fetch(connection, f"{text} LIMIT ?", (run_id, after_seq, limit))
    return fetch(connection, text, (run_id, after_seq))


def histories(connection: Connection, run_ids: Sequence[str]) -> list[Values]:
    """``(run_id, seq, type, payload)`` of all events of some runs, each run's in order; at most a few hundred runs."""
    text = (
        "SELECT run_id, seq, type, payload FROM history_events "
        f"WHERE run_id IN ({marks(run_ids)}) ORDER BY run_id, seq"
    )
    return fetch(connection, text, tuple(run_ids))


def events(connection: Connection, run_id: str, after_seq: int, limit: int) -> list[Values]:
    """``(seq, type, recorded_at, payload)`` of a run's events after a seq, in order."""
    text = (
        "SELECT seq, type, recorded_at, payload FROM history_events "
        "WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?"
    )
    return fetch(connection, text, (run_id, after_seq, limit))


def event(connection: Connection, run_id: str, seq: int) -> tuple[str, str] | None:
    """``(type, payload)`` of one event."""
    rows = fetch(
        connection, "SELECT type, payload FROM history_events WHERE run_id = ? AND seq = ?", (run_id, seq)
    )
    return (rows[0][0], rows[0][1]) if rows else None


def terminal_event(connection: Connection, run_id: str) -> tuple[str, str] | None:
    """``(type, payload)`` of the event that ended a run; ``None`` while it is open.

    Raises:
        RunNotFoundError: there is no such run.
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


def ended_among(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Those of the runs that are closed, or deleted."""
    text = f"SELECT run_id FROM workflow_runs WHERE run_id IN ({marks(run_ids)}) AND closed_at IS NULL"
    still_open = {row[0] for row in fetch(connection, text, tuple(run_ids))}
    return [run_id for run_id in run_ids if run_id not in still_open]


@dataclass(slots=True)
class Waiting:
    """What waits for a worker, as one look finds it."""

    claimable: bool = False
    """A run that it could claim."""
    awake: list[str] = field(default_factory=list)
    """Its own runs that have something to do."""
    neglected: list[str] = field(default_factory=list)
    """Runs that somebody else owns and leaves waiting."""
    asked: bool = False
    """A query that another process asks, of whatever run."""
    next_activity: int | None = None
    """When the next activity that it could claim becomes (or became) available."""
    next_local: int | None = None
    """When the next local one does, of its runs or of nobody's."""


def look(
    connection: Connection,
    worker_id: str,
    queues: Sequence[str],
    types: Sequence[str],
    activities: Sequence[str],
    now: int,
    neglected_before: int | None,
) -> Waiting:
    """What waits for a worker: one statement, for an idle worker asks again and again."""
    awake = "SELECT 'awake' AS kind, run_id, 0 AS at FROM workflow_runs WHERE owner_id = ?"
    parts = [f"{awake} AND wake_at <= ? AND not_before <= ? LIMIT 1000"]
    values: list[Any] = [worker_id, now, now]
    ours = f"task_queue IN ({marks(queues)}) AND workflow_type IN ({marks(types)})"
    if types:
        parts.append(
            "SELECT 'claimable', run_id, 0 FROM workflow_runs "
            f"WHERE owner_id IS NULL AND wake_at <= ? AND not_before <= ? AND {ours} LIMIT 1"
        )
        values += (now, now, *queues, *types)
        parts.append(
            "SELECT 'asked', '', 0 FROM workflow_requests WHERE expires_at > ? AND state = 'open' LIMIT 1"
        )
        values.append(now)
    if types and neglected_before is not None:
        parts.append(
            "SELECT 'neglected', run_id, 0 FROM workers w CROSS JOIN workflow_runs r WHERE r.owner_id = w.worker_id "
            f"AND r.wake_at <= ? AND r.not_before <= ? AND {ours} LIMIT 100"
        )
        values += (neglected_before, neglected_before, *queues, *types)
    if activities:
        parts.append(
            "SELECT 'activity', '', MIN(available_at) FROM activity_executions WHERE status = 'pending' "
            f"AND task_queue IN ({marks(queues)}) AND activity_type IN ({marks(activities)}) AND {_IN_TIME}"
        )
        values += (*queues, *activities, now)
    if types and activities:
        part, more = _next_local(worker_id, queues, types, activities, now)
        parts.append(f"SELECT 'local', '', {part}")
        values += more
    text = " UNION ALL ".join(f"SELECT * FROM ({part}) AS part{place}" for place, part in enumerate(parts))
    waiting = Waiting()
    for kind, run_id, at in fetch(connection, text, tuple(values)):
        if kind == "awake":
            waiting.awake.append(run_id)
        elif kind == "neglected":
            waiting.neglected.append(run_id)
        elif kind == "claimable":
            waiting.claimable = True
        elif kind == "asked":
            waiting.asked = True
        elif kind == "local":
            waiting.next_local = at
        else:
            waiting.next_activity = at
    return waiting


def next_claimable(connection: Connection, queues: Sequence[str], types: Sequence[str]) -> int | None:
    """When the next unowned run of these queues and types has something to do (or had)."""
    if not types:
        return None
    text = (
        "SELECT MIN(CASE WHEN not_before > wake_at THEN not_before ELSE wake_at END) FROM workflow_runs "
        f"WHERE owner_id IS NULL AND wake_at IS NOT NULL AND task_queue IN ({marks(queues)}) "
        f"AND workflow_type IN ({marks(types)})"
    )
    found: int | None = fetch(connection, text, (*queues, *types))[0][0]
    return found


# --- activities and timers ------------------------------------------------------------------------------------------


_IN_TIME = "(next_deadline_at IS NULL OR next_deadline_at > ?)"
"""Whose time is over is the watchdog's: no claim takes it, so waiting for it is to claim for nothing, at once again."""


def next_activity(
    connection: Connection, queues: Sequence[str], types: Sequence[str], now: int
) -> int | None:
    """When the next waiting activity of these queues and types becomes (or became) available."""
    if not types:
        return None
    text = (
        f"SELECT MIN(available_at) FROM activity_executions WHERE status = 'pending' "
        f"AND task_queue IN ({marks(queues)}) AND activity_type IN ({marks(types)}) AND {_IN_TIME}"
    )
    found: int | None = fetch(connection, text, (*queues, *types, now))[0][0]
    return found


def next_local_activity(
    connection: Connection,
    owner_id: str,
    queues: Sequence[str],
    workflow_types: Sequence[str],
    types: Sequence[str],
    now: int,
) -> int | None:
    """When the next waiting local activity becomes available that an owner may run: of its runs, and of nobody's."""
    if not workflow_types or not types:
        return None
    part, values = _next_local(owner_id, queues, workflow_types, types, now)
    found: int | None = fetch(connection, f"SELECT {part}", tuple(values))[0][0]
    return found


def _next_local(
    owner_id: str, queues: Sequence[str], workflow_types: Sequence[str], types: Sequence[str], now: int
) -> tuple[str, list[Any]]:
    local = [LOCAL + queue for queue in queues]
    text = (
        "MIN(a.available_at) FROM activity_executions a JOIN workflow_runs r ON r.run_id = a.run_id "
        f"WHERE a.status = 'pending' AND a.task_queue IN ({marks(local)}) AND a.activity_type IN ({marks(types)}) "
        f"AND (r.owner_id = ? OR (r.owner_id IS NULL AND r.workflow_type IN ({marks(workflow_types)}))) "
        "AND (a.next_deadline_at IS NULL OR a.next_deadline_at > ?)"
    )
    return text, [*local, *types, owner_id, *workflow_types, now]


def open_activities(connection: Connection, run_id: str) -> list[ActivityRow]:
    """The run's open activities, in the order in which they were scheduled."""
    where = "run_id = ? AND closed_at IS NULL ORDER BY activity_id"
    return [
        ActivityRow(*row) for row in fetch(connection, _select(tables.activity_executions, where), (run_id,))
    ]


def open_timers(connection: Connection, run_id: str) -> list[tuple[int, int]]:
    """``(timer_id, fire_at)`` of the run's open timers."""
    text = "SELECT timer_id, fire_at FROM timers WHERE run_id = ? ORDER BY fire_at, timer_id"
    return [(row[0], row[1]) for row in fetch(connection, text, (run_id,))]


def failures(connection: Connection, run_id: str, limit: int) -> list[FailureRow]:
    """The run's failures, the latest first."""
    where = "run_id = ? ORDER BY failure_id DESC LIMIT ?"
    return [
        FailureRow(*row)
        for row in fetch(connection, _select(tables.workflow_failures, where), (run_id, limit))
    ]


# --- workers --------------------------------------------------------------------------------------------------------


def workers(connection: Connection) -> list[WorkerRow]:
    """All registered workers."""
    return [WorkerRow(*row) for row in fetch(connection, _select(tables.workers, "1 = 1 ORDER BY worker_id"))]


def renew_lease(connection: Connection, worker_id: str, expires_at: int) -> bool:
    """Extend a worker's lease; ``False`` where it was declared dead. The one write outside the journal's batches."""
    text = "UPDATE workers SET lease_expires_at = ? WHERE worker_id = ?"
    if connection.dialect.paramstyle != "qmark":
        text = text.replace("?", "%s")
    return connection.exec_driver_sql(text, (expires_at, worker_id)).rowcount == 1
