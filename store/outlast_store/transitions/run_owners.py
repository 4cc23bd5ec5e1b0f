"""Which runs a worker may claim, and which it owns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product

from outlast_store.database.sql_text import Values
from outlast_store.journal.batch import Batch
from outlast_store.reads.task_queues import MOST_RANGES, RUNS, split, types_among, types_waiting
from outlast_store.schema.rows import RunRow
from outlast_store.schema.tables import history_events


def scan_claimable_runs(
    batch: Batch, task_queues: Sequence[str], types: Sequence[str], limit: int
) -> list[tuple[int, str]]:
    """Return ``(wake_at, run_id)`` of runs without an owner that have something to do, oldest first.

    Args:
        batch: The batch.
        task_queues: The task queues.
        types: The workflow types, and families of them.
        limit: How many.
    """
    types = types_waiting(batch.scan, task_queues, types)
    ranges: list[Values] = list(product(task_queues, types))
    if len(ranges) > MOST_RANGES:
        text = f"{types_among(RUNS, len(task_queues), len(types))} SELECT task_queue, type FROM known"
        ranges = batch.scan(text, (*task_queues, *types))
    sqlite = batch.raw.qmark
    more: Values = () if sqlite else (limit,)
    found: list[tuple[int, str]] = []
    for some in split(ranges):
        values = [value for one in some for value in (*one, batch.now, batch.now, *more)]
        rows = batch.scan(_claimable_text(len(some), sqlite=sqlite), (*values, limit))
        found += [(row[0], row[1]) for row in rows]
    found.sort()
    return found[:limit]


@lru_cache(64)
def _claimable_text(ranges: int, *, sqlite: bool) -> str:
    """Return what merges ranges, which the index keeps in order: each is read no further than it is needed.

    PostgreSQL merges only ranges that are ordered by themselves; SQLite would then read each up to the limit.
    """
    text = (
        "SELECT wake_at, run_id FROM workflow_runs WHERE owner_id IS NULL AND slot_queue IS NULL "
        "AND task_queue = ? AND workflow_type = ? AND wake_at <= ? AND not_before <= ?"
    )
    if not sqlite:
        text = f"SELECT * FROM ({text} ORDER BY wake_at LIMIT ?) AS range_"
    return f"{' UNION ALL '.join([text] * ranges)} ORDER BY wake_at LIMIT ?"


def scan_owned_runs(batch: Batch, worker_id: str, limit: int) -> list[str]:
    """Return runs that a worker owns, in no order.

    Args:
        batch: The batch.
        worker_id: The worker.
        limit: How many.
    """
    text = "SELECT run_id FROM workflow_runs WHERE owner_id = ? LIMIT ?"
    return [row[0] for row in batch.scan(text, (worker_id, limit))]


def read_short_histories(batch: Batch, runs: Sequence[RunRow], most_bytes: int) -> dict[str, list[Values]]:
    """Return ``(seq, type, payload)`` of the events in the database, for each run whose history is short.

    Events that this batch has appended are not among them; the row's ``last_seq`` shows that there are some.

    Args:
        batch: The batch.
        runs: The runs.
        most_bytes: How long a short history is at most, in bytes.
    """
    found: dict[str, list[Values]] = {run.run_id: [] for run in runs if run.history_bytes <= most_bytes}
    if found:
        keys = [(run_id,) for run_id in found]
        for run_id, seq, kind, _, payload in batch.read(history_events, ("run_id",), keys):
            found[run_id].append((seq, kind, payload))
    for events in found.values():
        events.sort()
    return found
