"""The runtime: what a process has open on one database, shared by its clients and workers.

It holds the journal (the process's group-commit writer), answers reads, and tells subscribers when something happened:
at once for what this process writes, because it listens to the journal, and through a *notifier* for what other
processes write (:mod:`outlast.runtime.notifier`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from opentelemetry.metrics import MeterProvider
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from outlast.runtime.alert_log import log_alerts
from outlast.runtime.failure_log import log_failures
from outlast.runtime.local_worker import LocalWorker
from outlast.runtime.metrics import EngineMetrics, engine_metrics
from outlast.runtime.notifier import POLL_INTERVAL_S, Notifier, notifier_for
from outlast.runtime.request_waits import RequestWaits
from outlast.runtime.result_waits import RunEnds
from outlast.runtime.schema_check import ensure_schema
from outlast.runtime.stream_waits import StreamWaits
from outlast.runtime.unserved_waits import UnservedWaits
from outlast_store.database.database import Database, database_clock_offset, translate
from outlast_store.database.ticker import Ticker, TickFunction
from outlast_store.database.urls import DatabaseUrl
from outlast_store.journal.journal import Journal
from outlast_workflow.environment import Environment, SystemClock
from outlast_workflow.errors import JournalClosedError, StoreError
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND

logger = logging.getLogger("outlast.runtime")

P = ParamSpec("P")
T = TypeVar("T")

READERS: Final = 4
"""How many threads read at a time on a database with a server."""
CLOCK_INTERVAL_S: Final = 10.0
"""How often the offset of the database's clock is measured."""

_runtimes: dict[tuple[str, int, int], Runtime] = {}


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
        self.is_owned_here: Callable[[str], bool] = self.journal.cache.runs.__contains__
        """Return whether a worker of this process owns a run, so that this process most likely closes it."""
        self.ticker = Ticker(database, environment)
        self.workers: list[LocalWorker] = []
        """The workers of this process that share this runtime."""
        self.listeners: list[Callable[[], None]] = []
        """Called whenever other processes may have written."""
        self.outbox_rung: list[Callable[[], None]] = []
        """Called on the loop when a transaction that wrote to the outbox has rung."""
        self.on_replaced: list[Callable[[StoreError], None]] = []
        """Called on the loop when the SQLite file is not the opened one any more: nothing can be written then."""
        self.on_leave: list[Callable[[], Awaitable[None]]] = []
        """Called before the database's connections are closed."""
        if database.file is not None:
            database.file.on_replaced = self._store_replaced
        self.unserved_waits = UnservedWaits(
            self.read, self.spawn, environment, self._awaited_runs, self._moves_here
        )
        waits = (self.read, self.is_owned_here, self._watch)
        self.request_waits = RequestWaits(*waits, self.unserved_waits)
        self.run_ends = RunEnds(*waits, self._closed_elsewhere, self.unserved_waits)
        self.stream_waits = StreamWaits(self.journal, self.read, self._watch, self.unserved_waits)
        self._users = 1
        self._closed = False
        self._key: tuple[str, int, int] | None = None
        self._own_pool: ThreadPoolExecutor | None = None
        if database.backend != "sqlite" and environment.threads:
            self._own_pool = ThreadPoolExecutor(READERS, "outlast-read")
        self._pool: Executor | None = self._own_pool or environment.executor
        self._pool_aside: ThreadPoolExecutor | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._notifier = notifier or notifier_for(database, self.journal, self.ticker, self.outbox_rung)
        self._watching: asyncio.Task[None] | None = None
        self._poll_everywhere_at = 0.0
        self._measured: set[EngineMetrics] = set()
        self.journal.subscribe_to_answers(self.request_waits.on_commit)
        self.journal.subscribe_to_ends(self.run_ends.on_commit)
        self.journal.subscribe_to_failures(log_failures)
        self.journal.subscribe_to_alerts(log_alerts)

    # --- opening and closing ----------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls, url: DatabaseUrl, environment: Environment | None, *, migrate: bool = False
    ) -> Runtime:
        """Return the runtime of a database in this process and event loop.

        The first caller makes it, and the last to :meth:`leave` closes it. A runtime with an environment of its own is
        not shared, and neither is a database in memory.

        Args:
            url: The database.
            environment: Time, ids and randomness, for tests.
            migrate: Whether to migrate a PostgreSQL database.

        Raises:
            StoreError: The database cannot be opened; see :func:`~outlast.runtime.schema_check.ensure_schema`.
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
            # Before the first id: ids have the time of the clock, and never fall.
            measure = _follow_the_databases_clock(database)
            runtime = cls(url, environment, database)
            if measure is not None:
                runtime.ticker.add("clock", CLOCK_INTERVAL_S, measure, at_once=False)
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
        """Run a coroutine as a task that nobody waits for.

        Args:
            work: The coroutine.
            name: The task's name, for the log.
        """
        _ = self.task(work, name)

    def task(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine as a task that the runtime keeps a reference to; log what it raises.

        Args:
            work: The coroutine.
            name: The task's name, for the log.
        """
        task = self.loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("%s failed", task.get_name(), exc_info=task.exception())

    def _store_replaced(self, error: StoreError) -> None:
        """On whichever thread found it: tell the listeners."""

        def tell() -> None:
            for listener in tuple(self.on_replaced):
                listener(error)

        try:
            self.loop.call_soon_threadsafe(tell)
        except RuntimeError:
            logger.debug("the event loop was closed before the file was replaced")

    def measure(self, provider: MeterProvider | None = None) -> None:
        """Record metrics of what is committed from now on, if the process, or ``provider``, exports metrics."""
        found = engine_metrics(provider)
        if found is not None and found not in self._measured:
            self._measured.add(found)
            self.journal.subscribe(found.on_commit)

    async def leave(self) -> None:
        """Give up the use of the runtime; the last user closes it."""
        self._users -= 1
        if self._users:
            return
        self._closed = True
        if self._key is not None:
            _runtimes.pop(self._key, None)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        self.unserved_waits.close()
        self.run_ends.close()
        self.stream_waits.close()
        self.request_waits.close()
        await self.journal.close()
        if self._notifier is not None:
            await self._notifier.stop()
        self.ticker.stop()
        if self._own_pool is not None:
            self._own_pool.shutdown(wait=True)
        if self._pool_aside is not None:
            self._pool_aside.shutdown(wait=True)
        for close in self.on_leave:
            await close()
        self.database.dispose()

    # --- reading ----------------------------------------------------------------------------------------------------

    async def read(
        self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a query function of :mod:`outlast_store.reads` with its arguments, and return its result.

        Raises:
            JournalClosedError: The last client has been closed.
            StoreError: The database cannot be read.
        """
        if self._pool is None:
            return self.read_now(query, *args, **kwargs)
        if self._closed:
            # The threads are gone, and an executor's own error would say nothing of a client.
            raise JournalClosedError
        return await self.loop.run_in_executor(self._pool, lambda: self.read_now(query, *args, **kwargs))

    async def read_aside(
        self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a query that may take long: always on a thread, so that the event loop stays responsive."""
        if self._closed:
            raise JournalClosedError
        if self._pool is None and self.environment.threads and not self.url.memory:
            self._pool_aside = self._pool_aside or ThreadPoolExecutor(1, "outlast-listing")
            return await self.loop.run_in_executor(
                self._pool_aside, lambda: self.read_now(query, *args, **kwargs)
            )
        return await self.read(query, *args, **kwargs)

    def read_now(
        self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a query in the calling thread.

        Raises:
            JournalClosedError: The last client has been closed.
        """
        if self._closed:
            raise JournalClosedError
        try:
            with self.database.reader() as connection:
                return query(connection, *args, **kwargs)
        except SQLAlchemyError as error:
            raise translate(error, self.url) from error

    # --- what other processes write ---------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever other processes may have written, and at every poll interval if there are any."""
        self.listeners.append(listener)
        self._watch()

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        """Stop calling ``listener``."""
        self.listeners.remove(listener)

    @property
    def polls_regularly(self) -> bool:
        """Whether listeners are called at every poll interval. They are not where no other process can write."""
        return self._notifier is not None and self._notifier.polls_regularly

    def _watch(self) -> None:
        if self._notifier is not None and (self._watching is None or self._watching.done()):
            self._watching = self.task(self._listen(self._notifier), "outlast-watching")

    async def _listen(self, notifier: Notifier) -> None:
        """Poll after each notification, for as long as anybody waits for something that others may write."""
        notifier.start()
        while (
            self.listeners or self.run_ends.awaited or self.request_waits.awaited or self.stream_waits.awaited
        ):
            await notifier.wait()
            try:
                await self._poll()
            except StoreError as error:
                logger.warning("the database could not be polled; it is polled again: %s", error)
            except Exception:
                logger.exception("the database could not be polled; it is polled again")

    async def _poll(self) -> None:
        """Look for what other processes have written."""
        for listener in tuple(self.listeners):
            listener()
        # Others rarely write to runs of this process, so those are looked up only once per poll interval.
        everywhere = self.loop.time() >= self._poll_everywhere_at
        if everywhere:
            self._poll_everywhere_at = self.loop.time() + POLL_INTERVAL_S
        if self.run_ends.awaited:
            await self.run_ends.poll(everywhere=everywhere)
        if self.request_waits.awaited:
            await self.request_waits.poll(everywhere=everywhere)
        if self.stream_waits.awaited:
            await self.stream_waits.poll()

    def _awaited_runs(self) -> set[str]:
        return self.run_ends.awaited_runs | self.request_waits.awaited_runs | self.stream_waits.awaited_runs

    def _moves_here(self, run_id: str, within_s: float) -> bool:
        """Return whether a run that is owned here had an event within some seconds, or has an activity running here."""
        cache = self.journal.cache
        run = cache.runs.get(run_id)
        if run is None:
            return False
        since = self.environment.clock.now() - int(within_s * MICROSECONDS_PER_SECOND)
        return run.last_event_at >= since or any(key[0] == run_id for key in cache.activities)

    def _closed_elsewhere(self, run_id: str) -> None:
        """Drop what this process remembers of a run that another one has closed."""
        self.journal.cache.forget((run_id,), ())
        for worker in self.workers:
            worker.refresh_cached(run_id)


def _follow_the_databases_clock(database: Database) -> TickFunction | None:
    """On PostgreSQL, set the engine's clock by the database's; return what does so again."""
    clock = database.environment.clock
    if database.backend != "postgresql" or not isinstance(clock, SystemClock):
        return None

    def measure(connection: Connection, _now: int = 0) -> None:
        clock.follow(database_clock_offset(connection, clock))

    with database.reader() as connection:
        measure(connection)
    return measure
