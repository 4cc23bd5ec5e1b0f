"""The doorbell: how a process learns that others have written. Polling is the truth; a bell only makes it prompt.

* SQLite: ``PRAGMA data_version`` is asked every few milliseconds; it changes when another connection has committed.
* PostgreSQL: a thread LISTENs. Whoever commits something that may concern another process rings by NOTIFY — after the
  commit, outside its transaction, on the pulse's connection, at most once in :data:`RING_GAP` seconds however many
  batches there were. A bell that is lost (the listener's connection was cut) costs one poll interval, never more.
  A database that does not know these words is asked once; polling is all there is then, and nobody rings.
* In memory: nobody else can write, so nobody listens.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from outlast_store.database.background import Pulse
from outlast_store.database.database import Database
from outlast_store.database.driver_errors import driver_error
from outlast_store.journal.batch import Committed
from outlast_store.journal.journal import Journal

logger = logging.getLogger("outlast.doorbell")

CHANNEL: Final = "outlast"
POLL_INTERVAL: Final = 1.0
VERSION_INTERVAL: Final = 0.01
RING_GAP: Final = 0.005
LISTEN_FOR: Final = 0.5
LAST_BELL_S: Final = 1.0
"""So long a client that is closed waits until its last bell has rung."""
RECONNECT_AFTER: Final = 1.0
HOUR: Final = 3600.0
UNKNOWN_WORDS: Final = frozenset({"0A000", "42601"})
"""Feature not supported, syntax error."""


class Doorbell(Protocol):
    """Tells when to look."""

    def start(self) -> None:
        """Begin to listen; again is nothing."""
        ...

    async def stop(self) -> None:
        """Listen no more."""
        ...

    async def wait(self) -> None:
        """Return when others may have written, and after the poll interval in any case."""
        ...


def doorbell_for(database: Database, journal: Journal, pulse: Pulse) -> Doorbell | None:
    """The doorbell of a database; ``None`` where nobody else can write."""
    if database.url.memory:
        return None
    if database.backend == "sqlite":
        return VersionDoorbell(journal)
    return NotifyDoorbell(database, journal, pulse)


class VersionDoorbell:
    """SQLite's: asks for the data version."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._version = 0

    def start(self) -> None:
        """Note where the file is now."""
        self._version = self._journal.committer.data_version()

    async def stop(self) -> None:
        """Nothing to stop."""

    async def wait(self) -> None:
        """See :class:`Doorbell`."""
        looks = round(POLL_INTERVAL / VERSION_INTERVAL)
        for _ in range(looks):
            await asyncio.sleep(VERSION_INTERVAL)
            before, self._version = self._version, self._journal.committer.data_version()
            if self._version != before:
                return


class NotifyDoorbell:
    """PostgreSQL's: LISTEN on a thread once somebody waits, NOTIFY on the pulse's from the beginning."""

    def __init__(self, database: Database, journal: Journal, pulse: Pulse) -> None:
        self._database = database
        self._journal = journal
        self._pulse = pulse
        self._loop = journal.loop
        self._rung = asyncio.Event()
        self._stopping = threading.Event()
        self._finding_out = threading.Lock()
        self._dumb = False
        """Whether the database knows no bells."""
        self._cut = False
        """Whether it has been said that the bell is cut off."""
        self._thread: threading.Thread | None = None
        self._beat = f"doorbell {id(self)}"
        self._ring_later: asyncio.TimerHandle | None = None
        self._rang_at = 0.0
        self._bells = 0
        self._all_rung = asyncio.Event()
        journal.subscribe(self._on_commit)

    def start(self) -> None:
        """Listen. Bells are rung in any case: whoever only starts workflows waits for nothing."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._listen, name="outlast-doorbell", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Ring for the last commits; end the thread, which a bell of our own wakes up."""
        self._stopping.set()
        self._journal.unsubscribe(self._on_commit)
        if self._ring_later is not None:
            self._ring_later.cancel()
        if self._ring_later is not None or self._thread is not None:
            self._ring()
        if self._bells:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_BELL_S):
                    await self._all_rung.wait()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._pulse.remove(self._beat)

    async def wait(self) -> None:
        """See :class:`Doorbell`."""
        try:
            async with asyncio.timeout(POLL_INTERVAL):
                await self._rung.wait()
        except TimeoutError:
            pass
        self._rung.clear()

    # --- ringing ----------------------------------------------------------------------------------------------------

    def _on_commit(self, committed: Committed) -> None:
        if self._ring_later is None and self._concerns_others(committed):
            wait = self._rang_at + RING_GAP - self._loop.time()
            self._ring_later = self._loop.call_later(max(wait, 0.0), self._ring)

    def _concerns_others(self, committed: Committed) -> bool:
        """Whether a batch left something that another process may be waiting for."""
        if committed.answered or committed.asked:
            return True
        owners = self._journal.cache.owners
        for run in committed.runs.values():
            if run.closed_at is not None or (run.wake_at is not None and run.owner_id not in owners):
                return True
        return any(activity.claimed_by not in owners for activity in committed.activities)

    def _ring(self) -> None:
        self._ring_later = None
        self._rang_at = self._loop.time()
        if self._dumb:
            return
        self._bells += 1
        self._all_rung.clear()
        if self._bells == 1:
            self._pulse.add(self._beat, HOUR, self._notify)
        else:
            self._pulse.wake(self._beat)

    def _notify(self, connection: Connection, now: int) -> None:
        """On the pulse's thread."""
        bells = self._bells
        if not self._dumb:
            try:
                connection.exec_driver_sql(f"NOTIFY {CHANNEL}")
            except DBAPIError as error:
                if not self._is_dumb(error):
                    raise
        self._call(partial(self._rang, bells))

    def _rang(self, bells: int) -> None:
        if bells == self._bells:
            self._all_rung.set()

    def _is_dumb(self, error: Exception) -> bool:
        """Whether an error says that the database does not know what it was told; the first one is logged."""
        if getattr(driver_error(error), "sqlstate", None) not in UNKNOWN_WORDS:
            return False
        with self._finding_out:
            if not self._dumb:
                self._dumb = True
                logger.warning(
                    "this database knows no LISTEN and NOTIFY (%s): polling is all there is", error
                )
        return True

    # --- listening --------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen_until_cut()
            except Exception as error:
                if self._is_dumb(error):
                    return
                level = logging.DEBUG if self._cut else logging.INFO
                logger.log(
                    level, "the doorbell was cut off (%s); polling goes on, it is hung up again", error
                )
                self._cut = True
                self._stopping.wait(RECONNECT_AFTER)

    def _listen_until_cut(self) -> None:
        connection = self._database.writer()
        try:
            driver: Any = connection.connection.driver_connection
            driver.execute(f"LISTEN {CHANNEL}")
            self._cut = False
            self._call(self._rung.set)  # something may have happened while nobody listened
            while not self._stopping.is_set():
                for _ in driver.notifies(timeout=LISTEN_FOR, stop_after=1):
                    self._call(self._rung.set)
        finally:
            connection.close()

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed
            self._stopping.set()
