"""Rows that count for nothing any more: queries that nobody waits for, and rate logs of partitions that have passed.

A watchdog finds and deletes them, a bounded number at a time. They are left for a minute, because the clocks of
processes differ. Rate logs are written under the gate of their queue, and so they are deleted under it: one that an
admission has written since it was found stays. Keys of debounced starts have expiries of their own kind:
:mod:`outlast_store.transitions.debounces`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.reads.due import EXPIRED_FOR_US

Partition = tuple[str, str]
"""A queue and a partition of it."""


def find_rate_logs(connection: Connection, now: int, limit: int) -> list[Partition]:
    """Return the partitions whose rate logs have passed at least a minute ago.

    Args:
        connection: Where to read.
        now: Microseconds since the epoch.
        limit: How many.
    """
    text = (
        "SELECT queue, partition_key FROM queue_partitions WHERE expires_at <= ? ORDER BY expires_at LIMIT ?"
    )
    return [(row[0], row[1]) for row in fetch(connection, text, (now - EXPIRED_FOR_US, limit))]


class ForgetQueries(BaseChange):
    """Delete queries that nobody waits for, the oldest first.

    Args:
        limit: How many.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def apply(self, batch: Batch) -> int:
        """Delete their rows; return how many."""
        key = "first_run_id, kind, request_id"
        text = (
            f"DELETE FROM workflow_requests WHERE ({key}) IN "
            f"(SELECT {key} FROM workflow_requests WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)"
        )
        return batch.execute(text, (batch.now - EXPIRED_FOR_US, self.limit))


class ForgetRateLogs(BaseChange):
    """Delete the rate logs of partitions that have passed, but for queues whose gate another transaction holds.

    Args:
        partitions: The partitions.
    """

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self.gates = sorted({queue for queue, _ in partitions})
        self.partitions = partitions

    def apply(self, batch: Batch) -> int:
        """Delete their rows; return how many."""
        ours = [partition for partition in self.partitions if partition[0] in batch.gates]
        if not ours:
            return 0
        text = (
            "DELETE FROM queue_partitions WHERE expires_at <= ? AND (queue, partition_key) IN "
            f"(VALUES {', '.join(['(?, ?)'] * len(ours))})"
        )
        return batch.execute(text, (batch.now - EXPIRED_FOR_US, *chain.from_iterable(ours)))
