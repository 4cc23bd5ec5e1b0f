"""The changes of attempts that go on without a worker: how one is left to the outside, and what the outside may do.

A handler that returns ``activity.defer()`` leaves its attempt *deferred*: the row stays running, but nobody has claimed
it. So no slot, no lease and no rescue is about it; its deadlines are, and one of them must be able to end it. Somebody
outside ends it, who names the attempt by its token, or the activity by ids.

============================ ========================================================================================
when                         what happens
============================ ========================================================================================
the worker dies before       the attempt is rescued, like any other: another one runs the handler again, with another
the deferral is committed    token
a verb comes before that     it is done: the attempt runs, and that is all a verb asks. The deferral is then refused,
                             as a result would be that comes too late
a verb comes again, or after it is refused, and the error says how the attempt ended
the attempt has ended
a deadline has passed        the timeout is enforced first, and the verb is refused
============================ ========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from outlast_activities.attempts import (
    CANCELLED,
    TIMED_OUT,
    AttemptEnd,
    close_attempt,
    complete,
    record_late_failure,
)
from outlast_activities.changes import AttemptChange
from outlast_activities.deadlines import passed
from outlast_activities.heartbeats import Due, beat
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_store.transitions.attempts import outcome_of_attempt
from outlast_store.transitions.run_ends import Ended, open_run
from outlast_workflow.errors import (
    ActivityNotFoundError,
    AttemptNotRunningError,
    RefusedError,
    RunNotFoundError,
)
from outlast_workflow.history.events import ActivityCompleted, Failure
from outlast_workflow.primitives.enums import ActivityStatus, AttemptOutcome
from outlast_workflow.primitives.payloads import Payload


class DeferAttempt(AttemptChange):
    """Leave an attempt whose handler deferred it to the outside. At or after its deadline the timeout is enforced."""

    def __init__(self, run_id: str, activity_id: int, attempt: int, heartbeat: Due | None) -> None:
        super().__init__(run_id, activity_id, attempt)
        self.heartbeat = heartbeat

    def apply(self, batch: Batch) -> bool:
        """Take the claim away; return whether it was in time."""
        run, row = self.held(batch)
        if isinstance(open_run(batch, run), Ended):
            return False
        if passed(row, batch.now) is not None:
            close_attempt(batch, run, row, TIMED_OUT)
            return False
        # Somebody outside may have sent a later one.
        if self.heartbeat is not None and self.heartbeat.beat_at >= (row.heartbeat_at or 0):
            beat(row, self.heartbeat.details, batch.now, self.heartbeat.beat_at)
        row.claimed_by = None
        return True


@dataclass(frozen=True, slots=True)
class NamedAttempt:
    """The attempt that somebody outside means.

    Attributes:
        run_id: The run that called the activity.
        activity_id: The activity.
        attempt: The attempt, as a token names it; ``None`` for the one that runs now.
        workflow_id: The workflow, if the attempt was named by ids.
    """

    run_id: str
    activity_id: int
    attempt: int | None = None
    workflow_id: str | None = None


class OutsideChange(BaseChange):
    """A change of a running attempt from outside.

    Where it finds that a deadline has passed, it enforces that and returns the error that says so, because a change
    that raises writes nothing.
    """

    needs_locks = True

    def __init__(self, named: NamedAttempt) -> None:
        self.named = named
        self.runs = (named.run_id,)
        self.activities = ((named.run_id, named.activity_id),)

    def running(self, batch: Batch) -> tuple[RunRow, ActivityRow] | AttemptNotRunningError:
        """Return the run and the activity if the attempt runs and has time left.

        Raises:
            AttemptNotRunningError: The attempt is not running, or no longer.
            RefusedError: The activity is local; the others of :meth:`found`, too.
        """
        run, row = self.found(batch)
        found = open_run(batch, run)
        if isinstance(found, Ended) and found.passed is not None:
            return self._not_running(batch, run, row)
        if row.status != ActivityStatus.RUNNING or self.named.attempt not in (None, row.attempt):
            raise self._not_running(batch, run, row)
        if passed(row, batch.now) is not None:
            close_attempt(batch, run, row, TIMED_OUT)
            return self._not_running(batch, run, row)
        return run, row

    def found(self, batch: Batch) -> tuple[RunRow, ActivityRow]:
        """Return the run and the activity, whatever their state.

        Raises:
            RunNotFoundError: There is no such run, or it is another workflow's.
            ActivityNotFoundError: The run has no such activity.
            RefusedError: The activity is local.
        """
        named = self.named
        run, row = batch.run(named.run_id), batch.activity(named.run_id, named.activity_id)
        if run is None or named.workflow_id not in (None, run.workflow_id):
            raise RunNotFoundError(named.run_id, workflow_id=named.workflow_id or "")
        if row is None:
            raise ActivityNotFoundError(named.activity_id, workflow_id=run.workflow_id, run_id=run.run_id)
        if row.local:
            raise RefusedError(
                "local_activity",
                f"activity {row.activity_id} is local, so only the worker that runs it can end it",
            )
        return run, row

    def _not_running(self, batch: Batch, run: RunRow, row: ActivityRow) -> AttemptNotRunningError:
        attempt = self.named.attempt
        outcome: str | None = None
        if attempt is not None:
            # It may have ended before its activity was closed in another way.
            outcome = outcome_of_attempt(batch, row.run_id, row.activity_id, attempt)
        if outcome is None and not row.is_open and attempt in (None, row.attempt):
            outcome = row.status
        return AttemptNotRunningError(
            _why(run, row, outcome),
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            activity_id=row.activity_id,
            status=row.status,
            outcome=outcome,
        )


_ENDED = {
    "completed": "it has completed already",
    "failed": "its attempt has failed",
    "timed_out": "its attempt has timed out",
    "cancelled": "it was cancelled",
    "rescued": "the worker of its attempt died",
    "handed_back": "the worker of its attempt was shut down",
}


def _why(run: RunRow, row: ActivityRow, outcome: str | None) -> str:
    """Return how the attempt ended, and what follows from that."""
    if not run.is_open and outcome in (None, "cancelled"):
        return f"its run {run.run_id} has ended ({run.status})"
    how = _ENDED.get(outcome or "", "the attempt that was named has ended")
    if not row.is_open:
        return how if outcome == row.status else f"{how}, and the activity is {row.status}"
    if row.status == ActivityStatus.RUNNING:
        return f"{how}; the attempt that runs now has a token of its own"
    if outcome is None:
        return "no attempt of it runs now; send this again once a worker has started the next one"
    return f"{how}; the next one waits for a worker, and will have a token of its own"


class CompleteFromOutside(OutsideChange):
    """Complete an activity with a result from outside."""

    def __init__(self, named: NamedAttempt, result: Payload) -> None:
        super().__init__(named)
        self.result = result
        self.weight = 1024 + len(result.json)

    def apply(self, batch: Batch) -> AttemptNotRunningError | None:
        """Append the result and wake the run; return an error where a deadline came first."""
        found = self.running(batch)
        if isinstance(found, AttemptNotRunningError):
            return found
        run, row = found
        complete(batch, run, row, ActivityCompleted(row.activity_id, self.result, row.charged_attempt))
        run.wake(batch.now)
        return None


class FailFromOutside(OutsideChange):
    """Fail an attempt from outside; its retry policy decides what follows.

    Where the activity was closed as cancelled meanwhile, alone or with its run, the failure is recorded all the same,
    once: what could not be undone must be seen.
    """

    def __init__(self, named: NamedAttempt, failure: Failure) -> None:
        super().__init__(named)
        self.failure = failure

    def apply(self, batch: Batch) -> AttemptNotRunningError | None:
        """Close the attempt; return an error where a deadline came first."""
        if self._fails_late(batch):
            return None
        found = self.running(batch)
        if isinstance(found, AttemptNotRunningError):
            return None if self._fails_late(batch) else found
        close_attempt(batch, *found, AttemptEnd(AttemptOutcome.FAILED, self.failure))
        return None

    def _fails_late(self, batch: Batch) -> bool:
        _, row = self.found(batch)
        if row.status != ActivityStatus.CANCELLED or self.named.attempt not in (None, row.attempt):
            return False
        return record_late_failure(batch, row, self.failure)


class CancelFromOutside(OutsideChange):
    """Acknowledge from outside that an activity was cancelled."""

    def apply(self, batch: Batch) -> AttemptNotRunningError | None:
        """Close the activity as cancelled; return an error where a deadline came first.

        Raises:
            RefusedError: Nobody has asked to cancel it.
        """
        found = self.running(batch)
        if isinstance(found, AttemptNotRunningError):
            return found
        run, row = found
        if not row.cancel_requested:
            raise RefusedError(
                "no_cancel_request",
                f"nobody has asked to cancel activity {row.activity_id}: fail it, or cancel its workflow",
            )
        close_attempt(batch, run, row, CANCELLED)
        return None


class HeartbeatFromOutside(OutsideChange):
    """Record a heartbeat from outside; its deadline counts from this write."""

    def __init__(self, named: NamedAttempt, details: str | None) -> None:
        super().__init__(named)
        self.details = details
        self.weight = 1024 + len(details or "")

    def apply(self, batch: Batch) -> AttemptNotRunningError | bool:
        """Write it; return whether the activity is to be cancelled, or an error where a deadline came first."""
        found = self.running(batch)
        if isinstance(found, AttemptNotRunningError):
            return found
        _, row = found
        beat(row, self.details, batch.now)
        return bool(row.cancel_requested)
