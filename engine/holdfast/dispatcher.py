"""The activities of one worker: claiming what waits, starting it, sending on what comes out.

An activity gets here in two ways. *Eagerly*: the activation that scheduled it runs here too, a slot was free, and its
row was written as running. Or *claimed*: its row waits, and this worker takes it. Claims ride in the journal's batches
like everything else; one is made only when something is known to wait and a slot is free.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

import orjson

from holdfast.hub import Hub
from holdfast.settings import WorkerSettings
from holdfast_activities.attempts import AttemptEnd
from holdfast_activities.changes import ClaimActivities, Claimed, EndAttempt
from holdfast_activities.definitions import ActivityDefinition
from holdfast_activities.heartbeats import Heartbeats
from holdfast_activities.runner import ActivityRunner
from holdfast_activities.task import ActivityTask
from holdfast_store import queries
from holdfast_store.batch import Committed
from holdfast_store.rows import ActivityRow, RunRow
from holdfast_workflow.errors import HoldfastError, JournalClosedError, RefusedError, StoreError
from holdfast_workflow.events import ActivityScheduled
from holdfast_workflow.payloads import Payload

logger = logging.getLogger("holdfast.worker")

MOST_CLAIMED = 200
RETRY_AFTER = 0.5


class ActivityDispatcher:
    """Claims and starts activities, and hands their results to whoever commits them."""

    def __init__(
        self,
        hub: Hub,
        settings: WorkerSettings,
        activities: Mapping[str, ActivityDefinition[..., object]],
        heartbeats: Heartbeats,
        on_result: Callable[[ActivityTask, Payload], None],
    ) -> None:
        self.hub = hub
        self.settings = settings
        self.types = frozenset(activities)
        self.queues = frozenset(settings.task_queues)
        self.heartbeats = heartbeats
        self._on_result = on_result
        self._clock = hub.environment.clock
        self._waiting = False
        self._claiming = False
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self.runner = ActivityRunner(
            activities,
            converter=settings.converter,
            environment=hub.environment,
            max_concurrent=settings.max_concurrent_activities,
            heartbeats=heartbeats,
            on_end=self._ended,
            limits=settings.limits,
        )

    # --- eager ones -------------------------------------------------------------------------------------------------

    def take_for(self, event: ActivityScheduled) -> bool:
        """Take a slot for an activity that is about to be scheduled, if it can run here now."""
        return (
            event.activity_type in self.types
            and event.task_queue in self.queues
            and not self._waiting
            and not self._stopping
            and self.runner.take()
        )

    def give_back(self, slots: int) -> None:
        """Give slots back that were taken for nothing."""
        if slots:
            self.runner.give_back(slots)

    def start_eager(self, row: ActivityRow, input: Payload, run: RunRow) -> None:
        """Start an activity whose row was written as running here; its slot was taken before."""
        self._start(ActivityTask(row, input, run.workflow_id, run.workflow_type, run.fence))

    def _start(self, task: ActivityTask) -> None:
        """Start an attempt, unless so long after its claim that others may have taken it over, and ended it even."""
        claimed_at = task.row.started_at
        lease = int(self.settings.lease_duration * 1_000_000)
        if claimed_at is not None and self._clock.now() - claimed_at >= lease:
            self.runner.decline(task)
        else:
            self.runner.start(task)

    # --- news -------------------------------------------------------------------------------------------------------

    def on_commit(self, committed: Committed) -> None:
        """A batch of this process is durable: is there anything to claim, or a handler to be told?"""
        worker_id = self.settings.worker_id
        for row in committed.activities:
            if row.status == "pending":
                self.runner.tell(row.run_id, row.activity_id, row.attempt, "timed_out")
                if row.task_queue in self.queues and row.activity_type in self.types:
                    self.expect(row.available_at)
            elif row.status == "running":
                if row.cancel_requested and row.claimed_by == worker_id:
                    self.runner.tell(row.run_id, row.activity_id, row.attempt, "cancel_requested")
            elif row.status == "timed_out":
                self.runner.tell(row.run_id, row.activity_id, row.attempt, "timed_out")
            elif row.status == "cancelled":
                self.runner.tell(row.run_id, row.activity_id, row.attempt, "lost")

    def expect(self, available_at: int) -> None:
        """Something waits, or will from an instant on."""
        wait = available_at - self._clock.now()
        if wait <= 0:
            self._waiting = True
            self.claim()
        elif self._timer is None or available_at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = available_at
            self._timer = self.hub.loop.call_later(wait / 1_000_000, self._due)

    def _due(self) -> None:
        self._timer = None
        self.expect(self._timer_at)

    # --- claiming ---------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Claim as many as there are free slots, if something waits."""
        if not self._waiting or self._claiming or self._stopping or not self.types:
            return
        wanted = min(self.runner.free, MOST_CLAIMED)
        if wanted <= 0 or not self.runner.take(wanted):
            return
        self._claiming = True
        change = ClaimActivities(self.settings.worker_id, sorted(self.queues), self.types, wanted)
        self.hub.journal.submit(change, partial(self._claimed, wanted))

    def _claimed(self, wanted: int, claimed: list[Claimed] | None, error: BaseException | None) -> None:
        self._claiming = False
        self.give_back(wanted - len(claimed or ()))
        if claimed is None:
            if not isinstance(error, JournalClosedError):
                logger.warning("no activities could be claimed: %s", error)
                self.hub.loop.call_later(RETRY_AFTER, self.claim)
            return
        for found in claimed:
            document = orjson.loads(found.input)
            task = ActivityTask(
                found.row,
                Payload.of(document["input"]),
                found.workflow_id,
                found.workflow_type,
                found.owner_fence,
            )
            self._start(task)
        if len(claimed) < wanted:
            self._waiting = False
            self.hub.spawn(self._look_ahead(), "holdfast-look-ahead")

    async def _look_ahead(self) -> None:
        """When does the next waiting activity become available?"""
        try:
            available_at = await self.hub.read(queries.next_activity, sorted(self.queues), sorted(self.types))
        except HoldfastError:
            return
        if available_at is not None and not self._stopping:
            self.expect(available_at)

    # --- what comes out ---------------------------------------------------------------------------------------------

    def _ended(self, task: ActivityTask, outcome: Payload | AttemptEnd) -> None:
        """A handler is done; its slot is free again."""
        if isinstance(outcome, Payload):
            self._on_result(task, outcome)
        else:
            self._end(task, outcome)
        self.claim()

    def _end(self, task: ActivityTask, end: AttemptEnd) -> None:
        change = EndAttempt(task.run_id, task.activity_id, task.attempt, end)
        details = self.heartbeats.take_pending(task.run_id, task.activity_id, task.attempt)
        if details is not None:
            change.heartbeat_details = details
        self._submit_end(task, end, change)

    def _submit_end(self, task: ActivityTask, end: AttemptEnd, change: EndAttempt) -> None:
        try:
            self.hub.journal.submit(change, partial(self._attempt_closed, task, end, change))
        except JournalClosedError:
            logger.debug("the client was closed before the end of %r could be told", task)

    def _attempt_closed(
        self,
        task: ActivityTask,
        end: AttemptEnd,
        change: EndAttempt,
        closed: bool | None,
        error: BaseException | None,
    ) -> None:
        if isinstance(error, RefusedError):
            logger.info(
                "the end of attempt %d of activity %s (run %s) was refused: %s",
                task.attempt,
                task.activity_id,
                task.run_id,
                error.reason,
            )
        elif error is not None and not isinstance(error, JournalClosedError):
            logger.warning("the end of an attempt of run %s could not be committed: %s", task.run_id, error)
            if isinstance(error, StoreError):  # it belongs to this worker until a commit has acknowledged it
                self.hub.loop.call_later(RETRY_AFTER, self._submit_end, task, end, change)

    # --- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
