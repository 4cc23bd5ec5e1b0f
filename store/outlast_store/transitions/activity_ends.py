"""How an activity's row closes: the writes that all its ends share.

Two functions close an attempt. :func:`outlast_activities.attempts.close_attempt` decides what becomes of an attempt
that failed, timed out, was cancelled, rescued or released. :func:`cancel_activity` decides nothing: it closes an open
activity as cancelled, with the row of its running attempt, if any. It serves ``close_attempt``, a cancel request for an
activity that nobody runs, and every run that closes with open activities. (An attempt that succeeded has no row;
:func:`outlast_activities.attempts.complete` closes its activity.)
"""

from __future__ import annotations

from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import ActivityRow, AttemptRow, RunRow
from outlast_workflow.history.events import (
    ActivityCancelled,
)
from outlast_workflow.primitives.enums import (
    ActivityStatus,
    AttemptOutcome,
)


def cancel_activity(batch: Batch, run: RunRow, activity: ActivityRow, *, by: str | None = None) -> None:
    """Close an open activity as cancelled, with its event; its running attempt, if any, gets its row.

    Args:
        batch: The batch.
        run: The activity's run.
        activity: The activity.
        by: What closed it where the engine did so by itself; ``None`` for a cancellation that the code waits for.
    """
    batch.append(run, ActivityCancelled(activity.activity_id, by=by))
    if activity.status == ActivityStatus.RUNNING:
        batch.add_attempt(
            AttemptRow(
                activity.run_id,
                activity.activity_id,
                activity.attempt,
                activity.claimed_by,
                activity.started_at,
                batch.now,
                AttemptOutcome.CANCELLED.value,
                None,
                None,
            )
        )
    close_activity(activity, ActivityStatus.CANCELLED, batch.now)


def close_activity(activity: ActivityRow, status: ActivityStatus, now: int) -> None:
    """Close an activity's row, which takes it out of every partial index.

    Args:
        activity: The activity.
        status: Its terminal status.
        now: When it closed, in microseconds.
    """
    activity.status = str(status)
    activity.closed_at = now
    activity.next_deadline_at = None
