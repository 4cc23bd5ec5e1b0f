"""The lines of queues: what waits in them, and what holds their slots.

A line is the runs of a queue and a partition whose ``queued_at`` is set, and a slot is a run whose ``slot_queue`` is.
So whatever ends, continues or deletes a run changes both with its own row, and nothing can leak. Each statement reads
an index of its own, and what is found by it is counted up to a limit: no cost here follows the length of a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from outlast_store.database.sql_text import marks
from outlast_store.journal.batch import Batch
from outlast_store.journal.locked_rows import LockedRows
from outlast_store.queues import contents

PAIRS: Final = 200
"""How many pairs of partition and priority one look finds at most."""


class Pair(NamedTuple):
    """A partition that has a line, and a priority in it."""

    partition: str
    priority: int


class Head(NamedTuple):
    """A run in line."""

    run_id: str
    task_queue: str
    workflow_type: str
    deadline_at: int | None
    """When its next timeout passes."""


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


def _in_batch(batch: LockedRows, queue: str) -> tuple[int, int]:
    """Return how many slots of a queue changes of this batch have taken and given back: no count sees that yet."""
    taken = given_back = 0
    for entry in batch.run_rows.values():
        before = entry.before is not None and entry.before["slot_queue"] == queue
        after = entry.row.slot_queue == queue
        taken += after and not before
        given_back += before and not after
    return taken, given_back


def _difference(batch: LockedRows, queue: str, worker_id: str | None) -> dict[str, int]:
    """Return by how many slots each partition of a queue differs from what a count finds, by changes of this batch."""
    found: dict[str, int] = {}
    for entry in batch.run_rows.values():
        row, before = entry.row, entry.before
        held = (
            before is not None
            and before["slot_queue"] == queue
            and (worker_id is None or before["owner_id"] == worker_id)
        )
        holds = row.slot_queue == queue and (worker_id is None or row.owner_id == worker_id)
        if held != holds:
            partition = row.partition_key or ""
            found[partition] = found.get(partition, 0) + (1 if holds else -1)
    return found


# --- lines ----------------------------------------------------------------------------------------------------------


def find_pairs(batch: Batch, queue: str, after: str | None, until: str | None = None) -> list[Pair]:
    """Return the pairs of partition and priority that have a line, by partition and priority.

    Args:
        batch: The batch.
        queue: The queue.
        after: The partition after which it begins; ``None`` for the first one.
        until: The last partition that counts; ``None`` for no bound.
    """
    found = contents.find_lines(
        batch.scan, contents.RUNS, queue, PAIRS, sqlite=batch.raw.qmark, after=after, until=until
    )
    return [Pair(line.partition, line.priority) for line in found]


def find_heads(batch: Batch, queue: str, pairs: Sequence[Pair], limit: int) -> dict[Pair, list[Head]]:
    """Return the first runs of each line, in the order in which they joined it.

    Args:
        batch: The batch.
        queue: The queue.
        pairs: The lines.
        limit: How many of each.
    """
    found: dict[Pair, list[Head]] = {pair: [] for pair in pairs}
    if not pairs:
        return found
    values: list[object] = [item for pair in pairs for item in pair]
    text = _heads_text(len(pairs), qmark=batch.raw.qmark)
    rows = batch.scan(text, (*values, queue, limit))
    for partition, priority, _, *head in sorted(rows):
        found[Pair(partition, priority)].append(Head(*head))
    return found


@lru_cache(256)
def _heads_text(pairs: int, *, qmark: bool) -> str:
    columns = "r.partition_key, r.priority, r.queued_at, r.run_id, r.task_queue, r.workflow_type, r.next_deadline_at"
    line = (
        "FROM workflow_runs AS h WHERE h.queue = ? AND h.queued_at IS NOT NULL AND h.partition_key = v.column1 "
        "AND h.priority = v.column2 ORDER BY h.queued_at, h.run_id LIMIT ?"
    )
    if qmark:
        group = ", ".join(["(?, ?)"] * pairs)
        return (
            f"SELECT {columns} FROM (VALUES {group}) AS v CROSS JOIN workflow_runs AS r "
            f"ON r.run_id IN (SELECT h.run_id {line})"
        )
    group = ", ".join(["(?::text, ?::bigint)"] * pairs)
    return (
        f"SELECT {columns} FROM (VALUES {group}) AS v CROSS JOIN LATERAL "
        "(SELECT h.partition_key, h.priority, h.queued_at, h.run_id, h.task_queue, h.workflow_type, "
        f"h.next_deadline_at {line}) AS r"
    )


def find_take_overs(
    batch: Batch, queue: str, task_queues: Sequence[str], types: Sequence[str], limit: int
) -> list[tuple[str, str]]:
    """Return ``(run_id, partition)`` of runs that hold a slot, have something to do and no owner; the oldest first.

    Args:
        batch: The batch.
        queue: The queue.
        task_queues: The task queues that the worker serves.
        types: The workflow types that it knows.
        limit: How many.
    """
    text = (
        "SELECT run_id, partition_key FROM workflow_runs WHERE slot_queue = ? AND owner_id IS NULL "
        # The concatenation keeps SQLite from the index of all claimable runs, whose length has nothing to do with this.
        f"AND wake_at <= ? AND not_before <= ? AND task_queue || '' IN ({marks(task_queues)}) "
        f"AND workflow_type IN ({marks(types)}) ORDER BY wake_at LIMIT ?"
    )
    values = (queue, batch.now, batch.now, *task_queues, *types, limit)
    return [(row[0], row[1] or "") for row in batch.scan(text, values)]
