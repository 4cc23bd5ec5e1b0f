"""Queries: how a request about a run finds somebody who has its code, and how it is answered.

============================  =========================================================================================
where                         how
============================  =========================================================================================
the run is cached here        by its machine, once the workflow task that is due or under way is durable
a worker here has its type    by replay of its history, which is thrown away afterwards; closed runs included
a worker elsewhere has it     a row asks, a notifier rings, a worker that serves the run answers the row
nobody has it                 :class:`~outlast.errors.NoWorkerError`, at once
============================  =========================================================================================

A query sees what was acknowledged before it was asked: a signal that was sent first is handled first, if the run gets
on at all. One whose task keeps failing is shown as its last good workflow task left it, and one that has not begun as
its constructor makes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from outlast.runtime.runtime import Runtime
from outlast.worker.blocked_monitor import WorkflowTaskInterrupted, monitor
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.loader import runs_and_histories
from outlast.worker.settings import WorkerSettings
from outlast_runs.queries import AnswerQuery, QueryRequest, QueryResult
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions.queries import open_queries
from outlast_workflow.data.failures import failure_of
from outlast_workflow.data.headers import taken_apart
from outlast_workflow.errors import OutlastError, RunNotFoundError
from outlast_workflow.errors.task import ReadOnlyContextError
from outlast_workflow.history.events import WorkflowStarted
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.run.handler_tasks import RAISED
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import replay

logger = logging.getLogger("outlast.worker")

FIRST_PAUSE_S: Final = 0.005
PATIENCE_S: Final = 2.0
"""How long a query waits at the most for what was sent before it to be handled."""
OWNER_FIRST_US: Final = 1_000_000
"""For so long a query from elsewhere is left to the worker that owns the run."""


class Queries:
    """The requests that a worker answers about runs whose code it has.

    Args:
        runtime: Where to read.
        settings: The worker's.
        cached: The cached run of a run that is in memory.
        machine: Makes the machine of a run.
        discard: Throws a cached run away whose machine can't be trusted any more.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        cached: Callable[[str], CachedRun | None],
        machine: Callable[[RunRow], WorkflowMachine],
        discard: Callable[[CachedRun], None],
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._cached = cached
        self._machine = machine
        self._discard = discard
        self._answering: set[tuple[str, str, str]] = set()

    # --- one request -----------------------------------------------------------------------------------------------

    async def answer(self, run_id: str, request: QueryRequest, run: RunRow | None = None) -> QueryResult:
        """Answer a request about a run.

        Args:
            run_id: The run.
            request: What is asked.
            run: Its row, where it was read since the request was asked.

        Raises:
            RunNotFoundError: There is no such run.
        """
        pause, waited = FIRST_PAUSE_S, 0.0
        while True:
            if run is None:
                run = await self._row(run_id)
            cached_run = self._cached(run_id)
            # Whoever was frozen may have lost the run to another owner since, and not know what that one did.
            if cached_run is not None and not cached_run.run.is_behind(run):
                reply = await self._wait_for(cached_run, request)
                if reply is not None:
                    return reply
                cached_run, run = None, await self._row(run_id)  # it has left memory, or has not begun
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
        """Whether memory is about to learn what the row says: it is ours still, and a commit or a bell under way."""
        return cached_run is not None and run.is_open and run.fence == cached_run.run.fence

    def _is_due(self, run: RunRow) -> bool:
        """Whether the run is about to be activated: what was sent before the request is handled then."""
        if not run.is_open or run.wake_at is None or run.owner_id is None:
            return False
        return max(run.wake_at, run.not_before) <= self._runtime.environment.clock.now()

    def _wait_for(self, cached_run: CachedRun, request: QueryRequest) -> asyncio.Future[QueryResult | None]:
        """Ask a run in memory: now if it is at rest, else after the workflow tasks that handle what came before."""
        future: asyncio.Future[QueryResult | None] = self._runtime.loop.create_future()
        commits = int(cached_run.change is not None)
        if cached_run.has_work and cached_run.run.not_before <= self._runtime.environment.clock.now():
            commits += 1
        cached_run.questions.append((request, future, commits))
        if not commits:
            self.settle(cached_run, commits=0)
        return future

    def settle(self, cached_run: CachedRun, *, commits: int = 1) -> None:
        """So many workflow tasks of a run have become durable: answer those who waited for no more."""
        waiting, cached_run.questions = cached_run.questions, []
        spoiled = False
        for request, future, wanted in waiting:
            if wanted > commits:
                cached_run.questions.append((request, future, wanted - commits))
                continue
            result: QueryResult | None = None
            if cached_run.machine.begun and not spoiled:
                result, spoiled = ask(cached_run.machine, request, self._settings)
            if not future.done():
                future.set_result(result)
        if spoiled:
            self._discard(cached_run)

    def give_up(self, cached_run: CachedRun) -> None:
        """The run leaves memory: what is asked of it is answered otherwise."""
        questions, cached_run.questions = cached_run.questions, []
        for _, future, _ in questions:
            if not future.done():
                future.set_result(None)

    async def _from_history(self, run_id: str, request: QueryRequest) -> QueryResult:
        """Bring the run back for this request alone."""
        found = (await self._runtime.read(runs_and_histories, [run_id]))[run_id]
        if found is None:
            raise RunNotFoundError(run_id)
        run, rows = found
        converter = self._settings.converter
        try:
            machine = self._machine(run)
        except OutlastError as error:
            return QueryResult(failure=failure_of(error, converter))
        try:
            replayed = replay(machine, rows)
            if not machine.begun:
                started = replayed.unapplied[0][1]
                assert isinstance(started, WorkflowStarted)
                machine.make(started, self._runtime.environment.clock.now())
            return ask(machine, request, self._settings)[0]
        except RAISED as error:
            return QueryResult(failure=failure_of(error, converter))
        finally:
            machine.evict()

    # --- requests from elsewhere -----------------------------------------------------------------------------------

    async def look(self, queues: list[str], types: list[str]) -> None:
        """Answer what other processes ask about runs that this worker serves."""
        now = self._runtime.environment.clock.now()
        for row, owner_id in await self._runtime.read(open_queries, queues, types, now):
            if row.key in self._answering:
                continue
            theirs = owner_id is not None and owner_id != self._settings.worker_id
            if not (theirs and now - row.created_at < OWNER_FIRST_US):
                self._answering.add(row.key)
                self._runtime.spawn(self._answer_row(row), "outlast-query")

    async def _answer_row(self, row: RequestRow) -> None:
        try:
            request = QueryRequest(row.name, *taken_apart(row.input))
            reply = await self.answer(row.run_id, request)
            await self._runtime.journal.apply(AnswerQuery(row.key, reply.to_text()))
        except OutlastError as error:
            logger.warning("query %s of run %s could not be answered: %s", row.name, row.run_id, error)
        finally:
            self._runtime.loop.call_later(1.0, partial(self._answering.discard, row.key))


def ask(
    machine: WorkflowMachine, request: QueryRequest, settings: WorkerSettings
) -> tuple[QueryResult, bool]:
    """Ask a machine at rest. Returns the reply, and whether the machine must not be used any more."""
    watch = monitor()
    if watch is not None:
        watch.enter(machine)
    try:
        try:
            result = machine.query(request.name, request.input, request.headers)
        finally:
            if watch is not None:
                watch.leave()
        limits: StructuralLimits = settings.limits
        limits.check("payload_bytes", len(result.json), whose=machine.run_id)
        return QueryResult(result), False
    except WorkflowTaskInterrupted as stop:
        if watch is not None:
            watch.leave()
        return QueryResult(failure=failure_of(machine.log.refusal or stop, settings.converter)), True
    except RAISED as error:
        spoiled = isinstance(error, ReadOnlyContextError) or machine.log.refusal is not None
        return QueryResult(failure=failure_of(error, settings.converter)), spoiled
