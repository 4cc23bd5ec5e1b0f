"""A worker on one event loop: its parts, and the order in which they start and stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from outlast.client.client import Client
from outlast.histories.retention import Retention
from outlast.histories.retention_policy import RetentionPolicy
from outlast.runtime.runtime import Runtime
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.blocked_monitor import HERE, BlockedMonitor
from outlast.worker.lease import WorkerLease
from outlast.worker.lent_client import LENT, lend
from outlast.worker.poller import WorkPoller
from outlast.worker.runs.owner import RunOwner
from outlast.worker.settings import WorkerSettings
from outlast_activities.definitions import ActivityDefinition
from outlast_activities.heartbeats import Heartbeats
from outlast_activities.interceptors import ActivityInterceptor
from outlast_runs.claims import ReleaseAllRuns
from outlast_watchdog.watchdog import TaskWatchdog
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.errors import OutlastError, StoreError
from outlast_workflow.options.alerts import DELIVERY
from outlast_workflow.primitives.interceptor_chain import Chain
from outlast_workflow.run import guard

logger = logging.getLogger("outlast.worker")

IDLE_HEARTBEAT_INTERVAL_S: Final = 3600.0
"""How often heartbeats are flushed if none is due; one that is due wakes the ticker."""
DELIVERED_DAYS: Final = 7
"""How long deliveries of alerts are kept after they have completed."""
STOP_PATIENCE_S: Final = 5.0
"""How long each step of stopping waits for the database. What is not done by then is left until the lease expires."""
MOST_RUNS_RELEASED: Final = 500
"""How many runs one transaction releases."""


class LoopWorker:
    """A worker on the event loop that it was started on; see :class:`outlast.worker.worker.Worker`.

    Args:
        client: The client to work for.
        settings: The worker's settings.
        workflows: The workflow definitions, by type.
        activities: The activity definitions, by type.
        watchdog_interval: Seconds between the passes of its watchdog; ``None`` for no watchdog.
    """

    owner: RunOwner

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
        self.on_replaced: Callable[[StoreError], None] | None = None
        """Called when the database's file is not the opened one any more, and the worker has stopped its work."""
        self.unfinished = 0
        """How many activities were still running when the worker had stopped."""
        self._heartbeat_tick = f"heartbeats {settings.worker_id}"
        self.heartbeats = Heartbeats(
            settings.converter,
            self.runtime.environment,
            partial(self.runtime.ticker.wake, self._heartbeat_tick),
            limits=settings.limits,
            interceptors=Chain(settings.interceptors, ActivityInterceptor),
        )
        context = copy_context()
        context.run(LENT.set, lend(client))
        # Activities run in copies of the context that their dispatcher is made in.
        self.dispatcher = context.run(
            ActivityDispatcher,
            self.runtime,
            settings,
            activities,
            self.heartbeats,
            on_result=lambda task, payload: self.owner.add_result(task, payload),
            workflow_types=workflows,
            on_run_claimed=lambda run_id: self.owner.load(run_id),
        )
        self.owner = RunOwner(self.runtime, settings, workflows, self.dispatcher)
        self.poller = WorkPoller(self.runtime, settings, self.owner, self.dispatcher, activities)
        self.lease = WorkerLease(
            self.runtime,
            settings,
            workflows,
            activities,
            on_lost=self._lease_lost,
            on_registered=self._registered_again,
        )
        self._watchdog: TaskWatchdog | None = None
        if watchdog_interval is not None:
            self._watchdog = TaskWatchdog(
                client,
                interval=watchdog_interval,
                lease_duration=settings.lease_duration,
                limits=settings.limits,
            )
        policy = settings.retention
        self._retentions = [] if policy is None else [Retention(client, policy)]
        if settings.alert_queues:
            kept = RetentionPolicy(days=DELIVERED_DAYS)
            self._retentions.append(Retention(client, kept, completed_type=DELIVERY))
        self._monitor = BlockedMonitor() if self.runtime.environment.threads else None
        self._running = False

    @property
    def worker_id(self) -> str:
        """The id that the worker is registered under."""
        return self.settings.worker_id

    # --- starting and stopping --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register, and begin to work.

        Raises:
            StoreError: The database did not take the registration.
        """
        await self.lease.acquire()
        self._running = True
        if self.settings.runtime_guard:
            guard.install()
        self.runtime.journal.subscribe(self.owner.on_commit)
        self.runtime.journal.subscribe(self.dispatcher.on_commit)
        # The process may have set its meter provider since the client connected.
        self.runtime.measure()
        self.runtime.workers.append(self.owner)
        self.runtime.on_replaced.append(self._store_replaced)
        self.runtime.ticker.add(self._heartbeat_tick, IDLE_HEARTBEAT_INTERVAL_S, self._flush_heartbeats)
        if self._watchdog is not None:
            self._watchdog.start()
        for retention in self._retentions:
            retention.start()
        # The first worker of a thread watches the workflow tasks of all its workers.
        if self._monitor is not None and HERE.monitor is None:
            self._monitor.start()
        self.poller.start()
        file = self.runtime.database.file
        if file is not None and file.replaced is not None:
            # The listeners were told before this worker was one of them.
            self._store_replaced(file.replaced)

    async def stop(self) -> None:
        """Release the runs, give activities their grace period, hand back those that run on, and sign off."""
        if not self._running:
            return
        self._running = False
        self._stop_accepting()
        if self._watchdog is not None:
            await _in_time(self._watchdog.stop(), "a pass of the watchdog is left to others")
        for retention in self._retentions:
            await _in_time(retention.stop(), "a pass of retention is left to others")
        self.poller.cancel()
        answered = await _in_time(self._release_runs(), "runs could not be released")
        still_running = await self.dispatcher.runner.drain(self.settings.graceful_shutdown_timeout)
        self.dispatcher.runner.close()
        if answered:
            # Activities that ended meanwhile may have brought runs back.
            answered = await _in_time(self._release_runs(), "runs could not be released")
        if self._monitor is not None:
            self._monitor.stop()
        self.runtime.ticker.remove(self._heartbeat_tick)
        self.lease.let_expire()
        self.unfinished = len(still_running)
        if still_running:
            # The lease must expire first: an attempt is never handed over while it still runs here.
            logger.warning("%d activities run on; they are rescued when the lease ends", len(still_running))
        elif answered:
            await _in_time(self.lease.sign_off(), "the worker could not sign off")
        self.runtime.journal.unsubscribe(self.owner.on_commit)
        self.runtime.journal.unsubscribe(self.dispatcher.on_commit)
        self.runtime.journal.cache.owners.discard(self.worker_id)

    def _stop_accepting(self) -> None:
        """Claim nothing more, run no more workflow tasks, and answer no more requests."""
        if self.settings.runtime_guard:
            guard.release()
        self.lease.stop()
        self.owner.stop()
        self.dispatcher.stop()
        self.runtime.workers.remove(self.owner)
        self.runtime.on_replaced.remove(self._store_replaced)
        self.poller.stop()

    async def _release_runs(self) -> None:
        """Release all runs of this worker, the evicted ones included."""
        await self.runtime.journal.settled()
        self.owner.drop_all()
        while await self.runtime.journal.apply(ReleaseAllRuns(self.worker_id, MOST_RUNS_RELEASED)):
            pass

    # --- the lease and heartbeats -----------------------------------------------------------------------------------

    def _lease_lost(self) -> None:
        """Discard what is in memory, and stop the handlers: their claims are no longer valid."""
        self.owner.run_claimer.paused = True
        self.poller.pause()
        self.owner.drop_all()
        for running in list(self.dispatcher.runner.running.values()):
            self.dispatcher.runner.request_stop(*running.task.key, "lost")

    def _store_replaced(self, error: StoreError) -> None:
        """Work no more: nobody would find what is written."""
        self.lease.stop()
        self.lease.let_expire()
        self.runtime.ticker.remove(self._heartbeat_tick)
        self._lease_lost()
        if self.on_replaced is not None:
            self.on_replaced(error)

    def _registered_again(self) -> None:
        self.owner.run_claimer.paused = False
        if self._running:
            self.poller.resume()

    def _flush_heartbeats(self, connection: Connection, now: int) -> float | None:
        """On the ticker's thread: write the due heartbeats and tell handlers that have lost their claim.

        Returns the seconds until the next heartbeat is due.
        """
        for lost in self.heartbeats.flush(connection, now):
            self.runtime.loop.call_soon_threadsafe(self.dispatcher.heartbeat_lost, lost)
        return self.heartbeats.due_in_s()


async def _in_time(step: Coroutine[Any, Any, Any], otherwise: str) -> bool:
    """Do a step of stopping, and give it up if the database does not answer; return whether it was done.

    Args:
        step: The step.
        otherwise: What it means that it was not done, for the log.
    """
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
