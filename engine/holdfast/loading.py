"""Bringing runs into memory: their rows and histories, read one run after the other."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection

from holdfast.hub import Hub
from holdfast_activities.task import ActivityTask
from holdfast_store import queries
from holdfast_store.rows import RunRow
from holdfast_workflow.errors import StoreError
from holdfast_workflow.payloads import Payload

logger = logging.getLogger("holdfast.worker")

RELOAD_AFTER = 0.5

Result = tuple[ActivityTask, Payload]
"""What an activity returned, not committed yet."""

RunAndHistory = tuple[RunRow, list[tuple[Any, ...]]]
"""A run's row, and its history as ``(seq, type, payload)``."""


class Load:
    """A run that is being read, or was read and is not in memory yet; ``found`` is ``None`` where there is none.

    ``stale``: somebody has written to it since. A run that was activated and evicted again meanwhile must not come back
    as it was before, for it would do the same activation twice.
    """

    __slots__ = ("found", "results", "run_id", "stale")

    def __init__(self, run_id: str, results: list[Result]) -> None:
        self.run_id = run_id
        self.results = results
        self.found: RunAndHistory | None = None
        self.stale = False


class RunLoader:
    """Reads runs that are wanted; results of their activities wait with them.

    Args:
        hub: Where to read.
        loaded: Called with each run that was read; whoever takes it over asks :meth:`take` for it.
        unread: Called with the results of a run that could not be read.
    """

    def __init__(
        self,
        hub: Hub,
        loaded: Callable[[Load], None],
        unread: Callable[[list[Result]], None],
    ) -> None:
        self._hub = hub
        self._loaded = loaded
        self._unread = unread
        self._wanted: OrderedDict[str, list[Result]] = OrderedDict()
        self._under_way: dict[str, Load] = {}
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def load(self, run_id: str, results: Iterable[Result] = ()) -> None:
        """Read a run soon."""
        if self._stopping:
            return
        self._wanted.setdefault(run_id, []).extend(results)
        if self._task is None or self._task.done():
            self._task = self._hub.task(self._read_all(), "holdfast-loader")

    def outdate(self, run_id: str) -> None:
        """A run was written to: what was read of it before does not count."""
        load = self._under_way.get(run_id)
        if load is not None:
            load.stale = True

    def take(self, load: Load) -> bool:
        """Take over what was read; ``False`` where it is stale: it is read again then, if it is wanted."""
        del self._under_way[load.run_id]
        return not load.stale

    def stop(self) -> None:
        """Read nothing more; results that wait are given up to be committed alone."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
        while self._wanted:
            self._unread(self._wanted.popitem()[1])

    async def _read_all(self) -> None:
        while self._wanted:
            run_id, results = self._wanted.popitem(last=False)
            load = self._under_way.get(run_id)
            if load is not None:  # it was wanted again before it was in memory: there is news
                load.results += results
                load.stale = True
                continue
            load = self._under_way[run_id] = Load(run_id, results)
            try:
                load.found = await self._hub.read(run_and_history, run_id)
            except StoreError as error:
                logger.warning("run %s could not be read: %s", run_id, error)
                del self._under_way[run_id]
                self._unread(load.results)
                self._hub.loop.call_later(RELOAD_AFTER, self.load, run_id)
                continue
            except asyncio.CancelledError:
                self._unread(load.results)
                raise
            self._loaded(load)
            await asyncio.sleep(0)


def run_and_history(connection: Connection, run_id: str) -> RunAndHistory | None:
    """A run and all of its history."""
    run = queries.run(connection, run_id)
    if run is None:
        return None
    return run, queries.history(connection, run_id)
