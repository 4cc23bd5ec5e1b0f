"""Which runs a worker may claim, and which it owns."""

from __future__ import annotations

from collections.abc import Sequence

from outlast_store.database.sql_text import Values, marks
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import RunRow
from outlast_store.schema.tables import history_events


def scan_claimable_runs(
    batch: Batch, task_queues: Sequence[str], types: Sequence[str], limit: int
) -> list[tuple[int, str]]:
    """Return ``(wake_at, run_id)`` of runs without an owner that have something to do, oldest first in each queue.

    Args:
        batch: The batch.
        task_queues: The task queues, one statement for each.
        types: The workflow types.
        limit: How many of each queue.
    """
    text = (
        "SELECT wake_at, run_id FROM workflow_runs WHERE owner_id IS NULL AND slot_queue IS NULL "
        "AND task_queue = ? AND wake_at <= ? "
        f"AND not_before <= ? AND workflow_type IN ({marks(types)}) ORDER BY wake_at LIMIT ?"
    )
    found: list[tuple[int, str]] = []
    for queue in task_queues:
        rows = batch.scan(text, (queue, batch.now, batch.now, *types, limit))
        found += [(row[0], row[1]) for row in rows]
    return found


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
