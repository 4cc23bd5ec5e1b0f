"""A queue as people and programs are shown it."""

from __future__ import annotations

from outlast.visibility.views import Instant, View
from outlast_store.queues.definitions import definition_of
from outlast_store.reads.queues import QueueLoad
from outlast_workflow.options.queues import Rate
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND, to_datetime


class RateView(View):
    """How many may be admitted in any window of so many seconds."""

    limit: int
    per_seconds: int | float

    def __str__(self) -> str:
        return str(Rate(self.limit, self.per_seconds))


class QueueDescription(View):
    """A queue: its limits (``None`` is no limit), and what is in it now.

    Attributes:
        concurrency: How many of its runs and activities may be under way at a time, over all workers.
        worker_concurrency: How many of them one worker may have.
        rate: How many may be admitted in any window of time.
        partition_concurrency: How many of one partition may be under way at a time, over all workers.
        partition_worker_concurrency: How many of one partition one worker may have.
        partition_rate: How many of one partition may be admitted in any window of time.
        paused: Whether it admits nothing.
        note: Why it was paused.
        waiting: How many runs and activities stand in its line, each counted up to 10,000.
        running: How many of its slots are held, by runs and by activities, each counted up to 10,000.
        waiting_activities: How many of those in line are activities.
        running_activities: How many of the slots are held by activities.
        delayed: How many have yet to join the line: runs with a start delay, and activities that will be retried.
        oldest_waiting_seconds: How long the first in its line has waited.
        partitions_waiting: How many partitions with a key have a line, counted up to 1,000.
        held_up_by: What holds up the first in its line: a pause, slots, a rate, or that no live worker can run it, and
            what to do then. ``None`` where nothing does, or nothing waits.
        next_admission_at: When its rate allows the next admission, if it allows none now.
    """

    name: str
    concurrency: int | None
    worker_concurrency: int | None
    rate: RateView | None
    partition_concurrency: int | None
    partition_worker_concurrency: int | None
    partition_rate: RateView | None
    paused: bool
    paused_at: Instant | None
    note: str | None
    created_at: Instant
    updated_at: Instant
    waiting: int
    running: int
    waiting_activities: int
    running_activities: int
    delayed: int
    oldest_waiting_seconds: float | None
    partitions_waiting: int
    next_admission_at: Instant | None
    held_up_by: str | None = None

    @property
    def limits_in_words(self) -> str:
        """Its limits in words: ``10 at a time, 2 a worker, 20 per second; a partition: 1 at a time``; empty if none."""
        whole = _in_words(self.concurrency, self.worker_concurrency, self.rate)
        part = _in_words(self.partition_concurrency, self.partition_worker_concurrency, self.partition_rate)
        return "; ".join([*([whole] if whole else []), *([f"a partition: {part}"] if part else [])])


def _in_words(concurrency: int | None, of_a_worker: int | None, rate: RateView | None) -> str:
    parts = [
        None if concurrency is None else f"{concurrency:,} at a time",
        None if of_a_worker is None else f"{of_a_worker:,} a worker",
        None if rate is None else str(rate),
    ]
    return ", ".join(part for part in parts if part is not None)


def queue_description(load: QueueLoad, now: int) -> QueueDescription:
    """Describe a queue.

    Args:
        load: What the store says.
        now: Microseconds since the epoch.
    """
    row, queue = load.row, definition_of(load.row)
    oldest = load.oldest_waiting_at
    return QueueDescription(
        name=row.queue,
        concurrency=row.concurrency,
        worker_concurrency=row.worker_concurrency,
        rate=_rate(queue.rate),
        partition_concurrency=row.partition_concurrency,
        partition_worker_concurrency=row.partition_worker_concurrency,
        partition_rate=_rate(queue.partition_rate),
        paused=row.paused_at is not None,
        paused_at=None if row.paused_at is None else to_datetime(row.paused_at),
        note=row.note,
        created_at=to_datetime(row.created_at),
        updated_at=to_datetime(row.updated_at),
        waiting=load.waiting,
        running=load.running,
        waiting_activities=load.waiting_activities,
        running_activities=load.running_activities,
        delayed=load.delayed,
        oldest_waiting_seconds=None if oldest is None else max(0, now - oldest) / MICROSECONDS_PER_SECOND,
        partitions_waiting=load.partitions,
        held_up_by=load.held_up_by,
        next_admission_at=None if load.next_admission_at is None else to_datetime(load.next_admission_at),
    )


def _rate(rate: Rate | None) -> RateView | None:
    return None if rate is None else RateView(limit=rate.limit, per_seconds=rate.per)
