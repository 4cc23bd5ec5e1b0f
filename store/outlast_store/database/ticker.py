"""The ticker: what a process must do on time, on a thread and a connection of its own.

Renewing a lease and sending heartbeats may not wait for user code, nor for the journal: a handler that blocks the loop
must not cost the lease. A *tick* is a function of ``(connection, now)``; it runs at its interval, or at once when it is
woken from any thread, and writes its own short transaction of compare-and-set statements.

When a tick fails it is tried again after a short pause. If the connection is lost, another is opened; until then
:attr:`Ticker.connected_for_s` is zero, because whoever could not reach the database knows nothing about others.

Where there may be no threads, and for SQLite in memory (whose one connection is also the journal's), ticks are timers
of the event loop: they run between the journal's batches, never inside one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, event
from sqlalchemy.exc import SQLAlchemyError

from outlast_store.database.database import Database, is_disconnect, translate
from outlast_workflow.environment import Environment
from outlast_workflow.errors import StoreError

logger = logging.getLogger("outlast.ticker")

TickFunction = Callable[[Connection, int], float | None]
"""Does one tick, given a connection in autocommit and the time in microseconds.

It may return after how many seconds it wants to run again, where that is sooner than its interval.
"""

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0


class Tick:
    """One thing to be done on time; ``due_at`` is in the clock's monotonic seconds."""

    __slots__ = ("due_at", "fn", "interval_s", "name", "pause_s")

    def __init__(self, name: str, interval_s: float, fn: TickFunction, due_at: float) -> None:
        self.name = name
        self.interval_s = interval_s
        self.fn = fn
        self.due_at = due_at
        self.pause_s = FIRST_PAUSE_S


class Ticker:
    """Runs ticks; see the module. ``start`` and ``stop`` are called on the event loop.

    Args:
        database: Where the ticks write.
        environment: The clock, and whether there may be a thread.
    """

    def __init__(self, database: Database, environment: Environment) -> None:
        self._database = database
        self._clock = environment.clock
        self._ticks: dict[str, Tick] = {}
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._connected_at: float | None = None
        self._alive_at = 0.0
        self._spoken = False
        self._driver: ThreadDriver | LoopDriver
        if environment.threads and not database.url.memory:
            self._driver = ThreadDriver(self)
        else:
            self._driver = LoopDriver(self)

    def add(self, name: str, interval_s: float, fn: TickFunction, *, at_once: bool = True) -> None:
        """Run ``fn`` every ``interval_s`` seconds from now on, the first time at once or after the first of them."""
        with self._lock:
            due_at = self._clock.monotonic() + (0.0 if at_once else interval_s)
            self._ticks[name] = Tick(name, interval_s, fn, due_at)
        self._driver.notice()

    def remove(self, name: str) -> None:
        """Run this tick no more; one that is under way ends as it ends."""
        with self._lock:
            self._ticks.pop(name, None)

    def start(self) -> None:
        """Begin."""
        self._driver.start()

    def stop(self) -> None:
        """Wait for the tick that is under way and close the connection; no further tick runs after this returns."""
        self._driver.stop()

    def wake(self, name: str) -> None:
        """Run this tick at once; from any thread. Nothing happens if there is no such tick."""
        with self._lock:
            tick = self._ticks.get(name)
            if tick is None:
                return
            tick.due_at = 0.0
        self._driver.notice()

    @property
    def connected_for_s(self) -> float:
        """For how long the connection has been proved unbroken: from its first to its latest tick that used it."""
        with self._lock:
            return self._alive_at - self._connected_at if self._connected_at is not None else 0.0

    # --- for the drivers --------------------------------------------------------------------------------------------

    def delay_s(self) -> float | None:
        """Until the next tick is due; ``None``: there are no ticks."""
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
        with self._lock:
            self._connected_at = None
        if connection is not None:
            try:
                connection.close()
            except SQLAlchemyError:
                logger.debug("closing the ticker's connection", exc_info=True)

    def _run(self, tick: Tick) -> None:
        with self._lock:  # a wake from now on asks for another tick after this one
            tick.due_at = self._clock.monotonic() + tick.interval_s
        try:
            if self._connection is None:
                self._connection = self._database.writer()
                event.listen(self._connection, "after_cursor_execute", self._answered)
            self._spoken = False
            wanted = tick.fn(self._connection, self._clock.now())
        except Exception as error:
            self._failed(tick, error)
            return
        now = self._clock.monotonic()
        with self._lock:
            if self._spoken:
                self._alive_at = now
                if self._connected_at is None:
                    self._connected_at = now
            if wanted is not None and now + wanted < tick.due_at:
                tick.due_at = now + max(wanted, 0.0)
        tick.pause_s = FIRST_PAUSE_S

    def _answered(self, *_: object) -> None:
        self._spoken = True

    def _failed(self, tick: Tick, error: Exception) -> None:
        self._recover(error)
        problem = translate(error, self._database.url)
        if isinstance(problem, StoreError):  # the database's trouble: what it is says more than where
            logger.warning("the %s tick failed and is tried again: %s", tick.name, problem)
        else:
            logger.exception("the %s tick failed and is tried again", tick.name, exc_info=error)
        pause, tick.pause_s = tick.pause_s, min(tick.pause_s * 2, LONGEST_PAUSE_S)
        with self._lock:
            tick.due_at = min(tick.due_at, self._clock.monotonic() + pause)

    def _recover(self, error: Exception) -> None:
        """Leave no transaction open; give up a connection that is lost."""
        connection = self._connection
        if connection is not None and not is_disconnect(error):
            try:
                _roll_back(connection)
            except SQLAlchemyError:
                logger.debug("rolling back a tick", exc_info=True)
            else:
                return
        self._connection = None
        with self._lock:
            self._connected_at = None
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
    if getattr(driver, "in_transaction", True):  # SQLite refuses a ROLLBACK outside a transaction
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
        """Something may be due sooner than was thought."""
        with self._wanted:
            self._noticed = True
            self._wanted.notify()

    def start(self) -> None:
        """Start the thread."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="outlast-ticker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the tick that it is running."""
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
        """Until something is due; whether to go on."""
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
        """Something may be due sooner than was thought."""
        loop = self._loop
        if loop is None:
            return
        if threading.get_ident() == self._thread_id:
            self._plan()
        else:
            try:
                loop.call_soon_threadsafe(self._plan)
            except RuntimeError:  # the loop is closed: nobody is left to be on time for
                self._loop = None

    def start(self) -> None:
        """Begin on the running loop."""
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
