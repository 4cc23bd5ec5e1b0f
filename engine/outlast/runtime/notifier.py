"""The notifier: how a process learns that others have written. Polling is the truth; a bell only makes it prompt.

* SQLite: ``PRAGMA data_version`` is asked every few milliseconds; it changes when another connection has committed.
* PostgreSQL: a thread LISTENs. Whoever commits something that may concern another process rings by NOTIFY — after the
  commit, outside its transaction, on the ticker's connection, at most once in :data:`NOTIFY_GAP_S` seconds however many
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

from outlast_store.database.database import Database
from outlast_store.database.driver_errors import driver_error
from outlast_store.database.ticker import Ticker
from outlast_store.journal.batch import Committed
from outlast_store.journal.journal import Journal

logger = logging.getLogger("outlast.notifier")

CHANNEL: Final = "outlast"
POLL_INTERVAL_S: Final = 1.0
VERSION_INTERVAL_S: Final = 0.01
NOTIFY_GAP_S: Final = 0.005
LISTEN_FOR_S: Final = 0.5
LAST_NOTIFICATION_S: Final = 1.0
"""So long a client that is closed waits until its last bell has rung."""
RECONNECT_AFTER_S: Final = 1.0
HOUR_S: Final = 3600.0
UNKNOWN_WORDS: Final = frozenset({"0A000", "42601"})
"""Feature not supported, syntax error."""


class Notifier(Protocol):
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


def notifier_for(database: Database, journal: Journal, ticker: Ticker) -> Notifier | None:
    """The notifier of a database; ``None`` where nobody else can write."""
    if database.url.memory:
        return None
    if database.backend == "sqlite":
        return DataVersionNotifier(journal)
    return ListenNotifier(database, journal, ticker)


class DataVersionNotifier:
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
        """See :class:`Notifier`."""
        looks = round(POLL_INTERVAL_S / VERSION_INTERVAL_S)
        for _ in range(looks):
            await asyncio.sleep(VERSION_INTERVAL_S)
            before, self._version = self._version, self._journal.committer.data_version()
            if self._version != before:
                return


class ListenNotifier:
    """PostgreSQL's: LISTEN on a thread once somebody waits, NOTIFY on the ticker's from the beginning."""

    def __init__(self, database: Database, journal: Journal, ticker: Ticker) -> None:
        self._database = database
        self._journal = journal
        self._ticker = ticker
        self._loop = journal.loop
        self._notified = asyncio.Event()
        self._stopping = threading.Event()
        self._finding_out = threading.Lock()
        self._deaf = False
        """Whether the database does not know LISTEN and NOTIFY."""
        self._cut = False
        """Whether the log already says that the listener was cut off."""
        self._thread: threading.Thread | None = None
        self._tick = f"notifier {id(self)}"
        self._notify_later: asyncio.TimerHandle | None = None
        self._notified_at = 0.0
        self._sending = 0
        self._all_sent = asyncio.Event()
        journal.subscribe(self._on_commit)

    def start(self) -> None:
        """Listen. Notifications are sent in any case: a client that only starts workflows never listens."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._listen, name="outlast-notifier", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Notify for the last commits, then end the thread: our own notification wakes it."""
        self._stopping.set()
        self._journal.unsubscribe(self._on_commit)
        if self._notify_later is not None:
            self._notify_later.cancel()
        if self._notify_later is not None or self._thread is not None:
            self._notify()
        if self._sending:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_NOTIFICATION_S):
                    await self._all_sent.wait()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._ticker.remove(self._tick)

    async def wait(self) -> None:
        """See :class:`Notifier`."""
        try:
            async with asyncio.timeout(POLL_INTERVAL_S):
                await self._notified.wait()
        except TimeoutError:
            pass
        self._notified.clear()

    # --- notifying ----------------------------------------------------------------------------------------------------

    def _on_commit(self, committed: Committed) -> None:
        if self._notify_later is None and self._concerns_others(committed):
            wait = self._notified_at + NOTIFY_GAP_S - self._loop.time()
            self._notify_later = self._loop.call_later(max(wait, 0.0), self._notify)

    def _concerns_others(self, committed: Committed) -> bool:
        """Whether a batch left something that another process may be waiting for."""
        if committed.answered or committed.asked:
            return True
        owners = self._journal.cache.owners
        for run in committed.runs.values():
            if run.closed_at is not None or (run.wake_at is not None and run.owner_id not in owners):
                return True
        return any(activity.claimed_by not in owners for activity in committed.activities)

    def _notify(self) -> None:
        self._notify_later = None
        self._notified_at = self._loop.time()
        if self._deaf:
            return
        self._sending += 1
        self._all_sent.clear()
        if self._sending == 1:
            self._ticker.add(self._tick, HOUR_S, self._send)
        else:
            self._ticker.wake(self._tick)

    def _send(self, connection: Connection, now: int) -> None:
        """On the ticker's thread."""
        wanted = self._sending
        if not self._deaf:
            try:
                connection.exec_driver_sql(f"NOTIFY {CHANNEL}")
            except DBAPIError as error:
                if not self._is_deaf(error):
                    raise
        self._call(partial(self._sent, wanted))

    def _sent(self, wanted: int) -> None:
        if wanted == self._sending:
            self._all_sent.set()

    def _is_deaf(self, error: Exception) -> bool:
        """Whether an error says that the database does not know what it was told; the first one is logged."""
        if getattr(driver_error(error), "sqlstate", None) not in UNKNOWN_WORDS:
            return False
        with self._finding_out:
            if not self._deaf:
                self._deaf = True
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
                if self._is_deaf(error):
                    return
                level = logging.DEBUG if self._cut else logging.INFO
                logger.log(
                    level, "the listener was cut off (%s); polling continues, and it connects again", error
                )
                self._cut = True
                self._stopping.wait(RECONNECT_AFTER_S)

    def _listen_until_cut(self) -> None:
        connection = self._database.writer()
        try:
            driver: Any = connection.connection.driver_connection
            driver.execute(f"LISTEN {CHANNEL}")
            self._cut = False
            self._call(self._notified.set)  # something may have happened while nobody listened
            while not self._stopping.is_set():
                for _ in driver.notifies(timeout=LISTEN_FOR_S, stop_after=1):
                    self._call(self._notified.set)
        finally:
            connection.close()

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed
            self._stopping.set()
