"""Task queues: which hold anything, what is ready in them, and what is running. No cost here follows how much waits.

Runs and activities that may be claimed are in an index that has the task queue first, then the type, then (for
activities) the priority, then the time. Leaps through it find what different ones there are, one seek each. So who
lacks a type passes over all that waits of it by one seek.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import Values, fetch, marks, of_types
from outlast_store.schema.rows import LOCAL
from outlast_workflow.primitives.type_families import prefixes

MOST_COUNTED: Final = 10_000
"""Up to which number is counted what is ready in a task queue; as many running activities are looked at in all."""
MOST_NAMES: Final = 1_000
"""How many task queues, or types in them, are found at most."""
PRIORITIES: Final = 10
"""How many priorities there are: 0 to 9, the lowest number first."""
MOST_RANGES: Final = 20
"""How many index ranges a claim reads by name. Of more, it finds first which hold anything."""
_RANGES_AT_ONCE: Final = 200
"""How many ranges one statement reads; SQLite takes up to 500."""


Scan: TypeAlias = Callable[[str, Values], Sequence[Values]]
"""What runs a statement with its values and returns the rows."""


class Claimable(NamedTuple):
    """What workers claim: a table, its column of types, and the condition of the index of what may be claimed."""

    table: str
    type: str
    condition: str


RUNS: Final = Claimable("workflow_runs", "workflow_type", "wake_at IS NOT NULL AND owner_id IS NULL")
ACTIVITIES: Final = Claimable("activity_executions", "activity_type", "status = 'pending' AND queue IS NULL")


@dataclass(slots=True)
class TaskQueueLoad:
    """What waits in a task queue, and what is running. Instants are microseconds since the epoch."""

    task_queue: str
    waiting_runs: int = 0
    waiting_activities: int = 0
    running_activities: int = 0
    oldest_waiting_at: int | None = None

    def note_oldest(self, at: int | None) -> None:
        """Note that something has waited since an instant."""
        if at is not None and (self.oldest_waiting_at is None or at < self.oldest_waiting_at):
            self.oldest_waiting_at = at


def leap(table: str, column: str, condition: str) -> str:
    """Return the SELECT of the different values of an index's first column: one seek each, however many rows there are.

    Args:
        table: The table.
        column: The column with which the index begins.
        condition: The condition of the index, whose columns need no prefix.
    """
    least = f"SELECT min({column}) FROM {table} WHERE {condition}"
    return (
        f"WITH RECURSIVE leaps (name) AS ({least} UNION ALL SELECT ({least} AND {column} > leaps.name) "
        "FROM leaps WHERE leaps.name IS NOT NULL) SELECT name FROM leaps WHERE name IS NOT NULL"
    )


def find_names(connection: Connection, table: str, column: str, condition: str) -> list[str]:
    """Return the different values of an index's first column, a thousand at most.

    Args:
        connection: Where to read.
        table: The table.
        column: The column with which the index begins.
        condition: The condition of the index.
    """
    return [row[0] for row in fetch(connection, f"{leap(table, column, condition)} LIMIT ?", (MOST_NAMES,))]


def _waiting(what: Claimable, names: str) -> str:
    """Return the body of a recursive ``waiting (task_queue, type)``: what types wait in each of some task queues.

    Each task queue ends with a row whose type is null.

    Args:
        what: Runs or activities.
        names: What to select the ``names.name`` of the task queues from.
    """
    least = f"SELECT min({what.type}) FROM {what.table} WHERE {what.condition} AND task_queue"
    return (
        f"SELECT names.name, ({least} = names.name) FROM {names} UNION ALL "
        f"SELECT waiting.task_queue, ({least} = waiting.task_queue AND {what.type} > waiting.type) "
        "FROM waiting WHERE waiting.type IS NOT NULL"
    )


def find_types(connection: Connection, what: Claimable) -> list[tuple[str, str]]:
    """Return each task queue with each type that waits in it, a thousand at most.

    Args:
        connection: Where to read.
        what: Runs or activities.
    """
    names = f"({leap(what.table, 'task_queue', what.condition)}) AS names"
    text = (
        f"WITH RECURSIVE waiting (task_queue, type) AS ({_waiting(what, names)}) "
        "SELECT task_queue, type FROM waiting WHERE type IS NOT NULL LIMIT ?"
    )
    return [(row[0], row[1]) for row in fetch(connection, text, (MOST_NAMES,))]


def types_waiting(scan: Scan, task_queues: Sequence[str], types: Sequence[str]) -> Sequence[str]:
    """Return the types of runs that wait and that a worker serves, where it serves families; else all that it serves.

    Args:
        scan: What reads.
        task_queues: The task queues that the worker polls.
        types: The types and families that it serves.
    """
    if not prefixes(tuple(types)):
        return types
    names = (
        f"(SELECT column1 AS name FROM (VALUES {', '.join(['(?)'] * len(task_queues))}) AS given) AS names"
    )
    known, values = of_types("type", types)
    text = (
        f"WITH RECURSIVE waiting (task_queue, type) AS ({_waiting(RUNS, names)}) "
        f"SELECT DISTINCT type FROM waiting WHERE {known} ORDER BY type LIMIT ?"
    )
    return [row[0] for row in scan(text, (*task_queues, *values, MOST_NAMES))]


@lru_cache(64)
def types_among(what: Claimable, task_queues: int, types: int) -> str:
    """Return the WITH that names ``waiting (task_queue, type)``, those types that wait and are among some.

    It takes the task queues, then the types. It costs one seek for each type that waits, whoever knows it.

    Args:
        what: Runs or activities.
        task_queues: How many task queues.
        types: How many types.
    """
    names = f"(SELECT column1 AS name FROM (VALUES {', '.join(['(?)'] * task_queues)}) AS given) AS names"
    return (
        f"WITH RECURSIVE waiting (task_queue, type) AS ({_waiting(what, names)}), known (task_queue, type) AS "
        f"(SELECT task_queue, type FROM waiting WHERE type IN ({marks(range(types))}))"
    )


def split(ranges: Sequence[Values]) -> list[Sequence[Values]]:
    """Return ranges in parts that one statement can read."""
    return [ranges[at : at + _RANGES_AT_ONCE] for at in range(0, len(ranges), _RANGES_AT_ONCE)]


def ready_runs(columns: str) -> str:
    """Return the SELECT of the ready runs of one type in a task queue.

    It takes the task queue, the type, now twice, and how many.
    """
    return (
        f"SELECT {columns} FROM {RUNS.table} WHERE {RUNS.condition} AND task_queue = ? AND workflow_type = ? "
        "AND wake_at <= ? AND not_before <= ? ORDER BY wake_at LIMIT ?"
    )


def ready_activities(columns: str) -> str:
    """Return the SELECT of the ready activities of one type in a task queue: a range of the index for each priority.

    For each priority it takes the task queue, the type, the priority, now, and how many.
    """
    text = (
        f"SELECT * FROM (SELECT {columns} FROM {ACTIVITIES.table} WHERE {ACTIVITIES.condition} AND task_queue = ? "
        "AND activity_type = ? AND priority = ? AND available_at <= ? ORDER BY available_at LIMIT ?) AS range_"
    )
    return " UNION ALL ".join(f"{text}{priority}" for priority in range(PRIORITIES))


def activity_values(task_queue: str, type: str, now: int, most: int) -> tuple[object, ...]:
    """Return the values of :func:`ready_activities`.

    Args:
        task_queue: The task queue.
        type: The activity type.
        now: Microseconds since the epoch.
        most: How many of each priority.
    """
    return tuple(value for priority in range(PRIORITIES) for value in (task_queue, type, priority, now, most))


def task_queue_loads(connection: Connection, now: int) -> dict[str, TaskQueueLoad]:
    """Return the load of each task queue that has any, counted up to 10,000.

    Running activities are counted among ten thousand.
    """
    loads: dict[str, TaskQueueLoad] = {}

    def load(queue: str) -> TaskQueueLoad:
        queue = queue.removeprefix(LOCAL)
        return loads.setdefault(queue, TaskQueueLoad(queue))

    def left(counted: int) -> int:
        # What is more than is counted may still be the oldest.
        return max(MOST_COUNTED - counted, 1)

    with snapshot(connection):
        text = f"SELECT count(*), min(wake_at) FROM ({ready_runs('wake_at')}) AS ready"
        for queue, type in find_types(connection, RUNS):
            found = load(queue)
            count, since = fetch(connection, text, (queue, type, now, now, left(found.waiting_runs)))[0]
            found.waiting_runs = min(found.waiting_runs + count, MOST_COUNTED)
            found.note_oldest(since)
        text = f"SELECT count(*), min(available_at) FROM ({ready_activities('available_at')}) AS ready"
        for queue, type in find_types(connection, ACTIVITIES):
            found = load(queue)
            values = activity_values(queue, type, now, left(found.waiting_activities))
            count, since = fetch(connection, text, values)[0]
            found.waiting_activities = min(found.waiting_activities + count, MOST_COUNTED)
            found.note_oldest(since)
        text = (
            "SELECT task_queue, count(*) FROM (SELECT task_queue FROM activity_executions "
            "WHERE status = 'running' LIMIT ?) AS running GROUP BY task_queue"
        )
        for queue, count in fetch(connection, text, (MOST_COUNTED,)):
            load(queue).running_activities += count
    return {queue: found for queue, found in loads.items() if found != TaskQueueLoad(queue)}
