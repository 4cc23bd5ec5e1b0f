"""A worker on one event loop: runs, activities, a lease, and a look for work that others left.

It holds one lease, renewed on a thread of its own, so a handler that blocks the event loop does not cost it. When the
lease is lost all the same (the machine slept, the database was away) others take its work over: everything in memory is
void, and it registers anew under another id.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Coroutine
from functools import partial
from typing import Any

import orjson
from sqlalchemy import Connection

from outlast.client.client import Client
from outlast.histories.retention import Retention
from outlast.runtime.runtime import Runtime
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.blocked_monitor import BlockedMonitor, monitor
from outlast.worker.runs.owner import RunOwner
from outlast.worker.settings import WorkerSettings
from outlast_activities.definitions import ActivityDefinition
from outlast_activities.heartbeats import Heartbeats
from outlast_activities.interceptors import ActivityInterceptor
from outlast_activities.task import ActivityTask
from outlast_runs.claims import STEAL_AFTER_US, ForgetWorker, RegisterWorker, ReleaseAllRuns
from outlast_store.journal.batch import Committed
from outlast_store.reads.workers import next_claimable_at, poll_work, renew_lease
from outlast_store.schema.rows import WorkerRow
from outlast_watchdog.watchdog import TaskWatchdog
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.errors import OutlastError
from outlast_workflow.primitives.interceptor_chain import Chain
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run import guard

logger = logging.getLogger("outlast.worker")

HOUR = 3600.0
STOP_PATIENCE_S = 5.0
"""How long each step of stopping waits for the database; what is not done by then is done when the lease is over."""


class LoopWorker:
    """A worker on the event loop that it was started on; see :class:`outlast.worker.worker.Worker`."""

    def __init__(
        self,
        client: Client,
        settings: WorkerSettings,
        workflows: dict[str, WorkflowDefinition],
        activities: dict[str, ActivityDefinition[..., Any]],
        watchdog_interval: float | None,
    ) -> None:
        self.runtime: Runtime = client.runtime
        self.settings = settings
        self.workflows = workflows
        self.activities = activities
        self._lease_tick = f"lease {self.worker_id}"
        self._heartbeat_tick = f"heartbeats {self.worker_id}"
        self.heartbeats = Heartbeats(
            self.settings.converter,
            self.runtime.environment,
            partial(self.runtime.ticker.wake, self._heartbeat_tick),
            limits=self.settings.limits,
            interceptors=Chain(settings.interceptors, ActivityInterceptor),
        )
        self.dispatcher = ActivityDispatcher(
            self.runtime,
            self.settings,
            self.activities,
            self.heartbeats,
            self._result,
            self.workflows,
            lambda run_id: self.owner.load(run_id),
        )
        self.owner = RunOwner(self.runtime, self.settings, self.workflows, self.dispatcher)
        self._watchdog = (
            TaskWatchdog(client, interval=watchdog_interval, lease_duration=self.settings.lease_duration)
            if watchdog_interval is not None
            else None
        )
        policy = self.settings.retention
        self._retention = Retention(client, policy) if policy is not None else None
        self._monitor = BlockedMonitor() if self.runtime.environment.threads else None
        self._polling: asyncio.Task[None] | None = None
        self._notified = False
        """Whether others may have written since the last look began."""
        self._running = False
        self._lost = False
        self.unfinished = 0
        """How many activities ran on when it had stopped."""
        self._looked_for_neglected_at = 0

    @property
    def worker_id(self) -> str:
        """The id that it is registered under."""
        return self.settings.worker_id

    # --- starting and stopping --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register, and begin to work."""
        await self._register()
        self._running = True
        if self.settings.runtime_guard:
            guard.install()
        self.runtime.journal.subscribe(self._on_commit)
        self.runtime.measure()  # the provider may have been set since the client connected
        self.runtime.workers.append(self.owner)
        self.runtime.ticker.add(self._lease_tick, self.settings.lease_duration / 3, self._renew)
        self.runtime.ticker.add(
            self._heartbeat_tick, HOUR, self._flush_heartbeats
        )  # otherwise woken when one is due
        self.runtime.subscribe(self._poll)
        if self._watchdog is not None:
            self._watchdog.start()
        if self._retention is not None:
            self._retention.start()
        if self._monitor is not None and monitor() is None:  # a thread's first worker watches for all
            self._monitor.start()
        self._poll()

    async def stop(self) -> None:
        """Stop in good order: runs are released, activities get their grace period, the rest is handed back."""
        if not self._running:
            return
        self._running = False
        if self.settings.runtime_guard:
            guard.release()
        self.owner.stop()
        self.dispatcher.stop()
        self.runtime.workers.remove(self.owner)
        self.runtime.unsubscribe(self._poll)
        if self._watchdog is not None:
            await _in_time(self._watchdog.stop(), "a pass of the watchdog is left to others")
        if self._retention is not None:
            await _in_time(self._retention.stop(), "a pass of retention is left to others")
        if self._polling is not None:
            self._polling.cancel()
        answered = await _in_time(self._release_runs(), "runs could not be released")
        still_running = await self.dispatcher.runner.drain(self.settings.graceful_shutdown_timeout)
        self.dispatcher.runner.close()
        if answered:
            answered = await _in_time(self._release_runs(), "runs could not be released")
        if self._monitor is not None:
            self._monitor.stop()
        self.runtime.ticker.remove(self._heartbeat_tick)
        self.runtime.ticker.remove(self._lease_tick)
        self.unfinished = len(still_running)
        if still_running:
            # Its lease must run out first: an attempt is never handed over while it still runs here.
            logger.warning("%d activities run on; they are rescued when the lease ends", len(still_running))
        elif answered:
            signing_off = self.runtime.journal.apply(ForgetWorker(self.worker_id))
            await _in_time(signing_off, "the worker could not sign off")
        self.runtime.journal.unsubscribe(self._on_commit)
        self.runtime.journal.cache.owners.discard(self.worker_id)

    async def _release_runs(self) -> None:
        """Let go of all runs, those included that were evicted."""
        await self.runtime.journal.settled()
        self.owner.drop_all()
        while await self.runtime.journal.apply(ReleaseAllRuns(self.worker_id, 500)):
            pass

    # --- the lease --------------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        row = WorkerRow(
            worker_id=self.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            task_queues=orjson.dumps(list(self.settings.task_queues)).decode(),
            types=orjson.dumps(
                {
                    "workflows": sorted(self.workflows),
                    "activities": sorted(self.activities),
                    "activity_slots": self.settings.max_concurrent_activities,
                }
            ).decode(),
            build_id=self.settings.build_id,
            started_at=0,
            lease_expires_at=0,
        )
        await self.runtime.journal.apply(RegisterWorker(row, int(self.settings.lease_duration * 1_000_000)))
        self.runtime.journal.cache.owners.add(self.worker_id)

    def _renew(self, connection: Connection, now: int) -> None:
        """On the ticker's thread: extend the lease, or learn that it is gone."""
        expires_at = now + int(self.settings.lease_duration * 1_000_000)
        if not renew_lease(connection, self.worker_id, expires_at):
            self.runtime.loop.call_soon_threadsafe(self._declared_dead)

    def _declared_dead(self) -> None:
        """Others have taken over: nothing in memory counts any more."""
        if not self._running or self._lost:
            return
        self._lost = self.owner.run_claimer.paused = True
        logger.warning("worker %s lost its lease: its work was taken over, it registers anew", self.worker_id)
        self.runtime.journal.cache.owners.discard(self.worker_id)
        self.owner.drop_all()
        for task in list(self.dispatcher.runner.running.values()):
            self.dispatcher.runner.request_stop(*_key_of(task), "lost")
        self.runtime.spawn(self._register_anew(), "outlast-register")

    async def _register_anew(self) -> None:
        while self._running:
            # Each time under another id: where nobody knows whether the last one was written, it may be taken.
            self.settings.worker_id = self.runtime.environment.ids.next()
            try:
                await self._register()
            except OutlastError as error:
                logger.warning("the worker could not register: %s", error)
                await asyncio.sleep(1.0)
            else:
                self._lost = self.owner.run_claimer.paused = False
                self._poll()
                return

    def _flush_heartbeats(self, connection: Connection, now: int) -> float | None:
        """On the ticker's thread: write the heartbeats that are due, tell the handlers that have lost their claim.

        Returns the seconds until the next one is due.
        """
        for lost in self.heartbeats.flush(connection, now):
            self.runtime.loop.call_soon_threadsafe(
                self.dispatcher.runner.request_stop, lost.run_id, lost.activity_id, lost.attempt, lost.reason
            )
        return self.heartbeats.due_in_s()

    # --- news -------------------------------------------------------------------------------------------------------

    def _on_commit(self, committed: Committed) -> None:
        self.owner.on_commit(committed)
        if committed.activities:
            self.dispatcher.on_commit(committed)

    def _result(self, task: ActivityTask, payload: Payload) -> None:
        self.owner.add_result(task, payload)

    def _poll(self) -> None:
        """Others may have written: look for runs and activities."""
        if not self._running or self._lost:
            return
        self._notified = True
        if self._polling is None or self._polling.done():
            self._polling = self.runtime.task(self._look_while_rung(), "outlast-poll")

    async def _look_while_rung(self) -> None:
        """What was written while a look was under way may have come behind it: look once more."""
        while self._notified and self._running and not self._lost:
            self._notified = False
            await self._look()

    async def _look(self) -> None:
        now = self.runtime.environment.clock.now()
        queues, types = sorted(self.settings.task_queues), sorted(self.workflows)
        neglected_before = self._neglected_before(now)
        try:
            waiting = await self.runtime.read(
                poll_work, self.worker_id, queues, types, sorted(self.activities), now, neglected_before
            )
            if waiting.claimable:
                self.owner.run_claimer.claim()
            elif self.runtime.url.memory:  # where nobody polls, a run that waits for its time needs an alarm
                await self._look_again_in_time(now)
            if waiting.asked:
                await self.owner.query_answers.poll(queues, types)
        except OutlastError as error:
            logger.warning("the worker could not look for work: %s", error)
            return
        for run_id in waiting.awake:
            self.owner.refresh(run_id)
        if waiting.neglected:
            self.owner.run_claimer.steal(waiting.neglected)
        if waiting.next_activity is not None:
            self.dispatcher.queued.expect(waiting.next_activity)
        if waiting.next_local is not None:
            self.dispatcher.local.expect(waiting.next_local)

    def _neglected_before(self, now: int) -> int | None:
        """Now and then: since when a run must have been awake to be taken from a live owner that leaves it waiting."""
        if now - self._looked_for_neglected_at < STEAL_AFTER_US // 4 or self.runtime.url.memory:
            return None
        self._looked_for_neglected_at = now
        return now - STEAL_AFTER_US

    async def _look_again_in_time(self, now: int) -> None:
        at = await self.runtime.read(
            next_claimable_at, sorted(self.settings.task_queues), sorted(self.workflows)
        )
        if at is not None:
            self.runtime.loop.call_later((at - now) / 1_000_000, self._poll)


async def _in_time(step: Coroutine[Any, Any, Any], otherwise: str) -> bool:
    """Do a step of stopping; whoever stops a worker while the database is away does not wait for it to come back."""
    try:
        async with asyncio.timeout(STOP_PATIENCE_S):
            await step
    except TimeoutError:
        logger.warning("%s: the database did not answer within %g s", otherwise, STOP_PATIENCE_S)
        return False
    except OutlastError as error:
        logger.warning("%s: %s", otherwise, error)
        return False
    return True


def _key_of(running: Any) -> tuple[str, int, int]:
    task: ActivityTask = running.task
    return task.key
