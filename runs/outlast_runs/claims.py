"""Who owns what: registering a worker, claiming and stealing runs, releasing them.

A claim bumps the run's fence, and every commit of an owner names the fence that it claimed with. So a worker that was
paused, partitioned or declared dead is refused rather than merged.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast_runs.owner_losses import keep_slot_served, lose
from outlast_store.database.sql_text import Values
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RunRow, WorkerRow
from outlast_store.transitions.run_owners import read_short_histories, scan_claimable_runs, scan_owned_runs
from outlast_store.transitions.workers import delete_worker, insert_worker
from outlast_workflow.options.limits import DEFAULT_LIMITS

STEAL_AFTER_US = 10_000_000
"""How long a run of a live owner must have been awake before another worker may steal it."""
SHORT_HISTORY_BYTES = 16 * 1024
"""A history no longer than this is read with the claim."""
SPARE_CANDIDATES = 20
"""How many more candidates are scanned than are wanted, since others may hold the first of them."""


# --- workers ----------------------------------------------------------------------------------------------------------


class RegisterWorker(BaseChange):
    """Make a worker known, with its lease.

    Args:
        row: The worker; its times are set when it is written.
        lease_us: The lease's duration, in microseconds.
    """

    def __init__(self, row: WorkerRow, lease_us: int) -> None:
        self.row = row
        self.lease_us = lease_us

    def apply(self, batch: Batch) -> int:
        """Insert its row; return when the lease ends, in microseconds."""
        row = self.row
        row.started_at = batch.now
        row.lease_expires_at = batch.now + self.lease_us
        row.lease_duration = self.lease_us
        insert_worker(batch, row)
        return row.lease_expires_at


class ForgetWorker(BaseChange):
    """Forget a worker that has stopped in good order."""

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id

    def apply(self, batch: Batch) -> None:
        """Delete its row."""
        delete_worker(batch, self.worker_id)


# --- claiming runs ----------------------------------------------------------------------------------------------------


class ClaimRuns(BaseChange):
    """Claim runs that have something to do and no owner, oldest first across all task queues.

    Args:
        worker_id: The worker that claims.
        task_queues: The task queues that it serves.
        types: The workflow types that it knows.
        limit: How many runs it claims at most.

    Attributes:
        more: Whether more runs may wait: at least as many were found as were wanted.
        histories: ``(seq, type, payload)`` of the events of those runs whose history is short, as most are that have
            only just been started.
    """

    def __init__(self, worker_id: str, task_queues: Sequence[str], types: frozenset[str], limit: int) -> None:
        self.worker_id = worker_id
        self.task_queues = task_queues
        self.types = types
        self.limit = limit
        self.more = False
        self.histories: dict[str, list[Values]] = {}

    def apply(self, batch: Batch) -> list[RunRow]:
        """Claim at most ``limit`` runs and return them."""
        candidates = self._candidates(batch)
        claimed: list[RunRow] = []
        tried = 0
        while tried < len(candidates) and len(claimed) < self.limit:
            wanted = candidates[tried : tried + self.limit - len(claimed)]
            tried += len(wanted)
            for run in batch.lock_runs(wanted, skip=True):
                if run.is_open and run.owner_id is None and run.wake_at is not None:
                    run.owner_id = self.worker_id
                    run.fence += 1
                    claimed.append(run)
        self.more = len(candidates) >= self.limit
        self.histories = read_short_histories(batch, claimed, SHORT_HISTORY_BYTES)
        return claimed

    def _candidates(self, batch: Batch) -> list[str]:
        """Return the oldest runs of all queues, and some to spare."""
        # Earlier claims of the same batch have claimed these, which the scan still finds.
        claimed = batch.runs_taken
        most = self.limit + SPARE_CANDIDATES
        found = scan_claimable_runs(batch, self.task_queues, sorted(self.types), most + claimed)
        if claimed:
            found = [row for row in found if _is_free(batch.run(row[1]))]
        return [run_id for _, run_id in found[:most]]


def _is_free(run: RunRow | None) -> bool:
    return run is None or run.owner_id is None


class StealRuns(BaseChange):
    """Steal runs that have been awake for long and whose owner, though alive, does not run their workflow task.

    A stolen run counts as lost by its owner (:func:`~outlast_runs.owner_losses.lose`), since the run may be the cause.
    Each loss doubles the wait for the next theft. A workflow task that is committed clears the count.

    Args:
        worker_id: The worker that steals.
        run_ids: The runs.
        most_losses: How many owners in a row a run may lose; 0 sets no limit.
    """

    def __init__(
        self, worker_id: str, run_ids: Sequence[str], most_losses: int = DEFAULT_LIMITS.owner_losses
    ) -> None:
        self.worker_id = worker_id
        self.runs = tuple(run_ids)
        self.most_losses = most_losses

    def apply(self, batch: Batch) -> list[RunRow]:
        """Claim those that still wait, and return them.

        Those that hold a queue's slot are only released, and those that have lost too many owners end.
        """
        stolen: list[RunRow] = []
        for run_id in self.runs:
            run = batch.run(run_id)
            if run is None or not run.is_open or run.wake_at is None:
                continue
            if run.owner_id in (None, self.worker_id):
                continue
            batch.require_locks()
            awake_since = max(run.wake_at, run.not_before)
            if batch.now - awake_since >= STEAL_AFTER_US << min(run.owner_losses, 10):
                ended = lose(batch, run, self.most_losses)
                # A queue limits what a worker holds, so its own admission hands the run on.
                if not ended and run.slot_queue is None:
                    run.owner_id = self.worker_id
                    stolen.append(run)
        return stolen


# --- releasing runs ---------------------------------------------------------------------------------------------------


class ReleaseRuns(BaseChange):
    """Release runs, so that any worker that serves their queue may claim them."""

    def __init__(self, worker_id: str, run_ids: Sequence[str]) -> None:
        self.worker_id = worker_id
        self.runs = tuple(run_ids)

    def apply(self, batch: Batch) -> int:
        """Release those that the worker still owns; return how many."""
        released = 0
        for run_id in self.runs:
            run = batch.run(run_id)
            if run is not None and run.owner_id == self.worker_id:
                run.owner_id = None
                keep_slot_served(run, batch.now)
                released += 1
        return released


class ReleaseAllRuns(BaseChange):
    """Release the next runs of a worker, those included that are no longer in its cache."""

    def __init__(self, worker_id: str, limit: int) -> None:
        self.worker_id = worker_id
        self.limit = limit

    def apply(self, batch: Batch) -> int:
        """Release at most ``limit`` runs; return how many."""
        released = 0
        for run in batch.lock_runs(scan_owned_runs(batch, self.worker_id, self.limit)):
            if run.owner_id == self.worker_id:
                run.owner_id = None
                keep_slot_served(run, batch.now)
                released += 1
        return released
