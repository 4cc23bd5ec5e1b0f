"""The run loader: reads the rows and histories of runs, several runs in one query."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from outlast.runtime.runtime import Runtime
from outlast_activities.task import ActivityTask
from outlast_store.reads.histories import read_histories
from outlast_store.reads.runs import find_runs
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import StoreError
from outlast_workflow.primitives.payloads import Payload

logger = logging.getLogger("outlast.worker")

RELOAD_AFTER_S: Final = 0.5
"""How long after a failed read or commit a run is loaded again."""
MOST_LOADING: Final = 50
"""How many runs are being read, or wait to be replayed, at a time."""
MOST_HISTORY_BYTES: Final = 1024 * 1024
"""How much history one query reads, unless a single run has more."""

Result = tuple[ActivityTask, Payload]
"""The result of an activity, not committed yet."""

RunAndHistory = tuple[RunRow, list[tuple[Any, ...]]]
"""A run's row, and its history as ``(seq, type, payload)``."""


class LoadingRun:
    """A run that is being read, or was read and is not replayed yet.

    Attributes:
        run_id: The run.
        results: Activity results that wait for the run.
        found: What was read; ``None`` before that, and if there is no such run.
        stale: Whether the run was written to after the read began. Such a run is read again: it may have been cached,
            given a workflow task and evicted meanwhile, and would otherwise run the same workflow task twice.
    """

    __slots__ = ("found", "results", "run_id", "stale")

    def __init__(self, run_id: str, results: list[Result]) -> None:
        self.run_id = run_id
        self.results = results
        self.found: RunAndHistory | None = None
        self.stale = False


class RunLoader:
    """Reads runs; the results of their activities wait with them.

    Args:
        runtime: Where to read.
        loaded: Called with each run that was read; the callee passes it to :meth:`finish`.
        unread: Called with the results of a run that could not be read.
    """

    def __init__(
        self,
        runtime: Runtime,
        loaded: Callable[[LoadingRun], None],
        unread: Callable[[list[Result]], None],
    ) -> None:
        self._runtime = runtime
        self._loaded = loaded
        self._unread = unread
        self._wanted: OrderedDict[str, list[Result]] = OrderedDict()
        self.under_way: dict[str, LoadingRun] = {}
        """The runs that are being read, or were read and are not replayed yet."""
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def load(self, run_id: str, results: Iterable[Result] = ()) -> None:
        """Read a run soon.

        Args:
            run_id: The run.
            results: Activity results that wait for it.
        """
        if self._stopping:
            return
        self._wanted.setdefault(run_id, []).extend(results)
        if self._task is None or self._task.done():
            self._task = self._runtime.task(self._read_all(), "outlast-loader")

    def hand_in(self, found: RunAndHistory) -> None:
        """Take a run that the claim itself has read."""
        run_id = found[0].run_id
        if run_id in self.under_way or self._stopping:
            self.load(run_id)
            return
        loading = self.under_way[run_id] = LoadingRun(run_id, self._wanted.pop(run_id, []))
        loading.found = found
        self._loaded(loading)

    def finish(self, loading: LoadingRun) -> bool:
        """End the loading of a run; return whether what was read is fresh, so that it may be replayed."""
        del self.under_way[loading.run_id]
        return not loading.stale

    def stop(self) -> None:
        """Read nothing more; results that wait go to ``unread``."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
        while self._wanted:
            self._unread(self._wanted.popitem()[1])

    async def _read_all(self) -> None:
        while self._wanted:
            batch = self._next_batch()
            if batch:
                await self._read(batch)
            # Lets runs that were read before be replayed.
            await asyncio.sleep(0)

    async def _read(self, batch: Sequence[LoadingRun]) -> None:
        try:
            found = await self._runtime.read(runs_and_histories, [loading.run_id for loading in batch])
        except StoreError as error:
            logger.warning("%d runs could not be read: %s", len(batch), error)
            for loading in batch:
                del self.under_way[loading.run_id]
                self._unread(loading.results)
                self._runtime.loop.call_later(RELOAD_AFTER_S, self.load, loading.run_id)
            return
        except asyncio.CancelledError:
            for loading in batch:
                self._unread(loading.results)
            raise
        for loading in batch:
            if loading.run_id in found:
                loading.found = found[loading.run_id]
                self._loaded(loading)
            else:
                # The query was full without it.
                del self.under_way[loading.run_id]
                self._wanted.setdefault(loading.run_id, []).extend(loading.results)

    def _next_batch(self) -> list[LoadingRun]:
        batch: list[LoadingRun] = []
        while self._wanted and len(self.under_way) < MOST_LOADING:
            run_id, results = self._wanted.popitem(last=False)
            loading = self.under_way.get(run_id)
            if loading is not None:
                # It is wanted again before it is cached, so there is something new to read.
                loading.results += results
                loading.stale = True
                continue
            loading = self.under_way[run_id] = LoadingRun(run_id, results)
            batch.append(loading)
        return batch


def runs_and_histories(connection: Connection, run_ids: Sequence[str]) -> dict[str, RunAndHistory | None]:
    """Return runs with their whole histories, up to :data:`MOST_HISTORY_BYTES` but at least one.

    Args:
        connection: Where to read.
        run_ids: The runs.

    Returns:
        What was found, by run id: ``None`` if there is no such run. Runs beyond the limit are absent.
    """
    runs = {run.run_id: run for run in find_runs(connection, run_ids)}
    found: dict[str, RunAndHistory | None] = {}
    weight = 0
    for run_id in run_ids:
        run = runs.get(run_id)
        weight += run.history_bytes if run is not None else 0
        if found and weight > MOST_HISTORY_BYTES:
            break
        found[run_id] = (run, []) if run is not None else None
    for run_id, *row in read_histories(connection, list(found)):
        loaded = found[run_id]
        if loaded is not None:
            loaded[1].append(tuple(row))
    return found
