"""The runtime: what a process has open on one database, shared by its clients and workers.

It holds the journal, answers reads, and knows when something happened: at once for what this process writes (it
listens to the journal), and by a *notifier* for what others write (:mod:`outlast.runtime.notifier`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from opentelemetry.metrics import MeterProvider
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from outlast.runtime.local_worker import LocalWorker
from outlast.runtime.metrics import EngineMetrics, engine_metrics
from outlast.runtime.notifier import POLL_INTERVAL_S, Notifier, notifier_for
from outlast.runtime.request_waits import Answers
from outlast.runtime.schema_check import ensure_schema
from outlast_store.database.database import Database, database_clock_offset, translate
from outlast_store.database.ticker import Ticker
from outlast_store.database.urls import DatabaseUrl
from outlast_store.journal.batch import Committed
from outlast_store.journal.journal import Journal
from outlast_store.reads.histories import find_terminal_event
from outlast_store.reads.runs import find_ended_runs
from outlast_workflow.environment import Environment, SystemClock
from outlast_workflow.errors import JournalClosedError, StoreError
from outlast_workflow.history import events
from outlast_workflow.history.events import Event

logger = logging.getLogger("outlast.runtime")

P = ParamSpec("P")
T = TypeVar("T")

READERS = 4
CLOCK_INTERVAL_S = 10.0
"""How often the database's clock is measured anew."""

_runtimes: dict[tuple[str, int, int], Runtime] = {}


class Ending:
    """How a run ended, once this process knows."""

    __slots__ = ("__weakref__", "event", "run_id")

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.event: Event | None = None


class Runtime:
    """One database, one event loop, one process."""

    def __init__(
        self,
        url: DatabaseUrl,
        environment: Environment,
        database: Database,
        *,
        notifier: Notifier | None = None,
    ) -> None:
        self.url = url
        self.environment = environment
        self.database = database
        self.loop = asyncio.get_running_loop()
        self.journal = Journal(database, environment)
        self.ticker = Ticker(database, environment)
        self.workers: list[LocalWorker] = []
        """The workers that run in this process and share this runtime."""
        self.listeners: list[Callable[[], None]] = []
        self._users = 1
        self._closed = False
        self._key: tuple[str, int, int] | None = None
        self.answers = Answers(self.read, self.is_open_here, self._watch)
        self._endings: WeakValueDictionary[str, Ending] = WeakValueDictionary()
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}
        self._own_pool: ThreadPoolExecutor | None = None
        if database.backend != "sqlite" and environment.threads:
            self._own_pool = ThreadPoolExecutor(READERS, "outlast-read")
        self._pool: Executor | None = self._own_pool or environment.executor
        self._pool_aside: ThreadPoolExecutor | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._notifier = notifier or notifier_for(database, self.journal, self.ticker)
        self._watching: asyncio.Task[None] | None = None
        self._ask_for_all_at = 0.0
        self._measured: set[EngineMetrics] = set()
        self.journal.subscribe(self._on_commit)

    # --- opening and closing ----------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls, url: DatabaseUrl, environment: Environment | None, *, migrate: bool = False
    ) -> Runtime:
        """The runtime of a database for this process and loop; made by the first to ask, closed by the last to leave.

        A runtime with an environment of its own is not shared, nor is a database in memory.
        """
        key = (url.identity, id(asyncio.get_running_loop()), os.getpid())
        shared = environment is None and not url.memory
        if shared and key in _runtimes:
            runtime = _runtimes[key]
            runtime._users += 1
            return runtime
        environment = environment or Environment()
        database = Database(url, environment)
        try:
            ensure_schema(database, migrate=migrate)
            runtime = cls(url, environment, database)
            runtime._follow_the_databases_clock()
            runtime.journal.committer.connect()
        except BaseException as error:
            database.dispose()
            if isinstance(error, SQLAlchemyError):
                raise translate(error, url) from error
            raise
        if shared:
            runtime._key = key
            _runtimes[key] = runtime
        runtime.ticker.start()
        return runtime

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine as a task that nobody waits for."""
        _ = self.task(work, name)

    def task(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine as a task that the runtime holds on to; what it raises is logged."""
        task = self.loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("%s failed", task.get_name(), exc_info=task.exception())

    def _follow_the_databases_clock(self) -> None:
        """On PostgreSQL the engine's clock is the database's: measured now, and again and again on the ticker."""
        clock = self.environment.clock
        if self.url.backend != "postgresql" or not isinstance(clock, SystemClock):
            return

        def measure(connection: Connection, _now: int = 0) -> None:
            clock.follow(database_clock_offset(connection, clock))

        with self.database.reader() as connection:
            measure(connection)
        self.ticker.add("clock", CLOCK_INTERVAL_S, measure, at_once=False)

    def measure(self, provider: MeterProvider | None = None) -> None:
        """Count what is committed from now on, if the process (or ``provider``) does anything with numbers."""
        found = engine_metrics(provider)
        if found is not None and found not in self._measured:
            self._measured.add(found)
            self.journal.subscribe(found.on_commit)

    async def leave(self) -> None:
        """One user less; the last one closes the runtime."""
        self._users -= 1
        if self._users:
            return
        self._closed = True
        if self._key is not None:
            _runtimes.pop(self._key, None)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        for run_id in tuple(self._waiters):
            self._release(run_id)  # who waits for its end looks once more, and is told that this is closed
        self.answers.close()
        await self.journal.close()
        if self._notifier is not None:
            await self._notifier.stop()
        self.ticker.stop()
        if self._own_pool is not None:
            self._own_pool.shutdown(wait=True)
        if self._pool_aside is not None:
            self._pool_aside.shutdown(wait=True)
        self.database.dispose()

    # --- reading ----------------------------------------------------------------------------------------------------

    async def read(
        self, question: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Ask a question of :mod:`outlast_store.reads`."""
        if self._pool is None:
            return self.read_now(question, *args, **kwargs)
        return await self.loop.run_in_executor(self._pool, lambda: self.read_now(question, *args, **kwargs))

    async def read_aside(
        self, question: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Ask what may take long: on a thread also where other reads are answered inline, so that the loop goes on."""
        if self._pool is None and self.environment.threads and not self.url.memory:
            self._pool_aside = self._pool_aside or ThreadPoolExecutor(1, "outlast-listing")
            return await self.loop.run_in_executor(
                self._pool_aside, lambda: self.read_now(question, *args, **kwargs)
            )
        return await self.read(question, *args, **kwargs)

    def read_now(
        self, question: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Ask it here and now, blocking.

        Raises:
            JournalClosedError: the last client has been closed.
        """
        if self._closed:
            raise JournalClosedError
        try:
            with self.database.reader() as connection:
                return question(connection, *args, **kwargs)
        except SQLAlchemyError as error:
            raise translate(error, self.url) from error

    # --- waiting for the end of runs --------------------------------------------------------------------------------

    def is_open_here(self, run_id: str) -> bool:
        """Whether a worker of this process owns the run and has not seen it close: its end will be heard of."""
        return run_id in self.journal.cache.runs

    def ending(self, run_id: str) -> Ending:
        """Where the end of a run will be noted, if this process sees it, for as long as somebody holds on to it."""
        ending = self._endings.get(run_id)
        if ending is None:
            ending = self._endings[run_id] = Ending(run_id)
        return ending

    async def ended(self, ending: Ending) -> Event:
        """Wait until a run is closed; returns its terminal event.

        Raises:
            RunNotFoundError: there is no such run.
            JournalClosedError: the last client was closed first.
        """
        if ending.event is not None:
            return ending.event
        if self._closed:
            raise JournalClosedError
        run_id = ending.run_id
        future: asyncio.Future[None] = self.loop.create_future()
        waiting = self._waiters.setdefault(run_id, [])
        waiting.append(future)
        self._watch()
        try:
            if not self.is_open_here(run_id):
                event = await self.read(find_terminal_event, run_id)
                if event is not None:
                    return events.from_json(*event)
            await future
        finally:
            waiting.remove(future)
            if not waiting and self._waiters.get(run_id) is waiting:
                del self._waiters[run_id]
        if ending.event is None:
            event = await self.read(find_terminal_event, run_id)
            assert event is not None, "a closed run ends with its terminal event"
            ending.event = events.from_json(*event)
        return ending.event

    def _on_commit(self, committed: Committed) -> None:
        if committed.answered:
            self.answers.on_commit(committed)
        if not self._endings:
            return
        for run_id, run in committed.runs.items():
            if run.closed_at is not None:
                ending = self._endings.get(run_id)
                if (
                    ending is not None and run_id in committed.events
                ):  # not so where only its row changed since
                    ending.event = committed.events[run_id][-1][1]
                    self._release(run_id)

    def _release(self, run_id: str) -> None:
        for future in self._waiters.get(run_id, ()):
            if not future.done():
                future.set_result(None)

    # --- the notifier -----------------------------------------------------------------------------------------------

    def on_news(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever others may have written, and at the poll interval in any case."""
        self.listeners.append(listener)
        self._watch()

    def off_news(self, listener: Callable[[], None]) -> None:
        """Stop calling it."""
        self.listeners.remove(listener)

    def _watch(self) -> None:
        if self._notifier is not None and (self._watching is None or self._watching.done()):
            self._watching = self.task(self._listen(self._notifier), "outlast-watching")

    async def _listen(self, notifier: Notifier) -> None:
        """Look while anybody waits: for a worker's polls, and for ends and answers that others write."""
        notifier.start()
        while self.listeners or self._waiters or self.answers.awaited:
            await notifier.wait()
            try:
                await self._notify()
            except StoreError as error:
                logger.warning("the database could not be asked for news; it is asked again: %s", error)
            except Exception:
                logger.exception("the database could not be asked for news; it is asked again")

    async def _notify(self) -> None:
        for listener in tuple(self.listeners):
            listener()
        wanted = list(self._waiters)
        everywhere = self.loop.time() >= self._ask_for_all_at
        if everywhere:  # others end our runs too: a watchdog, or whoever terminates them
            self._ask_for_all_at = self.loop.time() + POLL_INTERVAL_S
        else:
            wanted = [run_id for run_id in wanted if not self.is_open_here(run_id)]
        for start in range(0, len(wanted), 500):
            for run_id in await self.read(find_ended_runs, wanted[start : start + 500]):
                self._ended_elsewhere(run_id)
                self._release(run_id)
        if self.answers.awaited:
            await self.answers.look(everywhere=everywhere)

    def _ended_elsewhere(self, run_id: str) -> None:
        """Somebody else may have ended a run that a worker here keeps in memory."""
        self.journal.cache.forget((run_id,), ())
        for worker in self.workers:
            worker.refresh_cached(run_id)
