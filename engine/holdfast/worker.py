"""A worker: the process's promise to run workflows and activities of some task queues.

It holds one lease, renewed on a thread of its own, so a handler that blocks the event loop does not cost it. When the
lease is lost all the same (the machine slept, the database was away) others take its work over: everything in memory is
void, and it registers anew under another id.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Self

import orjson
from sqlalchemy import Connection

from holdfast.client import Client
from holdfast.dispatcher import ActivityDispatcher
from holdfast.hub import Hub
from holdfast.owner import RunOwner
from holdfast.ownership import ForgetWorker, RegisterWorker, ReleaseAllRuns
from holdfast.settings import WorkerSettings
from holdfast_activities.definitions import ActivityDefinition
from holdfast_activities.definitions import definition_of as activity_definition_of
from holdfast_activities.heartbeats import Heartbeats
from holdfast_activities.task import ActivityTask
from holdfast_store import queries
from holdfast_store.batch import Committed
from holdfast_store.rows import WorkerRow
from holdfast_watchdog.watchdog import TaskWatchdog
from holdfast_workflow.definitions import WorkflowDefinition
from holdfast_workflow.definitions import definition_of as workflow_definition_of
from holdfast_workflow.errors import HoldfastError, InvalidOptionError
from holdfast_workflow.limits import StructuralLimits
from holdfast_workflow.options import ActivityOptions
from holdfast_workflow.payloads import Payload

logger = logging.getLogger("holdfast.worker")

HEARTBEAT_FLUSH = 0.25


class Worker:
    """Runs workflows and activities. An async context manager; :meth:`run` is for a main program.

    Args:
        client: The client to work for; they share its database.
        task_queue: The queue that it serves, or several.
        workflows: Workflow classes and functions.
        activities: Activities.
        watchdog: Whether it also runs a :class:`~holdfast.watchdog.TaskWatchdog`.
        watchdog_interval: Seconds between the watchdog's passes at the most.
        lease_duration: Seconds after which others may take over the work of a worker that no longer answers.
        max_cached_workflows: How many idle runs stay in memory; 0 replays each run for each activation.
        max_concurrent_activities: How many activities run at a time.
        graceful_shutdown_timeout: Seconds that running activities get to end when the worker stops.
        default_activity_options: What activities get where neither their declaration nor their call says anything.
        build_id: Names the code; recorded with each activation.
        limits: The structural limits.
        workflow_task_failure_types: Exceptions of workflow code that fail the task, to be tried again, not the run.

    Raises:
        InvalidOptionError: An option is out of range, or two definitions share a name.
    """

    def __init__(
        self,
        client: Client,
        *,
        task_queue: str | Sequence[str] = "default",
        workflows: Iterable[Any] = (),
        activities: Iterable[Any] = (),
        watchdog: bool = True,
        watchdog_interval: float = 1.0,
        lease_duration: float = 30.0,
        max_cached_workflows: int = 1000,
        max_concurrent_activities: int = 100,
        graceful_shutdown_timeout: float = 10.0,
        default_activity_options: ActivityOptions | None = None,
        build_id: str | None = None,
        limits: StructuralLimits | None = None,
        workflow_task_failure_types: tuple[type[BaseException], ...] | None = None,
    ) -> None:
        self.client = client
        self.hub: Hub = client.hub
        queues = (task_queue,) if isinstance(task_queue, str) else tuple(task_queue)
        self.settings = WorkerSettings(
            worker_id=self.hub.environment.ids.next(),
            task_queues=queues,
            converter=client.converter,
            lease_duration=lease_duration,
            max_cached_workflows=max_cached_workflows,
            max_concurrent_activities=max_concurrent_activities,
            graceful_shutdown_timeout=graceful_shutdown_timeout,
            build_id=build_id,
            limits=limits or client.limits,
            default_activity_options=default_activity_options,
        )
        if workflow_task_failure_types is not None:
            self.settings.workflow_task_failure_types = workflow_task_failure_types
        self.workflows = _by_name("workflow", map(workflow_definition_of, workflows))
        self.activities = _by_name("activity", map(activity_definition_of, activities))
        if not self.workflows and not self.activities:
            raise InvalidOptionError("a worker needs workflows or activities to run", field="workflows")
        self.heartbeats = Heartbeats(self.settings.converter, self.hub.environment)
        self.dispatcher = ActivityDispatcher(
            self.hub, self.settings, self.activities, self.heartbeats, self._result
        )
        self.owner = RunOwner(self.hub, self.settings, self.workflows, self.dispatcher)
        self._watchdog = TaskWatchdog(client, interval=watchdog_interval) if watchdog else None
        self._polling: asyncio.Task[None] | None = None
        self._stop_requested = asyncio.Event()
        self._running = False
        self._lost = False

    @property
    def worker_id(self) -> str:
        """The id that it is registered under."""
        return self.settings.worker_id

    # --- starting and stopping --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register, and begin to work."""
        if self._running:
            raise InvalidOptionError("the worker is running already")
        await self._register()
        self._running = True
        self.hub.journal.subscribe(self._on_commit)
        self.hub.workers.append(self.owner)
        self.hub.pulse.add(f"lease {id(self)}", self.settings.lease_duration / 3, self._renew)
        self.hub.pulse.add(f"heartbeats {id(self)}", HEARTBEAT_FLUSH, self._flush_heartbeats)
        self.hub.on_news(self._poll)
        if self._watchdog is not None:
            self._watchdog.start()
        self._poll()

    async def stop(self) -> None:
        """Stop in good order: runs are released, activities get their grace period, the rest is handed back."""
        if not self._running:
            return
        self._running = False
        self._stop_requested.set()
        self.owner.stop()
        self.dispatcher.stop()
        self.hub.workers.remove(self.owner)
        self.hub.off_news(self._poll)
        if self._watchdog is not None:
            await self._watchdog.stop()
        if self._polling is not None:
            self._polling.cancel()
        await self._release_runs()
        await self.dispatcher.runner.drain(self.settings.graceful_shutdown_timeout)
        await self._release_runs()
        self.hub.pulse.remove(f"heartbeats {id(self)}")
        self.hub.pulse.remove(f"lease {id(self)}")
        try:
            await self.hub.journal.apply(ForgetWorker(self.worker_id))
        except HoldfastError as error:
            logger.warning("the worker could not sign off: %s", error)
        self.hub.journal.unsubscribe(self._on_commit)
        self.hub.journal.cache.owners.discard(self.worker_id)

    async def _release_runs(self) -> None:
        """Let go of all runs, those included that were evicted."""
        try:
            while self.owner.in_flight:
                await asyncio.sleep(0.001)
            self.owner.drop_all()
            while await self.hub.journal.apply(ReleaseAllRuns(self.worker_id, 500)):
                pass
        except HoldfastError as error:
            logger.warning("runs could not be released: %s", error)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def run(self) -> None:
        """Work until SIGINT or SIGTERM, or until :meth:`request_stop`; then stop in good order."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            try:
                loop.add_signal_handler(number, self.request_stop)
            except (NotImplementedError, RuntimeError, ValueError):
                logger.debug("signal %s can't be handled here", number)
        try:
            async with self:
                await self._stop_requested.wait()
        finally:
            for number in signals:
                try:
                    loop.remove_signal_handler(number)
                except (NotImplementedError, RuntimeError, ValueError):
                    logger.debug("signal %s was not handled here", number)

    def request_stop(self) -> None:
        """Make :meth:`run` return; call it on the worker's loop."""
        self._stop_requested.set()

    # --- the lease --------------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        row = WorkerRow(
            worker_id=self.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            task_queues=orjson.dumps(list(self.settings.task_queues)).decode(),
            types=orjson.dumps({"workflows": sorted(self.workflows), "activities": sorted(self.activities)}).decode(),
            build_id=self.settings.build_id,
            started_at=0,
            lease_expires_at=0,
        )
        await self.hub.journal.apply(RegisterWorker(row, int(self.settings.lease_duration * 1_000_000)))
        self.hub.journal.cache.owners.add(self.worker_id)

    def _renew(self, connection: Connection, now: int) -> None:
        """On the pulse's thread: extend the lease, or learn that it is gone."""
        expires_at = now + int(self.settings.lease_duration * 1_000_000)
        if not queries.renew_lease(connection, self.worker_id, expires_at):
            self.hub.loop.call_soon_threadsafe(self._declared_dead)

    def _declared_dead(self) -> None:
        """Others have taken over: nothing in memory counts any more."""
        if not self._running or self._lost:
            return
        self._lost = True
        logger.warning("worker %s lost its lease: its work was taken over, it registers anew", self.worker_id)
        self.hub.journal.cache.owners.discard(self.worker_id)
        self.owner.drop_all()
        for task in list(self.dispatcher.runner.running.values()):
            self.dispatcher.runner.tell(*_key_of(task), "lost")
        self.settings.worker_id = self.hub.environment.ids.next()
        self.hub.loop.create_task(self._register_anew(), name="holdfast-register")

    async def _register_anew(self) -> None:
        while self._running:
            try:
                await self._register()
            except HoldfastError as error:
                logger.warning("the worker could not register: %s", error)
                await asyncio.sleep(1.0)
            else:
                self._lost = False
                self._poll()
                return

    def _flush_heartbeats(self, connection: Connection, now: int) -> None:
        """On the pulse's thread: write the heartbeats that are due, tell the handlers that have lost their claim."""
        for lost in self.heartbeats.flush(connection, now):
            self.hub.loop.call_soon_threadsafe(
                self.dispatcher.runner.tell, lost.run_id, lost.activity_id, lost.attempt, lost.reason
            )

    # --- news -------------------------------------------------------------------------------------------------------

    def _on_commit(self, committed: Committed) -> None:
        self.owner.on_commit(committed)
        if committed.activities:
            self.dispatcher.on_commit(committed)

    def _result(self, task: ActivityTask, payload: Payload) -> None:
        self.owner.add_result(task, payload)

    def _poll(self) -> None:
        """Others may have written: look for runs and activities."""
        if self._running and not self._lost and (self._polling is None or self._polling.done()):
            self._polling = self.hub.loop.create_task(self._look(), name="holdfast-poll")

    async def _look(self) -> None:
        now = self.hub.environment.clock.now()
        queues = sorted(self.settings.task_queues)
        try:
            if await self.hub.read(queries.claimable, queues, sorted(self.workflows), now):
                self.owner.claim()
            for run_id in await self.hub.read(queries.awake, self.worker_id, now):
                self.owner.look_again(run_id)
            available_at = await self.hub.read(queries.next_activity, queues, sorted(self.activities))
        except HoldfastError as error:
            logger.warning("the worker could not look for work: %s", error)
            return
        if available_at is not None:
            self.dispatcher.expect(available_at)


def _key_of(running: Any) -> tuple[str, int, int]:
    task: ActivityTask = running.task
    return task.key


def _by_name(noun: str, definitions: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, WorkflowDefinition | ActivityDefinition[..., Any]] = {}
    for definition in definitions:
        if definition.name in found and found[definition.name] is not definition:
            raise InvalidOptionError(f"two definitions of {noun} {definition.name!r}: give one another name")
        found[definition.name] = definition
    return found
