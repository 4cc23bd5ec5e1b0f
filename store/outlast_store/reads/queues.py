"""Queues: which there are, and what waits in them and holds their slots. No cost here follows the length of a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import fetch, select
from outlast_store.queues.rate_log import RateLog
from outlast_store.schema import tables
from outlast_store.schema.rows import QueueRow, RunRow

MOST_COUNTED: Final = 10_000
"""Up to which number is counted what waits, is delayed, or holds a slot."""
MOST_PARTITIONS: Final = 1_000
MOST_AHEAD: Final = 1_000
MOST_NAMES: Final = 1_000
"""Among how many names a similar one is looked for."""
_PRIORITIES: Final = 10
_SEPARATOR: Final = "\x1f"
"""No partition key has it."""


@dataclass(slots=True)
class QueueLoad:
    """A queue, and what is in it now.

    Attributes:
        row: Its row.
        waiting: How many stand in its line.
        running: How many of its slots are held.
        delayed: How many have yet to join the line.
        oldest_waiting_at: When the first of those in the line joined it.
        partitions: How many partitions have a line.
        next_admission_at: When its rate allows the next admission, if it allows none now.
    """

    row: QueueRow
    waiting: int = 0
    running: int = 0
    delayed: int = 0
    oldest_waiting_at: int | None = None
    partitions: int = 0
    next_admission_at: int | None = None


def list_queues(connection: Connection) -> list[QueueRow]:
    """Return the queues that are defined, by name."""
    text = select(tables.queues, "deleted_at IS NULL ORDER BY queue")
    return [QueueRow(*row) for row in fetch(connection, text)]


def find_queue(connection: Connection, name: str) -> QueueRow | None:
    """Return a queue; ``None`` if none of that name is defined."""
    rows = fetch(connection, select(tables.queues, "queue = ? AND deleted_at IS NULL"), (name,))
    return QueueRow(*rows[0]) if rows else None


def queue_names(connection: Connection) -> list[str]:
    """Return the names of queues, the first thousand by name."""
    text = "SELECT queue FROM queues WHERE deleted_at IS NULL ORDER BY queue LIMIT ?"
    return [row[0] for row in fetch(connection, text, (MOST_NAMES,))]


def similar_queues(connection: Connection, name: str) -> list[str]:
    """Return the names of queues that look like a name."""
    return get_close_matches(name, queue_names(connection))


def queue_loads(connection: Connection, now: int, name: str | None = None) -> list[QueueLoad]:
    """Return what is in the queues, by name.

    Args:
        connection: Where to read.
        now: Microseconds since the epoch.
        name: Only this queue; nothing is returned where it is not defined.
    """
    with snapshot(connection):
        if name is None:
            rows = list_queues(connection)
        else:
            found = find_queue(connection, name)
            rows = [] if found is None else [found]
        return [_load(connection, row, now) for row in rows]


_COUNTS: Final = "SELECT " + ", ".join(
    f"(SELECT count(*) FROM (SELECT 1 FROM {source} LIMIT ?) AS counted{place})"
    for place, source in enumerate(
        (
            "workflow_runs WHERE queue = ? AND queued_at IS NOT NULL",
            "activity_executions WHERE queue = ? AND status = 'pending' AND queue IS NOT NULL",
            "workflow_runs WHERE slot_queue = ?",
            "activity_executions WHERE queue = ? AND status = 'running' AND queue IS NOT NULL",
            "workflow_runs WHERE queue = ? AND status = 'queued' AND queued_at IS NULL",
        )
    )
)


def _load(connection: Connection, row: QueueRow, now: int) -> QueueLoad:
    name = row.queue
    runs, activities, slots, running, delayed = fetch(connection, _COUNTS, (name, MOST_COUNTED) * 5)[0]
    load = QueueLoad(row, runs + activities, slots + running, delayed)
    if load.waiting:
        lines = [*_lines(connection, name, _RUNS), *_lines(connection, name, _ACTIVITIES)]
        load.partitions = min(len({partition for partition, _ in lines}), MOST_PARTITIONS)
        load.oldest_waiting_at = min((since for _, since in lines), default=None)
    if row.rate_limit is not None and row.rate_per is not None:
        log = RateLog.from_json(row.rate_limit, row.rate_per, row.rate_log)
        load.next_admission_at = log.next_at(now)
    return load


def count_ahead(connection: Connection, run: RunRow) -> int:
    """Return how many runs of its partition stand before one in the line of its queue, counted up to 1,000."""
    text = (
        "SELECT count(*) FROM (SELECT 1 FROM workflow_runs WHERE queue = ? AND partition_key = ? "
        "AND queued_at IS NOT NULL AND (priority, queued_at, run_id) < (?, ?, ?) LIMIT ?) AS before"
    )
    place = (run.priority, run.queued_at, run.run_id)
    found: int = fetch(connection, text, (run.queue, run.partition_key, *place, MOST_AHEAD))[0][0]
    return found


_RUNS: Final = ("workflow_runs", "queued_at IS NOT NULL", "queued_at")
_ACTIVITIES: Final = ("activity_executions", "status = 'pending' AND queue IS NOT NULL", "available_at")


def _lines(connection: Connection, queue: str, source: tuple[str, str, str]) -> Iterable[tuple[str, int]]:
    """Return each partition and priority that has a line: the partition, and since when the first one waits.

    It leaps through the index from one to the next: one seek each, however long the lines are.

    Args:
        connection: Where to read.
        queue: The queue.
        source: The table, the condition of its index, and the column that says since when.
    """
    table, condition, since = source
    sqlite = connection.dialect.name == "sqlite"
    text = (_SQLITE_LEAP if sqlite else _POSTGRES_LEAP).format(table=table, condition=condition, since=since)
    rows: Sequence[Sequence[object]] = fetch(connection, text, (queue, queue, MOST_PARTITIONS * _PRIORITIES))
    if sqlite:
        rows = [str(row[0]).rsplit(_SEPARATOR, 2) for row in rows]
    return [(str(row[0]), int(str(row[2]))) for row in rows]


# SQLite has no LATERAL, and a scalar subquery gives one column: all three are in one text.
_SQLITE_LEAP: Final = """
    WITH RECURSIVE leap (line, n) AS (
        SELECT (SELECT partition_key || char(31) || priority || char(31) || {since} FROM {table}
            WHERE queue = ? AND {condition} ORDER BY partition_key, priority, {since} LIMIT 1), 1
        UNION ALL
        SELECT (SELECT r.partition_key || char(31) || r.priority || char(31) || r.{since} FROM {table} AS r
            WHERE r.queue = ? AND r.{condition}
            AND (r.partition_key, r.priority) > (substr(leap.line, 1, instr(leap.line, char(31)) - 1),
                CAST(substr(leap.line, instr(leap.line, char(31)) + 1, 1) AS INTEGER))
            ORDER BY r.partition_key, r.priority, r.{since} LIMIT 1), leap.n + 1
        FROM leap WHERE leap.line IS NOT NULL AND leap.n < ?
    )
    SELECT line FROM leap WHERE line IS NOT NULL"""

_POSTGRES_LEAP: Final = """
    WITH RECURSIVE leap (partition_key, priority, since, n) AS (
        (SELECT partition_key, priority, {since}, 1 FROM {table}
            WHERE queue = ? AND {condition} ORDER BY partition_key, priority, {since} LIMIT 1)
        UNION ALL
        SELECT x.partition_key, x.priority, x.since, leap.n + 1 FROM leap CROSS JOIN LATERAL (
            SELECT r.partition_key, r.priority, r.{since} AS since FROM {table} AS r
            WHERE r.queue = ? AND r.{condition}
            AND (r.partition_key, r.priority) > (leap.partition_key, leap.priority)
            ORDER BY r.partition_key, r.priority, r.{since} LIMIT 1
        ) AS x WHERE leap.n < ?
    )
    SELECT partition_key, priority, since FROM leap"""
