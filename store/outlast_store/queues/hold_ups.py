"""What holds up a line of a queue, in words: why nothing leaves it now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from outlast_store.database.sql_text import Values, marks, select
from outlast_store.queues import contents
from outlast_store.queues.contents import Scan
from outlast_store.queues.rate_log import RateLog
from outlast_store.schema import tables
from outlast_store.schema.rows import QueueRow
from outlast_workflow.options.queues import Rate

MOST_WORKERS: Final = 200
"""Of how many workers it is looked at whether each of them has all the slots that one may have."""


def hold_up(
    scan: Scan, queue: str, partition: str, now: int, *, workers: Sequence[str] = (), lack: str | None = None
) -> str | None:
    """Return what holds up the line of a partition: no definition, a pause, no free slot, a rate that is used up.

    Args:
        scan: How to read.
        queue: The queue.
        partition: The partition.
        now: Microseconds since the epoch.
        workers: The live workers that could take what stands there: a limit of each worker holds it up where all of
            them have reached it.
        lack: Which worker it lacks, in words. Where that is said, nothing is said of limits.

    Returns:
        The reason; ``None`` where the queue has room.
    """
    rows = scan(select(tables.queues, "queue = ? AND deleted_at IS NULL"), (queue,))
    if not rows:
        return f"nobody has defined its queue {queue!r}"
    row = QueueRow(*rows[0])
    if row.paused_at is not None:
        return f"its queue {queue!r} is paused" + (f": {row.note}" if row.note else "")
    if lack is not None:
        return lack
    return (
        _full(scan, row, partition)
        or _too_fast(scan, row, partition, now)
        or _workers_full(scan, row, partition, workers)
    )


def _full(scan: Scan, row: QueueRow, partition: str) -> str | None:
    """Return which concurrency is used up."""
    for limit, condition, more, of in (
        (row.concurrency, "", (), f"queue {row.queue!r}"),
        (
            row.partition_concurrency,
            " AND partition_key = ?",
            (partition,),
            f"partition {partition!r} of queue {row.queue!r}",
        ),
    ):
        if limit is not None:
            values = (row.queue, *more)
            parts = [
                (f"{source}{condition}", values)
                for source in (contents.SLOTS_OF_RUNS, contents.SLOTS_OF_ACTIVITIES)
            ]
            if sum(contents.count_up_to(scan, limit, *parts)) >= limit:
                slots = "the only slot" if limit == 1 else f"all {limit:,} slots"
                return f"{slots} of {of} {'is' if limit == 1 else 'are'} taken"
    return None


def _too_fast(scan: Scan, row: QueueRow, partition: str, now: int) -> str | None:
    """Return which rate is used up."""
    for limit, per, of in (
        (row.rate_limit, row.rate_per, None),
        (row.partition_rate_limit, row.partition_rate_per, partition),
    ):
        if limit is None or per is None:
            continue
        text = row.rate_log
        if of is not None:
            logs = scan(
                "SELECT rate_log FROM queue_partitions WHERE queue = ? AND partition_key = ?", (row.queue, of)
            )
            text = logs[0][0] if logs else None
        if not RateLog.from_json(limit, per, text).room(now):
            whose = f"queue {row.queue!r}" if of is None else f"partition {of!r} of queue {row.queue!r}"
            return f"the rate of {whose} is used up ({Rate(limit, per / 1_000_000)})"
    return None


def _workers_full(scan: Scan, row: QueueRow, partition: str, workers: Sequence[str]) -> str | None:
    """Return which limit of a single worker all of the workers have reached."""
    if not 0 < len(workers) <= MOST_WORKERS:
        return None
    for limit, named, condition, more, of in (
        (row.worker_concurrency, "worker_concurrency", "", (), f"queue {row.queue!r}"),
        (
            row.partition_worker_concurrency,
            "partition_worker_concurrency",
            " AND partition_key = ?",
            (partition,),
            f"partition {partition!r} of queue {row.queue!r}",
        ),
    ):
        if limit is None:
            continue
        values: Values = (row.queue, *more, *workers)
        text = (
            "SELECT worker, count(*) FROM ("
            f"SELECT owner_id AS worker FROM {contents.SLOTS_OF_RUNS}{condition} AND owner_id IN ({marks(workers)}) "
            f"UNION ALL SELECT claimed_by FROM {contents.SLOTS_OF_ACTIVITIES}{condition} "
            f"AND claimed_by IN ({marks(workers)})) AS slots GROUP BY worker"
        )
        held = {worker: int(count) for worker, count in scan(text, (*values, *values))}
        if all(held.get(worker, 0) >= limit for worker in workers):
            one = len(workers) == 1
            who = "the only worker" if one else f"each of the {len(workers)} workers"
            slots = "its only slot" if limit == 1 else f"all its {limit:,} slots"
            return f"{who} that could run it holds {slots} of {of} ({named}={limit})"
    return None
