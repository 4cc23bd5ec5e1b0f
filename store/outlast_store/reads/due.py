"""Reads of what is due: index range reads over open rows, ordered by deadline, in bounded pages.

Each reads one partial index from its low end, so its cost follows what is due and not what is open. A page begins after
a position, ``(deadline, key)``; :data:`BEGINNING` as the deadline is before everything. Instants are microseconds since
the epoch.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection

from outlast_store.database.sql_text import Values, fetch
from outlast_store.reads.outbox import KEPT_FOR_US

BEGINNING: Final = -1
"""Before every instant."""
MOST_COUNTED: Final = 10_000
CLOCKS_DIFFER_BY_US: Final = 1_000_000
"""By how much the clocks of two processes may differ without a clock having been set."""
EXPIRED_FOR_US: Final = 60_000_000
"""How long rows that have expired are left, because the clocks of processes differ."""


class Expired(NamedTuple):
    """Which kinds of rows have expired, most of them a minute ago: nobody waits for them any more.

    Attributes:
        queries: Queries of other processes.
        rate_logs: Rate logs of partitions.
        refusals: Rows of the outbox that were refused a week ago.
        debounces: Keys of debounced starts.
    """

    queries: bool
    rate_logs: bool
    refusals: bool
    debounces: bool


# Distinct ids by leaps through the index, one seek each: the cost follows the number of workers, not of rows.
LOST_OWNERS = """
    WITH RECURSIVE holders (id) AS (
        SELECT MIN(owner_id) FROM workflow_runs WHERE owner_id IS NOT NULL
        UNION ALL
        SELECT (SELECT MIN(owner_id) FROM workflow_runs WHERE owner_id > holders.id)
        FROM holders WHERE holders.id IS NOT NULL
    )
    SELECT id FROM holders
    WHERE id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers WHERE worker_id = id)"""

LOST_CLAIMERS = """
    WITH RECURSIVE holders (id) AS (
        SELECT MIN(claimed_by) FROM activity_executions WHERE status = 'running' AND claimed_by IS NOT NULL
        UNION ALL
        SELECT (SELECT MIN(claimed_by) FROM activity_executions WHERE status = 'running' AND claimed_by > holders.id)
        FROM holders WHERE holders.id IS NOT NULL
    )
    SELECT id FROM holders
    WHERE id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers WHERE worker_id = id)"""

LOW_ENDS = f"""
    SELECT
        (SELECT MIN(next_deadline_at) FROM workflow_runs WHERE next_deadline_at IS NOT NULL),
        (SELECT MIN(next_deadline_at) FROM activity_executions WHERE next_deadline_at IS NOT NULL),
        (SELECT MIN(fire_at) FROM timers),
        (SELECT MIN(next_look_at) FROM schedules WHERE next_look_at IS NOT NULL),
        (SELECT MIN(due_at) FROM alert_timers),
        (SELECT MIN(cascade_at) FROM workflow_runs WHERE cascade_at IS NOT NULL),
        (SELECT MIN(lease_expires_at) FROM workers),
        EXISTS (SELECT 1 FROM workers WHERE lease_expires_at - lease_duration > ?),
        EXISTS ({LOST_OWNERS}),
        EXISTS ({LOST_CLAIMERS}),
        EXISTS (SELECT 1 FROM workflow_requests WHERE expires_at <= ?),
        EXISTS (SELECT 1 FROM queue_partitions WHERE expires_at <= ?),
        EXISTS (SELECT 1 FROM outlast_outbox WHERE refused_at <= ?),
        EXISTS (SELECT 1 FROM debounces WHERE expires_at <= ?),
        EXISTS (SELECT 1 FROM outlast_outbox WHERE state = 'waiting')"""

NEXT_DEADLINES = """
    SELECT
        (SELECT MIN(next_deadline_at) FROM workflow_runs WHERE next_deadline_at > ?),
        (SELECT MIN(next_deadline_at) FROM activity_executions WHERE next_deadline_at > ?),
        (SELECT MIN(fire_at) FROM timers WHERE fire_at > ?),
        (SELECT MIN(due_at) FROM alert_timers WHERE due_at > ?),
        (SELECT MIN(next_look_at) FROM schedules WHERE next_look_at > ?)"""

DUE_RUNS = """
    SELECT next_deadline_at, run_id, workflow_id, retry_policy IS NOT NULL FROM workflow_runs
    WHERE next_deadline_at <= ? AND next_deadline_at >= ? AND (next_deadline_at, run_id) > (?, ?)
    ORDER BY next_deadline_at, run_id LIMIT ?"""

DUE_ACTIVITIES = """
    SELECT next_deadline_at, run_id, activity_id FROM activity_executions
    WHERE next_deadline_at <= ? AND next_deadline_at >= ? AND (next_deadline_at, run_id, activity_id) > (?, ?, ?)
    ORDER BY next_deadline_at, run_id, activity_id LIMIT ?"""

DUE_TIMERS = """
    SELECT fire_at, run_id, timer_id FROM timers
    WHERE fire_at <= ? AND fire_at >= ? AND (fire_at, run_id, timer_id) > (?, ?, ?)
    ORDER BY fire_at, run_id, timer_id LIMIT ?"""

DUE_ALERTS = """
    SELECT due_at, run_id, activity_id, kind, mark FROM alert_timers
    WHERE due_at <= ? AND due_at >= ? AND (due_at, run_id, activity_id, kind, mark) > (?, ?, ?, ?, ?)
    ORDER BY due_at, run_id, activity_id, kind, mark LIMIT ?"""

DUE_CLOSE_POLICIES = """
    SELECT cascade_at, run_id FROM workflow_runs
    WHERE cascade_at <= ? AND cascade_at >= ? AND (cascade_at, run_id) > (?, ?)
    ORDER BY cascade_at, run_id LIMIT ?"""

OVERDUE_LEASES = """
    SELECT lease_expires_at, worker_id FROM workers
    WHERE lease_expires_at <= ? AND lease_expires_at >= ? AND (lease_expires_at, worker_id) > (?, ?)
    ORDER BY lease_expires_at, worker_id LIMIT ?"""

LEASES_AHEAD = """
    SELECT worker_id, lease_expires_at, lease_duration FROM workers
    WHERE lease_expires_at - lease_duration > ? ORDER BY worker_id"""

AWAKE_RUNS_OF = """
    SELECT run_id FROM workflow_runs WHERE owner_id = ? AND wake_at IS NOT NULL ORDER BY wake_at LIMIT ?"""

IDLE_RUNS_OF = "SELECT run_id FROM workflow_runs WHERE owner_id = ? AND wake_at IS NULL LIMIT ?"

ACTIVITIES_OF = """
    SELECT run_id, activity_id FROM activity_executions
    WHERE status = 'running' AND claimed_by = ? AND (run_id, activity_id) > (?, ?)
    ORDER BY run_id, activity_id LIMIT ?"""

DUE = {
    "runs": "SELECT 1 FROM workflow_runs WHERE next_deadline_at <= ? LIMIT ?",
    "activities": "SELECT 1 FROM activity_executions WHERE next_deadline_at <= ? LIMIT ?",
    "timers": "SELECT 1 FROM timers WHERE fire_at <= ? LIMIT ?",
    "schedules": "SELECT 1 FROM schedules WHERE next_look_at <= ? LIMIT ?",
    "alerts": "SELECT 1 FROM alert_timers WHERE due_at <= ? LIMIT ?",
    "cascades": "SELECT 1 FROM workflow_runs WHERE cascade_at <= ? LIMIT ?",
    "workers": "SELECT 1 FROM workers WHERE lease_expires_at <= ? LIMIT ?",
    # All of it is due.
    "outbox": "SELECT 1 FROM outlast_outbox WHERE state = 'waiting' AND ? IS NOT NULL LIMIT ?",
}

OPEN = {
    "runs": "SELECT 1 FROM workflow_runs WHERE next_deadline_at IS NOT NULL LIMIT ?",
    "activities": "SELECT 1 FROM activity_executions WHERE next_deadline_at IS NOT NULL LIMIT ?",
    "timers": "SELECT 1 FROM timers LIMIT ?",
    "schedules": "SELECT 1 FROM schedules WHERE next_look_at IS NOT NULL LIMIT ?",
    "alerts": "SELECT 1 FROM alert_timers LIMIT ?",
}


def read_low_ends(connection: Connection, now: int) -> Values:
    """Return the earliest instant of each kind, ``None`` where there is none, and what else there is to do.

    In order: run deadlines, activity deadlines, timers, schedules, alerts, close policies, leases, whether a lease
    ends further ahead than it lasts, lost owners, lost claimers, the fields of :class:`Expired`, whether
    anything waits in the outbox.
    """
    expired = now - EXPIRED_FOR_US
    values = (now + CLOCKS_DIFFER_BY_US, expired, expired, now - KEPT_FOR_US, expired)
    return fetch(connection, LOW_ENDS, values)[0]


def read_next_deadlines(connection: Connection, after: int) -> Values:
    """Return the earliest run deadline, activity deadline, timer, alert and look at a schedule after an instant."""
    return fetch(connection, NEXT_DEADLINES, (after,) * 5)[0]


def read_due_runs(connection: Connection, until: int, position: tuple[int, str], limit: int) -> list[Values]:
    """Return ``(deadline, run_id, workflow_id, has a retry policy)`` of runs whose deadline has passed.

    Args:
        connection: Where to read.
        until: Deadlines up to this instant.
        position: Where the page begins: after this deadline and run id.
        limit: Rows at most.
    """
    return fetch(connection, DUE_RUNS, (until, position[0], *position, limit))


def read_due_activities(
    connection: Connection, until: int, position: tuple[int, str, int], limit: int
) -> list[Values]:
    """Return ``(deadline, run_id, activity_id)`` of activities one of whose deadlines has passed.

    Args:
        connection: Where to read.
        until: Deadlines up to this instant.
        position: Where the page begins: after this deadline, run id and activity id.
        limit: Rows at most.
    """
    return fetch(connection, DUE_ACTIVITIES, (until, position[0], *position, limit))


def read_due_timers(
    connection: Connection, until: int, position: tuple[int, str, int], limit: int
) -> list[Values]:
    """Return ``(fire_at, run_id, timer_id)`` of timers that are due.

    Args:
        connection: Where to read.
        until: Timers that fire up to this instant.
        position: Where the page begins: after this instant, run id and timer id.
        limit: Rows at most.
    """
    return fetch(connection, DUE_TIMERS, (until, position[0], *position, limit))


def read_due_alerts(
    connection: Connection, until: int, position: tuple[int, str, int, str, str], limit: int
) -> list[Values]:
    """Return ``(due_at, run_id, activity_id, kind, mark)`` of alerts that are due.

    Args:
        connection: Where to read.
        until: Alerts that are due up to this instant.
        position: Where the page begins: after this instant, run id, activity id, kind and mark.
        limit: Rows at most.
    """
    return fetch(connection, DUE_ALERTS, (until, position[0], *position, limit))


def read_due_close_policies(
    connection: Connection, until: int, position: tuple[int, str], limit: int
) -> list[Values]:
    """Return ``(due_at, run_id)`` of ended runs whose parent close policy is still to be applied to their children.

    Args:
        connection: Where to read.
        until: Due up to this instant.
        position: Where the page begins: after this instant and run id.
        limit: Rows at most.
    """
    return fetch(connection, DUE_CLOSE_POLICIES, (until, position[0], *position, limit))


def read_overdue_leases(
    connection: Connection, until: int, position: tuple[int, str], limit: int
) -> list[Values]:
    """Return ``(lease_expires_at, worker_id)`` of workers whose lease is over.

    Args:
        connection: Where to read.
        until: Leases that end up to this instant.
        position: Where the page begins: after this instant and worker id.
        limit: Rows at most.
    """
    return fetch(connection, OVERDUE_LEASES, (until, position[0], *position, limit))


def read_leases_ahead(connection: Connection, now: int) -> list[Values]:
    """Return ``(worker_id, lease_expires_at, lease_duration)`` of leases that end further ahead than they last."""
    return fetch(connection, LEASES_AHEAD, (now + CLOCKS_DIFFER_BY_US,))


def list_lost_owners(connection: Connection) -> list[str]:
    """Return the workers that own runs and are no longer registered."""
    return [row[0] for row in fetch(connection, LOST_OWNERS)]


def list_lost_claimers(connection: Connection) -> list[str]:
    """Return the workers that run activities and are no longer registered."""
    return [row[0] for row in fetch(connection, LOST_CLAIMERS)]


def list_awake_runs(connection: Connection, owner_id: str, limit: int) -> list[str]:
    """Return some of an owner's runs that have something to do, the longest awake first."""
    return [row[0] for row in fetch(connection, AWAKE_RUNS_OF, (owner_id, limit))]


def list_idle_runs(connection: Connection, owner_id: str, limit: int) -> list[str]:
    """Return some of an owner's runs that wait for something."""
    return [row[0] for row in fetch(connection, IDLE_RUNS_OF, (owner_id, limit))]


def read_running_activities(
    connection: Connection, worker_id: str, after: tuple[str, int], limit: int
) -> list[Values]:
    """Return ``(run_id, activity_id)`` of the activities that a worker is running, by key.

    Args:
        connection: Where to read.
        worker_id: Who claimed them.
        after: Where the page begins: after this run id and activity id.
        limit: Rows at most.
    """
    return fetch(connection, ACTIVITIES_OF, (worker_id, *after, limit))


def count_due(connection: Connection, kind: str, now: int) -> int:
    """Return how much of a kind (a key of :data:`DUE`) is due, counted up to ten thousand."""
    text = f"SELECT COUNT(*) FROM ({DUE[kind]}) AS due"
    count: int = fetch(connection, text, (now, MOST_COUNTED))[0][0]
    return count


def count_open(connection: Connection) -> dict[str, int]:
    """Return how many deadlines and timers lie ahead, by what they are of, each counted up to ten thousand."""
    found: dict[str, int] = {}
    for of, text in OPEN.items():
        found[of] = fetch(connection, f"SELECT COUNT(*) FROM ({text}) AS ahead", (MOST_COUNTED,))[0][0]
    return found
