"""The work poller: looks for what other processes have left for a worker.

It polls when the notifier announces that others have written, and at every poll interval. One query tells which runs
and activities wait. The claims that follow go through the journal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from outlast.runtime.runtime import Runtime
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.runs.owner import RunOwner
from outlast.worker.settings import WorkerSettings
from outlast_runs.claims import STEAL_AFTER_US
from outlast_store.reads.workers import next_claimable_at, poll_work
from outlast_workflow.errors import OutlastError
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND

logger = logging.getLogger("outlast.worker")


class WorkPoller:
    """Polls for one worker.

    Args:
        runtime: Where to poll.
        settings: The worker's settings.
        owner: Claims, steals and refreshes runs, and answers queries.
        dispatcher: Claims activities.
        activities: The activity types that the worker runs.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        owner: RunOwner,
        dispatcher: ActivityDispatcher,
        activities: Iterable[str],
    ) -> None:
        self._paused = True
        self._runtime = runtime
        self._settings = settings
        self._owner = owner
        self._dispatcher = dispatcher
        self._queues = sorted(settings.task_queues)
        self._types = sorted(owner.types)
        self._activities = sorted(activities)
        self._task: asyncio.Task[None] | None = None
        self._notified = False
        """Whether others may have written since the last poll began."""
        self._neglected_polled_at = 0

    def start(self) -> None:
        """Poll now, and after each notification."""
        self._runtime.subscribe(self.poll)
        self.resume()

    def pause(self) -> None:
        """Ignore notifications while the worker is not registered."""
        self._paused = True

    def resume(self) -> None:
        """Poll now, and after each notification again."""
        self._paused = False
        self.poll()

    def stop(self) -> None:
        """Start no more polls; :meth:`cancel` ends an unfinished one."""
        self._paused = True
        self._runtime.unsubscribe(self.poll)

    def cancel(self) -> None:
        """Cancel an unfinished poll."""
        if self._task is not None:
            self._task.cancel()

    def poll(self) -> None:
        """Look for runs, activities and queries."""
        if self._paused:
            return
        self._notified = True
        if self._task is None or self._task.done():
            self._task = self._runtime.task(self._poll_while_notified(), "outlast-poll")

    async def _poll_while_notified(self) -> None:
        """Poll again if a notification came during a poll: that poll may have missed what was written."""
        while self._notified and not self._paused:
            self._notified = False
            try:
                await self._poll_once()
            except OutlastError as error:
                logger.warning("the worker could not poll for work: %s", error)

    async def _poll_once(self) -> None:
        now = self._runtime.environment.clock.now()
        attempts = self._dispatcher.attempts_under_way()
        waiting = await self._runtime.read(
            poll_work,
            self._settings.worker_id,
            self._queues,
            self._types,
            self._activities,
            now,
            self._neglected_before(now),
            attempts,
        )
        if waiting.claimable:
            self._owner.run_claimer.claim()
        elif not self._runtime.polls_regularly:
            # A run that waits for its time needs a timer where no poll comes by itself.
            await self._poll_when_claimable(now)
        for queue, activities in waiting.queues.items():
            self._owner.admitter.look(queue, activities=activities)
        if waiting.asked:
            await self._owner.query_answers.poll(self._queues, self._types)
        for run_id in waiting.awake:
            self._owner.refresh(run_id)
        if waiting.neglected:
            self._owner.run_claimer.steal(waiting.neglected)
        if waiting.wanted < len(attempts):
            await self._dispatcher.stop_unwanted(attempts)
        if waiting.next_activity is not None:
            self._dispatcher.queued.expect(waiting.next_activity)
        if waiting.next_local is not None:
            self._dispatcher.local.expect(waiting.next_local)

    def _neglected_before(self, now: int) -> int | None:
        """Return since when a run must have been awake to be stolen from a live owner; mostly ``None``: no look."""
        if now - self._neglected_polled_at < STEAL_AFTER_US // 4 or not self._runtime.polls_regularly:
            return None
        self._neglected_polled_at = now
        return now - STEAL_AFTER_US

    async def _poll_when_claimable(self, now: int) -> None:
        at = await self._runtime.read(next_claimable_at, self._queues, self._types)
        if at is not None:
            self._runtime.loop.call_later((at - now) / MICROSECONDS_PER_SECOND, self.poll)
