"""What it means to a run that its owner lost it: a delay, a flag, and at last its end.

An owner loses a run when it dies, or leaves the run waiting. If the run was awake, it may have caused that: each loss
in a row is counted in ``owner_losses``, and a workflow task that is committed clears the count. The second delays the
run, the third flags it, and the one that exceeds the limit ends it
(:class:`~outlast_workflow.errors.OwnersDiedError`), so that a run which takes its process down does not do so for ever.

Runs that were awake in the same process are all charged, whichever of them took it down. So each waits longer by a part
of its own (:func:`backoff_us`): the next process does not get all of them at the same instant again, and those that are
not to blame go on.
"""

from __future__ import annotations

import zlib
from typing import Final

from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.run_ends import close_run, run_failure
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import failure_of
from outlast_workflow.errors import OwnersDiedError
from outlast_workflow.history.events import WorkflowFailed
from outlast_workflow.primitives.enums import Attention, PropagationKind, RetryState, RunStatus

LOSSES_TO_ATTENTION = 3
FIRST_LOSS_BACKOFF_US = 1_000_000
LONGEST_LOSS_BACKOFF_US = 60_000_000

BY_OWNER_LOSSES: Final = "owner_losses"
_PLAIN: Final = DataConverter()


def lose(batch: Batch, run: RunRow, most_losses: int) -> bool:
    """Release a run whose owner lost it, or end it where it has lost more owners in a row than it may.

    Args:
        batch: The batch.
        run: The run, open and locked.
        most_losses: How many owners in a row it may lose; 0 sets no limit.

    Returns:
        Whether it has ended.
    """
    counted = release(run, batch.now)
    if not counted or not 0 < most_losses < run.owner_losses:
        return False
    _end(batch, run, most_losses)
    return True


def release(run: RunRow, now: int) -> bool:
    """Release a run whose owner lost it; return whether that counts as a loss, because the run was awake.

    From the second such loss in a row it is delayed (:func:`backoff_us`). From the third it is flagged in
    ``attention``.

    Args:
        run: The run.
        now: The instant, in microseconds.
    """
    run.owner_id = None
    run.fence += 1
    if run.wake_at is None or run.not_before > now:
        keep_slot_served(run, now)
        return False
    if run.wake_at > now:
        # Only a clock that was ahead calls a run that is not delayed later than now.
        run.wake_at = now
        return False
    run.owner_losses += 1
    if run.owner_losses >= 2:
        run.not_before = now + backoff_us(run.run_id, run.owner_losses)
        run.start_delayed = False
    if run.owner_losses >= LOSSES_TO_ATTENTION and run.attention is None:
        run.attention = Attention.OWNERS_KEEP_DYING.value
        run.attention_since = now
    return True


def backoff_us(run_id: str, losses: int) -> int:
    """Return how long a run waits after so many losses in a row, in microseconds.

    From the second loss on that is 1 s, doubling up to 60 s, and up to half as long again: a part that only the run's
    id decides.

    Args:
        run_id: The run.
        losses: How many owners in a row it has lost.
    """
    if losses < 2:
        return 0
    backoff = min(FIRST_LOSS_BACKOFF_US << min(losses - 2, 16), LONGEST_LOSS_BACKOFF_US)
    return backoff + backoff * (zlib.crc32(run_id.encode()) & 0xFF) // 512


def keep_slot_served(run: RunRow, now: int) -> None:
    """Wake a released run that holds a queue's slot: only an awake one gets an owner by admission, and its local
    activities wait for that owner.

    Args:
        run: The run.
        now: The instant, in microseconds.
    """
    if run.slot_queue is not None:
        run.wake(now)


def _end(batch: Batch, run: RunRow, most_losses: int) -> None:
    """End a run that may be what its owners died of. No retry policy starts another: that would kill on."""
    error = OwnersDiedError(run.owner_losses, most_losses)
    event = WorkflowFailed(failure_of(error, _PLAIN), by=BY_OWNER_LOSSES)
    if run.retry_policy is not None:
        event.retry_state = RetryState.NON_RETRYABLE_FAILURE.value
    failure = run_failure(
        batch,
        run,
        error.category,
        PropagationKind.TERMINAL,
        exception_class=type(error).__name__,
        message=error.message,
    )
    close_run(batch, run, event, RunStatus.FAILED, by=BY_OWNER_LOSSES, failure=failure)
