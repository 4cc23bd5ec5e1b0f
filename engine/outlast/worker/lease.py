"""A worker's registration and lease.

A worker is alive while its lease lasts. The lease is renewed on the ticker's thread, so a handler that blocks the event
loop does not cost the worker its lease. If the lease is lost all the same, because the machine slept or the database
was away, others have claimed the worker's runs: it registers again, under another id.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import orjson
from sqlalchemy import Connection

from outlast.runtime.runtime import Runtime
from outlast.worker.settings import WorkerSettings
from outlast_runs.claims import ForgetWorker, RegisterWorker
from outlast_store.reads.workers import renew_lease
from outlast_store.schema.rows import WorkerRow
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.errors import OutlastError
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND

logger = logging.getLogger("outlast.worker")

RENEWALS_PER_LEASE: Final = 3
REGISTER_AGAIN_AFTER_S: Final = 1.0


class WorkerLease:
    """The registration of one worker, renewed until :meth:`let_expire`.

    Args:
        runtime: Where the worker registers.
        settings: The worker's settings; a new registration changes the worker id in them.
        workflows: What the worker runs, by type.
        activities: The activity types that it runs.
        on_lost: Called on the loop when the lease is lost.
        on_registered: Called on the loop when the worker is registered again.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        workflows: Mapping[str, WorkflowDefinition],
        activities: Iterable[str],
        *,
        on_lost: Callable[[], None],
        on_registered: Callable[[], None],
    ) -> None:
        self.lost = False
        """Whether the lease is lost and the worker is not registered again yet."""
        self._runtime = runtime
        self._settings = settings
        self._types: dict[str, object] = {
            "workflows": sorted(workflows),
            "activities": sorted(activities),
            "activity_slots": settings.max_concurrent_activities,
        }
        if settings.queues is not None:
            self._types["queues"] = sorted(settings.queues)
        dags = {name: one.dag_hash for name, one in sorted(workflows.items()) if one.dag_hash is not None}
        if dags:
            self._types["dags"] = dags
        self._on_lost = on_lost
        self._on_registered = on_registered
        self._lease_us = int(settings.lease_duration * MICROSECONDS_PER_SECOND)
        self._tick = f"lease {settings.worker_id}"
        self._wanted = False

    async def acquire(self) -> None:
        """Register, and renew the lease from now on.

        Raises:
            StoreError: The database did not take the registration.
        """
        await self._register()
        self._wanted = True
        interval_s = self._settings.lease_duration / RENEWALS_PER_LEASE
        self._runtime.ticker.add(self._tick, interval_s, self._renew)

    def stop(self) -> None:
        """Renew the lease for now, but do not register again if it is lost."""
        self._wanted = False

    def let_expire(self) -> None:
        """Renew the lease no more."""
        self._runtime.ticker.remove(self._tick)

    async def sign_off(self) -> None:
        """Delete the registration."""
        await self._runtime.journal.apply(ForgetWorker(self._settings.worker_id))

    async def _register(self) -> None:
        settings = self._settings
        row = WorkerRow(
            worker_id=settings.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            task_queues=orjson.dumps(list(settings.task_queues)).decode(),
            types=orjson.dumps(self._types).decode(),
            build_id=settings.build_id,
            started_at=0,
            lease_expires_at=0,
        )
        await self._runtime.journal.apply(RegisterWorker(row, self._lease_us))
        self._runtime.journal.cache.owners.add(settings.worker_id)

    def _renew(self, connection: Connection, now: int) -> None:
        """On the ticker's thread: extend the lease, or learn that it is lost."""
        if not renew_lease(connection, self._settings.worker_id, now + self._lease_us):
            self._runtime.loop.call_soon_threadsafe(self.declared_dead)

    def declared_dead(self) -> None:
        """React to the loss of the lease: what the worker has in memory is void, and it registers again."""
        if not self._wanted or self.lost:
            return
        self.lost = True
        worker_id = self._settings.worker_id
        logger.warning("worker %s lost its lease and its runs; it registers again", worker_id)
        self._runtime.journal.cache.owners.discard(worker_id)
        self._on_lost()
        self._runtime.spawn(self._register_again(), "outlast-register")

    async def _register_again(self) -> None:
        while self._wanted:
            # A new id for each try: the last registration may have been written without an answer.
            self._settings.worker_id = self._runtime.environment.ids.next()
            try:
                await self._register()
            except OutlastError as error:
                logger.warning("the worker could not register: %s", error)
                await asyncio.sleep(REGISTER_AGAIN_AFTER_S)
            else:
                self.lost = False
                self._on_registered()
                return
