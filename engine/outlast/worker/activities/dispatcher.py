"""The activities of one worker: claiming what waits, starting it, sending on what comes out.

An activity gets here in two ways. *Eagerly*: the workflow task that scheduled it runs here too, a slot was free, and
its row was written as running. Or *claimed*: its row waits, and this worker takes it. Claims ride in the journal's
batches like everything else; one is made only when something is known to wait and a slot is free.

*Local* activities are for the worker that holds their run, and for nobody else. They begin eagerly whatever their
queue, in slots that others leave free and in some of their own; a retry waits like any other, in a queue that only the
owner of its run looks into.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import orjson

from outlast.runtime.runtime import Runtime
from outlast.worker.activities.claimer import ActivityClaimer
from outlast.worker.settings import WorkerSettings
from outlast_activities.attempts import HANDED_BACK, UNWRITABLE, AttemptEnd
from outlast_activities.changes import ClaimActivities, Claimed, ClaimLocalActivities, EndAttempt
from outlast_activities.definitions import ActivityDefinition
from outlast_activities.heartbeats import Heartbeats
from outlast_activities.runner import ActivityRunner
from outlast_activities.task import ActivityTask
from outlast_store.journal.batch import Committed
from outlast_store.reads.activities import next_activity_at, next_local_activity_at
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_workflow.errors import JournalClosedError, RefusedError, StoreError
from outlast_workflow.history.events import ActivityScheduled
from outlast_workflow.primitives.payloads import Payload

logger = logging.getLogger("outlast.worker")

RETRY_AFTER = 0.5


class ActivityDispatcher:
    """Claims and starts activities, and hands their results to whoever commits them."""

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        activities: Mapping[str, ActivityDefinition[..., object]],
        heartbeats: Heartbeats,
        on_result: Callable[[ActivityTask, Payload], None],
        workflow_types: Iterable[str] = (),
        on_taken: Callable[[str], None] | None = None,
    ) -> None:
        self.runtime = runtime
        self.settings = settings
        self.types = frozenset(activities)
        self.queues = frozenset(settings.task_queues)
        self.workflow_types = frozenset(workflow_types)
        self._on_taken = on_taken
        self.on_room: Callable[[], None] | None = None
        """Called when there may be :attr:`room` again, if anybody waits for it."""
        self.heartbeats = heartbeats
        self._on_result = on_result
        self._clock = runtime.environment.clock
        self._stopping = False
        self.runner = ActivityRunner(
            activities,
            converter=settings.converter,
            environment=runtime.environment,
            max_concurrent=settings.max_concurrent_activities,
            heartbeats=heartbeats,
            on_end=self._ended,
            limits=settings.limits,
        )
        self.queued = ActivityClaimer(
            runtime,
            free=lambda: self.runner.free,
            take=self.runner.reserve,
            give_back=self.give_back,
            change=self._claim,
            next_at=self._next,
            on_claimed=self._claimed,
        )
        self.local = ActivityClaimer(
            runtime,
            free=lambda: self.runner.free_for_local,
            take=partial(self.runner.reserve, local=True),
            give_back=self.give_back,
            change=self._claim_local,
            next_at=self._next_local,
            on_claimed=self._claimed,
        )

    @property
    def room(self) -> int | None:
        """How many activities could begin at once, were they scheduled now; ``None`` where none ever does."""
        if not self.types or not self.runner.max_concurrent:
            return None
        return 0 if self.queued.waiting else self.runner.free

    # --- eager ones -------------------------------------------------------------------------------------------------

    def take_for(self, event: ActivityScheduled) -> bool:
        """Take a slot for an activity that is about to be scheduled, if it can run here now."""
        if event.local:
            return not self._stopping and self.runner.reserve(local=True)
        return (
            event.activity_type in self.types
            and event.task_queue in self.queues
            and not self.queued.waiting
            and not self._stopping
            and self.runner.reserve()
        )

    def give_back(self, slots: int) -> None:
        """Give slots back that were taken for nothing."""
        if slots:
            self.runner.free_slots(slots)

    def start_eager(self, row: ActivityRow, event: ActivityScheduled, run: RunRow) -> None:
        """Start an activity whose row was written as running here; its slot was taken before."""
        self._start(
            ActivityTask(row, event.input, run.workflow_id, run.workflow_type, run.fence, event.headers)
        )

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
                self.runner.request_stop(row.run_id, row.activity_id, row.attempt, "timed_out")
                if row.activity_type in self.types:
                    if row.local:
                        self.local.expect(row.available_at)
                    elif row.task_queue in self.queues:
                        self.queued.expect(row.available_at)
            elif row.status == "running":
                if row.cancel_requested and row.claimed_by == worker_id:
                    self.runner.request_stop(row.run_id, row.activity_id, row.attempt, "cancel_requested")
                if committed.late and row.claimed_by == worker_id and row.started_at == committed.now:
                    self._hand_back(row)
            elif row.status == "timed_out":
                self.runner.request_stop(row.run_id, row.activity_id, row.attempt, "timed_out")
            elif row.status == "cancelled":
                self.runner.request_stop(row.run_id, row.activity_id, row.attempt, "lost")

    def _hand_back(self, row: ActivityRow) -> None:
        """An attempt of ours that nobody started: its claim was committed, but that was known only late."""
        logger.info(
            "attempt %d of activity %d of run %s was claimed unseen", row.attempt, row.activity_id, row.run_id
        )
        task = ActivityTask(row, Payload.of(None), "", "", None)
        self._end(task, HANDED_BACK)

    # --- claiming ---------------------------------------------------------------------------------------------------

    def _claim(self, wanted: int) -> ClaimActivities:
        return ClaimActivities(self.settings.worker_id, sorted(self.queues), self.types, wanted)

    def _claim_local(self, wanted: int) -> ClaimActivities:
        worker_id, queues = self.settings.worker_id, sorted(self.queues)
        return ClaimLocalActivities(worker_id, queues, self.types, wanted, self.workflow_types)

    def _claimed(self, change: ClaimActivities, claimed: list[Claimed]) -> None:
        if self.on_room is not None and not self.queued.waiting:
            self.on_room()
        for found in claimed:
            document = orjson.loads(found.input)
            task = ActivityTask(
                found.row,
                Payload.of(document["input"]),
                found.workflow_id,
                found.workflow_type,
                found.owner_fence,
                document.get("headers"),
            )
            self._start(task)
        if isinstance(change, ClaimLocalActivities) and self._on_taken is not None:
            for run_id in change.taken:
                self._on_taken(run_id)

    async def _next(self) -> int | None:
        """When does the next waiting activity become available?"""
        now = self._clock.now()
        return await self.runtime.read(next_activity_at, sorted(self.queues), sorted(self.types), now)

    async def _next_local(self) -> int | None:
        """And the next local one?"""
        return await self.runtime.read(
            next_local_activity_at,
            self.settings.worker_id,
            sorted(self.queues),
            sorted(self.workflow_types),
            sorted(self.types),
            self._clock.now(),
        )

    # --- what comes out ---------------------------------------------------------------------------------------------

    def _ended(self, task: ActivityTask, outcome: Payload | AttemptEnd) -> None:
        """A handler is done; its slot is free again."""
        if isinstance(outcome, Payload):
            self._on_result(task, outcome)
        else:
            self._end(task, outcome)
        if self.local.waiting:
            self.local.claim()
        if self.queued.waiting:
            self.queued.claim()
        elif self.on_room is not None:
            self.on_room()

    def _end(self, task: ActivityTask, end: AttemptEnd) -> None:
        change = EndAttempt(task.run_id, task.activity_id, task.attempt, end)
        details = self.heartbeats.take_pending(task.run_id, task.activity_id, task.attempt)
        if details is not None:
            change.heartbeat_details = details
        self._submit_end(task, end, change)

    def _submit_end(self, task: ActivityTask, end: AttemptEnd, change: EndAttempt) -> None:
        try:
            self.runtime.journal.submit(change, partial(self._attempt_closed, task, end, change))
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
                self.runtime.loop.call_later(RETRY_AFTER, self._submit_end, task, end, change)
            elif end is not UNWRITABLE:  # the attempt has ended, whatever is wrong with the way to say so
                change = EndAttempt(task.run_id, task.activity_id, task.attempt, UNWRITABLE)
                self._submit_end(task, UNWRITABLE, change)

    # --- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        self.queued.stop()
        self.local.stop()
