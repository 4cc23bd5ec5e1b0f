"""What is in queues, as reads that admissions, deletions and looks at a queue share. No cost follows a line's length.

A transaction runs them through its batch, and others through a connection: both are a :data:`Scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NamedTuple

from outlast_store.database.sql_text import Asked, Values
from outlast_workflow.errors import QueueNotFoundError

Scan = Callable[[str, Values], list[Values]]
"""Runs a statement that reads, written with ``?`` marks, and returns its rows."""

MOST_COUNTED: Final = 10_000
"""Up to which number people are told what waits, is delayed or holds a slot."""
_MOST_NAMES: Final = 1_000
"""Among how many names a similar one is looked for."""


# --- counts ---------------------------------------------------------------------------------------------------------

WAITING_RUNS: Final = "workflow_runs WHERE queue = ? AND queued_at IS NOT NULL"
DELAYED_RUNS: Final = "workflow_runs WHERE queue = ? AND status = 'queued' AND queued_at IS NULL"
SLOTS_OF_RUNS: Final = "workflow_runs WHERE slot_queue = ?"
WAITING_ACTIVITIES: Final = "activity_executions WHERE queue = ? AND status = 'pending'"
SLOTS_OF_ACTIVITIES: Final = "activity_executions WHERE queue = ? AND status = 'running'"


def count_up_to(scan: Scan, limit: int, *parts: tuple[str, Values]) -> list[int]:
    """Count rows of each part in one statement, each up to a limit.

    Args:
        scan: How to read.
        limit: Up to which number each is counted.
        *parts: A table with a condition, and the values of its marks.
    """
    values = [value for _, given in parts for value in (*given, limit)]
    return [int(count) for count in scan(_counts(tuple(source for source, _ in parts)), tuple(values))[0]]


@lru_cache(16)
def _counts(sources: tuple[str, ...]) -> str:
    return "SELECT " + ", ".join(
        f"(SELECT count(*) FROM (SELECT 1 FROM {source} LIMIT ?) AS counted_{place})"
        for place, source in enumerate(sources)
    )


# --- lines ----------------------------------------------------------------------------------------------------------


class Waiting(NamedTuple):
    """A table of what stands in line.

    Attributes:
        table: The table.
        condition: Which of its rows stand in line, as the index of lines has it.
        since: The column that says since when one waits.
    """

    table: str
    condition: str
    since: str


RUNS: Final = Waiting("workflow_runs", "queued_at IS NOT NULL", "queued_at")
ACTIVITIES: Final = Waiting("activity_executions", "status = 'pending' AND queue IS NOT NULL", "available_at")


class Line(NamedTuple):
    """What waits in a partition with one priority, and since when the first of it waits."""

    partition: str
    priority: int
    since: int


def find_lines(
    scan: Scan,
    waiting: Waiting,
    queue: str,
    limit: int,
    *,
    sqlite: bool,
    after: str | None = None,
    until: str | None = None,
) -> list[Line]:
    """Return the lines of a queue, by partition and priority.

    Args:
        scan: How to read.
        waiting: What waits.
        queue: The queue.
        limit: How many lines.
        sqlite: Whether the database is SQLite.
        after: The partition after which it begins; ``None`` for the first one.
        until: The last partition that counts; ``None`` for no bound.
    """
    asked = lines_asked(waiting, queue, limit, sqlite=sqlite, after=after, until=until)
    return lines_of(scan(*asked), sqlite=sqlite)


def lines_asked(
    waiting: Waiting, queue: str, limit: int, *, sqlite: bool, after: str | None, until: str | None
) -> Asked:
    """Return the statement that reads the lines of a queue, and its values; :func:`lines_of` reads its rows.

    It leaps from line to line through the index: one or two seeks each, however long the lines are.

    Args:
        waiting: What waits.
        queue: The queue.
        limit: How many lines.
        sqlite: Whether the database is SQLite.
        after: The partition after which it begins; ``None`` for the first one.
        until: The last partition that counts; ``None`` for no bound.
    """
    text = _leap(waiting, sqlite=sqlite, begins=after is not None, ends=until is not None)
    end: Values = () if until is None else (until,)
    first: Values = (queue, *(() if after is None else (after,)), *end)
    return text, (*first, queue, *end, limit) if not sqlite else (*first, queue, queue, *end, limit)


def lines_of(rows: Iterable[Values], *, sqlite: bool) -> list[Line]:
    """Return the lines that the statement of :func:`lines_asked` has found."""
    if not sqlite:
        return [Line(*row) for row in rows]
    texts = [row[0].rsplit(_SEPARATOR, 2) for row in rows]
    return [Line(partition, int(priority), int(since)) for partition, priority, since in texts]


@lru_cache(16)
def _leap(waiting: Waiting, *, sqlite: bool, begins: bool, ends: bool) -> str:
    begin = " AND r.partition_key > ?" if begins else ""
    end = " AND r.partition_key <= ?" if ends else ""
    text = _SQLITE_LEAP if sqlite else _POSTGRES_LEAP
    return text.format(**waiting._asdict(), begin=begin, end=end)


_SEPARATOR: Final = "\x1f"
"""What stands between the columns of a line in one text; no partition key has it."""

# SQLite has no LATERAL, and a scalar subquery gives one column: all three are in one text. A priority has one digit.
# A step is two seeks: SQLite would not use the priority of a pair to seek, and so read the whole line.
_SQLITE_LEAP: Final = """
    WITH RECURSIVE leap (line, n) AS (
        SELECT (SELECT r.partition_key || char(31) || r.priority || char(31) || r.{since} FROM {table} AS r
            WHERE r.queue = ? AND r.{condition}{begin}{end}
            ORDER BY r.partition_key, r.priority, r.{since} LIMIT 1), 1
        UNION ALL
        SELECT coalesce(
            (SELECT r.partition_key || char(31) || r.priority || char(31) || r.{since} FROM {table} AS r
                WHERE r.queue = ? AND r.{condition}
                AND r.partition_key = substr(leap.line, 1, instr(leap.line, char(31)) - 1)
                AND r.priority > CAST(substr(leap.line, instr(leap.line, char(31)) + 1, 1) AS INTEGER)
                ORDER BY r.priority, r.{since} LIMIT 1),
            (SELECT r.partition_key || char(31) || r.priority || char(31) || r.{since} FROM {table} AS r
                WHERE r.queue = ? AND r.{condition}
                AND r.partition_key > substr(leap.line, 1, instr(leap.line, char(31)) - 1){end}
                ORDER BY r.partition_key, r.priority, r.{since} LIMIT 1)
            ), leap.n + 1
        FROM leap WHERE leap.line IS NOT NULL AND leap.n < ?
    )
    SELECT line FROM leap WHERE line IS NOT NULL"""

_POSTGRES_LEAP: Final = """
    WITH RECURSIVE leap (partition_key, priority, since, n) AS (
        (SELECT r.partition_key, r.priority, r.{since}, 1 FROM {table} AS r
            WHERE r.queue = ? AND r.{condition}{begin}{end}
            ORDER BY r.partition_key, r.priority, r.{since} LIMIT 1)
        UNION ALL
        SELECT x.partition_key, x.priority, x.since, leap.n + 1 FROM leap CROSS JOIN LATERAL (
            SELECT r.partition_key, r.priority, r.{since} AS since FROM {table} AS r
            WHERE r.queue = ? AND r.{condition}
            AND (r.partition_key, r.priority) > (leap.partition_key, leap.priority){end}
            ORDER BY r.partition_key, r.priority, r.{since} LIMIT 1
        ) AS x WHERE leap.n < ?
    )
    SELECT partition_key, priority, since FROM leap"""


# --- names ----------------------------------------------------------------------------------------------------------


def queue_names(scan: Scan) -> list[str]:
    """Return the names of queues, the first thousand by name."""
    text = "SELECT queue FROM queues WHERE deleted_at IS NULL ORDER BY queue LIMIT ?"
    return [row[0] for row in scan(text, (_MOST_NAMES,))]


def queue_not_found(scan: Scan, name: str) -> QueueNotFoundError:
    """Return the error for a queue that nobody has defined, with the names that look like it.

    Args:
        scan: How to read.
        name: The queue.
    """
    return QueueNotFoundError(name, similar=get_close_matches(name, queue_names(scan)))
