"""Task queues: which hold anything, what is ready in them, and what is running. No cost here follows how much waits.

The task queues are found by leaps through an index, one seek each, and what is ready in each is counted up to a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import fetch
from outlast_store.reads.activities import PRIORITIES
from outlast_store.schema.rows import LOCAL

MOST_COUNTED: Final = 10_000
"""Up to which number is counted what is ready in a task queue; as many running activities are looked at in all."""
MOST_NAMES: Final = 1_000
"""How many task queues are found at most."""

READY_RUNS: Final = "workflow_runs", "wake_at IS NOT NULL AND owner_id IS NULL"
WAITING_ACTIVITIES: Final = "activity_executions", "status = 'pending' AND queue IS NULL"
"""The tables and conditions of the indexes of what workers claim. Both begin with the task queue."""


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


def ready_runs(columns: str) -> str:
    """Return the SELECT of the ready runs of a task queue; it takes the task queue, now twice, and how many."""
    table, condition = READY_RUNS
    return (
        f"SELECT {columns} FROM {table} WHERE {condition} AND task_queue = ? AND wake_at <= ? AND not_before <= ? "
        "ORDER BY wake_at LIMIT ?"
    )


def ready_activities(columns: str) -> str:
    """Return the SELECT of the ready activities of a task queue: a range of the index for each priority.

    For each priority it takes the task queue, the priority, now, and how many.
    """
    table, condition = WAITING_ACTIVITIES
    text = (
        f"SELECT * FROM (SELECT {columns} FROM {table} WHERE {condition} AND task_queue = ? AND priority = ? "
        "AND available_at <= ? ORDER BY available_at LIMIT ?) AS range_"
    )
    return " UNION ALL ".join(f"{text}{priority}" for priority in range(PRIORITIES))


def activity_values(task_queue: str, now: int, most: int) -> tuple[object, ...]:
    """Return the values of :func:`ready_activities`.

    Args:
        task_queue: The task queue.
        now: Microseconds since the epoch.
        most: How many of each priority.
    """
    return tuple(value for priority in range(PRIORITIES) for value in (task_queue, priority, now, most))


def task_queue_loads(connection: Connection, now: int) -> dict[str, TaskQueueLoad]:
    """Return the load of each task queue that has any, counted up to 10,000.

    Running activities are counted among ten thousand.
    """
    loads: dict[str, TaskQueueLoad] = {}

    def load(queue: str) -> TaskQueueLoad:
        queue = queue.removeprefix(LOCAL)
        return loads.setdefault(queue, TaskQueueLoad(queue))

    with snapshot(connection):
        text = f"SELECT count(*), min(wake_at) FROM ({ready_runs('wake_at')}) AS ready"
        for queue in find_names(connection, READY_RUNS[0], "task_queue", READY_RUNS[1]):
            count, since = fetch(connection, text, (queue, now, now, MOST_COUNTED))[0]
            if count:
                load(queue).waiting_runs = count
                load(queue).note_oldest(since)
        text = f"SELECT count(*), min(available_at) FROM ({ready_activities('available_at')}) AS ready"
        for queue in find_names(connection, WAITING_ACTIVITIES[0], "task_queue", WAITING_ACTIVITIES[1]):
            count, since = fetch(connection, text, activity_values(queue, now, MOST_COUNTED))[0]
            if count:
                found = load(queue)
                found.waiting_activities = min(found.waiting_activities + count, MOST_COUNTED)
                found.note_oldest(since)
        text = (
            "SELECT task_queue, count(*) FROM (SELECT task_queue FROM activity_executions "
            "WHERE status = 'running' LIMIT ?) AS running GROUP BY task_queue"
        )
        for queue, count in fetch(connection, text, (MOST_COUNTED,)):
            load(queue).running_activities += count
    return loads
