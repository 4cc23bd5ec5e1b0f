"""The changes of the watchdog. Each checks again, under the row's lock, what a scan saw.

Whatever came first wins: a result, a heartbeat, a renewed lease or another watchdog. A change that finds nothing to do
returns ``None`` or an empty list. It is refused only where a row is in a state that should not occur; the pass sets
such a row aside.

A run's own deadline beats anything else that is due: a change that finds it passed ends the run instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from outlast_activities.attempts import RESCUED, TIMED_OUT, close_attempt
from outlast_activities.deadlines import passed, read_options, refresh
from outlast_runs.deadlines import Enforced, enforce_run
from outlast_runs.owner_losses import lose
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_store.transitions.children import AppliedClosePolicy, apply_close_policy
from outlast_store.transitions.queued_runs import START_TIMER, join_line
from outlast_store.transitions.run_deadlines import deadline_passed
from outlast_store.transitions.workers import delete_lapsed_worker, delete_silent_worker, is_alive
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import TimerFired
from outlast_workflow.options.limits import DEFAULT_LIMITS
from outlast_workflow.primitives.enums import ActivityStatus


@dataclass(slots=True)
class Fired:
    """What became of a run's due timers.

    Attributes:
        at: When they fired, in microseconds.
        timers: ``(timer_id, fire_at)`` of those that fired.
        run: The run's own deadline, if it had passed and ended the run instead.
    """

    at: int
    timers: list[tuple[int, int]] = field(default_factory=list)
    run: Enforced | None = None


@dataclass(slots=True)
class Rescued:
    """What became of an activity whose worker died.

    Attributes:
        closed: Whether the activity ended.
        enforced: The deadline that had passed meanwhile and was enforced instead, if any.
    """

    closed: bool
    enforced: Enforced | None = None


@dataclass(slots=True)
class Released:
    """What became of the runs of a dead worker.

    Attributes:
        waiting: Those that wait for another owner.
        ended: Those that had lost too many owners, and ended.
    """

    waiting: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)


# --- deadlines ------------------------------------------------------------------------------------------------------


class EnforceActivityDeadline(BaseChange):
    """End the attempt of an activity, or its wait for a worker, when one of its deadlines has passed."""

    needs_locks = True

    def __init__(self, run_id: str, activity_id: int) -> None:
        self.runs = (run_id,)
        self.activities = ((run_id, activity_id),)

    def apply(self, batch: Batch) -> Enforced | None:
        """Return what was enforced; ``None`` where a heartbeat, a result or another watchdog came first."""
        run = batch.run(self.runs[0])
        row = batch.activity(*self.activities[0])
        if row is None:
            return None
        if not row.is_open:
            if row.next_deadline_at is not None:
                what = f"activity {row.activity_id} of run {row.run_id}"
                raise RefusedError("closed_activity", f"{what} has a deadline, but is {row.status}")
            return None
        due = passed(row, batch.now)
        if due is None:
            batch.require_locks()
            refresh(row)
            return None
        run = _run_of(run, f"activity {row.activity_id}", row.run_id)
        ended = enforce_run(batch, run)
        if ended is not None:
            return ended
        check_readable(row)
        closed = close_attempt(batch, run, row, TIMED_OUT)
        return Enforced(*due, batch.now, closed)


class FireTimers(BaseChange):
    """Fire timers of one run that are still open and due; never early."""

    def __init__(self, run_id: str, timer_ids: Sequence[int]) -> None:
        self.runs = (run_id,)
        self.timer_ids = timer_ids
        self.timers = tuple((run_id, timer_id) for timer_id in timer_ids)
        self.weight = 256 * (1 + len(timer_ids))

    def apply(self, batch: Batch) -> Fired:
        """Append ``TimerFired`` for each, in the order of their times, and wake the run.

        The timer that ends the start delay of a run of a queue has no event: the run joins its line.
        """
        run_id = self.runs[0]
        timers = batch.timers(run_id, self.timer_ids)
        due = sorted((fire_at, timer_id) for timer_id, fire_at in timers.items() if fire_at <= batch.now)
        fired = Fired(batch.now)
        if not due:
            return fired
        run = _run_of(batch.run(run_id), f"timer {due[0][1]}", run_id)
        fired.run = enforce_run(batch, run)
        if fired.run is not None:
            return fired
        for fire_at, timer_id in due:
            fired.timers.append((timer_id, fire_at))
            if timer_id == START_TIMER:
                join_line(batch, run, fire_at)
                continue
            batch.append(run, TimerFired(timer_id, fire_at))
            batch.remove_timer(run_id, timer_id)
        run.wake(batch.now)
        return fired


def _run_of(run: RunRow | None, what: str, run_id: str) -> RunRow:
    """Return the run of an open activity or timer; refuse where the run is not open too."""
    if run is None or not run.is_open:
        status = run.status if run is not None else "gone"
        raise RefusedError("closed_run", f"{what} of run {run_id} is open, but the run is {status}")
    return run


def check_readable(row: ActivityRow) -> None:
    """Refuse an activity whose row cannot be decoded before anything is written, so that only it is set aside."""
    try:
        read_options(row)
        for text in (row.last_failure, row.heartbeat_details):
            if text is not None:
                orjson.loads(text)
    except Exception as error:
        raise RefusedError(
            "undecodable",
            f"activity {row.activity_id} of run {row.run_id} cannot be read: {type(error).__name__}",
        ) from error


# --- parent close policy ----------------------------------------------------------------------------------------------


class ApplyClosePolicy(BaseChange):
    """Apply one step of parent close policy: to at most a hundred children of a chain that has ended.

    Args:
        run_id: The closed run.
        children: The children that a scan saw, named so that rows are locked in one order; they are read again.
    """

    # A process that owned the run may have an old state of it cached, and find nothing to do forever.
    needs_locks = True

    def __init__(self, run_id: str, children: Sequence[str]) -> None:
        self.runs = (run_id, *children)
        self.weight = 512 * (1 + len(self.runs))

    def apply(self, batch: Batch) -> AppliedClosePolicy | None:
        """Return what was done; ``None`` where another watchdog came first."""
        run = batch.run(self.runs[0])
        if run is None or run.cascade_at is None or run.cascade_at > batch.now:
            return None
        if run.is_open:
            raise RefusedError(
                "open_run", f"run {run.run_id} is open, but the close policy of its children is due"
            )
        return apply_close_policy(batch, run)


# --- lost workers ---------------------------------------------------------------------------------------------------


class DeclareWorkerLost(BaseChange):
    """Declare a worker dead whose lease has ended: its row is deleted, so it cannot renew and must register anew.

    Args:
        worker_id: The worker.
        not_renewed: When its lease ends, if that lies too far ahead to say anything and was observed without a renewal.
    """

    def __init__(self, worker_id: str, *, not_renewed: int | None = None) -> None:
        self.worker_id = worker_id
        self.not_renewed = not_renewed

    def apply(self, batch: Batch) -> bool:
        """Delete its row; return ``False`` where its lease was renewed meanwhile."""
        if self.not_renewed is not None:
            return delete_silent_worker(batch, self.worker_id, self.not_renewed)
        return delete_lapsed_worker(batch, self.worker_id)


class RescueActivity(BaseChange):
    """Release the activity of a dead worker to another: at once, not counted as an attempt, three times at most."""

    needs_locks = True

    def __init__(self, run_id: str, activity_id: int, worker_id: str) -> None:
        self.runs = (run_id,)
        self.activities = ((run_id, activity_id),)
        self.worker_id = worker_id

    def apply(self, batch: Batch) -> Rescued | None:
        """Return what became of it; ``None`` where it is no longer that worker's, or the worker is alive."""
        row = batch.activity(*self.activities[0])
        if row is None or row.status != ActivityStatus.RUNNING or row.claimed_by != self.worker_id:
            return None
        if is_alive(batch, self.worker_id):
            return None
        run = _run_of(batch.run(row.run_id), f"activity {row.activity_id}", row.run_id)
        ended = enforce_run(batch, run)
        if ended is not None:
            return Rescued(True, ended)
        check_readable(row)
        due = passed(row, batch.now)
        closed = close_attempt(batch, run, row, RESCUED)
        return Rescued(closed, Enforced(*due, batch.now, closed) if due is not None else None)


class ReleaseLostRuns(BaseChange):
    """Release the runs of a dead worker. Their fences rise, so that whatever it may still send is refused.

    :func:`outlast_runs.owner_losses.lose` delays, flags and at last ends a run that was awake, since it may have caused
    the crash.

    Args:
        worker_id: The dead worker.
        run_ids: The runs.
        most_losses: How many owners in a row a run may lose; 0 sets no limit.
    """

    # The dead worker's process may still have the runs cached as its own.
    needs_locks = True

    def __init__(
        self, worker_id: str, run_ids: Sequence[str], most_losses: int = DEFAULT_LIMITS.owner_losses
    ) -> None:
        self.worker_id = worker_id
        self.runs = tuple(run_ids)
        self.most_losses = most_losses
        self.weight = 256 * (1 + len(self.runs))

    def apply(self, batch: Batch) -> Released:
        """Return what became of the runs. One past its deadline is left to the change that ends it."""
        released = Released()
        if is_alive(batch, self.worker_id):
            return released
        for run_id in self.runs:
            run = batch.run(run_id)
            if run is None or not run.is_open or run.owner_id != self.worker_id:
                continue
            if deadline_passed(run, batch.now) is None:
                ended = lose(batch, run, self.most_losses)
                (released.ended if ended else released.waiting).append(run_id)
        return released
