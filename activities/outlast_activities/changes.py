"""The changes of attempts: claiming activities, and ending their attempts.

Each is a compare-and-set. A claim starts activities that are pending now. A result names the attempt that it belongs
to: the attempt number rises with every claim, so it is the claim's token, and a late, rescued or fenced result is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outlast_activities.attempts import (
    TIMED_OUT,
    AttemptEnd,
    claim,
    close_attempt,
    complete,
    record_late_failure,
)
from outlast_activities.deadlines import passed
from outlast_activities.heartbeats import Due, beat
from outlast_store.journal.batch import ActivityKey, BaseChange, Batch
from outlast_store.reads.activities import claimable_locally, find_claimable
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_store.schema.tables import history_events, workflow_runs
from outlast_store.transitions.run_deadlines import deadline_passed
from outlast_store.transitions.run_ends import Ended, open_run
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import ActivityCompleted
from outlast_workflow.primitives.enums import ActivityStatus
from outlast_workflow.primitives.type_families import serves


@dataclass(slots=True)
class Claimed:
    """An activity that was claimed, with what its handler needs.

    Attributes:
        row: The activity.
        input: Its ``ActivityScheduled`` as JSON text, which holds the input.
        workflow_id: Its workflow.
        workflow_type: The workflow's type.
        owner_fence: The run's fence, if the claimer owns the run: then the result is bundled with the decision that it
            leads to.
        first_run_id: The first run of its chain.
    """

    row: ActivityRow
    input: str
    workflow_id: str
    workflow_type: str
    owner_fence: int | None
    first_run_id: str


def describe_claimed(batch: Batch, rows: Sequence[ActivityRow], worker_id: str) -> list[Claimed]:
    """Add to each activity that was claimed its input and its workflow.

    Args:
        batch: The batch.
        rows: The activities.
        worker_id: The worker that has claimed them.
    """
    if not rows:
        return []
    events = batch.read(history_events, ("run_id", "seq"), [(row.run_id, row.scheduled_seq) for row in rows])
    inputs = {(run_id, seq): payload for run_id, seq, _, _, payload in events}
    known = _runs_of(batch, rows)
    claimed: list[Claimed] = []
    for row in rows:
        run = known[row.run_id]
        fence = run.fence if run.owner_id == worker_id else None
        # An event that is gone is as good as one that cannot be read.
        input = inputs.get((row.run_id, row.scheduled_seq), "")
        claimed.append(Claimed(row, input, run.workflow_id, run.workflow_type, fence, run.first_run_id))
    return claimed


def _runs_of(batch: Batch, rows: Sequence[ActivityRow]) -> dict[str, RunRow]:
    """Return the runs that called activities: as this batch has them, else read without locks."""
    known = {run_id: batch.run(run_id) for run_id in {row.run_id for row in rows}}
    unknown = sorted(run_id for run_id, run in known.items() if run is None)
    found = {run_id: run for run_id, run in known.items() if run is not None}
    if unknown:
        read = batch.read(workflow_runs, ("run_id",), [(run_id,) for run_id in unknown])
        found.update((run.run_id, run) for run in (RunRow(*values) for values in read))
    return found


class ClaimActivities(BaseChange):
    """Claim pending activities of some task queues: by priority, then oldest first; never one past a deadline.

    Args:
        worker_id: The worker that claims.
        task_queues: The task queues that it serves.
        types: The activity types that it knows.
        limit: How many it claims at most.
    """

    def __init__(self, worker_id: str, task_queues: Sequence[str], types: frozenset[str], limit: int) -> None:
        self.worker_id = worker_id
        self.task_queues = task_queues
        self.types = types
        self.limit = limit

    def apply(self, batch: Batch) -> list[Claimed]:
        """Claim at most ``limit`` of them."""
        rows: list[ActivityRow] = []
        for row in batch.lock_activities(self._waiting(batch), skip=True):
            if row.status != ActivityStatus.PENDING or passed(row, batch.now) is not None:
                continue
            claim(row, self.worker_id, batch.now)
            rows.append(row)
        return describe_claimed(batch, rows, self.worker_id)

    def _waiting(self, batch: Batch) -> list[ActivityKey]:
        """Return what may be claimed."""
        # An earlier claim of the same batch has taken these, which the scan still finds.
        taken = batch.activities_taken
        types = sorted(self.types)
        found = find_claimable(batch.scan, self.task_queues, types, batch.now, self.limit + taken)
        if taken:
            found = [key for key in found if _is_pending(batch.activity(*key))]
        return found[: self.limit]


class ClaimLocalActivities(ClaimActivities):
    """Claim pending local activities of runs that this worker owns, and of runs without an owner together with the run.

    So an attempt whose worker died is repeated where the run continues, and a run that waits for nothing but a local
    activity gets an owner again.

    Attributes:
        taken: The runs that this worker owns from now on.
    """

    def __init__(
        self,
        worker_id: str,
        task_queues: Sequence[str],
        types: frozenset[str],
        limit: int,
        workflow_types: frozenset[str],
    ) -> None:
        super().__init__(worker_id, task_queues, types, limit)
        self.workflow_types = workflow_types
        self.taken: list[str] = []

    def apply(self, batch: Batch) -> list[Claimed]:
        """Claim at most ``limit`` of them."""
        found = self._waiting(batch)
        ours = {run.run_id for run in batch.lock_runs(list({key[0] for key in found}), skip=True)}
        ours = {run_id for run_id in ours if self._takes(batch.run(run_id))}
        rows: list[ActivityRow] = []
        for row in batch.lock_activities([key for key in found if key[0] in ours], skip=True):
            if row.status != ActivityStatus.PENDING or passed(row, batch.now) is not None:
                continue
            run = batch.run(row.run_id)
            assert run is not None
            if run.owner_id is None:
                run.owner_id = self.worker_id
                run.fence += 1
                self.taken.append(run.run_id)
            claim(row, self.worker_id, batch.now)
            rows.append(row)
        return describe_claimed(batch, rows, self.worker_id)

    def _takes(self, run: RunRow | None) -> bool:
        if run is None or not run.is_open:
            return False
        # A queue limits what a worker holds, so only an admission gives one of its runs an owner.
        free = run.owner_id is None and run.queue is None and serves(self.workflow_types, run.workflow_type)
        return free or run.owner_id == self.worker_id

    def _waiting(self, batch: Batch) -> list[ActivityKey]:
        workflow_types, types = sorted(self.workflow_types), sorted(self.types)
        text, values = claimable_locally(
            self.worker_id, self.task_queues, workflow_types, types, batch.now, self.limit
        )
        return [(row[0], row[1]) for row in batch.scan(text, values)]


def _is_pending(row: ActivityRow | None) -> bool:
    return row is None or row.status == ActivityStatus.PENDING


class AttemptChange(BaseChange):
    """A change that ends one attempt: it names the run and the activity, and checks the claim."""

    def __init__(self, run_id: str, activity_id: int, attempt: int) -> None:
        self.runs = (run_id,)
        self.activities = ((run_id, activity_id),)
        self.attempt = attempt

    def held(self, batch: Batch) -> tuple[RunRow, ActivityRow]:
        """Return the run and the activity, if the claim still holds.

        Raises:
            RefusedError: It does not, or the run is gone.
        """
        run = batch.run(self.runs[0])
        row = batch.activity(*self.activities[0])
        if run is None or row is None:
            raise RefusedError("unknown_activity", "the activity's run is gone")
        if not run.is_open or row.status != ActivityStatus.RUNNING or row.attempt != self.attempt:
            raise RefusedError(
                "stale_attempt",
                f"attempt {self.attempt} of activity {row.activity_id} is no longer the current one "
                f"(status {row.status}, attempt {row.attempt})",
            )
        return run, row


class CompleteAttempt(AttemptChange):
    """Complete an activity whose attempt returned. At or after its deadline the timeout is enforced instead."""

    def __init__(self, run_id: str, activity_id: int, attempt: int, event: ActivityCompleted) -> None:
        super().__init__(run_id, activity_id, attempt)
        self.event = event
        self.weight = 1024 + len(event.result.json)

    def apply(self, batch: Batch) -> bool:
        """Append the result and wake the run; return whether it was in time."""
        run, row = self.held(batch)
        if isinstance(open_run(batch, run), Ended):
            return False
        if passed(row, batch.now) is not None:
            close_attempt(batch, run, row, TIMED_OUT)
            return False
        complete(batch, run, row, self.event)
        run.wake(batch.now)
        return True


class CompleteInTransaction(AttemptChange):
    """Complete an activity in its code's transaction, or refuse it: then that is rolled back.

    Args:
        run_id: The run.
        activity_id: The activity.
        attempt: The attempt.
        event: Its result.
        heartbeat: Its newest heartbeat, if that is not written yet: on SQLite none can be, as long as the code runs.
    """

    needs_locks = True

    def __init__(
        self, run_id: str, activity_id: int, attempt: int, event: ActivityCompleted, heartbeat: Due | None
    ) -> None:
        super().__init__(run_id, activity_id, attempt)
        self.event = event
        self.heartbeat = heartbeat

    def apply(self, batch: Batch) -> bool:
        """Append the result and wake the run."""
        run, row = self.held(batch)
        if row.cancel_requested:
            raise RefusedError("cancel_requested", "the activity was asked to cancel")
        if deadline_passed(run, batch.now) is not None:
            raise RefusedError("run_deadline", "a deadline of the activity's run has passed")
        due = self.heartbeat
        if due is not None and (row.heartbeat_deadline_at is None or due.beat_at < row.heartbeat_deadline_at):
            beat(row, due.details, batch.now, due.beat_at)
        if passed(row, batch.now) is not None:
            raise RefusedError("activity_deadline", "a deadline of the activity has passed")
        complete(batch, run, row, self.event)
        run.wake(batch.now)
        return True


class EndAttempt(AttemptChange):
    """End an attempt that failed, was cancelled, rescued or released.

    The activity may have been closed as cancelled meanwhile, alone or with its run. A failure is recorded all the same.
    """

    needs_locks = True

    def __init__(
        self,
        run_id: str,
        activity_id: int,
        attempt: int,
        end: AttemptEnd,
        *,
        heartbeat_details: str | None = None,
    ) -> None:
        super().__init__(run_id, activity_id, attempt)
        self.end = end
        self.heartbeat_details = heartbeat_details

    def apply(self, batch: Batch) -> bool:
        """Close the attempt; return whether the activity ended with it."""
        if self._fails_late(batch, batch.activity(*self.activities[0])):
            return True
        run, row = self.held(batch)
        if isinstance(open_run(batch, run), Ended):
            self._fails_late(batch, row)
            return True
        if self.heartbeat_details is not None:
            row.heartbeat_details = self.heartbeat_details
        return close_attempt(batch, run, row, self.end)

    def _fails_late(self, batch: Batch, row: ActivityRow | None) -> bool:
        """Record a failure whose activity is closed as cancelled; return whether there was one to record."""
        failure = self.end.failure
        if failure is None or row is None or row.status != ActivityStatus.CANCELLED:
            return False
        return row.attempt == self.attempt and record_late_failure(batch, row, failure)
