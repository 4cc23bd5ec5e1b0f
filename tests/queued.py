"""Queues for tests of admission: their rows, without what checks and words a definition."""

from __future__ import annotations

from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.journal.journal import Journal

LIMITS = (
    "concurrency",
    "worker_concurrency",
    "rate_limit",
    "rate_per",
    "partition_concurrency",
    "partition_worker_concurrency",
    "partition_rate_limit",
    "partition_rate_per",
    "paused_at",
)


class WriteQueue(BaseChange):
    """Write the row of a queue, with these limits and no others."""

    def __init__(self, name: str, limits: dict[str, int | None]) -> None:
        self.name = name
        self.values = [limits.get(limit) for limit in LIMITS]

    def apply(self, batch: Batch) -> None:
        sets = ", ".join(["updated_at = created_at + 1", *(f"{limit} = ?" for limit in LIMITS)])
        changed = batch.execute(f"UPDATE queues SET {sets} WHERE queue = ?", (*self.values, self.name))
        if not changed:
            columns = ", ".join(("queue", "created_at", "updated_at", *LIMITS))
            marks = ", ".join("?" * (3 + len(LIMITS)))
            batch.execute(
                f"INSERT INTO queues ({columns}) VALUES ({marks})",
                (self.name, batch.now, batch.now, *self.values),
            )


async def write_queue(journal: Journal, name: str = "q", /, **limits: int | None) -> None:
    """Make a queue, or give one that is there other limits."""
    await journal.apply(WriteQueue(name, limits))
