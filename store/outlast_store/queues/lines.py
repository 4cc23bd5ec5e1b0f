"""The lines of queues: what waits in them, and what holds their slots.

A queue has one line, of runs and of activities:

=========== ============================ ===========================================
what        is in line                   holds a slot
=========== ============================ ===========================================
a run       while ``queued_at`` is set   while ``slot_queue`` is set
an activity while it is pending, once    while it is running
            ``available_at`` has passed
=========== ============================ ===========================================

So whatever ends, continues, retries or deletes one changes both with its own row, and nothing can leak. Each statement
reads an index of its own, and what is found by it is counted up to a limit: no cost here follows the length of a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

from outlast_store.database.sql_text import marks, of_types
from outlast_store.journal.batch import Batch
from outlast_store.journal.locked_rows import LockedRows
from outlast_store.queues import contents
from outlast_store.queues.contents import Waiting
from outlast_workflow.primitives.enums import ActivityStatus

PRIORITIES: Final = range(10)
PAIRS: Final = 200
"""How many pairs of partition and priority one look finds at most."""


class Kind(StrEnum):
    """What stands in line."""

    RUN = "run"
    ACTIVITY = "activity"


class Pair(NamedTuple):
    """A partition that has a line, and a priority in it."""

    partition: str
    priority: int


class Head(NamedTuple):
    """A run or an activity in line, since an instant; an activity may have yet to join it."""

    since: int
    run_id: str
    activity_id: int | None
    task_queue: str
    type: str
    deadline_at: int | None
    """When its next timeout passes."""

    @property
    def kind(self) -> Kind:
        """What it is."""
        return Kind.RUN if self.activity_id is None else Kind.ACTIVITY


class Source(NamedTuple):
    """Where what stands in line is found.

    Attributes:
        waiting: Its table, and what of it stands in line.
        key: The columns of the table's key.
        type: The column of its type.
    """

    waiting: Waiting
    key: tuple[str, ...]
    type: str


SOURCES: Final = {
    Kind.RUN: Source(contents.RUNS, ("run_id",), "workflow_type"),
    Kind.ACTIVITY: Source(contents.ACTIVITIES, ("run_id", "activity_id"), "activity_type"),
}


# --- slots ----------------------------------------------------------------------------------------------------------


def count_slots(batch: Batch, queue: str, limit: int) -> int:
    """Return how many slots of a queue are held, counted up to a limit.

    Args:
        batch: The batch; it holds the queue's gate.
        queue: The queue.
        limit: Up to which number it is counted.
    """
    taken, given_back = _in_batch(batch, queue)
    parts = [(contents.SLOTS_OF_RUNS, (queue,)), (contents.SLOTS_OF_ACTIVITIES, (queue,))]
    found = sum(contents.count_up_to(batch.scan, limit + given_back, *parts))
    return found - given_back + taken


def count_slots_of(batch: Batch, queue: str, worker_id: str) -> int:
    """Return how many slots of a queue the runs and activities of a worker hold.

    Args:
        batch: The batch; it holds the queue's gate.
        queue: The queue.
        worker_id: The worker.
    """
    text = (
        "SELECT (SELECT count(*) FROM workflow_runs WHERE slot_queue = ? AND owner_id = ?) + "
        "(SELECT count(*) FROM activity_executions WHERE status = 'running' AND queue = ? AND claimed_by = ?)"
    )
    found: int = batch.scan(text, (queue, worker_id, queue, worker_id))[0][0]
    return found + sum(_difference(batch, queue, worker_id).values())


def count_partition_slots(
    batch: Batch, queue: str, partitions: Sequence[str], worker_id: str | None = None
) -> dict[str, int]:
    """Return how many slots each of some partitions holds: those of all workers, or of one.

    Args:
        batch: The batch; it holds the queue's gate.
        queue: The queue.
        partitions: The partitions.
        worker_id: The worker whose slots alone are counted.
    """
    runs, activities = "", ""
    values: list[object] = [queue, *partitions]
    if worker_id is not None:
        runs, activities = " AND owner_id = ?", " AND claimed_by = ?"
        values.append(worker_id)
    text = (
        "SELECT partition_key, sum(held) FROM ("
        "SELECT partition_key, count(*) AS held FROM workflow_runs "
        f"WHERE slot_queue = ? AND partition_key IN ({marks(partitions)}){runs} GROUP BY partition_key UNION ALL "
        "SELECT partition_key, count(*) FROM activity_executions WHERE status = 'running' "
        f"AND queue = ? AND partition_key IN ({marks(partitions)}){activities} GROUP BY partition_key"
        ") AS slots GROUP BY partition_key"
    )
    found = dict.fromkeys(partitions, 0)
    found.update((row[0], int(row[1])) for row in batch.scan(text, (*values, *values)))
    for partition, difference in _difference(batch, queue, worker_id).items():
        if partition in found:
            found[partition] += difference
    return found


@dataclass(slots=True)
class _Slot:
    """A slot that something held before this batch, or holds now."""

    partition: str
    owner: str | None


def _slot(values: dict[str, Any], kind: Kind, queue: str) -> _Slot | None:
    """Return the slot of a queue that a row holds."""
    if kind is Kind.RUN:
        held, owner = values["slot_queue"] == queue, values["owner_id"]
    else:
        held = values["queue"] == queue and values["status"] == ActivityStatus.RUNNING
        owner = values["claimed_by"]
    return _Slot(values["partition_key"] or "", owner) if held else None


def _changes(batch: LockedRows, queue: str) -> Iterator[tuple[_Slot | None, _Slot | None]]:
    """Return the slots of a queue that rows of this batch held before it, and hold now: no count sees that yet."""
    for run_id, run in batch.run_rows.items():
        if run.queue == queue:
            was = batch.run_rows.before.get(run_id)
            before = None if was is None else _slot(was, Kind.RUN, queue)
            yield before, _slot(vars(run), Kind.RUN, queue)
    for key, activity in batch.activity_rows.items():
        if activity.queue == queue:
            was = batch.activity_rows.before.get(key)
            before = None if was is None else _slot(was, Kind.ACTIVITY, queue)
            yield before, _slot(vars(activity), Kind.ACTIVITY, queue)


def _in_batch(batch: LockedRows, queue: str) -> tuple[int, int]:
    """Return how many slots of a queue changes of this batch have taken and given back."""
    taken = given_back = 0
    for before, after in _changes(batch, queue):
        taken += after is not None and before is None
        given_back += before is not None and after is None
    return taken, given_back


def _difference(batch: LockedRows, queue: str, worker_id: str | None) -> dict[str, int]:
    """Return by how many slots each partition of a queue differs from what a count finds, by changes of this batch."""
    found: dict[str, int] = {}
    for before, after in _changes(batch, queue):
        for slot, sign in ((before, -1), (after, 1)):
            if slot is not None and (worker_id is None or slot.owner == worker_id):
                found[slot.partition] = found.get(slot.partition, 0) + sign
    return found


# --- lines ----------------------------------------------------------------------------------------------------------


def find_pairs(
    batch: Batch, queue: str, kinds: Sequence[Kind], after: str | None, until: str | None = None
) -> dict[Pair, list[Kind]]:
    """Return the pairs of partition and priority that have a line, by partition and priority, and what is in each.

    Args:
        batch: The batch.
        queue: The queue.
        kinds: What is looked for.
        after: The partition after which it begins; ``None`` for the first one.
        until: The last partition that counts; ``None`` for no bound.
    """
    found: dict[Pair, list[Kind]] = {}
    sqlite = batch.raw.qmark
    asked = [
        contents.lines_asked(SOURCES[kind].waiting, queue, PAIRS, sqlite=sqlite, after=after, until=until)
        for kind in kinds
    ]
    for kind, rows in zip(kinds, batch.scan_together(asked), strict=True):
        for line in contents.lines_of(rows, sqlite=sqlite):
            found.setdefault(Pair(line.partition, line.priority), []).append(kind)
    # The first of each kind are the first of all; of those that come after them, some may not have been read.
    return {pair: found[pair] for pair in sorted(found)[:PAIRS]}


def find_pairs_of(
    batch: Batch, queue: str, kinds: Sequence[Kind], partitions: Sequence[str]
) -> dict[Pair, list[Kind]]:
    """Return the pairs of some partitions that have a line, and what is in each.

    Args:
        batch: The batch.
        queue: The queue.
        kinds: What is looked for.
        partitions: The partitions: a few.
    """
    found: dict[Pair, list[Kind]] = {}
    if not partitions:
        return found
    values = [item for partition in partitions for priority in PRIORITIES for item in (partition, priority)]
    texts = [_pairs_of(kind, len(partitions), sqlite=batch.raw.qmark) for kind in kinds]
    asked = [(text, (*values, queue)) for text in texts]
    for kind, rows in zip(kinds, batch.scan_together(asked), strict=True):
        for row in rows:
            found.setdefault(Pair(*row), []).append(kind)
    return {pair: found[pair] for pair in sorted(found)}


@lru_cache(64)
def _pairs_of(kind: Kind, partitions: int, *, sqlite: bool) -> str:
    waiting = SOURCES[kind].waiting
    line = (
        f"SELECT 1 FROM {waiting.table} AS h WHERE h.queue = ? AND h.{waiting.condition} "
        "AND h.partition_key = v.column1 AND h.priority = v.column2"
    )
    group = ", ".join(["(?, ?)" if sqlite else "(?::text, ?::bigint)"] * partitions * len(PRIORITIES))
    found = f"SELECT v.column1, v.column2 FROM (VALUES {group}) AS v"
    # PostgreSQL would be free to answer EXISTS by a join that reads the whole line.
    return f"{found} WHERE EXISTS ({line})" if sqlite else f"{found} CROSS JOIN LATERAL ({line} LIMIT 1) AS r"


def find_heads(
    batch: Batch, queue: str, pairs: Mapping[Kind, Sequence[Pair]], limits: Mapping[Kind, int]
) -> dict[Kind, dict[Pair, list[Head]]]:
    """Return the first runs and activities of each line, in the order in which they joined it.

    Args:
        batch: The batch.
        queue: The queue.
        pairs: The lines of each kind.
        limits: How many of each line, by kind.
    """
    found: dict[Kind, dict[Pair, list[Head]]] = {kind: {} for kind in pairs}
    kinds = [kind for kind, some in pairs.items() if some]
    asked = [
        (
            _heads_text(kind, len(pairs[kind]), sqlite=batch.raw.qmark),
            (*chain.from_iterable(pairs[kind]), queue, limits[kind]),
        )
        for kind in kinds
    ]
    for kind, rows in zip(kinds, batch.scan_together(asked), strict=True):
        for partition, priority, *head in sorted(rows):
            found[kind].setdefault(Pair(partition, priority), []).append(Head(*head))
    return found


@lru_cache(256)
def _heads_text(kind: Kind, pairs: int, *, sqlite: bool) -> str:
    waiting, key, type_column = SOURCES[kind]
    activity_id = "{0}activity_id" if kind is Kind.ACTIVITY else "NULL"
    columns = (
        f"{{0}}partition_key, {{0}}priority, {{0}}{waiting.since} AS since, {{0}}run_id, "
        f"{activity_id} AS activity_id, {{0}}task_queue, {{0}}{type_column} AS type, {{0}}next_deadline_at"
    ).format
    # On PostgreSQL the index of activities does not have the key: all that joined at the same time would be sorted.
    order = (waiting.since, *key) if sqlite or kind is Kind.RUN else (waiting.since,)
    line = (
        f"FROM {waiting.table} AS h WHERE h.queue = ? AND h.{waiting.condition} "
        f"AND h.partition_key = v.column1 AND h.priority = v.column2 "
        f"ORDER BY {', '.join(f'h.{name}' for name in order)} LIMIT ?"
    )
    if sqlite:
        group = ", ".join(["(?, ?)"] * pairs)
        mine, found = (", ".join(f"{table}.{name}" for name in key) for table in "rh")
        return (
            f"SELECT {columns('r.')} FROM (VALUES {group}) AS v CROSS JOIN {waiting.table} AS r "
            f"ON ({mine}) IN (SELECT {found} {line})"
        )
    group = ", ".join(["(?::text, ?::bigint)"] * pairs)
    return f"SELECT r.* FROM (VALUES {group}) AS v CROSS JOIN LATERAL (SELECT {columns('h.')} {line}) AS r"


def find_take_overs(
    batch: Batch,
    queue: str,
    task_queues: Sequence[str],
    types: Sequence[str],
    limit: int,
    full: Sequence[str] = (),
) -> list[tuple[str, str]]:
    """Return ``(run_id, partition)`` of runs that hold a slot, have something to do and no owner; the oldest first.

    Args:
        batch: The batch.
        queue: The queue.
        task_queues: The task queues that the worker serves.
        types: The workflow types that it knows, and families of them.
        limit: How many.
        full: Partitions whose runs are passed over.
    """
    passed_over = f"AND partition_key NOT IN ({marks(full)}) " if full else ""
    known, named = of_types("workflow_type", types)
    text = (
        "SELECT run_id, partition_key FROM workflow_runs WHERE slot_queue = ? AND owner_id IS NULL "
        # The concatenation keeps SQLite from the index of all claimable runs, whose length has nothing to do with this.
        f"AND wake_at <= ? AND not_before <= ? AND task_queue || '' IN ({marks(task_queues)}) "
        f"AND {known} {passed_over}ORDER BY wake_at LIMIT ?"
    )
    values = (queue, batch.now, batch.now, *task_queues, *named, *full, limit)
    return [(row[0], row[1] or "") for row in batch.scan(text, values)]
