"""A worker with its own thread, event loop and client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

from outlast.client.client import Client
from outlast.client.connecting import Connecting
from outlast.worker.loop_worker import LoopWorker
from outlast.worker.settings import WorkerSettings
from outlast_activities.definitions import ActivityDefinition
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.errors import StoreError


class WorkerThread:
    """Runs a :class:`~outlast.worker.loop_worker.LoopWorker` on another thread; the caller's loop starts and stops it.

    Args:
        client: Its database, converter and limits are those of the worker's client.
        settings: The worker's settings.
        workflows: The workflow definitions, by type.
        activities: The activity definitions, by type.
        watchdog_interval: Seconds between the passes of its watchdog; ``None`` for no watchdog.
    """

    def __init__(
        self,
        client: Client,
        settings: WorkerSettings,
        workflows: dict[str, WorkflowDefinition],
        activities: dict[str, ActivityDefinition[..., Any]],
        watchdog_interval: float | None,
    ) -> None:
        self._url = client.url
        self._client = client
        self._parts = (settings, workflows, activities, watchdog_interval)
        self.unfinished = 0
        self.on_replaced: Callable[[StoreError], None] | None = None
        """Called on the loop of :meth:`start` when the database's file is not the opened one any more."""
        self._callers_loop: asyncio.AbstractEventLoop | None = None
        self._ready: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="outlast-worker", daemon=True)

    async def start(self) -> None:
        """Start the thread; return when the worker works, or raise what prevented that."""
        self._callers_loop = asyncio.get_running_loop()
        self._thread.start()
        await asyncio.wrap_future(self._ready)

    async def stop(self) -> None:
        """Stop the worker in good order, and join its thread."""
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        await asyncio.wrap_future(self._ended)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
                self._ended.set_result(None)
            else:
                self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        connecting = Client.connect(self._url, converter=self._client.converter, limits=self._client.limits)
        async with self._on_the_same_file(connecting) as client:
            worker = LoopWorker(client, *self._parts)
            worker.on_replaced = self._store_replaced
            await worker.start()
            self._ready.set_result(None)
            try:
                await self._stopping.wait()
            finally:
                await worker.stop()
                self.unfinished = worker.unfinished

    @asynccontextmanager
    async def _on_the_same_file(self, connecting: Connecting[Client]) -> AsyncGenerator[Client]:
        """Connect to the file that the caller's client has open, and not to a new one that has taken its place.

        Raises:
            StoreReplacedError: The file was deleted, moved or replaced meanwhile.
        """
        file = self._client.runtime.database.file
        check = file.check if file is not None else _nothing
        check()
        try:
            async with connecting as client:
                check()
                yield client
        except StoreError:
            check()
            raise

    def _store_replaced(self, error: StoreError) -> None:
        if self._callers_loop is not None and self.on_replaced is not None:
            self._callers_loop.call_soon_threadsafe(self.on_replaced, error)


def _nothing() -> None:
    """Check nothing: the database is no file."""
