"""What holds up a line of a queue, in words: why nothing leaves it now."""

from __future__ import annotations

from outlast_store.database.sql_text import select
from outlast_store.queues import contents
from outlast_store.queues.contents import Scan
from outlast_store.queues.rate_log import RateLog
from outlast_store.schema import tables
from outlast_store.schema.rows import QueueRow
from outlast_workflow.options.queues import Rate


def hold_up(scan: Scan, queue: str, partition: str, now: int) -> str | None:
    """Return what holds up the line of a partition: no definition, a pause, no free slot, a rate that is used up.

    Limits of single workers are not looked at: another worker may have room.

    Args:
        scan: How to read.
        queue: The queue.
        partition: The partition.
        now: Microseconds since the epoch.

    Returns:
        The reason; ``None`` where the queue has room.
    """
    rows = scan(select(tables.queues, "queue = ? AND deleted_at IS NULL"), (queue,))
    if not rows:
        return f"nobody has defined its queue {queue!r}"
    row = QueueRow(*rows[0])
    if row.paused_at is not None:
        return f"its queue {queue!r} is paused"
    return _full(scan, row, partition) or _too_fast(scan, row, partition, now)


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
