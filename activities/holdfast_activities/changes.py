"""The changes that activities make: claiming them, and ending their attempts.

Each is a compare-and-set. A claim takes rows that are pending now; a result names the attempt that it belongs to (the
attempt number rises with every claim, so it is the claim's token), and a late, rescued or fenced one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast_activities.attempts import TIMED_OUT, AttemptEnd, claim, close_attempt, complete
from holdfast_activities.deadlines import passed
from holdfast_store.batch import ActivityKey, BaseChange, Batch
from holdfast_store.rows import ActivityRow, RunRow
from holdfast_workflow.errors import RefusedError
from holdfast_workflow.events import ActivityCompleted
from holdfast_workflow.kinds import ActivityStatus


@dataclass(slots=True)
class Claimed:
    """An activity that was claimed, with what its handler needs."""

    row: ActivityRow
    input: str
    workflow_id: str
    workflow_type: str
    headers: object = None


class ClaimActivities(BaseChange):
    """Claim waiting activities of some queues: by priority, then oldest first; never one whose time is over."""

    def __init__(self, worker_id: str, task_queues: Sequence[str], types: frozenset[str], limit: int) -> None:
        self.worker_id = worker_id
        self.task_queues = task_queues
        self.types = types
        self.limit = limit

    def apply(self, batch: Batch) -> list[Claimed]:
        """Claim at most ``limit`` of them."""
        keys: list[ActivityKey] = []
        for queue in self.task_queues:
            for priority in range(10):
                if len(keys) < self.limit:
                    keys += self._waiting(batch, queue, priority, self.limit - len(keys))
        rows: list[ActivityRow] = []
        for row in batch.lock_activities(keys, skip=True):
            if row.status != ActivityStatus.PENDING or passed(row, batch.now) is not None:
                continue
            claim(row, self.worker_id, batch.now)
            rows.append(row)
        return [self._describe(batch, row) for row in rows]

    def _waiting(self, batch: Batch, queue: str, priority: int, limit: int) -> list[ActivityKey]:
        names = sorted(self.types)
        marks = ", ".join("?" * len(names))
        text = (
            "SELECT run_id, activity_id FROM activity_executions WHERE status = 'pending' AND task_queue = ? "
            f"AND priority = ? AND available_at <= ? AND activity_type IN ({marks}) "
            "ORDER BY available_at, run_id, activity_id LIMIT ?"
        )
        return [(row[0], row[1]) for row in batch.scan(text, (queue, priority, batch.now, *names, limit))]

    def _describe(self, batch: Batch, row: ActivityRow) -> Claimed:
        text = (
            "SELECT e.payload, r.workflow_id, r.workflow_type FROM history_events e, workflow_runs r "
            "WHERE e.run_id = ? AND e.seq = ? AND r.run_id = e.run_id"
        )
        payload, workflow_id, workflow_type = batch.scan(text, (row.run_id, row.scheduled_seq))[0]
        return Claimed(row, payload, workflow_id, workflow_type)


class AttemptChange(BaseChange):
    """What changes that end one attempt share: they name the run and the activity, and check the claim."""

    def __init__(self, run_id: str, activity_id: int, attempt: int) -> None:
        self.runs = (run_id,)
        self.activities = ((run_id, activity_id),)
        self.attempt = attempt

    def held(self, batch: Batch) -> tuple[RunRow, ActivityRow]:
        """The rows, if the claim still holds."""
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
    """An attempt returned. One that comes at or after its deadline loses: the timeout is enforced right here."""

    def __init__(self, run_id: str, activity_id: int, attempt: int, event: ActivityCompleted) -> None:
        super().__init__(run_id, activity_id, attempt)
        self.event = event
        self.weight = 1024 + len(event.result.json)

    def apply(self, batch: Batch) -> bool:
        """Append the result and wake the run; returns whether it was in time."""
        run, row = self.held(batch)
        if passed(row, batch.now) is not None:
            close_attempt(batch, run, row, TIMED_OUT)
            return False
        complete(batch, run, row, self.event)
        run.wake(batch.now)
        return True


class EndAttempt(AttemptChange):
    """An attempt failed, was cancelled, rescued or handed back."""

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
        """Close the attempt; returns whether the activity ended with it."""
        run, row = self.held(batch)
        if self.heartbeat_details is not None:
            row.heartbeat_details = self.heartbeat_details
        return close_attempt(batch, run, row, self.end)
