"""The rows of workers: registering one, forgetting one, and whether a lease still holds."""

from __future__ import annotations

from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import WorkerRow


def insert_worker(batch: Batch, row: WorkerRow) -> None:
    """Insert a worker's row."""
    names = ", ".join(vars(row))
    marks = ", ".join("?" * len(vars(row)))
    batch.execute(f"INSERT INTO workers ({names}) VALUES ({marks})", tuple(vars(row).values()))


def delete_worker(batch: Batch, worker_id: str) -> None:
    """Delete the row of a worker that has stopped."""
    batch.execute("DELETE FROM workers WHERE worker_id = ?", (worker_id,))


def delete_lapsed_worker(batch: Batch, worker_id: str) -> bool:
    """Delete the row of a worker whose lease has ended; ``False`` where it has not, or the row is gone."""
    text = "DELETE FROM workers WHERE worker_id = ? AND lease_expires_at <= ?"
    return batch.execute(text, (worker_id, batch.now)) == 1


def delete_silent_worker(batch: Batch, worker_id: str, expires_at: int) -> bool:
    """Delete the row of a worker whose lease still ends when it did; ``False`` where it was renewed or is gone.

    Args:
        batch: The batch.
        worker_id: The worker.
        expires_at: When its lease was seen to end, in microseconds.
    """
    text = "DELETE FROM workers WHERE worker_id = ? AND lease_expires_at = ?"
    return batch.execute(text, (worker_id, expires_at)) == 1


def is_alive(batch: Batch, worker_id: str) -> bool:
    """Return whether a worker is registered and its lease has not ended."""
    text = "SELECT 1 FROM workers WHERE worker_id = ? AND lease_expires_at > ?"
    return bool(batch.scan(text, (worker_id, batch.now)))
