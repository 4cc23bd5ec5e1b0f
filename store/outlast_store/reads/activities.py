"""Reads of activities: what a run has open, and what a worker could claim.

A claimable activity is pending, of a task queue and a type that the worker serves, and has time left. Rows past their
deadline are left to the watchdog. Claims skip them, so the look-ups of the next one must too, or a worker would claim
in a busy loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, product

from sqlalchemy import Connection

from outlast_store.database.sql_text import Values, columns_of, fetch, marks, of_types, select
from outlast_store.queues.contents import Scan
from outlast_store.reads.task_queues import ACTIVITIES, MOST_RANGES, PRIORITIES, split, types_among
from outlast_store.schema import tables
from outlast_store.schema.rows import LOCAL, ActivityRow

AttemptKey = tuple[str, int, int]
"""A run id, an activity id and an attempt."""


def _has_time(table: str = "") -> str:
    """Return the condition of activities whose deadlines all lie ahead; ``table`` is a prefix of its columns."""
    return f"({table}next_deadline_at IS NULL OR {table}next_deadline_at > ?)"


def find_open_activities(connection: Connection, run_id: str) -> list[ActivityRow]:
    """Return the run's open activities, in the order in which they were scheduled."""
    text = select(tables.activity_executions, "run_id = ? AND closed_at IS NULL ORDER BY activity_id")
    return [ActivityRow(*row) for row in fetch(connection, text, (run_id,))]


def find_activities(connection: Connection, run_id: str, activity_ids: Sequence[int]) -> list[ActivityRow]:
    """Return some activities of a run (a few hundred at most), open and closed."""
    where = f"run_id = ? AND activity_id IN ({marks(activity_ids)}) ORDER BY activity_id"
    text = select(tables.activity_executions, where)
    return [ActivityRow(*row) for row in fetch(connection, text, (run_id, *activity_ids))]


def find_attempt_status(connection: Connection, run_id: str, activity_id: int) -> tuple[str, int] | None:
    """Return an activity's status and attempt, once nobody else is writing its row; ``None`` if it was deleted.

    Args:
        connection: A connection that may lock.
        run_id: The run.
        activity_id: The activity.
    """
    lock = "" if connection.dialect.name == "sqlite" else " FOR UPDATE"
    text = f"SELECT status, attempt FROM activity_executions WHERE run_id = ? AND activity_id = ?{lock}"
    rows = fetch(connection, text, (run_id, activity_id))
    return (rows[0][0], rows[0][1]) if rows else None


def find_attempted(connection: Connection, keys: Sequence[AttemptKey]) -> dict[AttemptKey, ActivityRow]:
    """Return the rows of the activities of some attempts (a thousand at most), by attempt; deleted ones have none."""
    columns = ", ".join(f"a.{name}" for name in columns_of(tables.activity_executions))
    text = f"SELECT {columns} {_of_attempts(len(keys))}"
    found = [ActivityRow(*row) for row in fetch(connection, text, tuple(chain.from_iterable(keys)))]
    rows = {(row.run_id, row.activity_id): row for row in found}
    return {key: rows[key[:2]] for key in keys if key[:2] in rows}


def wanted(keys: Sequence[AttemptKey]) -> tuple[str, Values]:
    """Return what follows SELECT, and its values, to count the attempts that go on: running, and not to be cancelled.

    Args:
        keys: The attempts; a thousand at most.
    """
    # A power of two, so that there are few texts to prepare: the others are nobody's.
    padded = [*keys, *[("", 0, 0)] * ((1 << (len(keys) - 1).bit_length()) - len(keys))]
    attempt = "AND a.attempt = CAST(k.column3 AS BIGINT) AND a.status = 'running' AND NOT a.cancel_requested"
    return f"count(*) {_of_attempts(len(padded))} {attempt}", tuple(chain.from_iterable(padded))


@lru_cache(64)
def _of_attempts(attempts: int) -> str:
    """Return the FROM and WHERE that join attempts, each of three marks, with their activities."""
    # SQLite keeps to the order of a CROSS JOIN: one look by key for each attempt.
    groups = ", ".join(["(?, ?, ?)"] * attempts)
    return (
        f"FROM (VALUES {groups}) AS k CROSS JOIN activity_executions a "
        "WHERE a.run_id = k.column1 AND a.activity_id = CAST(k.column2 AS BIGINT)"
    )


@lru_cache(64)
def _ranges(queues: int, types: int) -> str:
    """Return the WITH that names ``ranges (task_queue, type, priority)``: the index ranges that hold what is claimable.

    It takes the task queues, then the types. Each type ends with a row whose priority is null.
    """
    least = f"SELECT min(priority) FROM {ACTIVITIES.table} WHERE {ACTIVITIES.condition} AND task_queue"
    return (
        f"{types_among(ACTIVITIES, queues, types)}, ranges (task_queue, type, priority) AS ("
        f"SELECT known.task_queue, known.type, ({least} = known.task_queue AND activity_type = known.type) FROM known "
        f"UNION ALL SELECT ranges.task_queue, ranges.type, ({least} = ranges.task_queue "
        "AND activity_type = ranges.type AND priority > ranges.priority) "
        "FROM ranges WHERE ranges.priority IS NOT NULL)"
    )


def next_available(queues: Sequence[str], types: Sequence[str], now: int) -> tuple[str, Values]:
    """Return what follows SELECT, and its values, to read when the next claimable activity is available.

    It reads the head of each index range that holds any, however many activities wait behind it.

    Args:
        queues: The task queues that the worker polls.
        types: The activity types that it runs.
        now: Microseconds since the epoch.
    """
    return _next_available(len(queues), len(types)), (*queues, *types, now)


@lru_cache(64)
def _next_available(queues: int, types: int) -> str:
    head = (
        f"SELECT available_at FROM {ACTIVITIES.table} WHERE {ACTIVITIES.condition} AND task_queue = ranges.task_queue "
        f"AND activity_type = ranges.type AND priority = ranges.priority AND {_has_time()} "
        "ORDER BY available_at LIMIT 1"
    )
    heads = f"{_ranges(queues, types)} SELECT ({head}) AS available_at FROM ranges WHERE priority IS NOT NULL"
    return f"MIN(available_at) FROM ({heads}) AS heads"


def next_activity_at(
    connection: Connection, queues: Sequence[str], types: Sequence[str], now: int
) -> int | None:
    """Return when the next pending activity of these queues and types becomes (or became) available."""
    if not types:
        return None
    part, values = next_available(queues, types, now)
    found: int | None = fetch(connection, f"SELECT {part}", values)[0][0]
    return found


def find_claimable(
    scan: Scan, queues: Sequence[str], types: Sequence[str], now: int, limit: int
) -> list[tuple[str, int]]:
    """Return ``(run_id, activity_id)`` of claimable activities: by priority, then oldest first.

    Args:
        scan: How to read.
        queues: The task queues that the worker polls.
        types: The activity types that it runs.
        now: Microseconds since the epoch.
        limit: How many.
    """
    ranges: list[Values] = list(product(queues, types, range(PRIORITIES)))
    if len(ranges) > MOST_RANGES:
        text = f"{_ranges(len(queues), len(types))} SELECT * FROM ranges WHERE priority IS NOT NULL"
        ranges = scan(text, (*queues, *types))
    found: list[Values] = []
    for some in split(ranges):
        values = [value for one in some for value in (*one, now, now, limit)]
        found += scan(_claimable_text(len(some)), tuple(values))
    found.sort()
    return [(run_id, activity_id) for _, _, run_id, activity_id in found[:limit]]


@lru_cache(64)
def _claimable_text(ranges: int) -> str:
    text = (
        "SELECT * FROM (SELECT priority, available_at, run_id, activity_id "
        f"FROM {ACTIVITIES.table} WHERE {ACTIVITIES.condition} "
        f"AND task_queue = ? AND activity_type = ? AND priority = ? AND available_at <= ? AND {_has_time()} "
        "ORDER BY available_at, run_id, activity_id LIMIT ?) AS range_"
    )
    return " UNION ALL ".join(f"{text}{place}" for place in range(ranges))


# --- local activities ----------------------------------------------------------------------------------------------


@lru_cache(64)
def _claimable_locally(queues: int, types: int, runs: str) -> str:
    """Return the FROM and WHERE of local activities that a worker may run: those of its runs, and of nobody's."""
    return (
        "FROM activity_executions a JOIN workflow_runs r ON r.run_id = a.run_id "
        f"WHERE a.status = 'pending' AND a.queue IS NULL AND a.task_queue IN ({marks(range(queues))}) "
        f"AND a.activity_type IN ({marks(range(types))}) AND {_has_time('a.')} "
        "AND (r.owner_id = ? OR (r.owner_id IS NULL AND r.queue IS NULL "
        f"AND {runs}))"
    )


def next_local_available(
    worker_id: str, queues: Sequence[str], workflow_types: Sequence[str], types: Sequence[str], now: int
) -> tuple[str, Values]:
    """Return what follows SELECT, and its values, to read when the next claimable local activity is available.

    Args:
        worker_id: The worker whose runs are read as well as those without an owner.
        queues: The task queues that the worker polls.
        workflow_types: The workflow types that it runs.
        types: The activity types that it runs.
        now: Microseconds since the epoch.
    """
    runs, named = of_types("r.workflow_type", workflow_types)
    source = _claimable_locally(len(queues), len(types), runs)
    local = [LOCAL + queue for queue in queues]
    return f"MIN(a.available_at) {source}", (*local, *types, now, worker_id, *named)


def next_local_activity_at(
    connection: Connection,
    worker_id: str,
    queues: Sequence[str],
    workflow_types: Sequence[str],
    types: Sequence[str],
    now: int,
) -> int | None:
    """Return when the next local activity that a worker may run becomes (or became) available.

    Args:
        connection: Where to read.
        worker_id: The worker whose runs are read as well as those without an owner.
        queues: The task queues that the worker polls.
        workflow_types: The workflow types that it runs.
        types: The activity types that it runs.
        now: Microseconds since the epoch.
    """
    if not workflow_types or not types:
        return None
    part, values = next_local_available(worker_id, queues, workflow_types, types, now)
    found: int | None = fetch(connection, f"SELECT {part}", values)[0][0]
    return found


def claimable_locally(
    worker_id: str,
    queues: Sequence[str],
    workflow_types: Sequence[str],
    types: Sequence[str],
    now: int,
    limit: int,
) -> tuple[str, Values]:
    """Return the statement, and its values, that finds local activities to claim: by priority, then oldest first.

    Args:
        worker_id: The worker whose runs are read as well as those without an owner.
        queues: The task queues that the worker polls.
        workflow_types: The workflow types that it runs.
        types: The activity types that it runs.
        now: Microseconds since the epoch.
        limit: How many are read at most.
    """
    runs, named = of_types("r.workflow_type", workflow_types)
    source = _claimable_locally(len(queues), len(types), runs)
    text = (
        f"SELECT a.run_id, a.activity_id {source} AND a.available_at <= ? "
        "ORDER BY a.priority, a.available_at, a.run_id, a.activity_id LIMIT ?"
    )
    local = [LOCAL + queue for queue in queues]
    return text, (*local, *types, now, worker_id, *named, now, limit)
