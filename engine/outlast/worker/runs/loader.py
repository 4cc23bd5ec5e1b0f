"""Bringing runs into memory: their rows and histories, read some runs at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection

from outlast.runtime.runtime import Runtime
from outlast_activities.task import ActivityTask
from outlast_store.reads.histories import read_histories
from outlast_store.reads.runs import find_runs
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import StoreError
from outlast_workflow.primitives.payloads import Payload

logger = logging.getLogger("outlast.worker")

RELOAD_AFTER = 0.5
MOST_AT_ONCE = 50
MOST_BYTES = 1024 * 1024
"""Histories read together are no longer than this, or just one."""

Result = tuple[ActivityTask, Payload]
"""What an activity returned, not committed yet."""

RunAndHistory = tuple[RunRow, list[tuple[Any, ...]]]
"""A run's row, and its history as ``(seq, type, payload)``."""


class Load:
    """A run that is being read, or was read and is not in memory yet; ``found`` is ``None`` where there is none.

    ``stale``: somebody has written to it since. A run that was activated and evicted again meanwhile must not come back
    as it was before, for it would do the same workflow task twice.
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
        runtime: Where to read.
        loaded: Called with each run that was read; whoever takes it over asks :meth:`take` for it.
        unread: Called with the results of a run that could not be read.
    """

    def __init__(
        self,
        runtime: Runtime,
        loaded: Callable[[Load], None],
        unread: Callable[[list[Result]], None],
    ) -> None:
        self._runtime = runtime
        self._loaded = loaded
        self._unread = unread
        self._wanted: OrderedDict[str, list[Result]] = OrderedDict()
        self.under_way: dict[str, Load] = {}
        """The runs that are being read, or were and are not in memory yet."""
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def load(self, run_id: str, results: Iterable[Result] = ()) -> None:
        """Read a run soon."""
        if self._stopping:
            return
        self._wanted.setdefault(run_id, []).extend(results)
        if self._task is None or self._task.done():
            self._task = self._runtime.task(self._read_all(), "outlast-loader")

    def hand_in(self, found: RunAndHistory) -> None:
        """A run is here already, read with the claim that made it ours."""
        run_id = found[0].run_id
        if run_id in self.under_way or self._stopping:
            self.load(run_id)
            return
        load = self.under_way[run_id] = Load(run_id, self._wanted.pop(run_id, []))
        load.found = found
        self._loaded(load)

    def take(self, load: Load) -> bool:
        """Take over what was read; ``False`` where it is stale: it is read again then, if it is wanted."""
        del self.under_way[load.run_id]
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
            loads = self._next_loads()
            if not loads:  # what was read before is to be in memory first
                await asyncio.sleep(0)
                continue
            try:
                found = await self._runtime.read(runs_and_histories, [load.run_id for load in loads])
            except StoreError as error:
                logger.warning("%d runs could not be read: %s", len(loads), error)
                for load in loads:
                    del self.under_way[load.run_id]
                    self._unread(load.results)
                    self._runtime.loop.call_later(RELOAD_AFTER, self.load, load.run_id)
                continue
            except asyncio.CancelledError:
                for load in loads:
                    self._unread(load.results)
                raise
            for load in loads:
                if load.run_id in found:
                    load.found = found[load.run_id]
                    self._loaded(load)
                else:  # there was no room for it
                    del self.under_way[load.run_id]
                    self._wanted.setdefault(load.run_id, []).extend(load.results)
            await asyncio.sleep(0)

    def _next_loads(self) -> list[Load]:
        loads: list[Load] = []
        while self._wanted and len(self.under_way) < MOST_AT_ONCE:
            run_id, results = self._wanted.popitem(last=False)
            load = self.under_way.get(run_id)
            if load is not None:  # it was wanted again before it was in memory: there is news
                load.results += results
                load.stale = True
                continue
            load = self.under_way[run_id] = Load(run_id, results)
            loads.append(load)
        return loads


def runs_and_histories(connection: Connection, run_ids: Sequence[str]) -> dict[str, RunAndHistory | None]:
    """Runs and all of their histories; ``None`` where there is no such run. Those there is no room for are left out."""
    runs = {run.run_id: run for run in find_runs(connection, run_ids)}
    found: dict[str, RunAndHistory | None] = {}
    weight = 0
    for run_id in run_ids:
        run = runs.get(run_id)
        weight += run.history_bytes if run is not None else 0
        if found and weight > MOST_BYTES:
            break
        found[run_id] = (run, []) if run is not None else None
    for run_id, *row in read_histories(connection, list(found)):
        loaded = found[run_id]
        if loaded is not None:
            loaded[1].append(tuple(row))
    return found
