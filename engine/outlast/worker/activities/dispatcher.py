"""The activity dispatcher: claims the activities of one worker, starts them, and passes on their outcomes.

An activity gets here in one of two ways:

* *Eagerly*: the workflow task that scheduled it ran here, a slot was free, and its row was written as running.
* *Claimed*: its row was pending, and this worker claims it. Claims go through the journal like every other write; one
  is made only if an activity is known to wait and a slot is free. An activity of a queue is claimed by an admission
  (:mod:`outlast.worker.runs.admitter`), and never started eagerly.

Free slots are offered to plain claims and to admissions in turns. A rate limit of the worker holds for all of these:
what it does not let start eagerly waits in its row.

*Local* activities run only on the worker that owns their run. They start eagerly whatever their task queue, in slots
that others leave free and in some slots of their own. A retry waits like any other, but only the owner of its run
claims it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from outlast.runtime.runtime import Runtime
from outlast.worker.activities.claimer import ActivityClaimer
from outlast.worker.activities.rate_limit import RateLimit
from outlast.worker.settings import WorkerSettings
from outlast_activities.attempt_outcome import Completed, HandlerOutcome, OutcomeEncoder
from outlast_activities.attempts import HANDED_BACK, UNWRITABLE, AttemptEnd
from outlast_activities.changes import ClaimActivities, Claimed, ClaimLocalActivities, EndAttempt
from outlast_activities.context import Deferred
from outlast_activities.deadlines import read_options
from outlast_activities.deferred_attempts import DeferAttempt
from outlast_activities.definitions import ActivityDefinition
from outlast_activities.heartbeats import Heartbeats, Lost, why_to_stop
from outlast_activities.runner import ActivityRunner, Transactional
from outlast_activities.stop_reason import TIMED_OUT
from outlast_activities.stream_buffers import StreamBuffers
from outlast_activities.task import ActivityTask, AttemptKey
from outlast_store.journal.batch import Committed
from outlast_store.reads.activities import find_attempted, next_activity_at, next_local_activity_at
from outlast_store.schema.rows import ActivityRow
from outlast_watchdog.enforcement import EnforceActivityDeadline
from outlast_workflow.errors import DamagedHistoryError, JournalClosedError, RefusedError, StoreError
from outlast_workflow.history.events import ActivityScheduled, stored_event
from outlast_workflow.primitives.payloads import Payload

logger = logging.getLogger("outlast.worker")

MOST_ATTEMPTS: Final = 1000
"""How many running attempts one poll looks at."""
LOOK_GAP_S: Final = 0.1
"""The shortest time between two looks at the running attempts."""
RETRY_AFTER_S: Final = 0.5
"""How long after a failed commit the end of an attempt is committed again."""


class ActivityDispatcher:
    """Claims and starts activities, and passes their results to the owner of runs.

    Args:
        runtime: Where claims and ends of attempts are written.
        settings: The worker's settings.
        activities: The activity definitions, by type.
        heartbeats: Collects the heartbeats of running activities.
        on_result: Called with each attempt that succeeds, and its result.
        workflow_types: The workflow types that the worker runs, and so may run local activities of.
        on_run_claimed: Called with each run that was claimed together with its local activity.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        activities: Mapping[str, ActivityDefinition[..., object]],
        heartbeats: Heartbeats,
        on_result: Callable[[ActivityTask, Payload], None],
        workflow_types: Iterable[str] = (),
        on_run_claimed: Callable[[str], None] | None = None,
    ) -> None:
        self.runtime = runtime
        self.settings = settings
        self.types = frozenset(activities)
        self.queues = frozenset(settings.task_queues)
        self.workflow_types = frozenset(workflow_types)
        self._on_run_claimed = on_run_claimed
        self.on_room: Callable[[], None] | None = None
        """Called when there may be :attr:`room` again; set by the run claimer while it waits for it."""
        self.on_slots: Callable[[], None] | None = None
        """Called once when a slot may be free; set by the admitter while activities of queues wait for one."""
        self.on_queued: Callable[[ActivityRow], None] | None = None
        """Called with each activity of a queue that this process has written; set by the admitter."""
        self._queues_first = False
        self.heartbeats = heartbeats
        self._on_result = on_result
        self._clock = runtime.environment.clock
        self._stopping = False
        self._look_at_attempts_at = 0.0
        self._outcomes = OutcomeEncoder(settings.converter, settings.limits)
        self._streams = StreamBuffers(runtime.journal, self._outcomes, self.heartbeat_lost)
        self.runner = ActivityRunner(
            activities,
            converter=settings.converter,
            environment=runtime.environment,
            max_concurrent=settings.max_concurrent_activities,
            heartbeats=heartbeats,
            streams=self._streams,
            on_end=self._ended,
            limits=settings.limits,
            transactions=self._make_transactions,
        )
        rate = settings.max_activities_per_second
        self._rate = RateLimit(rate, self._clock) if rate is not None else None
        self._once_rate_allows: asyncio.TimerHandle | None = None
        self.queued = ActivityClaimer(
            runtime,
            free=self._free,
            reserve=self._reserve,
            release=self._release,
            change=self._claim,
            next_at=self._next,
            on_claimed=self._claimed,
        )
        self.local = ActivityClaimer(
            runtime,
            free=lambda: self.runner.free_for_local,
            reserve=partial(self.runner.reserve, local=True),
            release=self.release_slots,
            change=self._claim_local,
            next_at=self._next_local,
            on_claimed=self._claimed,
        )

    def _make_transactions(self, outcomes: OutcomeEncoder) -> Transactional:
        # A worker without transactional activities does without this.
        from outlast_activities.transactions import Transactions

        runtime = self.runtime
        parts = (runtime.database, runtime.journal, runtime.environment, self.heartbeats, outcomes)
        made = Transactions(*parts, idle_s=self.settings.lease_duration)
        runtime.on_leave.append(made.dispose)
        return made

    @property
    def room(self) -> int | None:
        """How many activities could start now; ``None`` if the worker runs no activities."""
        if not self.types or not self.runner.max_concurrent:
            return None
        return 0 if self.queued.waiting else self.runner.free

    # --- eager activities -------------------------------------------------------------------------------------------

    def reserve_slot(self, event: ActivityScheduled) -> bool:
        """Reserve a slot for an activity that is about to be scheduled; return whether it can start here."""
        if event.local:
            return not self._stopping and self.runner.reserve(local=True)
        return (
            event.activity_type in self.types
            and event.task_queue in self.queues
            and event.queue is None
            and not self.queued.waiting
            and not self._stopping
            and (self.runner.reserve() if self._rate is None else self._reserve())
        )

    def release_slots(self, slots: int) -> None:
        """Release reserved slots that are not needed."""
        if slots:
            self.runner.free_slots(slots)

    def start(self, task: ActivityTask) -> None:
        """Start an attempt, unless its claim is older than a lease: another worker may then have claimed it.

        Args:
            task: The attempt, whose row says that it runs here, in the slot that was reserved for it.
        """
        claimed_at = task.row.started_at
        lease = int(self.settings.lease_duration * 1_000_000)
        if claimed_at is not None and self._clock.now() - claimed_at >= lease:
            self.runner.decline(task)
        else:
            self.runner.start(task)

    # --- commits ----------------------------------------------------------------------------------------------------

    def on_commit(self, committed: Committed) -> None:
        """Claim what a batch of this process left pending, and notify handlers whose attempt it ended or cancelled."""
        worker_id = self.settings.worker_id
        for row in committed.activities:
            if row.queue is not None and self.on_queued is not None:
                self.on_queued(row)
            if row.status == "pending":
                self.runner.request_stop(row.run_id, row.activity_id, row.attempt, "timed_out")
                if row.activity_type in self.types and row.queue is None:
                    if row.local:
                        self.local.expect(row.available_at)
                    elif row.task_queue in self.queues:
                        self.queued.expect(row.available_at)
            elif row.status == "running":
                if row.cancel_requested and row.claimed_by == worker_id:
                    self.runner.request_stop(row.run_id, row.activity_id, row.attempt, "cancel_requested")
                if committed.late and row.claimed_by == worker_id and row.started_at == committed.now:
                    self._release_unseen(row)
            elif row.status == "timed_out":
                self.runner.request_stop(row.run_id, row.activity_id, row.attempt, "timed_out")
            elif row.status == "cancelled":
                key = (row.run_id, row.activity_id, row.attempt)
                self.runner.request_stop(*key, "cancel_requested", closed=True)

    def heartbeat_lost(self, lost: Lost) -> None:
        """Stop a handler whose heartbeat says that it is to stop; a deadline that has passed is enforced with it."""
        key = (lost.run_id, lost.activity_id, lost.attempt)
        self.runner.request_stop(*key, lost.reason, closed=lost.closed)
        if lost.reason == TIMED_OUT:
            change = EnforceActivityDeadline(lost.run_id, lost.activity_id)
            try:
                self.runtime.journal.submit(change, lambda value, error: None)
            except JournalClosedError:
                logger.debug("the client was closed before activity %s timed out", lost.activity_id)

    def attempts_under_way(self) -> list[AttemptKey]:
        """Return the attempts whose handlers run here and were not asked to stop; a thousand at most.

        Polls that follow each other quickly get none: others write all the time.
        """
        now = self._clock.monotonic()
        if now < self._look_at_attempts_at:
            return []
        self._look_at_attempts_at = now + LOOK_GAP_S
        running = self.runner.running.items()
        return [key for key, attempt in running if attempt.stopped is None][:MOST_ATTEMPTS]

    async def stop_unwanted(self, keys: Sequence[AttemptKey]) -> None:
        """Stop the handlers of attempts that another process has ended, or has asked to cancel.

        A handler that sends no heartbeats would not hear of it otherwise.

        Args:
            keys: The attempts to look at.
        """
        rows = await self.runtime.read(find_attempted, keys)
        for key in keys:
            lost = why_to_stop(key, rows.get(key), self._clock.now())
            if lost is not None:
                self.heartbeat_lost(lost)

    def _release_unseen(self, row: ActivityRow) -> None:
        """Release an attempt that nobody started, because its claim became known to be committed only late."""
        logger.info(
            "attempt %d of activity %d of run %s was claimed but not started; it is released",
            row.attempt,
            row.activity_id,
            row.run_id,
        )
        task = ActivityTask(row, Payload.of(None), "", "", None)
        self._end(task, HANDED_BACK)

    # --- claiming ---------------------------------------------------------------------------------------------------

    def _free(self) -> int:
        """Return how many activities may be claimed now. If the rate allows none, a claim follows once it does."""
        free = self.runner.free
        if self._rate is None or free <= 0:
            return free
        allowed = self._rate.free
        if not allowed and self._once_rate_allows is None:
            self._once_rate_allows = self.runtime.loop.call_later(self._rate.wait_s, self._rate_allows)
        return min(free, allowed)

    def _rate_allows(self) -> None:
        self._once_rate_allows = None
        self._offer_slots()

    def _offer_slots(self) -> None:
        """Offer free slots to pending activities and to queues, in turns, then to runs."""
        on_slots = self.on_slots if self.runner.free > 0 else None
        queues_first = self._queues_first
        if on_slots is not None:
            self.on_slots = None
            self._queues_first = not queues_first
            if queues_first:
                on_slots()
        self.queued.claim()
        if on_slots is not None and not queues_first:
            on_slots()
        if self.on_room is not None and not self.queued.waiting:
            self.on_room()

    def _reserve(self, n: int = 1) -> bool:
        """Reserve slots, and the right to start in them, all or none; return whether there were enough."""
        if not self.runner.reserve(n):
            return False
        if self._rate is None or self._rate.take(n):
            return True
        self.runner.free_slots(n)
        return False

    def _release(self, n: int) -> None:
        """Release what was reserved for a claim that found less."""
        self.runner.free_slots(n)
        if self._rate is not None:
            self._rate.give_back(n)

    # --- admitting --------------------------------------------------------------------------------------------------

    def take_slots(self, most: int) -> int:
        """Reserve slots for activities that are about to be admitted; return how many, ``most`` at most."""
        if self._stopping or not self.types:
            return 0
        wanted = min(self._free(), most)
        return wanted if wanted > 0 and self._reserve(wanted) else 0

    def start_admitted(self, claimed: Sequence[Claimed], reserved: int) -> None:
        """Start what was admitted, and release the slots that were reserved for more.

        Args:
            claimed: The activities.
            reserved: How many slots were reserved.
        """
        for found in claimed:
            self._start_claimed(found)
        if reserved > len(claimed):
            self._release(reserved - len(claimed))
            self._offer_slots()

    def _claim(self, wanted: int) -> ClaimActivities:
        return ClaimActivities(self.settings.worker_id, sorted(self.queues), self.types, wanted)

    def _claim_local(self, wanted: int) -> ClaimActivities:
        worker_id, queues = self.settings.worker_id, sorted(self.queues)
        return ClaimLocalActivities(worker_id, queues, self.types, wanted, self.workflow_types)

    def _claimed(self, change: ClaimActivities, claimed: list[Claimed]) -> None:
        if self.on_slots is not None:
            self._offer_slots()
        elif self.on_room is not None and not self.queued.waiting:
            self.on_room()
        for found in claimed:
            self._start_claimed(found)
        if isinstance(change, ClaimLocalActivities) and self._on_run_claimed is not None:
            for run_id in change.taken:
                self._on_run_claimed(run_id)

    def _start_claimed(self, found: Claimed) -> None:
        row = found.row
        try:
            scheduled = stored_event(row.run_id, row.scheduled_seq, ActivityScheduled.type, found.input)
            read_options(row)
        except DamagedHistoryError as error:
            self.release_slots(1)
            unstarted = ActivityTask(row, Payload.of(None), found.workflow_id, found.workflow_type, None)
            self._end(unstarted, self._outcomes.unusable(error))
            return
        assert isinstance(scheduled, ActivityScheduled)
        self.start(
            ActivityTask(
                row,
                scheduled.input,
                found.workflow_id,
                found.workflow_type,
                found.owner_fence,
                scheduled.headers,
                found.first_run_id,
            )
        )

    async def _next(self) -> int | None:
        """Return when the next pending activity becomes available."""
        now = self._clock.now()
        return await self.runtime.read(next_activity_at, sorted(self.queues), sorted(self.types), now)

    async def _next_local(self) -> int | None:
        """Return when the next pending local activity becomes available."""
        return await self.runtime.read(
            next_local_activity_at,
            self.settings.worker_id,
            sorted(self.queues),
            sorted(self.workflow_types),
            sorted(self.types),
            self._clock.now(),
        )

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def _ended(self, task: ActivityTask, outcome: HandlerOutcome) -> None:
        """A handler has ended and its slot is free: pass on the outcome, and claim again."""
        if self._streams.buffers:
            self._streams.end(task, outcome, self._pass_on)
        elif isinstance(outcome, Payload):
            self._on_result(task, outcome)
        else:
            self._pass_on(task, outcome)
        if self.local.waiting:
            self.local.claim()
        if self.on_slots is not None:
            self._offer_slots()
        elif self.queued.waiting:
            self.queued.claim()
        elif self.on_room is not None:
            self.on_room()

    def _pass_on(self, task: ActivityTask, outcome: HandlerOutcome) -> None:
        if isinstance(outcome, Payload):
            self._on_result(task, outcome)
        elif isinstance(outcome, Deferred):
            self._defer(task, outcome)
        elif isinstance(outcome, Completed):
            self.runtime.journal.announce(outcome.committed)
        else:
            self._end(task, outcome)

    def _defer(self, task: ActivityTask, deferred: Deferred) -> None:
        heartbeat = self.heartbeats.take_newest(task.key)
        change = DeferAttempt(task.run_id, task.activity_id, task.attempt, heartbeat)
        self._submit_end(task, deferred, change)

    def _end(self, task: ActivityTask, end: AttemptEnd) -> None:
        change = EndAttempt(task.run_id, task.activity_id, task.attempt, end)
        details = self.heartbeats.take_pending(task.run_id, task.activity_id, task.attempt)
        if details is not None:
            change.heartbeat_details = details
        self._submit_end(task, end, change)

    def _submit_end(
        self, task: ActivityTask, end: AttemptEnd | Deferred, change: EndAttempt | DeferAttempt
    ) -> None:
        try:
            self.runtime.journal.submit(change, partial(self._attempt_closed, task, end, change))
        except JournalClosedError:
            logger.debug("the client was closed before the end of %r could be written", task)

    def _attempt_closed(
        self,
        task: ActivityTask,
        end: AttemptEnd | Deferred,
        change: EndAttempt | DeferAttempt,
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
            if isinstance(error, StoreError):
                # This worker keeps the end of the attempt until a commit has acknowledged it.
                self.runtime.loop.call_later(RETRY_AFTER_S, self._submit_end, task, end, change)
            elif end is not UNWRITABLE:
                # The attempt has ended even though its outcome cannot be written.
                change = EndAttempt(task.run_id, task.activity_id, task.attempt, UNWRITABLE)
                self._submit_end(task, UNWRITABLE, change)

    # --- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        if self._once_rate_allows is not None:
            self._once_rate_allows.cancel()
        self.queued.stop()
        self.local.stop()
