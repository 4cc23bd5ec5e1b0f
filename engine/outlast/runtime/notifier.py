"""The notifier: how a process learns that other processes have written. Polling finds everything; notifying is faster.

* SQLite: ``PRAGMA data_version`` changes when another connection has committed. It is read every few milliseconds while
  anybody commits. Once nobody has done so for a moment, the process sleeps until the operating system tells that the
  file's write-ahead log is written to: waking up is what a process with nothing to do costs. Where the system does not
  tell, the data version is read every few milliseconds all the time.
* PostgreSQL: a thread LISTENs. A process that commits something which may concern another one sends NOTIFY: after the
  commit, outside its transaction, on the ticker's connection, and at most once in :data:`NOTIFY_GAP_S` seconds however
  many batches there were. It ignores its own notifications. A lost notification (the listener's connection was cut)
  costs one poll interval, never more. A database that does not support LISTEN and NOTIFY shows that once; its processes
  then only poll.
* In memory: no other process can write, so there is no notifier.
* In virtual time no other process takes part. Only clients of this event loop can write to the database too, and they
  tell each other: a poll every few milliseconds would be most of the work of a month that passes at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol
from weakref import WeakSet

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from outlast.runtime.file_watch import FileWatch
from outlast_store.database.database import Database
from outlast_store.database.driver_errors import driver_error
from outlast_store.database.ticker import Ticker
from outlast_store.journal.batch import Committed
from outlast_store.journal.journal import Journal

logger = logging.getLogger("outlast.notifier")

CHANNEL: Final = "outlast"
"""The channel of PostgreSQL that notifications are sent on."""
OUTBOX: Final = "outbox"
"""What a notification says that a function of the outbox has sent in its caller's commit."""
POLL_INTERVAL_S: Final = 1.0
"""How often a process polls without a notification."""
VERSION_INTERVAL_S: Final = 0.01
"""How often SQLite's data version is read while anybody commits, on average."""
BUSY_FOR_S: Final = 0.05
"""For how long after a commit that is."""
FIRST_LOOK_AFTER_S: Final = 0.001
"""When the data version is read first after a write; the time doubles up to :data:`VERSION_INTERVAL_S`."""
NOTIFY_GAP_S: Final = 0.005
"""The shortest time between two notifications of a process."""
LISTEN_FOR_S: Final = 0.5
"""How long the listening thread waits before it checks whether to stop."""
LAST_NOTIFICATION_S: Final = 1.0
"""How long a client that is closed waits until its last notification is sent."""
RECONNECT_AFTER_S: Final = 1.0
UNUSED_TICK_S: Final = 3600.0
"""The interval of the sending tick, which is woken for each notification."""
UNSUPPORTED_STATES: Final = frozenset({"0A000", "42601"})
"""The SQLSTATEs of a database without LISTEN and NOTIFY: feature not supported, syntax error."""


class Notifier(Protocol):
    """Tells a process when to poll."""

    @property
    def polls_regularly(self) -> bool:
        """Whether :meth:`wait` returns after the poll interval at the latest."""
        ...

    def start(self) -> None:
        """Start to listen; further calls do nothing."""
        ...

    async def stop(self) -> None:
        """Stop listening."""
        ...

    async def wait(self) -> None:
        """Return when another process may have written."""
        ...


def notifier_for(
    database: Database, journal: Journal, ticker: Ticker, outbox_rung: Sequence[Callable[[], None]] = ()
) -> Notifier | None:
    """Return the notifier of a database; ``None`` if no other process can write to it.

    Args:
        database: The database.
        journal: Whose commits it tells others of.
        ticker: Sends notifications.
        outbox_rung: What is called when a transaction that wrote to the outbox has rung.
    """
    if database.url.memory:
        return None
    if not database.environment.threads:
        return LoopNotifier(database, journal)
    if database.backend == "sqlite":
        assert database.url.path is not None
        return DataVersionNotifier(journal, database.url.path, database.environment.random)
    return ListenNotifier(database, journal, ticker, outbox_rung)


_in_loop: dict[tuple[str, int], WeakSet[LoopNotifier]] = {}
"""The notifiers of each database in each event loop."""


class LoopNotifier:
    """The notifier in virtual time: a commit notifies the other clients of the same event loop."""

    def __init__(self, database: Database, journal: Journal) -> None:
        self._key = (database.url.identity, id(journal.loop))
        self._journal = journal
        self._notified = asyncio.Event()
        _in_loop.setdefault(self._key, WeakSet()).add(self)
        self._notify_others()
        journal.subscribe(self._on_commit)

    @property
    def polls_regularly(self) -> bool:
        """Whether there are other clients."""
        return len(_in_loop[self._key]) > 1

    def start(self) -> None:
        """Do nothing: notifications arrive from the beginning."""

    async def stop(self) -> None:
        """Leave the others."""
        self._journal.unsubscribe(self._on_commit)
        others = _in_loop[self._key]
        others.discard(self)
        if not others:
            del _in_loop[self._key]

    async def wait(self) -> None:
        """See :class:`Notifier`; a client that is alone waits until there is another."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_INTERVAL_S if self.polls_regularly else None):
                await self._notified.wait()
        self._notified.clear()

    def _on_commit(self, committed: Committed) -> None:
        self._notify_others()

    def _notify_others(self) -> None:
        for other in _in_loop[self._key]:
            if other is not self:
                other._notified.set()


class DataVersionNotifier:
    """The notifier on SQLite: reads the data version."""

    polls_regularly = True

    def __init__(self, journal: Journal, path: Path, rng: random.Random) -> None:
        self._journal = journal
        self._loop = journal.loop
        self._random = rng
        self._log = Path(f"{os.path.realpath(path)}-wal")
        self._version = 0
        self._told_at = 0.0
        self._busy_until = 0.0
        self._watch: asyncio.Future[FileWatch | None] | None = None

    def start(self) -> None:
        """Note the file's current version."""
        self._version = self._journal.committer.data_version()
        if self._watch is None:
            self._watch = self._loop.run_in_executor(None, FileWatch.of, self._log)

    async def stop(self) -> None:
        """Let go of the file."""
        if self._watch is not None:
            watch, self._watch = await self._watch, None
            if watch is not None:
                watch.close()

    async def wait(self) -> None:
        """See :class:`Notifier`."""
        until = self._loop.time() + POLL_INTERVAL_S
        while (left := until - self._loop.time()) > 0:
            watch = self._armed()
            if watch is None:
                await asyncio.sleep(self._interval())
            elif self._others_wrote():
                # It came before the watch was armed, so nobody tells of it.
                return
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await watch.written()
                    self._told_at = self._loop.time()
                    self._busy_until = self._told_at + BUSY_FOR_S
            if self._others_wrote():
                return

    def _armed(self) -> FileWatch | None:
        """Return the armed watch of the file, or ``None`` while somebody commits and where there is none."""
        if self._loop.time() < self._busy_until or self._watch is None or not self._watch.done():
            return None
        watch = self._watch.result()
        return watch if watch is not None and watch.arm() else None

    def _interval(self) -> float:
        """Return how long to wait before the next look. A write is told some milliseconds before its commit is seen.

        The looks are scattered. All processes are told of the same write, and two that looked in step would see each
        other's answers a whole interval late.
        """
        interval = min(VERSION_INTERVAL_S, max(self._loop.time() - self._told_at, FIRST_LOOK_AFTER_S))
        return interval * self._random.uniform(0.5, 1.5)

    def _others_wrote(self) -> bool:
        before, self._version = self._version, self._journal.committer.data_version()
        if self._version == before:
            return False
        self._busy_until = self._loop.time() + BUSY_FOR_S
        return True


class ListenNotifier:
    """The notifier on PostgreSQL: sends on the ticker's thread, and listens on its own once somebody waits."""

    polls_regularly = True

    def __init__(
        self,
        database: Database,
        journal: Journal,
        ticker: Ticker,
        outbox_rung: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._database = database
        self._outbox_rung = outbox_rung
        """Called when a transaction that wrote to the outbox has rung."""
        self._journal = journal
        self._ticker = ticker
        self._loop = journal.loop
        self._notified = asyncio.Event()
        self._stopping = threading.Event()
        self._support_lock = threading.Lock()
        self._unsupported = False
        """Whether the database does not support LISTEN and NOTIFY."""
        self._cut = False
        """Whether the log already says that the listener's connection was cut."""
        self._thread: threading.Thread | None = None
        self._tick = f"notifier {id(self)}"
        self._notify_later: asyncio.TimerHandle | None = None
        self._notified_at = 0.0
        self._sending = 0
        self._sender = 0
        """The server process that sends for this notifier. What it has sent is no news here."""
        self._all_sent = asyncio.Event()
        journal.subscribe(self._on_commit)

    def start(self) -> None:
        """Start to listen. A client that only starts workflows never listens, but it notifies."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._listen, name="outlast-notifier", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Notify for the last commits, then end the thread, which that notification wakes."""
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
        """Return whether a batch wrote something that another process may wait for."""
        if committed.answered or committed.asked or committed.queues or committed.streams:
            return True
        owners = self._journal.cache.owners
        for run in committed.runs.values():
            if (
                run.closed_at is not None
                or run.queued_at is not None
                or (run.wake_at is not None and run.owner_id not in owners)
            ):
                return True
        return any(activity.claimed_by not in owners for activity in committed.activities)

    def _notify(self) -> None:
        self._notify_later = None
        self._notified_at = self._loop.time()
        if self._unsupported:
            return
        self._sending += 1
        self._all_sent.clear()
        if self._sending == 1:
            self._ticker.add(self._tick, UNUSED_TICK_S, self._send)
        else:
            self._ticker.wake(self._tick)

    def _send(self, connection: Connection, now: int) -> None:
        """On the ticker's thread."""
        wanted = self._sending
        if not self._unsupported:
            driver: Any = connection.connection.driver_connection
            self._sender = driver.info.backend_pid
            try:
                connection.exec_driver_sql(f"NOTIFY {CHANNEL}")
            except DBAPIError as error:
                if not self._is_unsupported(error):
                    raise
        self._call(partial(self._sent, wanted))

    def _sent(self, wanted: int) -> None:
        if wanted == self._sending:
            self._all_sent.set()

    def _is_unsupported(self, error: Exception) -> bool:
        """Return whether an error says that the database does not support this; log the first one."""
        if getattr(driver_error(error), "sqlstate", None) not in UNSUPPORTED_STATES:
            return False
        with self._support_lock:
            if not self._unsupported:
                self._unsupported = True
                logger.warning(
                    "this database does not support LISTEN and NOTIFY (%s): workers and clients only poll",
                    error,
                )
        return True

    # --- listening --------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen_until_cut()
            except Exception as error:
                if self._is_unsupported(error):
                    return
                level = logging.DEBUG if self._cut else logging.INFO
                logger.log(
                    level,
                    "the connection of the notifier was cut (%s); polling continues, and it connects again",
                    error,
                )
                self._cut = True
                self._stopping.wait(RECONNECT_AFTER_S)

    def _listen_until_cut(self) -> None:
        connection = self._database.writer()
        try:
            driver: Any = connection.connection.driver_connection
            # A server that was started anew gives its processes' numbers to others.
            self._sender = 0
            driver.execute(f"LISTEN {CHANNEL}")
            self._cut = False
            # Notifications may have been missed while nobody listened.
            self._call(self._notified.set)
            while not self._stopping.is_set():
                for notification in driver.notifies(timeout=LISTEN_FOR_S, stop_after=1):
                    if notification.pid == self._sender:
                        continue
                    self._call(self._notified.set)
                    if notification.payload == OUTBOX:
                        self._call(self._tell_of_outbox)
        finally:
            connection.close()

    def _tell_of_outbox(self) -> None:
        for rung in tuple(self._outbox_rung):
            rung()

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            # The loop is closed.
            self._stopping.set()
