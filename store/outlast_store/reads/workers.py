"""Reads of workers: who is registered, and what waits for one of them. The renewal of a lease is here as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from outlast_store.database.sql_text import execute, fetch, marks, of_types, select
from outlast_store.reads.activities import AttemptKey, next_available, next_local_available, wanted
from outlast_store.reads.task_queues import types_waiting
from outlast_store.schema import tables
from outlast_store.schema.rows import WorkerRow

MOST_AWAKE = 1000
ALL_WORKERS: Final = select(tables.workers, "1 = 1 ORDER BY worker_id")
"""The statement that reads all registered workers."""
MOST_NEGLECTED = 100


def list_workers(connection: Connection) -> list[WorkerRow]:
    """Return all registered workers."""
    return [WorkerRow(*row) for row in fetch(connection, ALL_WORKERS)]


def renew_lease(connection: Connection, worker_id: str, expires_at: int) -> bool:
    """Extend a worker's lease; return ``False`` if the worker was declared dead.

    This is written outside the journal's batches, so that a journal that is stuck costs no lease.
    """
    text = "UPDATE workers SET lease_expires_at = ? WHERE worker_id = ?"
    return execute(connection, text, (expires_at, worker_id)) == 1


def end_leases(connection: Connection, *, ending_after: int, now: int) -> None:
    """End the leases that would end after an instant; both instants are microseconds since the epoch.

    Args:
        connection: Where to write.
        ending_after: The instant.
        now: When they end instead.
    """
    execute(
        connection, "UPDATE workers SET lease_expires_at = ? WHERE lease_expires_at > ?", (now, ending_after)
    )


@dataclass(slots=True)
class WaitingWork:
    """What waits for a worker, as one poll finds it. Instants are microseconds since the epoch."""

    claimable: bool = False
    """Whether there is a run that it could claim."""
    awake: list[str] = field(default_factory=list)
    """Its own runs that have something to do."""
    neglected: list[str] = field(default_factory=list)
    """Runs that another worker owns and leaves waiting."""
    asked: bool = False
    """Whether another process has an open query request, for any run."""
    next_activity: int | None = None
    """When the next activity that it could claim becomes (or became) available."""
    queues: dict[str, bool] = field(default_factory=dict)
    """The queues that may have something to admit, and whether activities stand in their lines."""
    next_local: int | None = None
    """When the next local one does, of its own runs or of runs without an owner."""
    wanted: int = 0
    """How many of the attempts that it runs are to go on."""


# Unfiltered, so that each is one seek: the admission looks at what this worker serves.
_QUEUES: Final = (
    "SELECT 'queue', q.queue, CASE WHEN EXISTS (SELECT 1 FROM activity_executions a "
    "WHERE a.queue = q.queue AND a.status = 'pending') THEN 1 ELSE 0 END "
    "FROM queues q WHERE (q.paused_at IS NULL AND (EXISTS "
    "(SELECT 1 FROM workflow_runs r WHERE r.queue = q.queue AND r.queued_at IS NOT NULL) OR EXISTS "
    "(SELECT 1 FROM activity_executions a WHERE a.queue = q.queue AND a.status = 'pending'))) OR EXISTS "
    "(SELECT 1 FROM workflow_runs r WHERE r.slot_queue = q.queue AND r.owner_id IS NULL AND r.wake_at <= ?)"
)


def poll_work(
    connection: Connection,
    worker_id: str,
    queues: Sequence[str],
    types: Sequence[str],
    activities: Sequence[str],
    now: int,
    neglected_before: int | None,
    attempts: Sequence[AttemptKey] = (),
) -> WaitingWork:
    """Return what waits for a worker. It is one statement, because an idle worker polls again and again.

    Args:
        connection: Where to read.
        worker_id: Who polls.
        queues: The task queues that it polls.
        types: The workflow types that it runs.
        activities: The activity types that it runs.
        now: Microseconds since the epoch.
        neglected_before: Runs of other workers that have waited since before this instant are neglected; ``None``
            looks for none.
        attempts: The attempts that it runs, a thousand at most.
    """
    awake = "SELECT 'awake' AS kind, run_id, 0 AS at FROM workflow_runs WHERE owner_id = ?"
    parts = [f"{awake} AND wake_at <= ? AND not_before <= ? LIMIT {MOST_AWAKE}"]
    values: list[Any] = [worker_id, now, now]
    here = f"task_queue IN ({marks(queues)})"
    waiting_types = types_waiting(partial(fetch, connection), queues, types)
    if waiting_types:
        parts.append(
            "SELECT 'claimable', run_id, 0 FROM workflow_runs "
            "WHERE owner_id IS NULL AND slot_queue IS NULL AND wake_at <= ? AND not_before <= ? "
            f"AND {here} AND workflow_type IN ({marks(waiting_types)}) LIMIT 1"
        )
        values += (now, now, *queues, *waiting_types)
    if types:
        parts.append(
            "SELECT 'asked', '', 0 FROM workflow_requests WHERE expires_at > ? AND state = 'open' LIMIT 1"
        )
        values.append(now)
    if types or activities:
        parts.append(_QUEUES)
        values.append(now)
    if types and neglected_before is not None:
        ours, named = of_types("workflow_type", types)
        # With statistics, SQLite may otherwise read all open runs: as such, or into a Bloom filter for a join.
        owned = "workflow_runs" + (" INDEXED BY ix_runs_owned" if connection.dialect.name == "sqlite" else "")
        parts.append(
            f"SELECT 'neglected', run_id, 0 FROM {owned} WHERE owner_id IN (SELECT worker_id FROM workers) "
            f"AND wake_at <= ? AND not_before <= ? AND {here} AND {ours} LIMIT {MOST_NEGLECTED}"
        )
        values += (neglected_before, neglected_before, *queues, *named)
    if activities:
        part, more = next_available(queues, activities, now)
        parts.append(f"SELECT 'activity', '', {part}")
        values += more
    if types and activities:
        part, more = next_local_available(worker_id, queues, types, activities, now)
        parts.append(f"SELECT 'local', '', {part}")
        values += more
    if attempts:
        part, more = wanted(attempts)
        parts.append(f"SELECT 'wanted', '', {part}")
        values += more
    text = " UNION ALL ".join(f"SELECT * FROM ({part}) AS part{place}" for place, part in enumerate(parts))
    waiting = WaitingWork()
    for kind, run_id, at in fetch(connection, text, tuple(values)):
        if kind == "awake":
            waiting.awake.append(run_id)
        elif kind == "neglected":
            waiting.neglected.append(run_id)
        elif kind == "claimable":
            waiting.claimable = True
        elif kind == "asked":
            waiting.asked = True
        elif kind == "wanted":
            waiting.wanted = at
        elif kind == "queue":
            waiting.queues[run_id] = bool(at)
        elif kind == "local":
            waiting.next_local = at
        else:
            waiting.next_activity = at
    return waiting


def next_claimable_at(connection: Connection, queues: Sequence[str], types: Sequence[str]) -> int | None:
    """Return when the next unowned run of these queues and types has (or had) something to do."""
    types = types_waiting(partial(fetch, connection), queues, types)
    if not types:
        return None
    text = (
        "SELECT MIN(CASE WHEN not_before > wake_at THEN not_before ELSE wake_at END) FROM workflow_runs "
        f"WHERE owner_id IS NULL AND slot_queue IS NULL AND wake_at IS NOT NULL AND task_queue IN ({marks(queues)}) "
        f"AND workflow_type IN ({marks(types)})"
    )
    found: int | None = fetch(connection, text, (*queues, *types))[0][0]
    return found
