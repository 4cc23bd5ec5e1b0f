"""The ticker: what a process must write on time, on a thread and a connection of its own.

Renewing a lease and sending heartbeats must not wait for user code, nor for the journal: a handler that blocks the loop
must not cost the lease. A *tick* is a function of ``(connection, now)``. It runs at its interval, or at once when any
thread wakes it, and writes its own short transaction of compare-and-set statements.

A tick that fails is tried again after a short pause. A connection that is lost is replaced by the next tick.

Where threads are not allowed, and for SQLite in memory (whose one connection is also the journal's), ticks are timers
of the event loop: they run between the journal's batches, never inside one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from outlast_store.database.database import Database, is_disconnect, translate
from outlast_workflow.environment import Environment
from outlast_workflow.errors import StoreError

logger = logging.getLogger("outlast.ticker")

TickFunction = Callable[[Connection, int], float | None]
"""Does one tick, given a connection in autocommit and the time in microseconds.

To run again sooner than its interval, it returns after how many seconds.
"""

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0


class Tick:
    """One thing to do on time; ``due_at`` is in the clock's monotonic seconds."""

    __slots__ = ("due_at", "fn", "interval_s", "name", "pause_s")

    def __init__(self, name: str, interval_s: float, fn: TickFunction, due_at: float) -> None:
        self.name = name
        self.interval_s = interval_s
        self.fn = fn
        self.due_at = due_at
        self.pause_s = FIRST_PAUSE_S


class Ticker:
    """Runs ticks. Call ``start`` and ``stop`` on the event loop.

    Args:
        database: Where the ticks write.
        environment: The clock, and whether threads are allowed.
    """

    def __init__(self, database: Database, environment: Environment) -> None:
        self._database = database
        self._clock = environment.clock
        self._ticks: dict[str, Tick] = {}
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._driver: ThreadDriver | LoopDriver
        if environment.threads and not database.url.memory:
            self._driver = ThreadDriver(self)
        else:
            self._driver = LoopDriver(self)

    def add(self, name: str, interval_s: float, fn: TickFunction, *, at_once: bool = True) -> None:
        """Run a tick from now on.

        Args:
            name: Its name, by which it is woken and removed.
            interval_s: How often it runs, in seconds.
            fn: What it does.
            at_once: Whether it runs at once for the first time; otherwise after one interval.
        """
        with self._lock:
            due_at = self._clock.monotonic() + (0.0 if at_once else interval_s)
            self._ticks[name] = Tick(name, interval_s, fn, due_at)
        self._driver.notice()

    def remove(self, name: str) -> None:
        """Stop running a tick. One that is under way is not interrupted."""
        with self._lock:
            self._ticks.pop(name, None)

    def start(self) -> None:
        """Start the ticks."""
        self._driver.start()

    def stop(self) -> None:
        """Wait for the tick that is under way, then close the connection. No tick runs after this returns."""
        self._driver.stop()

    def wake(self, name: str) -> None:
        """Run a tick at once. Any thread may call this; an unknown name is ignored."""
        with self._lock:
            tick = self._ticks.get(name)
            if tick is None:
                return
            tick.due_at = 0.0
        self._driver.notice()

    # --- for the drivers --------------------------------------------------------------------------------------------

    def delay_s(self) -> float | None:
        """Return how many seconds are left until the next tick is due; ``None`` where there are no ticks."""
        with self._lock:
            if not self._ticks:
                return None
            return min(tick.due_at for tick in self._ticks.values()) - self._clock.monotonic()

    def run_due(self, stopping: Callable[[], bool]) -> None:
        """Run the ticks that are due, the one that has waited longest first."""
        now = self._clock.monotonic()
        with self._lock:
            due = [tick for tick in self._ticks.values() if tick.due_at <= now]
            due.sort(key=lambda tick: tick.due_at)
        for tick in due:
            if stopping():
                return
            self._run(tick)

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except SQLAlchemyError:
                logger.debug("closing the ticker's connection", exc_info=True)

    def _run(self, tick: Tick) -> None:
        # From here on a wake asks for another run after this one.
        with self._lock:
            tick.due_at = self._clock.monotonic() + tick.interval_s
        try:
            if self._connection is None:
                self._connection = self._database.writer()
            elif self._database.file is not None:
                self._database.file.check()
            wanted = tick.fn(self._connection, self._clock.now())
        except Exception as error:
            self._failed(tick, error)
            return
        now = self._clock.monotonic()
        with self._lock:
            if wanted is not None and now + wanted < tick.due_at:
                tick.due_at = now + max(wanted, 0.0)
        tick.pause_s = FIRST_PAUSE_S

    def _failed(self, tick: Tick, error: Exception) -> None:
        self._recover(error)
        problem = translate(error, self._database.url)
        # Where the database is at fault, its message says more than a traceback.
        if isinstance(problem, StoreError):
            logger.warning("the %s tick failed and is tried again: %s", tick.name, problem)
        else:
            logger.exception("the %s tick failed and is tried again", tick.name, exc_info=error)
        pause, tick.pause_s = tick.pause_s, min(tick.pause_s * 2, LONGEST_PAUSE_S)
        with self._lock:
            tick.due_at = min(tick.due_at, self._clock.monotonic() + pause)

    def _recover(self, error: Exception) -> None:
        """Leave no transaction open; drop a connection that is lost."""
        connection = self._connection
        if connection is not None and not is_disconnect(error):
            try:
                _roll_back(connection)
            except SQLAlchemyError:
                logger.debug("rolling back a tick", exc_info=True)
            else:
                return
        self._connection = None
        if connection is not None:
            try:
                if not self._database.url.memory:
                    connection.invalidate()
                connection.close()
            except SQLAlchemyError:
                logger.debug("closing a lost connection", exc_info=True)


def _roll_back(connection: Connection) -> None:
    """End the transaction that a tick left open, if there is one."""
    driver = connection.connection.driver_connection
    # SQLite refuses a ROLLBACK outside a transaction.
    if getattr(driver, "in_transaction", True):
        connection.exec_driver_sql("ROLLBACK")


class ThreadDriver:
    """Ticks on a thread of their own."""

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker
        self._wanted = threading.Condition()
        self._noticed = False
        self._stopping = False
        self._thread: threading.Thread | None = None

    def notice(self) -> None:
        """Recompute when the next tick is due."""
        with self._wanted:
            self._noticed = True
            self._wanted.notify()

    def start(self) -> None:
        """Start the thread."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="outlast-ticker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the tick that it is running."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with self._wanted:
            self._stopping = True
            self._wanted.notify()
        if thread is not threading.current_thread():
            thread.join()

    def _is_stopping(self) -> bool:
        return self._stopping

    def _run(self) -> None:
        ticker = self._ticker
        try:
            while self._wait():
                ticker.run_due(self._is_stopping)
        finally:
            ticker.close()

    def _wait(self) -> bool:
        """Wait until a tick is due; return ``False`` when the thread is to end."""
        with self._wanted:
            while not self._stopping:
                self._noticed = False
                delay = self._ticker.delay_s()
                if delay is not None and delay <= 0:
                    return True
                if not self._noticed:
                    self._wanted.wait(delay)
        return False


class LoopDriver:
    """Ticks as timers of the event loop that ``start`` was called on."""

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread_id = 0

    def notice(self) -> None:
        """Recompute when the next tick is due."""
        loop = self._loop
        if loop is None:
            return
        if threading.get_ident() == self._thread_id:
            self._plan()
        else:
            try:
                loop.call_soon_threadsafe(self._plan)
            except RuntimeError:
                # The loop is closed: no tick is needed any more.
                self._loop = None

    def start(self) -> None:
        """Start on the running loop."""
        self._thread_id = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._plan()

    def stop(self) -> None:
        """Cancel the timer."""
        if self._loop is None:
            return
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ticker.close()

    def _is_stopping(self) -> bool:
        return self._loop is None

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop, delay = self._loop, self._ticker.delay_s()
        if loop is not None and delay is not None:
            self._timer = loop.call_later(max(delay, 0.0), self._turn)

    def _turn(self) -> None:
        self._timer = None
        self._ticker.run_due(self._is_stopping)
        self._plan()
