"""Transactional activities: their code writes in the transaction that records their result.

``@activity.defn(transactional=True)`` gives the code a connection to the engine's own database, with a transaction
begun (:func:`outlast.activity.connection`). When the code has returned, the completion is written in the same
transaction, with the rows of the run and the activity locked last, the claim and all deadlines checked under their
locks. So what the code has written is there if and only if ``ActivityCompleted`` is.

====================================== =================================================================================
what happens                           what is left
====================================== =================================================================================
the process dies before COMMIT         nothing; the attempt is rescued or retried as any other
the code raises, or its result is      nothing; the attempt fails
no JSON or too large
the claim is lost, a deadline has      nothing; the attempt ends as it would have without a result
passed, a cancellation was requested
a conflict (serialization failure,     nothing; the code runs again, 5 times in all, and only the last one counts as a
deadlock, lock timeout, busy file)     failure of the attempt
the answer to COMMIT does not come     a new connection asks for the row of the activity, which waits for the old
                                       session's end: it is completed by this attempt, or the code runs again
the code ends the transaction itself   nothing; the attempt fails and is not retried
====================================== =================================================================================

A transaction on SQLite keeps everybody else from writing. So there is one at a time in a process, in turn with the
journal (:mod:`outlast_store.journal.write_lock`), and it is taken away after 5 seconds.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from sqlalchemy.exc import TimeoutError as NoConnectionError

from outlast_activities.attempt_outcome import Completed, HandlerOutcome, OutcomeEncoder, let_go
from outlast_activities.attempts import CANCELLED, HANDED_BACK, AttemptEnd
from outlast_activities.changes import CompleteInTransaction
from outlast_activities.context import RunningActivity
from outlast_activities.heartbeats import Heartbeats
from outlast_activities.stop_reason import StopReason
from outlast_activities.task import ActivityTask
from outlast_store.database.database import Database, is_disconnect, is_transient, translate
from outlast_store.database.driver_errors import comes_from_conflict, is_refusal
from outlast_store.database.guests import LONGEST_ON_SQLITE_S, Guest, Guests
from outlast_store.journal.batch import Committed
from outlast_store.journal.guest_batch import apply_as_guest
from outlast_store.journal.journal import Journal
from outlast_store.journal.write_lock import WriteLock
from outlast_store.reads.activities import find_attempt_status
from outlast_workflow.environment import Environment
from outlast_workflow.errors import JournalClosedError, RefusedError, TransactionRefusedError
from outlast_workflow.history.events import ActivityCompleted
from outlast_workflow.primitives.enums import ActivityStatus
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

logger = logging.getLogger("outlast.activities")

T = TypeVar("T")

MOST_TRIES: Final = 5
"""How often the code of one attempt runs in all, if it conflicts with other transactions."""
FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 1.0
PATIENCE_S: Final = 30.0
"""How long an attempt waits for a database that is away, before its code has begun."""
LOOK_AT_LOOP_EVERY_S: Final = 1.0
UNBOUNDED_S: Final = 12.0
"""How long a statement may take in an activity without a deadline."""


class _Conflict(Exception):
    """The transaction was not applied, and its code may run again; the cause says why."""


class _Way(Protocol):
    """How the code, and the statements of its transaction, run: on a thread, or on the event loop."""

    async def open(self) -> Guest:
        """Return a guest on a new connection, which the code is shown as ``shown``."""
        ...

    @property
    def shown(self) -> object:
        """The connection as the code sees it."""
        ...

    async def handler(self, running: RunningActivity, args: Sequence[Any]) -> Any:
        """Run the code."""
        ...

    async def database(self, work: Callable[[], T]) -> T:
        """Run what uses the guest's connection."""
        ...

    async def aside(self, work: Callable[[], T]) -> T:
        """Run what uses a connection of its own."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait."""
        ...

    def begun(self, guest: Guest) -> None:
        """Limit the time of a transaction that keeps others from writing."""
        ...

    def ended(self) -> None:
        """End that limit."""
        ...


class _Turn:
    """The turn of one attempt to write to a SQLite file, and the end of its time.

    Attributes:
        granted: Set when the attempt has its turn.
        loop: The loop of the process's journal.
    """

    def __init__(self, lock: WriteLock, loop: asyncio.AbstractEventLoop) -> None:
        self.granted = threading.Event()
        self.loop = loop
        self._lock = lock
        self._over = False
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, guest: Guest) -> None:
        """From the thread: take the transaction away when its time is over, and let others write."""
        self._soon(self._set_timer, guest)

    def _set_timer(self, guest: Guest) -> None:
        def expire() -> None:
            guest.expire()
            self.end()

        # A statement of the code that goes on for a moment must not hold up the loop.
        begin = threading.Thread(target=expire, name="outlast-transaction-too-long", daemon=True).start
        self._timer = self.loop.call_later(LONGEST_ON_SQLITE_S, begin)

    def unlimit(self) -> None:
        """From the thread: the transaction is over."""
        self._soon(self._clear_timer)

    def _clear_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """From any thread: let the next one write; a second time does nothing."""
        self._soon(self._release)

    def _release(self) -> None:
        if not self._over:
            self._over = True
            self._lock.release()

    def _soon(self, call: Callable[..., None], *args: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            logger.debug("the event loop was closed before a transaction ended")


class _OnThread:
    """Plain functions: everything runs in place, and nothing is awaited."""

    def __init__(self, guests: Guests, environment: Environment, turn: _Turn | None) -> None:
        self._guests = guests
        self._environment = environment
        self._turn = turn
        self.shown: object = None

    def begun(self, guest: Guest) -> None:
        if self._turn is not None:
            self._turn.limit(guest)

    def ended(self) -> None:
        if self._turn is not None:
            self._turn.unlimit()

    async def open(self) -> Guest:
        guest = Guest(self._guests.connect())
        self.shown = guest.connection
        return guest

    async def handler(self, running: RunningActivity, args: Sequence[Any]) -> Any:
        return running.definition.fn(*args)

    async def database(self, work: Callable[[], T]) -> T:
        return work()

    async def aside(self, work: Callable[[], T]) -> T:
        return work()

    async def pause(self, seconds: float) -> None:
        self._environment.pause(seconds)


class _OnLoop:
    """``async`` functions: the code is a task, and what follows it cannot be cancelled."""

    def __init__(self, guests: Guests) -> None:
        self._guests = guests
        self._connection: AsyncConnection | None = None

    def begun(self, guest: Guest) -> None:
        """Nobody else is kept from writing on PostgreSQL."""

    def ended(self) -> None:
        """There is no limit."""

    @property
    def shown(self) -> object:
        return self._connection

    async def open(self) -> Guest:
        self._connection = connection = await self._guests.connect_async()
        assert connection.sync_connection is not None
        return Guest(connection.sync_connection)

    async def handler(self, running: RunningActivity, args: Sequence[Any]) -> Any:
        task = running.handle = asyncio.current_task()
        running.raise_if_stopped()
        try:
            return await running.definition.fn(*args)
        finally:
            running.handle = None
            # A request to stop may have come in the code's last step. It is looked at before the commit.
            if task is not None and task.cancelling():
                task.uncancel()
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    logger.debug("an activity was asked to stop when it had ended")

    async def database(self, work: Callable[[], T]) -> T:
        assert self._connection is not None
        return await self._connection.run_sync(lambda _: work())

    async def aside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, work)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Transactions:
    """Runs the transactional activities of one worker. Make it on the loop.

    Args:
        database: The engine's database.
        journal: Shares SQLite's write lock.
        environment: The clock, and how a thread waits.
        heartbeats: The worker's heartbeats.
        outcomes: Makes payloads of results.
        idle_s: How long code may be silent between two statements on PostgreSQL: the worker's lease.
    """

    def __init__(
        self,
        database: Database,
        journal: Journal,
        environment: Environment,
        heartbeats: Heartbeats,
        outcomes: OutcomeEncoder,
        *,
        idle_s: float,
    ) -> None:
        self._database = database
        self._journal = journal
        self._environment = environment
        self._clock = environment.clock
        self._heartbeats = heartbeats
        self._outcomes = outcomes
        self._idle_s = idle_s
        self._guests = Guests(database)

    # --- SQLite's write lock ----------------------------------------------------------------------------------------

    def _wait_for_turn(self, running: RunningActivity) -> _Turn | None:
        """Wait, on a thread, until nobody else in this process writes to the SQLite file; ``None`` where many may."""
        lock = self._journal.write_lock
        # Without threads nobody can be writing now.
        if lock is None or not self._environment.threads:
            return None
        turn = _Turn(lock, self._journal.loop)
        turn.loop.call_soon_threadsafe(lock.acquire, turn.granted.set)
        while not turn.granted.wait(LOOK_AT_LOOP_EVERY_S):
            if turn.loop.is_closed():
                raise JournalClosedError("the client was closed before the transaction could begin")
        return turn

    # --- one attempt ------------------------------------------------------------------------------------------------

    def run(self, running: RunningActivity) -> HandlerOutcome:
        """Run a plain function's attempt in the calling thread; return how it ended.

        Raises:
            BaseException: Whatever the code raises.
        """
        turn = self._wait_for_turn(running)
        attempt = self._run(running, _OnThread(self._guests, self._environment, turn))
        try:
            attempt.send(None)
        except StopIteration as stop:
            outcome: HandlerOutcome = stop.value
            return outcome
        finally:
            if turn is not None:
                turn.end()
        raise AssertionError("a plain function awaits nothing")

    async def run_async(self, running: RunningActivity) -> HandlerOutcome:
        """Run an ``async`` function's attempt; return how it ended.

        Raises:
            BaseException: Whatever the code raises.
        """
        return await self._run(running, _OnLoop(self._guests))

    async def dispose(self) -> None:
        """Close the pooled connections."""
        await self._guests.dispose()

    async def _run(self, running: RunningActivity, way: _Way) -> HandlerOutcome:
        task = running.task
        if task.row.local:
            return self._outcomes.unusable(
                TransactionRefusedError(
                    f"{task.row.activity_type} is transactional, so it cannot run as a local activity: call it as an "
                    "ordinary one (workflow.execute_activity)"
                )
            )
        pause_s = FIRST_PAUSE_S
        for left in reversed(range(MOST_TRIES)):
            running.raise_if_stopped()
            try:
                return await self._try(running, way)
            except BaseException as error:
                conflict = error if isinstance(error, _Conflict) else None
                if conflict is None and not comes_from_conflict(error):
                    raise
                if not left:
                    if conflict is not None and conflict.__cause__ is not None:
                        raise translate(conflict.__cause__, self._database.url) from None
                    raise
                logger.debug("the transaction of %r is repeated: %s", task, type(error).__name__)
                let_go(error)
            await way.pause(pause_s * (0.5 + self._environment.random.random()))
            pause_s *= 2
        raise AssertionError

    async def _try(self, running: RunningActivity, way: _Way) -> HandlerOutcome:
        """Run the code once in a transaction, and commit it with the result."""
        definition, task = running.definition, running.task
        try:
            args = self._outcomes.converter.decode_args(task.input, definition.signature)
        except Exception as error:
            let_go(error)
            return self._outcomes.unusable(error)
        guest = await self._open(running, way)
        try:
            running.connection = way.shown
            try:
                value = await way.handler(running, args)
            finally:
                running.connection = None
            guest.check()
            outcome = self._outcomes.returned(value, running)
            if not isinstance(outcome, Payload):
                return outcome
            stopped = running.stopped
            if stopped is not None and (running.seen or stopped is not StopReason.WORKER_SHUTDOWN):
                return _end_of(stopped)
            return await self._complete(guest, task, outcome, way)
        except BaseException as error:
            meant = guest.error_of(error)
            if meant is not error:
                raise meant from error
            raise
        finally:
            way.ended()
            await way.database(guest.close)

    async def _open(self, running: RunningActivity, way: _Way) -> Guest:
        """Begin a transaction. A database that is away is waited for, because the code has not begun."""
        give_up_at = self._clock.monotonic() + PATIENCE_S
        pause_s = FIRST_PAUSE_S
        while True:
            guest: Guest | None = None
            try:
                guest = await way.open()
                await way.database(partial(self._begin, guest, running))
            except BaseException as error:
                if guest is not None:
                    await way.database(guest.close)
                away = isinstance(error, NoConnectionError) or is_transient(error)
                if not away or self._clock.monotonic() >= give_up_at:
                    raise translate(error, self._database.url) from error
                let_go(error)
            else:
                way.begun(guest)
                return guest
            running.raise_if_stopped()
            await way.pause(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _begin(self, guest: Guest, running: RunningActivity) -> None:
        time_s = self._time_left_s(running.task)
        serializable = running.definition.transactional == "serializable"
        idle_s, lock_s = min(self._idle_s, time_s), self._database.postgres.lock_timeout_s or time_s
        guest.begin(serializable=serializable, time_s=time_s, idle_s=idle_s, lock_s=lock_s)

    def _time_left_s(self, task: ActivityTask) -> float:
        """Return how long the attempt may still take, in seconds."""
        row = task.row
        deadlines = (row.start_to_close_deadline_at, row.schedule_to_close_deadline_at)
        known = [at for at in deadlines if at is not None]
        if not known:
            return UNBOUNDED_S
        return max(0.001, (min(known) - self._clock.now()) / MICROSECONDS_PER_SECOND)

    async def _complete(
        self, guest: Guest, task: ActivityTask, payload: Payload, way: _Way
    ) -> HandlerOutcome:
        """Write the completion in the code's transaction and commit it."""
        event = ActivityCompleted(task.activity_id, payload, task.row.charged_attempt)
        beat = self._heartbeats.newest(task.key)
        change = CompleteInTransaction(task.run_id, task.activity_id, task.attempt, event, beat)

        def write() -> Committed:
            return apply_as_guest(guest, self._database, self._environment, change)

        try:
            committed = await way.database(write)
        except RefusedError as refusal:
            # The journal ends the attempt as its row says: by its timeout, as cancelled, or not at all.
            logger.info("%r was rolled back: %s", task, refusal.reason)
            return HANDED_BACK
        try:
            await way.database(guest.commit)
        except BaseException as error:
            if is_refusal(error) or not isinstance(error, Exception):
                raise
            applied = await self._was_applied(task, way)
            if applied is None:
                return HANDED_BACK
            if not applied:
                raise _Conflict from error
        return Completed(committed)

    async def _was_applied(self, task: ActivityTask, way: _Way) -> bool | None:
        """Find out what became of a COMMIT whose answer did not come; ``None`` if the attempt is not ours any more.

        The session that sent it holds the lock of the activity's row until it has ended, one way or the other.
        """

        def ask() -> tuple[str, int] | None:
            connection = self._database.writer()
            try:
                return find_attempt_status(connection, task.run_id, task.activity_id)
            finally:
                connection.close()

        pause_s = FIRST_PAUSE_S
        while True:
            try:
                found = await way.aside(ask)
            except Exception as error:
                if not (is_transient(error) or is_disconnect(error)):
                    logger.warning("it is asked again what became of %r: %s", task, type(error).__name__)
                let_go(error)
            else:
                if found is None or found[1] != task.attempt:
                    return None
                if found[0] == ActivityStatus.COMPLETED:
                    return True
                return False if found[0] == ActivityStatus.RUNNING else None
            await way.pause(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def _end_of(reason: StopReason) -> AttemptEnd:
    """Return the end of an attempt that was asked to stop and has returned a result all the same."""
    return CANCELLED if reason is StopReason.CANCEL_REQUESTED else HANDED_BACK
