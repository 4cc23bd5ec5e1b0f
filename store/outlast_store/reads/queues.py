"""Queues: which there are, and what waits in them and holds their slots. No cost here follows the length of a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import fetch, select
from outlast_store.queues import contents
from outlast_store.queues.contents import ACTIVITIES, MOST_COUNTED, RUNS, Line, Waiting, queue_not_found
from outlast_store.queues.rate_log import RateLog
from outlast_store.reads.places import Place, why_waiting
from outlast_store.reads.serving import ACTIVITY, WORKFLOW, Polled
from outlast_store.reads.workers import list_workers
from outlast_store.schema import tables
from outlast_store.schema.rows import QueueRow, RunRow
from outlast_workflow.errors import QueueNotFoundError

MOST_PARTITIONS: Final = 1_000
MOST_AHEAD: Final = 1_000
_PRIORITIES: Final = 10
_HEADS_AT_ONCE: Final = 100
WAITING: Final = (RUNS, ACTIVITIES)

PAGE: Final = 200
"""How many queues are read at a time."""


@dataclass(slots=True)
class QueueLoad:
    """A queue, and what is in it now.

    Attributes:
        row: Its row.
        waiting: How many stand in its line, runs and activities.
        running: How many of its slots are held.
        waiting_activities: How many of those that stand in line are activities.
        running_activities: How many of the slots are held by activities.
        held_up_by: What holds up the first in its line; ``None`` where nothing does, or nothing waits.
        delayed: How many have yet to join the line.
        oldest_waiting_at: When the first of those in the line joined it.
        partitions: How many partitions with a key have a line.
        next_admission_at: When its rate allows the next admission, if it allows none now.
    """

    row: QueueRow
    waiting: int = 0
    running: int = 0
    delayed: int = 0
    oldest_waiting_at: int | None = None
    partitions: int = 0
    next_admission_at: int | None = None
    waiting_activities: int = 0
    running_activities: int = 0
    held_up_by: str | None = None


def list_queues(connection: Connection, after: str, limit: int) -> list[QueueRow]:
    """Return a page of the queues that are defined, by name.

    Args:
        connection: Where to read.
        after: The page begins after this name.
        limit: Rows at most.
    """
    text = select(tables.queues, "deleted_at IS NULL AND queue > ? ORDER BY queue LIMIT ?")
    return [QueueRow(*row) for row in fetch(connection, text, (after, limit))]


def count_queues(connection: Connection, after: str) -> int:
    """Return how many queues are defined whose names come after one, counted up to 10,000."""
    text = (
        "SELECT count(*) FROM (SELECT 1 FROM queues WHERE deleted_at IS NULL AND queue > ? LIMIT ?) AS rest"
    )
    count: int = fetch(connection, text, (after, MOST_COUNTED))[0][0]
    return count


def find_queue(connection: Connection, name: str) -> QueueRow | None:
    """Return a queue; ``None`` if none of that name is defined."""
    rows = fetch(connection, select(tables.queues, "queue = ? AND deleted_at IS NULL"), (name,))
    return QueueRow(*rows[0]) if rows else None


def queue_names(connection: Connection) -> list[str]:
    """Return the names of queues, the first thousand by name."""
    return contents.queue_names(partial(fetch, connection))


def unknown_queue(connection: Connection, name: str) -> QueueNotFoundError:
    """Return the error for a queue that nobody has defined, with the names that look like it."""
    return queue_not_found(partial(fetch, connection), name)


def queue_loads(connection: Connection, now: int, after: str = "", limit: int = PAGE) -> list[QueueLoad]:
    """Return what is in a page of the queues, by name.

    Args:
        connection: Where to read.
        now: Microseconds since the epoch.
        after: The page begins after this name.
        limit: Queues at most.
    """
    with snapshot(connection):
        rows = list_queues(connection, after, limit)
        polled = Polled.of(list_workers(connection) if rows else (), now)
        return [_load(connection, row, polled, now) for row in rows]


def queue_load(connection: Connection, now: int, name: str) -> QueueLoad | None:
    """Return what is in a queue; ``None`` where it is not defined.

    Args:
        connection: Where to read.
        now: Microseconds since the epoch.
        name: The queue.
    """
    with snapshot(connection):
        row = find_queue(connection, name)
        if row is None:
            return None
        return _load(connection, row, Polled.of(list_workers(connection), now), now)


_PARTS: Final = (
    contents.WAITING_RUNS,
    contents.SLOTS_OF_RUNS,
    contents.SLOTS_OF_ACTIVITIES,
    contents.DELAYED_RUNS,
)


def _load(connection: Connection, row: QueueRow, polled: Polled, now: int) -> QueueLoad:
    name, scan = row.queue, partial(fetch, connection)
    parts = [(source, (name,)) for source in _PARTS]
    runs, slots, running, delayed = contents.count_up_to(scan, MOST_COUNTED, *parts)
    ready, later = _pending_activities(scan, name, now)
    load = QueueLoad(row, runs + ready, slots + running, delayed + later)
    load.waiting_activities, load.running_activities = ready, running
    if load.waiting:
        # An activity that is to be retried later is not in line yet. A run is, also where the clock was set back.
        lines = [
            (line, waiting)
            for waiting in WAITING
            for line in find_lines(connection, waiting, name)
            if waiting is RUNS or line.since <= now
        ]
        load.partitions = min(len({line.partition for line, _ in lines if line.partition}), MOST_PARTITIONS)
        first = min(lines, key=lambda found: found[0].since, default=None)
        if first is not None:
            load.oldest_waiting_at = first[0].since
            load.held_up_by = _held_up(connection, name, *first, polled, now)
    if row.rate_limit is not None and row.rate_per is not None:
        log = RateLog.from_json(row.rate_limit, row.rate_per, row.rate_log)
        load.next_admission_at = log.next_at(now)
    return load


def _held_up(
    connection: Connection, queue: str, line: Line, waiting: Waiting, polled: Polled, now: int
) -> str | None:
    """Return what holds up the first of a line."""
    noun = WORKFLOW if waiting is RUNS else ACTIVITY
    for _, task_queue, type in find_heads(connection, waiting, queue, [line]):
        place = Place(queue, line.partition, noun, type, task_queue)
        return why_waiting(partial(fetch, connection), place, polled, now)
    return None


def _pending_activities(scan: contents.Scan, queue: str, now: int) -> tuple[int, int]:
    """Return how many of the first 10,000 pending activities of a queue stand in line, and how many do so later."""
    text = (
        "SELECT count(*), coalesce(sum(CASE WHEN available_at > ? THEN 1 ELSE 0 END), 0) FROM "
        f"(SELECT available_at FROM {contents.WAITING_ACTIVITIES} LIMIT ?) AS pending"
    )
    count, later = scan(text, (now, queue, MOST_COUNTED))[0]
    return int(count) - int(later), int(later)


@dataclass(slots=True)
class PartitionLoad:
    """A partition that has a line: how many wait and hold a slot, up to 1,000, and since when the first one waits.

    Attributes:
        waiting_runs: How many of those that wait are runs.
        running_runs: How many of the slots are held by runs.
    """

    partition: str
    waiting: int
    running: int
    oldest_waiting_at: int
    waiting_runs: int
    running_runs: int


def partition_loads(connection: Connection, name: str, now: int, most: int) -> list[PartitionLoad]:
    """Return the partitions of a queue that have waited longest, among the first thousand that have a line.

    Args:
        connection: Where to read.
        name: The queue.
        now: Microseconds since the epoch.
        most: How many partitions.
    """
    with snapshot(connection):
        oldest: dict[str, int] = {}
        for line in (line for waiting in WAITING for line in find_lines(connection, waiting, name)):
            if line.since <= now:
                oldest[line.partition] = min(line.since, oldest.get(line.partition, line.since))
        chosen = sorted(oldest, key=lambda partition: (oldest[partition], partition))[:most]
        if not chosen:
            return []
        parts = [
            (f"{source} AND partition_key = ?", (name, partition))
            for partition in chosen
            for source in _OF_PARTITION
        ]
        counts = contents.count_up_to(partial(fetch, connection), MOST_AHEAD, *parts)
    return [
        PartitionLoad(
            partition,
            sum(counts[at : at + 2]),
            sum(counts[at + 2 : at + 4]),
            oldest[partition],
            counts[at],
            counts[at + 2],
        )
        for at, partition in zip(range(0, len(counts), len(_OF_PARTITION)), chosen, strict=True)
    ]


@dataclass(slots=True)
class WaitingActivity:
    """An activity that stands in line: its run, its type and place, and since when it stands there."""

    workflow_id: str
    run_id: str
    activity_type: str
    partition: str
    priority: int
    attempt: int
    since: int


def waiting_activities(connection: Connection, name: str, now: int, most: int) -> list[WaitingActivity]:
    """Return the activities that have stood in line longest, among those of the lines that have waited longest.

    Args:
        connection: Where to read.
        name: The queue.
        now: Microseconds since the epoch.
        most: How many activities, and how many lines are looked at.
    """
    line = (
        "SELECT * FROM (SELECT run_id, activity_type, partition_key, priority, attempt, available_at "
        f"FROM {contents.WAITING_ACTIVITIES} AND partition_key = ? AND priority = ? AND available_at <= ? "
        "ORDER BY available_at LIMIT ?) AS line"
    )
    with snapshot(connection):
        lines = sorted(find_lines(connection, ACTIVITIES, name), key=lambda line: line.since)[:most]
        if not lines:
            return []
        among = " UNION ALL ".join(f"{line}{place}" for place in range(len(lines)))
        text = (
            "SELECT r.workflow_id, w.* FROM ("
            f"{among}) AS w JOIN workflow_runs AS r ON r.run_id = w.run_id ORDER BY w.available_at, w.run_id LIMIT ?"
        )
        values = tuple(value for one in lines for value in (name, one.partition, one.priority, now, most))
        return [WaitingActivity(*row) for row in fetch(connection, text, (*values, most))]


_OF_PARTITION: Final = (
    contents.WAITING_RUNS,
    contents.WAITING_ACTIVITIES,
    contents.SLOTS_OF_RUNS,
    contents.SLOTS_OF_ACTIVITIES,
)


def find_lines(
    connection: Connection, waiting: Waiting, queue: str, most: int = MOST_PARTITIONS * _PRIORITIES
) -> list[Line]:
    """Return the lines of a queue, by partition and priority.

    Args:
        connection: Where to read.
        waiting: What waits.
        queue: The queue.
        most: How many lines.
    """
    sqlite = connection.dialect.name == "sqlite"
    return contents.find_lines(partial(fetch, connection), waiting, queue, most, sqlite=sqlite)


def find_heads(
    connection: Connection, waiting: Waiting, queue: str, lines: Sequence[Line]
) -> list[tuple[str, str, str]]:
    """Return run, task queue and type of what stands first in each of some lines.

    Args:
        connection: Where to read.
        waiting: What waits.
        queue: The queue.
        lines: The lines.
    """
    type_column = "workflow_type" if waiting is RUNS else "activity_type"
    head = (
        f"SELECT * FROM (SELECT run_id, task_queue, {type_column} FROM {waiting.table} WHERE queue = ? "
        f"AND {waiting.condition} AND partition_key = ? AND priority = ? ORDER BY {waiting.since} LIMIT 1) AS head"
    )
    found: list[tuple[str, str, str]] = []
    for start in range(0, len(lines), _HEADS_AT_ONCE):
        some = lines[start : start + _HEADS_AT_ONCE]
        text = " UNION ALL ".join(f"{head}{place}" for place in range(len(some)))
        values = tuple(value for line in some for value in (queue, line.partition, line.priority))
        found += [(row[0], row[1], row[2]) for row in fetch(connection, text, values)]
    return found


def count_ahead(connection: Connection, run: RunRow) -> int:
    """Return how many of its partition stand before a run in the line of its queue, counted up to 1,000."""
    place = (run.queue, run.partition_key, run.priority, run.queued_at)
    runs = f"{contents.WAITING_RUNS} AND partition_key = ? AND (priority, queued_at, run_id) < (?, ?, ?)"
    activities = f"{contents.WAITING_ACTIVITIES} AND partition_key = ? AND (priority, available_at) < (?, ?)"
    parts = [(runs, (*place, run.run_id)), (activities, place)]
    return min(sum(contents.count_up_to(partial(fetch, connection), MOST_AHEAD, *parts)), MOST_AHEAD)
