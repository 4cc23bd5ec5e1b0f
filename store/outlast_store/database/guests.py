"""Guests: transactions of user code in the engine's database, in which the engine writes last.

A *guest* is one such transaction. User code gets an ordinary SQLAlchemy connection with a transaction begun. When the
code has returned, the engine locks its own rows, writes (:mod:`outlast_store.journal.guest_batch`) and commits. So what
the code wrote and what the engine wrote become visible together, or not at all.

The code may use savepoints, but it may not end the transaction. A commit would separate its effect from the engine's
record, so it is refused where it is tried. A rollback is done, because an exception leads to it in a ``with`` block of
a session; but then the transaction is over, and only an exception may end the code.

=========== ============================================================================================================
database    a guest's connection
=========== ============================================================================================================
PostgreSQL  from a small pool, with the types and the isolation level that user code expects. The engine's statements
            run on a cursor of their own, because the engine writes integers in another way. ``async`` code gets the
            asynchronous twin; the engine's statements run through it.
SQLite      one that can be taken away (:class:`RevocableConnection`): SQLite has one writer, so a transaction that
            takes too long is rolled back under the code, whose next statement fails.
=========== ============================================================================================================
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import ResourceClosedError, SQLAlchemyError

from outlast_store.database.database import Database
from outlast_store.database.driver_roots import driver_roots
from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.sql_text import Values, with_percent_marks
from outlast_store.database.sqlite import guest_connect
from outlast_workflow.errors import TransactionEndedError, TransactionTooLongError

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from outlast_store.database.postgresql import PatientConnection

GUESTS_AT_MOST: Final = 10
"""How many transactions a process has open at a time on PostgreSQL; others wait for a connection."""
CONNECTION_WAIT_S: Final = 10.0
LONGEST_ON_SQLITE_S: Final = 5.0
"""How long a transaction may keep SQLite's one write lock."""
ANSWER_GRACE_S: Final = 3.0
ENGINE_IDLE_S: Final = 12.0
"""How long the session may be silent while it holds locks on the engine's rows."""

_INTERRUPT_EVERY_S: Final = 0.05

_INFO: Final = "outlast_guest"
_ENDS_TRANSACTION: Final = re.compile(
    r"(?:\s++|--[^\n]*+\n|(?>/\*.*?\*/))*+(commit|end|abort|begin|start\s+transaction|prepare\s+transaction"
    r"|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b))\b",
    re.IGNORECASE | re.DOTALL,
)


class RevocableConnection(sqlite3.Connection):
    """A SQLite connection that another thread can take away: it rolls back, and nothing runs after that."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.guard = threading.RLock()
        """Held while a statement runs, so that none runs behind the rollback, outside any transaction."""
        self.revoked: Exception | None = None

    def cursor(self, factory: Any = None) -> Any:
        """Return a cursor that runs nothing once the connection was taken away."""
        return super().cursor(factory or _RevocableCursor)

    # The driver's own short forms make a cursor of the driver, which would run on behind the rollback.

    def execute(self, *args: Any) -> Any:
        """Run a statement on a new cursor."""
        return self.cursor().execute(*args)

    def executemany(self, *args: Any) -> Any:
        """Run a statement with many rows on a new cursor."""
        return self.cursor().executemany(*args)

    def executescript(self, *args: Any) -> Any:
        """Refuse, as the cursor does."""
        return self.cursor().executescript(*args)

    def commit(self) -> None:
        """Commit, unless the connection was taken away: then the driver would say that all is well."""
        with self.guard:
            if self.revoked is not None:
                raise self.revoked
            super().commit()

    def revoke(self, error: Exception) -> None:
        """Interrupt the statement under way, roll back, and let every later statement fail.

        Args:
            error: What later statements raise.
        """
        self.revoked = error
        self.interrupt()
        # A statement that was only about to run has heard nothing of the interrupt.
        while not self.guard.acquire(timeout=_INTERRUPT_EVERY_S):
            self.interrupt()
        try:
            if self.in_transaction:
                super().rollback()
        finally:
            self.guard.release()


class _RevocableCursor(sqlite3.Cursor):
    def _run(self, run: Callable[..., Any], *args: Any) -> Any:
        owner = self.connection
        assert isinstance(owner, RevocableConnection)
        with owner.guard:
            if owner.revoked is not None:
                raise owner.revoked
            return run(*args)

    def execute(self, *args: Any) -> Any:
        return self._run(super().execute, *args)

    def executemany(self, *args: Any) -> Any:
        return self._run(super().executemany, *args)

    def executescript(self, *args: Any) -> Any:
        # The driver commits before it runs a script.
        raise TransactionEndedError(
            "executescript() commits first, which would end the activity's transaction: run the statements one by one"
        )


class GuestLink(RawConnection):
    """The driver's connection under a guest's, for the engine's statements."""

    def __init__(self, connection: Connection) -> None:
        fairy: Any = connection.connection
        driver = fairy.driver_connection
        self.connection = connection
        self.qmark = connection.dialect.paramstyle == "qmark"
        self.marked = str if self.qmark else with_percent_marks
        self.pipelined = False
        self._driver = driver
        self._beginning = ""
        if isinstance(driver, sqlite3.Connection):
            execute: Callable[..., Any] = driver.execute
        else:
            # Loaded already, by the connection. So it is wherever this module imports them.
            import psycopg

            from outlast_store.database.postgresql import register_dumpers

            cursor = driver.cursor()
            register_dumpers(cursor.adapters)
            if isinstance(driver, psycopg.Connection):
                execute = cursor.execute
            else:
                execute = _through(fairy.dbapi_connection, cursor)
        self.exec_driver_sql = self._execute = execute


class _Answer:
    """The answer to a statement of an asynchronous cursor."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: list[Values], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def __iter__(self) -> Any:
        return iter(self._rows)

    def fetchall(self) -> list[Values]:
        return self._rows

    def fetchone(self) -> Values | None:
        return self._rows[0] if self._rows else None


def _through(adapted: Any, cursor: Any) -> Callable[..., Any]:
    """Return what runs a statement on an asynchronous cursor, in code that SQLAlchemy runs with ``run_sync``."""

    async def execute(text: str, values: Values | None) -> _Answer:
        await cursor.execute(text, values)
        rows = await cursor.fetchall() if cursor.description is not None else []
        return _Answer(rows, cursor.rowcount)

    def run(text: str, values: Values | None = None) -> Any:
        return adapted.run_async(lambda _driver: execute(text, values))

    return run


class Guest:
    """One transaction of user code; see the module. One thread at a time uses it.

    Args:
        connection: A connection of :class:`Guests`; the asynchronous one's synchronous side.

    Attributes:
        connection: That connection.
        link: Runs the engine's statements, once the transaction is begun.
        broken: How the code broke the rules, if it did.
        rolled_back: Whether the code rolled the transaction back.
        too_long: Whether the transaction was taken away because it took too long.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.link: GuestLink | None = None
        self.broken: TransactionEndedError | None = None
        self.rolled_back = False
        self.too_long: TransactionTooLongError | None = None
        self._ours = True
        self._closing = threading.Lock()
        self._closed = False

    def begin(self, *, serializable: bool, time_s: float, idle_s: float, lock_s: float) -> None:
        """Begin the transaction; from here on the connection is the code's.

        Args:
            serializable: Whether PostgreSQL isolates it from all others; SQLite always does.
            time_s: How long a statement may take, in seconds.
            idle_s: How long the code may be silent between two statements, in seconds.
            lock_s: How long a statement may wait for a lock, in seconds.
        """
        connection = self.connection
        connection.info[_INFO] = self
        sqlite = connection.dialect.name == "sqlite"
        if serializable and not sqlite:
            connection.execution_options(isolation_level="SERIALIZABLE")
        connection.begin()
        if not sqlite:
            # SQLAlchemy runs this one, so that it notices when the pool's connections are lost.
            connection.exec_driver_sql(
                "SELECT set_config('outlast.guest', 'here', true), "
                "set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true), "
                "set_config('idle_in_transaction_session_timeout', %s, true)",
                tuple([str(max(1, round(seconds * 1000))) for seconds in (time_s, lock_s, idle_s)]),
            )
            from outlast_store.database.postgresql import PatientConnection

            driver = connection.connection.driver_connection
            if isinstance(driver, PatientConnection):
                driver.answer_timeout_s = time_s + ANSWER_GRACE_S
        self.link = GuestLink(connection)
        self._ours = False

    # --- while the code has it --------------------------------------------------------------------------------------

    def on_begin(self) -> None:
        """Refuse a second transaction of the code."""
        if not self._ours:
            raise self._break(
                "the activity's transaction was rolled back, so nothing more can be done in it: let the exception that "
                "led to the rollback propagate, or use a savepoint (begin_nested()) for what may fail"
            )

    def on_commit(self) -> None:
        """Refuse a commit of the code."""
        if not self._ours:
            # SQLAlchemy takes the transaction for ended from here on, and would not roll it back any more.
            self._roll_back_driver()
            raise self._break(
                "the activity's code must not commit its transaction, because the engine commits it together with the "
                "result: leave commit() out (that of a Session on the connection is fine: it only flushes)"
            )

    def on_rollback(self) -> None:
        """Note that the code has given its transaction up."""
        if not self._ours:
            self.rolled_back = True

    def on_statement(self, text: str) -> None:
        """Refuse statements that end or begin a transaction."""
        ends = None if self._ours else _ENDS_TRANSACTION.match(text)
        if ends is not None:
            raise self._break(
                f"the activity's code must not run {ends[1].split()[0].upper()}, because the engine ends the "
                "transaction together with the result: leave it out, or use a savepoint (begin_nested()) for what may "
                "fail"
            )

    def _roll_back_driver(self) -> None:
        dbapi: Any = self.connection.connection.dbapi_connection
        dbapi.rollback()

    def _break(self, message: str) -> TransactionEndedError:
        self.broken = error = TransactionEndedError(message)
        return error

    def expire(self) -> None:
        """Take the transaction away, from another thread: it has kept SQLite's write lock for too long."""
        with self._closing:
            # Once it is closed, its connection may be somebody else's.
            if self._closed:
                return
            self.too_long = error = TransactionTooLongError(LONGEST_ON_SQLITE_S)
            link = self.link
            driver = link._driver if link is not None else None
            if isinstance(driver, RevocableConnection):
                driver.revoke(error)

    # --- when the code has ended ------------------------------------------------------------------------------------

    def error_of(self, error: BaseException) -> BaseException:
        """Return what an exception of the code means: itself, or the rule that it is the consequence of."""
        for cause in (self.too_long, self.broken):
            if cause is not None:
                return cause
        closed = isinstance(error, ResourceClosedError) and self.connection.closed
        return _closed() if closed else error

    def check(self) -> None:
        """Check that the transaction is still the one that was begun, and can be committed.

        Raises:
            TransactionEndedError: It is not; the message says what the code did and what to do instead.
            TransactionTooLongError: It was taken away.
        """
        if self.too_long is not None:
            raise self.too_long
        if self.broken is not None:
            raise self.broken
        connection = self.connection
        if connection.closed:
            raise _closed()
        assert self.link is not None
        if self.rolled_back or connection.invalidated:
            raise TransactionEndedError(
                "the activity's transaction was rolled back, but its code returned as if all were well: raise an "
                "exception, or use a savepoint (begin_nested()) for what may fail"
            )
        driver = self.link._driver
        if isinstance(driver, sqlite3.Connection):
            over, aborted = not driver.in_transaction, False
        else:
            from psycopg.pq import TransactionStatus

            status = driver.info.transaction_status
            aborted = status == TransactionStatus.INERROR
            over = status != TransactionStatus.INTRANS
        if aborted:
            raise TransactionEndedError(
                "a statement of the activity failed, which aborts the whole transaction on PostgreSQL, but its code "
                "went on: let the exception propagate, or put a savepoint (begin_nested()) around what may fail"
            )
        if over:
            raise _ended_unseen()

    def take(self) -> GuestLink:
        """Take the connection back from the code, for the engine's own statements.

        Raises:
            TransactionEndedError: As :meth:`check`.
            TransactionTooLongError: As :meth:`check`.
        """
        self.check()
        self._ours = True
        assert self.link is not None
        if not self.link.qmark:
            # From here on the engine's rows are locked.
            found = self.link.exec_driver_sql(
                "SELECT current_setting('outlast.guest', true), "
                "set_config('idle_in_transaction_session_timeout', %s, true)",
                (str(round(ENGINE_IDLE_S * 1000)),),
            ).fetchone()
            # What is set in a transaction ends with it; one that was begun after it has the driver's same status.
            if found is None or found[0] != "here":
                raise _ended_unseen()
        return self.link

    def commit(self) -> None:
        """Commit what the code and the engine wrote."""
        self._ours = True
        self.connection.commit()

    def close(self) -> None:
        """Roll back what is not committed, and give the connection back."""
        self._ours = True
        with self._closing:
            self._closed = True
        connection = self.connection
        if connection.closed:
            return
        lost: tuple[type[Exception], ...] = (SQLAlchemyError, *driver_roots())
        try:
            if not connection.invalidated:
                connection.info.pop(_INFO, None)
                if self.too_long is not None:
                    connection.invalidate()
                else:
                    self._roll_back_driver()
            connection.close()
        except lost:
            # Whatever it was in the middle of, nobody else gets it.
            with suppress(*lost):
                connection.invalidate()
            with suppress(*lost):
                connection.close()


def _closed() -> TransactionEndedError:
    return TransactionEndedError(
        "the activity's code closed its connection, which rolls back: use activity.connection() without `with` and "
        "without close(), because the engine closes it"
    )


def _ended_unseen() -> TransactionEndedError:
    return TransactionEndedError(
        "the activity's transaction was ended behind SQLAlchemy's back, so what it wrote is not tied to its result: "
        "end no transaction through the driver's own connection, or in a text of several statements"
    )


class Guests:
    """The connections of a process for guests; nothing is opened before the first."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._engine: Engine | None = None
        self._async_engine: AsyncEngine | None = None
        self._lock = threading.Lock()

    def connect(self) -> Connection:
        """Return a connection for a plain function."""
        self._database.check_usable()
        with self._lock:
            if self._engine is None:
                self._engine = _watched(self._make())
        return self._engine.connect()

    async def connect_async(self) -> AsyncConnection:
        """Return a connection for an ``async`` function, on PostgreSQL."""
        if self._async_engine is None:
            from sqlalchemy.ext.asyncio import create_async_engine

            from outlast_store.database.postgresql import guest_connect_args

            self._async_engine = create_async_engine(
                self._database.url.sqlalchemy_url,
                connect_args=guest_connect_args(self._database.url, self._database.postgres),
                isolation_level="READ COMMITTED",
                hide_parameters=True,
                pool_size=GUESTS_AT_MOST,
                max_overflow=0,
                pool_timeout=CONNECTION_WAIT_S,
            )
            _watched(self._async_engine.sync_engine)
        return await self._async_engine.connect()

    def _make(self) -> Engine:
        database = self._database
        if database.backend == "sqlite":
            assert database.url.path is not None
            return create_engine(
                "sqlite://",
                creator=guest_connect(database.url.path, database.synchronous, RevocableConnection),
                poolclass=QueuePool,
                pool_size=1,
                max_overflow=-1,
                hide_parameters=True,
            )
        from outlast_store.database.postgresql import guest_connect_args

        engine = create_engine(
            database.url.sqlalchemy_url,
            connect_args=guest_connect_args(database.url, database.postgres),
            isolation_level="READ COMMITTED",
            hide_parameters=True,
            pool_size=GUESTS_AT_MOST,
            max_overflow=0,
            pool_timeout=CONNECTION_WAIT_S,
        )
        event.listen(engine, "do_connect", _connect_patiently)
        return engine

    async def dispose(self) -> None:
        """Close the pooled connections."""
        if self._engine is not None:
            self._engine.dispose()
        if self._async_engine is not None:
            await self._async_engine.dispose()


def _connect_patiently(
    _dialect: object, _record: object, args: list[Any], options: dict[str, Any]
) -> PatientConnection:
    from outlast_store.database.postgresql import PatientConnection

    return PatientConnection.connect(*args, **options)


def _watched(engine: Engine) -> Engine:
    """Let each guest hear what user code does with its transaction."""

    def guest_of(connection: Connection) -> Guest | None:
        found: Guest | None = connection.info.get(_INFO)
        return found

    def on_begin(connection: Connection) -> None:
        guest = guest_of(connection)
        if guest is not None:
            guest.on_begin()
        if connection.dialect.name == "sqlite":
            driver: Any = connection.connection.driver_connection
            driver.execute("BEGIN IMMEDIATE")

    def on_commit(connection: Connection) -> None:
        guest = guest_of(connection)
        if guest is not None:
            guest.on_commit()

    def on_rollback(connection: Connection) -> None:
        guest = guest_of(connection)
        if guest is not None:
            guest.on_rollback()

    def on_statement(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        guest = guest_of(connection)
        if guest is not None:
            guest.on_statement(statement)

    event.listen(engine, "begin", on_begin)
    event.listen(engine, "commit", on_commit)
    event.listen(engine, "rollback", on_rollback)
    event.listen(engine, "before_cursor_execute", on_statement)
    return engine
