"""The description of one run: everything that the database knows of it, read in one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sqlalchemy import Connection

from outlast_store.alerts.reads import DeliveryState, find_alerts, find_armed, read_deliveries
from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import columns_of, fetch, marks, select
from outlast_store.reads.activities import find_open_activities
from outlast_store.reads.attention import Need, needs_of
from outlast_store.reads.places import Place, why_waiting
from outlast_store.reads.queues import count_ahead
from outlast_store.reads.requests import Messages, find_unanswered_updates, read_messages
from outlast_store.reads.runs import find_failures, find_open_timers, find_run
from outlast_store.reads.serving import ACTIVITY, WORKFLOW, Polled
from outlast_store.reads.streams import find_streams
from outlast_store.reads.workers import list_workers
from outlast_store.schema import search_index, tables
from outlast_store.schema.rows import (
    ActivityRow,
    AlertRow,
    AlertTimerRow,
    FailureRow,
    RequestRow,
    RunRow,
    StreamRow,
    WorkerRow,
)
from outlast_workflow.options.search_attributes import FORK_ATTRIBUTE
from outlast_workflow.primitives.enums import ActivityStatus, RunStatus

_RUN_COLUMNS: Final = ", ".join(f"r.{name}" for name in columns_of(tables.workflow_runs))
MOST_UNSEEN: Final = 1000
"""How many of the signals that no workflow task has seen are counted at most."""
MOST_FORKS: Final = 20
"""How many of the forks of a workflow are named."""
MOST_STREAMS: Final = 100
"""How many of a chain's streams are read."""
MOST_ALERTS: Final = 100
"""How many alerts are read of those that lie ahead, and of those that were fired."""
MOST_LINES: Final = 20
"""How many lines are looked at that the activities of a run stand in."""


@dataclass(slots=True)
class OpenChild:
    """A child of a run that has not ended."""

    workflow_id: str
    run_id: str
    workflow_type: str
    status: str
    created_at: int
    summary: str | None
    progress: str | None


@dataclass(slots=True)
class StoredDescription:
    """A run and what belongs to it. ``run_count`` is how many runs its chain has so far."""

    run: RunRow
    run_count: int
    activities: list[ActivityRow]
    timers: list[tuple[int, int, str | None]]
    """Of each timer its id, when it fires, and its summary."""
    children: list[OpenChild]
    updates: list[RequestRow]
    messages: Messages
    failures: list[FailureRow]
    failure_events: dict[int, str]
    """The events that failures led to, as JSON text by seq."""
    workers: dict[str, WorkerRow]
    attention: list[Need]
    streams: list[StreamRow] = field(default_factory=list)
    ahead: int | None = None
    """How many of its partition stand before it in the line of its queue, if it stands there."""
    forks: list[str] = field(default_factory=list)
    """The workflow ids of the first forks of the workflow that there are still."""
    armed: list[AlertTimerRow] = field(default_factory=list)
    alerts: list[AlertRow] = field(default_factory=list)
    deliveries: dict[str, DeliveryState] = field(default_factory=dict)
    """Those that were fired, the newest first."""
    hold_ups: dict[Place, str | None] = field(default_factory=dict)
    """What holds up the run or its activities in the lines in which they stand."""

    def held_up(self, row: RunRow | ActivityRow) -> str | None:
        """Return what holds up the run, or one of its activities, in the line of its queue."""
        return self.hold_ups.get(_place(row))


def describe_run(
    connection: Connection,
    workflow_id: str,
    run_id: str | None,
    now: int,
    *,
    follow: bool,
    failures: int,
) -> StoredDescription | None:
    """Describe a workflow's current run, or a certain one.

    Args:
        connection: Where to read.
        workflow_id: Which workflow.
        run_id: Which run; ``None`` for the current one.
        now: Microseconds since the epoch.
        follow: Whether to describe the latest run of that run's chain instead, or the first from there that completed.
        failures: How many failures to read at most, the latest first.
    """
    with snapshot(connection):
        found = (
            _current(connection, workflow_id) if run_id is None else _certain(connection, workflow_id, run_id)
        )
        if found is None:
            return None
        run, run_count, current_run_id = found
        if run.run_id != current_run_id and run.next_run_id is not None:
            latest = _latest_of_chain(connection, run, current_run_id)
            run_count = latest.run_number
            if follow and run.status != RunStatus.COMPLETED:
                run = _first_completed(connection, run) or latest
        elif run.run_id != current_run_id:
            run_count = run.run_number
        everyone = list_workers(connection)
        is_open, run_id = run.is_open, run.run_id
        polled = Polled.of(everyone, now)
        attention = needs_of(connection, [run_id] if is_open else [], now, polled)
        recorded = find_failures(connection, run_id, failures)
        activities = find_open_activities(connection, run_id) if is_open else []
        alerts = find_alerts(connection, run_id, run.first_run_id, MOST_ALERTS)
        return StoredDescription(
            run=run,
            run_count=run_count,
            activities=activities,
            # Timer 0 is the start delay of a queued run.
            timers=[one for one in find_open_timers(connection, run_id) if one[0]] if is_open else [],
            # A closed run may have some as well, because its close policy is applied in steps.
            children=_open_children(connection, run_id),
            updates=find_unanswered_updates(connection, run_id) if is_open else [],
            messages=read_messages(connection, run_id, MOST_UNSEEN) if is_open else Messages(),
            failures=recorded,
            failure_events=_events(connection, run_id, [row.event_seq for row in recorded]),
            workers={worker.worker_id: worker for worker in everyone},
            attention=attention.get(run_id, []),
            streams=find_streams(connection, run.first_run_id, MOST_STREAMS),
            ahead=count_ahead(connection, run) if run.queued_at is not None else None,
            forks=find_forks(connection, workflow_id, MOST_FORKS),
            armed=find_armed(connection, run_id, MOST_ALERTS) if is_open else [],
            alerts=alerts,
            deliveries=read_deliveries(connection, alerts),
            hold_ups=_hold_ups(connection, run, activities, polled, now),
        )


def find_forks(connection: Connection, workflow_id: str, limit: int) -> list[str]:
    """Return the workflow ids of the forks of a workflow, the oldest first.

    Args:
        connection: Where to read.
        workflow_id: The original.
        limit: How many to return at most.
    """
    text = (
        "SELECT r.workflow_id FROM search_attributes a JOIN workflow_runs r ON r.run_id = a.run_id "
        "WHERE a.name = ? AND a.value = ? AND r.next_run_id IS NULL ORDER BY a.run_id LIMIT ?"
    )
    rows = fetch(connection, text, (FORK_ATTRIBUTE, search_index.sortable(workflow_id), limit))
    return list(dict.fromkeys(row[0] for row in rows))


def _hold_ups(
    connection: Connection, run: RunRow, activities: Sequence[ActivityRow], polled: Polled, now: int
) -> dict[Place, str | None]:
    places = {
        _place(row)
        for row in activities
        if row.queue is not None and row.status == ActivityStatus.PENDING and row.available_at <= now
    }
    if run.queue is not None and run.queued_at is not None:
        places.add(_place(run))
    scan = partial(fetch, connection)
    return {place: why_waiting(scan, place, polled, now) for place in sorted(places)[:MOST_LINES]}


def _place(row: RunRow | ActivityRow) -> Place:
    noun, type = (WORKFLOW, row.workflow_type) if isinstance(row, RunRow) else (ACTIVITY, row.activity_type)
    return Place(row.queue or "", row.partition_key or "", noun, type, row.task_queue)


def _events(connection: Connection, run_id: str, seqs: Sequence[int | None]) -> dict[int, str]:
    wanted = tuple(seq for seq in seqs if seq is not None)
    if not wanted:
        return {}
    text = f"SELECT seq, payload FROM history_events WHERE run_id = ? AND seq IN ({marks(wanted)})"
    return {row[0]: row[1] for row in fetch(connection, text, (run_id, *wanted))}


def _open_children(connection: Connection, run_id: str) -> list[OpenChild]:
    text = (
        "SELECT workflow_id, run_id, workflow_type, status, created_at, summary, progress FROM workflow_runs "
        "WHERE parent_run_id = ? AND closed_at IS NULL ORDER BY run_id"
    )
    return [OpenChild(*row) for row in fetch(connection, text, (run_id,))]


Found = tuple[RunRow, int, str]
"""A run, its instance's run count, and its instance's current run."""


def _current(connection: Connection, workflow_id: str) -> Found | None:
    text = (
        f"SELECT {_RUN_COLUMNS}, i.run_count, i.current_run_id FROM workflow_instances i "
        "JOIN workflow_runs r ON r.run_id = i.current_run_id WHERE i.workflow_id = ?"
    )
    rows = fetch(connection, text, (workflow_id,))
    return (RunRow(*rows[0][:-2]), rows[0][-2], rows[0][-1]) if rows else None


def _certain(connection: Connection, workflow_id: str, run_id: str) -> Found | None:
    text = (
        f"SELECT {_RUN_COLUMNS}, i.run_count, i.current_run_id FROM workflow_runs r "
        "JOIN workflow_instances i ON i.workflow_id = r.workflow_id WHERE r.run_id = ? AND r.workflow_id = ?"
    )
    rows = fetch(connection, text, (run_id, workflow_id))
    return (RunRow(*rows[0][:-2]), rows[0][-2], rows[0][-1]) if rows else None


def _latest_of_chain(connection: Connection, run: RunRow, current_run_id: str) -> RunRow:
    """Return the last run of a chain: the id's current one, unless a new chain has taken the id since."""
    current = find_run(connection, current_run_id)
    if current is not None and current.first_run_id == run.first_run_id:
        return current
    text = (
        "WITH RECURSIVE chain(run_id, next_run_id) AS ("
        "SELECT run_id, next_run_id FROM workflow_runs WHERE run_id = ? "
        "UNION ALL SELECT r.run_id, r.next_run_id FROM workflow_runs r JOIN chain c ON r.run_id = c.next_run_id"
        ") SELECT run_id FROM chain WHERE next_run_id IS NULL"
    )
    rows = fetch(connection, text, (run.run_id,))
    latest = find_run(connection, rows[0][0]) if rows else None
    return latest if latest is not None else run


def _first_completed(connection: Connection, run: RunRow) -> RunRow | None:
    """Return the first of a chain's runs after a run that completed: it has a next one only if it was reset since."""
    where = "first_run_id = ? AND run_number > ? AND status = 'completed' ORDER BY run_number LIMIT 1"
    rows = fetch(connection, select(tables.workflow_runs, where), (run.first_run_id, run.run_number))
    return RunRow(*rows[0]) if rows else None


@dataclass(slots=True)
class WorkerLoad:
    """A registered worker, and how many runs and activities it holds."""

    worker: WorkerRow
    runs: int
    activities: int


def list_worker_loads(connection: Connection) -> list[WorkerLoad]:
    """Return all registered workers, oldest first, with how much each holds."""
    with snapshot(connection):
        everyone = list_workers(connection)
        ids = tuple(worker.worker_id for worker in everyone)
        if not ids:
            return []
        owned = (
            f"SELECT owner_id, count(*) FROM workflow_runs WHERE owner_id IN ({marks(ids)}) GROUP BY owner_id"
        )
        claimed = (
            "SELECT claimed_by, count(*) FROM activity_executions "
            f"WHERE status = 'running' AND claimed_by IN ({marks(ids)}) GROUP BY claimed_by"
        )
        runs = {row[0]: row[1] for row in fetch(connection, owned, ids)}
        activities = {row[0]: row[1] for row in fetch(connection, claimed, ids)}
    return [
        WorkerLoad(worker, runs.get(worker.worker_id, 0), activities.get(worker.worker_id, 0))
        for worker in everyone
    ]
