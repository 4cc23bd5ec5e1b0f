"""Query answers: where a query finds the run's code, and how it is answered there.

======================================  =====================================================================
where                                   how
======================================  =====================================================================
the run is cached here                  its machine answers, after the workflow task that is due or in flight
a worker of this process has its type   its history is replayed for this query, closed runs included
a worker elsewhere has its type         a request row is written, a notifier announces it, a worker answers it
no live worker has its type             :class:`~outlast.errors.NoWorkerError`, at once
======================================  =====================================================================

A query sees what was acknowledged before it was made: a signal that was sent first is handled first, if the run makes
progress at all. A run whose workflow task keeps failing is shown as its last good workflow task left it. A run that has
not started is shown as its constructor leaves it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from outlast.runtime.runtime import Runtime
from outlast.worker.blocked_monitor import HERE, WorkflowTaskInterrupted
from outlast.worker.runs.cache import RunCache
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.loader import runs_and_histories
from outlast.worker.runs.served_workflows import ServedWorkflows
from outlast.worker.settings import WorkerSettings
from outlast_runs.queries import AnswerQuery, QueryRequest, QueryResult
from outlast_store.reads.requests import input_of
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import RequestKey, RequestRow, RunRow
from outlast_store.transitions.queries import open_queries
from outlast_workflow.data.failures import failure_of
from outlast_workflow.errors import DamagedHistoryError, OutlastError, RunNotFoundError
from outlast_workflow.errors.task import ReadOnlyContextError
from outlast_workflow.loop.keyboard import is_ctrl_c
from outlast_workflow.run.handler_tasks import RAISED
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import replay

logger = logging.getLogger("outlast.worker")

FIRST_PAUSE_S: Final = 0.005
"""The first pause between two looks at a run that is about to change; each following one is twice as long."""
PATIENCE_S: Final = 2.0
"""How long a query waits at most until what was sent before it is handled."""
OWNER_FIRST_US: Final = 1_000_000
"""How long other workers leave a remote query to the run's owner."""
ANSWER_AGAIN_AFTER_S: Final = 1.0
"""How long an answered request row is left alone: until then it may still look open."""


class QueryAnswers:
    """Answers queries about runs whose code the worker has.

    Args:
        runtime: Where to read.
        served: Makes the machines of runs.
        cache: The worker's cached runs.
    """

    def __init__(self, runtime: Runtime, served: ServedWorkflows, cache: RunCache) -> None:
        self._runtime = runtime
        self._served = served
        self._settings = served.settings
        self._cache = cache
        self._answering: set[RequestKey] = set()

    # --- one query --------------------------------------------------------------------------------------------------

    async def answer(self, run_id: str, request: QueryRequest, run: RunRow | None = None) -> QueryResult:
        """Answer a query about a run.

        Args:
            run_id: The run.
            request: The query.
            run: The run's row, if it was read after the query was made.

        Raises:
            RunNotFoundError: There is no such run.
        """
        pause, waited = FIRST_PAUSE_S, 0.0
        while True:
            if run is None:
                run = await self._row(run_id)
            cached_run = self._cache.runs.get(run_id)
            # A process that was frozen may have lost the run to another owner without knowing what that one did.
            if cached_run is not None and not cached_run.run.is_behind(run):
                result = await self._wait_for(cached_run, request)
                if result is not None:
                    return result
                # The run has left memory, or has not started.
                cached_run, run = None, await self._row(run_id)
            if waited >= PATIENCE_S or not (self._is_due(run) or self._is_coming(cached_run, run)):
                return await self._from_history(run_id, request)
            run = None
            await asyncio.sleep(pause)
            waited += pause
            pause *= 2

    async def _row(self, run_id: str) -> RunRow:
        run = await self._runtime.read(find_run, run_id)
        if run is None:
            raise RunNotFoundError(run_id)
        return run

    def _is_coming(self, cached_run: CachedRun | None, run: RunRow) -> bool:
        """Return whether the cached run will soon know what the row says: it is still ours and open."""
        return cached_run is not None and run.is_open and run.fence == cached_run.run.fence

    def _is_due(self, run: RunRow) -> bool:
        """Return whether the run is about to get a workflow task, which handles what was sent before the query."""
        if not run.is_open or run.wake_at is None or run.owner_id is None:
            return False
        return max(run.wake_at, run.not_before) <= self._runtime.environment.clock.now()

    def _wait_for(self, cached_run: CachedRun, request: QueryRequest) -> asyncio.Future[QueryResult | None]:
        """Query a cached run: now if it is at rest, else after the workflow tasks that handle what came before."""
        future: asyncio.Future[QueryResult | None] = self._runtime.loop.create_future()
        commits = int(cached_run.change is not None)
        if cached_run.has_work and cached_run.run.not_before <= self._runtime.environment.clock.now():
            commits += 1
        cached_run.queries.append((request, future, commits))
        if not commits:
            self.settle(cached_run, commits=0)
        return future

    def settle(self, cached_run: CachedRun, *, commits: int = 1) -> None:
        """Answer the queries of a run that need not wait any longer.

        Args:
            cached_run: The run, at rest.
            commits: How many of its workflow tasks have become durable since the last call.
        """
        waiting, cached_run.queries = cached_run.queries, []
        spoiled = False
        for request, future, wanted in waiting:
            if wanted > commits:
                cached_run.queries.append((request, future, wanted - commits))
                continue
            result: QueryResult | None = None
            if cached_run.machine.begun and not spoiled:
                result, spoiled = query_machine(cached_run.machine, request, self._settings)
            if not future.done():
                future.set_result(result)
        if spoiled:
            self._cache.discard(cached_run)

    async def _from_history(self, run_id: str, request: QueryRequest) -> QueryResult:
        """Replay the run for this query alone."""
        found = (await self._runtime.read(runs_and_histories, [run_id]))[run_id]
        if found is None:
            raise RunNotFoundError(run_id)
        run, rows = found
        converter = self._settings.converter
        try:
            machine = self._served.machine(run)
        except OutlastError as error:
            return QueryResult(failure=failure_of(error, converter))
        try:
            replayed = replay(machine, rows)
            if not machine.begun:
                events = [event for _, event, *_ in replayed.unapplied]
                machine.make(events, self._runtime.environment.clock.now())
            return query_machine(machine, request, self._settings)[0]
        except RAISED as error:
            if is_ctrl_c(error):
                raise
            return QueryResult(failure=failure_of(error, converter))
        finally:
            machine.evict()

    # --- queries from other processes -------------------------------------------------------------------------------

    async def poll(self, queues: list[str], types: list[str]) -> None:
        """Answer the queries that other processes have left for the runs of some task queues.

        Args:
            queues: The task queues.
            types: The workflow types that this worker has.
        """
        now = self._runtime.environment.clock.now()
        for row, owner_id in await self._runtime.read(open_queries, queues, types, now):
            if row.key in self._answering:
                continue
            owned_elsewhere = owner_id is not None and owner_id != self._settings.worker_id
            if not (owned_elsewhere and now - row.created_at < OWNER_FIRST_US):
                self._answering.add(row.key)
                self._runtime.spawn(self._answer_row(row), "outlast-query")

    async def _answer_row(self, row: RequestRow) -> None:
        try:
            try:
                request = QueryRequest(row.name, *input_of(row))
            except DamagedHistoryError as error:
                result = QueryResult(failure=failure_of(error, self._settings.converter))
            else:
                result = await self.answer(row.run_id, request)
            await self._runtime.journal.apply(AnswerQuery(row.key, result.to_text()))
        except OutlastError as error:
            logger.warning("query %s of run %s could not be answered: %s", row.name, row.run_id, error)
        finally:
            self._runtime.loop.call_later(ANSWER_AGAIN_AFTER_S, partial(self._answering.discard, row.key))


def query_machine(
    machine: WorkflowMachine, request: QueryRequest, settings: WorkerSettings
) -> tuple[QueryResult, bool]:
    """Run a query in a machine at rest.

    Args:
        machine: The machine.
        request: The query.
        settings: The worker's settings.

    Returns:
        The result, and whether the query has spoiled the machine, which must then be discarded.
    """
    watch = HERE.monitor
    if watch is not None:
        watch.enter(machine)
    try:
        try:
            result = machine.query(request.name, request.input, request.headers)
        finally:
            if watch is not None:
                watch.leave()
        if len(result.json) >= settings.limits.near["payload_bytes"]:
            settings.limits.check("payload_bytes", len(result.json), whose=machine.run_id)
        return QueryResult(result), False
    except WorkflowTaskInterrupted as stop:
        if watch is not None:
            watch.leave()
        return QueryResult(failure=failure_of(machine.log.refusal or stop, settings.converter)), True
    except RAISED as error:
        if is_ctrl_c(error):
            raise
        spoiled = isinstance(error, ReadOnlyContextError) or machine.log.refusal is not None
        return QueryResult(failure=failure_of(error, settings.converter)), spoiled
