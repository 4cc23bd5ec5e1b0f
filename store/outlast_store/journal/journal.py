"""The journal: the group-commit writer of one process and database.

Callers hand it changes and are called back. It commits **the changes that have gathered while the last commit was
running** as one transaction. There is no timer, so a lone workflow waits for nothing, and a thousand share one fsync.

On SQLite it commits inline, on the event loop, one batch per turn of the loop: a thread would gain nothing there, and
would double the latency of a lone workflow. On PostgreSQL it has a thread of its own, which waits for the network.

Components that need to know what this process has written subscribe. A listener is called on the loop with every
:class:`~outlast_store.journal.batch.Committed`, before the callbacks of the changes in it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar

from outlast_store.database.database import Database
from outlast_store.journal.batch import BaseChange, Batch, Change, Committed
from outlast_store.journal.commit_news import Cache
from outlast_store.journal.committer import Committer, Outcome, Result, TryAgain
from outlast_store.journal.write_lock import WriteLock
from outlast_workflow.environment import Environment
from outlast_workflow.errors import JournalClosedError

logger = logging.getLogger("outlast.journal")

T = TypeVar("T")
Callback = Callable[[Any, BaseException | None], None]
Listener = Callable[[Committed], None]

MOST_CHANGES_A_BATCH: Final = 200
MOST_BYTES_A_BATCH: Final = 4 * 1024 * 1024
MOST_QUEUED: Final = 20_000
"""From this many queued changes on, callers of :meth:`Journal.apply` wait until half of them are written."""
PAUSE_FOR_OTHERS_S: Final = 0.0015
"""How long the SQLite file is left to other processes between two batches, if one of them has written."""
SETTLE_DOUBT_AFTER_S: Final = 1.0
"""How long after callers got an error about a commit in doubt the journal tries to settle it."""
CLOSE_PATIENCE_S: Final = 5.0
"""How long a journal that is closing waits for a database that is away."""


class EmptyChange(BaseChange):
    """Writes nothing. It makes the committer run a batch, which settles a commit in doubt first."""

    def apply(self, batch: Batch) -> None:
        """Write nothing."""


class Journal:
    """Queues changes, commits them in groups, and notifies their callers and the listeners.

    Args:
        database: Where it writes.
        environment: Clock and ids, and whether it may have a thread.
    """

    def __init__(self, database: Database, environment: Environment) -> None:
        self.committer = Committer(database, environment)
        self.cache: Cache = self.committer.cache
        """The rows that only this process writes."""
        self.loop = asyncio.get_running_loop()
        self.queue: deque[tuple[Change[Any], Callback]] = deque()
        """The changes that no batch has taken yet, each with its callback."""
        self._listeners: list[Listener] = []
        self._end_listeners: list[Listener] = []
        self._answer_listeners: list[Listener] = []
        self._failure_listeners: list[Listener] = []
        self._alert_listeners: list[Listener] = []
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self._settling: asyncio.TimerHandle | None = None
        self._busy = False
        """Whether something is queued or under way."""
        self._rested: asyncio.Event | None = None
        """Set when nothing is; made by whoever waits for that."""
        self.write_lock: WriteLock | None = None
        """Who in this process may write to the SQLite file; ``None`` where more than one may."""
        self._driver: InlineDriver | ThreadDriver | ExecutorDriver
        if database.backend == "postgresql" and environment.threads:
            self._driver = ThreadDriver(self)
        elif environment.executor is not None:
            self._driver = ExecutorDriver(self, environment.executor)
        else:
            shared = database.backend == "sqlite" and not database.url.memory
            if shared:
                self.write_lock = WriteLock()
            self._driver = InlineDriver(self, shared=shared)

    def subscribe(self, listener: Listener) -> None:
        """Call ``listener`` on the loop with everything that is committed from now on."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Stop calling ``listener``."""
        self._listeners.remove(listener)

    def subscribe_to_ends(self, listener: Listener) -> None:
        """Call ``listener``, before all others, on the loop with what is committed from now on, where runs close."""
        self._end_listeners.append(listener)

    def subscribe_to_answers(self, listener: Listener) -> None:
        """Call ``listener``, likewise, with what is committed from now on, where it holds answers to requests."""
        self._answer_listeners.append(listener)

    def subscribe_to_failures(self, listener: Listener) -> None:
        """Call ``listener`` on the loop with what is committed from now on, where it holds failures."""
        self._failure_listeners.append(listener)

    def subscribe_to_alerts(self, listener: Listener) -> None:
        """Call ``listener`` on the loop with what is committed from now on, where it holds alerts."""
        self._alert_listeners.append(listener)

    def submit(self, change: Change[Any], callback: Callback) -> None:
        """Queue a change.

        Args:
            change: What is to be written.
            callback: Called on the loop with the change's value and error when its outcome is certain.

        Raises:
            JournalClosedError: The journal is closed.
        """
        if self._closed:
            raise JournalClosedError("the client is closed: connect again")
        self.queue.append((change, callback))
        if len(self.queue) > MOST_QUEUED:
            self._room.clear()
        self._busy = True
        self._driver.notice()

    async def apply(self, change: Change[T]) -> T:
        """Queue a change and wait for its value. Cancelling the caller does not withdraw the change.

        Raises:
            RefusedError: A guard of the change failed; nothing of it was written.
            StoreError: The database did not take it.
        """
        await self._room.wait()
        future: asyncio.Future[T] = self.loop.create_future()

        def done(value: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        self.submit(change, done)
        return await future

    def announce(self, committed: Committed) -> None:
        """Notify the listeners of what a guest has committed in this process. Called on the loop.

        The rows that a batch may trust are dropped, because one that is under way may remember them as they were.

        Args:
            committed: What a guest's transaction has written.
        """
        keys = [(row.run_id, row.activity_id) for row in committed.activities]
        self.cache.forget(committed.runs, keys)
        self.deliver([], [], [committed])

    async def settled(self) -> None:
        """Wait until every queued change is committed or refused, and its caller notified."""
        if self._busy:
            if self._rested is None:
                self._rested = asyncio.Event()
            await self._rested.wait()

    async def close(self) -> None:
        """Commit what is queued, then stop."""
        if self._closed:
            return
        self._closed = True
        self.committer.hurry(CLOSE_PATIENCE_S)
        await self.settled()
        self._driver.stop()
        self.committer.close()

    # --- for the drivers --------------------------------------------------------------------------------------------

    def take(self) -> list[tuple[Change[Any], Callback]]:
        """Take the next batch's changes off the queue, within the limits of number and size."""
        batch: list[tuple[Change[Any], Callback]] = []
        weight = 0
        queue = self.queue
        while queue and len(batch) < MOST_CHANGES_A_BATCH and weight < MOST_BYTES_A_BATCH:
            item = queue.popleft()
            weight += item[0].weight
            batch.append(item)
        return batch

    def deliver(
        self, batch: list[tuple[Change[Any], Callback]], outcomes: list[Outcome], committed: list[Committed]
    ) -> None:
        """Notify the listeners, then the callers. Called on the loop.

        Args:
            batch: The changes, each with its callback.
            outcomes: What became of each.
            committed: What their transactions wrote.
        """
        for news in committed:
            if news.answered:
                self._tell(self._answer_listeners, news)
            if news.ended:
                self._tell(self._end_listeners, news)
            for listener in tuple(self._listeners):
                try:
                    listener(news)
                except Exception:
                    logger.exception("a listener of the journal failed")
            if news.failures:
                self._tell(self._failure_listeners, news)
            if news.alerts or news.missed_alerts:
                self._tell(self._alert_listeners, news)
        for (_, callback), (value, error) in zip(batch, outcomes, strict=True):
            try:
                callback(value, error)
            except Exception:
                logger.exception("a caller of the journal failed")
        if not self._room.is_set() and len(self.queue) <= MOST_QUEUED // 2:
            self._room.set()
        if self.committer.in_doubt and self._settling is None:
            self._settling = self.loop.call_later(SETTLE_DOUBT_AFTER_S, self._settle_doubt)

    def _tell(self, listeners: Sequence[Listener], news: Committed) -> None:
        for listener in listeners:
            try:
                listener(news)
            except Exception:
                logger.exception("a listener of the journal failed")

    def _settle_doubt(self) -> None:
        """Run a batch, so that the committer finds out what became of a commit that is in doubt."""
        self._settling = None
        if not self._closed:
            self.submit(EmptyChange(), lambda value, error: None)

    def rest(self) -> None:
        """Note that no batch is under way. Called on the loop."""
        if not self.queue:
            self._busy = False
            if self._rested is not None:
                self._rested.set()
                self._rested = None


class InlineDriver:
    """Commits on the loop: one batch per turn, with a short pause if other processes write to the file.

    Args:
        journal: Whose changes it commits.
        shared: Whether other processes may write to the file.
    """

    def __init__(self, journal: Journal, *, shared: bool) -> None:
        self._journal = journal
        self._shared = shared
        self._scheduled = False
        self._granted = False
        self._retried: list[tuple[Change[Any], Callback]] = []
        self._data_version = 0

    def _others_write(self) -> bool:
        """Return whether another process has committed to the file since the last call."""
        before, self._data_version = self._data_version, self._journal.committer.data_version()
        return self._data_version != before

    def notice(self) -> None:
        """Schedule a batch: something was queued."""
        if not self._scheduled:
            self._scheduled = True
            self._journal.loop.call_soon(self._turn)

    def stop(self) -> None:
        """Nothing to stop."""

    def _granted_turn(self) -> None:
        """Commit after a guest, and before the next one."""
        self._granted = True
        try:
            self._turn()
        finally:
            self._granted = False
            lock = self._journal.write_lock
            assert lock is not None
            lock.release()

    def _turn(self) -> None:
        journal = self._journal
        lock = journal.write_lock
        if lock is not None and lock.held and not self._granted:
            lock.acquire(self._granted_turn)
            return
        batch = self._retried or journal.take()
        self._retried = []
        try:
            outcomes, committed = journal.committer.run([change for change, _ in batch])
        except TryAgain as again:
            self._retried = batch
            journal.loop.call_later(again.pause_s, self._turn)
            return
        self._scheduled = False
        journal.deliver(batch, outcomes, committed)
        if journal.queue:
            if self._scheduled:
                return
            self._scheduled = True
            if self._shared and self._others_write():
                journal.loop.call_later(PAUSE_FOR_OTHERS_S, self._turn)
            else:
                journal.loop.call_soon(self._turn)
        elif not self._scheduled:
            journal.rest()


class ExecutorDriver:
    """Commits on an executor, one batch at a time: the thread's protocol for environments without threads."""

    def __init__(self, journal: Journal, executor: Executor) -> None:
        self._journal = journal
        self._executor = executor
        self._busy = False

    def notice(self) -> None:
        """Schedule a batch: something was queued."""
        if not self._busy:
            self._busy = True
            self._journal.loop.call_soon(self._begin)

    def stop(self) -> None:
        """Nothing to stop."""

    def _begin(self) -> None:
        self._persist(self._journal.take())

    def _persist(self, batch: list[tuple[Change[Any], Callback]]) -> None:
        changes = [change for change, _ in batch]
        future = self._executor.submit(self._journal.committer.run, changes)
        future.add_done_callback(
            lambda future: self._journal.loop.call_soon_threadsafe(self._ended, batch, future)
        )

    def _ended(self, batch: list[tuple[Change[Any], Callback]], future: Future[Result]) -> None:
        journal = self._journal
        try:
            outcomes, committed = future.result()
        except TryAgain as again:
            journal.loop.call_later(again.pause_s, self._persist, batch)
            return
        journal.deliver(batch, outcomes, committed)
        self._busy = False
        if journal.queue:
            self.notice()
        else:
            journal.rest()


class ThreadDriver:
    """Commits on a thread of its own; outcomes return to the loop one batch at a time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._wanted = threading.Condition()
        self._stopping = False
        self._under_way = 0
        self._noticed = False
        self._thread = threading.Thread(target=self._run, name="outlast-journal", daemon=True)
        self._thread.start()

    def notice(self) -> None:
        """Wake the thread when this turn of the loop is over, so that one batch takes all that the turn queues."""
        if not self._noticed:
            self._noticed = True
            self._journal.loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._noticed = False
        with self._wanted:
            self._wanted.notify()

    def stop(self) -> None:
        """End the thread. Called when nothing is queued or under way."""
        with self._wanted:
            self._stopping = True
            self._wanted.notify()
        self._thread.join()

    def _run(self) -> None:
        journal = self._journal
        while True:
            with self._wanted:
                while not journal.queue and not self._stopping:
                    self._wanted.wait()
                if self._stopping:
                    return
                self._under_way += 1
            batch = journal.take()
            outcomes, committed = self._persist([change for change, _ in batch])
            try:
                journal.loop.call_soon_threadsafe(self._deliver, batch, outcomes, committed)
            except RuntimeError:
                # The loop is closed: there is nobody left to notify.
                return

    def _persist(self, changes: list[Change[Any]]) -> tuple[list[Outcome], list[Committed]]:
        while True:
            try:
                return self._journal.committer.run(changes)
            except TryAgain as again:
                with self._wanted:
                    self._wanted.wait(again.pause_s)

    def _deliver(
        self, batch: list[tuple[Change[Any], Callback]], outcomes: list[Outcome], committed: list[Committed]
    ) -> None:
        self._journal.deliver(batch, outcomes, committed)
        with self._wanted:
            self._under_way -= 1
            idle = self._under_way == 0 and not self._journal.queue
        if idle:
            self._journal.rest()
