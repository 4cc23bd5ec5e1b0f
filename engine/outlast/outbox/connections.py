"""The connections that users bring: whatever of SQLAlchemy has a transaction on the engine's own database.

Only two things are done with one: a row of the outbox is read, and one is inserted. Both happen where the connection
lives: an asynchronous one is awaited, one of a blocking client is used in its caller's thread.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from outlast.runtime.runtime import Runtime
from outlast_store.database.database import translate
from outlast_workflow.errors import InvalidOptionError

T = TypeVar("T")

_ANYTHING: Final = (
    "a SQLAlchemy Connection or Session, or an AsyncConnection or AsyncSession, with a transaction on the engine's "
    "database"
)
_WHERE: Final = (
    "SELECT current_database(), CAST(CAST(to_regclass('outlast_outbox') AS oid) AS bigint), "
    "CAST(pg_postmaster_start_time() AS text)"
)

_known: WeakKeyDictionary[Engine, set[str]] = WeakKeyDictionary()
"""The databases (by their journals) that connections of an engine have been found to be on."""


class LentByThread:
    """A connection of a blocking client's caller, whose thread works on it while a coroutine elsewhere waits.

    Args:
        connection: The connection.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def run(self, work: Callable[[Any], T]) -> T:
        """On the loop: have the caller's thread do something with its connection, and return what came of it."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def there() -> None:
            try:
                settle: Callable[[], None] = partial(done.set_result, work(self.connection))
            except Exception as error:
                settle = partial(done.set_exception, error)
            loop.call_soon_threadsafe(lambda: None if done.done() else settle())

        self._work.put(there)
        return await done

    def while_calling(self, call: Callable[[], T]) -> T:
        """In the caller's thread: work on the connection until a call in another thread has returned.

        Args:
            call: Makes the call and waits for it.
        """
        outcome: Future[T] = Future()

        def wait() -> None:
            try:
                outcome.set_result(call())
            except BaseException as error:
                outcome.set_exception(error)
            finally:
                self._work.put(None)

        threading.Thread(target=wait, name="outlast-outbox", daemon=True).start()
        while (one := self._work.get()) is not None:
            one()
        return outcome.result()


async def run_on(connection: object, runtime: Runtime, work: Callable[[Connection], T]) -> T:
    """Do something with a user's connection, where it lives.

    Args:
        connection: The connection.
        runtime: The engine's database, which must be the connection's.
        work: What to do with it.

    Raises:
        InvalidOptionError: It is no connection that can be used, it is closed, or it is to another database.
        StoreError: The database refuses it.
    """

    def do(connection: object) -> T:
        usable = _usable(connection)
        check_database(usable, runtime)
        return work(usable)

    try:
        if isinstance(connection, LentByThread):
            if isinstance(connection.connection, AsyncConnection | AsyncSession | async_scoped_session):
                raise _bad("is asynchronous: give the blocking client a Connection or a Session")
            return await connection.run(do)
        if isinstance(connection, AsyncConnection):
            return await connection.run_sync(do)
        if isinstance(connection, async_scoped_session):
            connection = connection()
        if isinstance(connection, AsyncSession):
            return await connection.run_sync(do)
        return do(connection)
    except InvalidRequestError as error:
        # Closed, not connected yet, or a session that is bound to nothing.
        raise _bad(f"cannot be used ({type(error).__name__}): {error}") from error
    except DBAPIError as error:
        raise translate(error, runtime.url) from error


def _usable(connection: object) -> Connection:
    if isinstance(connection, Session | scoped_session):
        connection = connection.connection()
    if not isinstance(connection, Connection):
        raise _bad(f"must be {_ANYTHING}, not {type(connection).__name__}")
    if connection.closed or connection.invalidated:
        raise _bad("is closed: open one, and keep its transaction open until the call has returned")
    level = connection.get_execution_options().get("isolation_level")
    if level is None:
        level = getattr(connection.dialect, "_on_connect_isolation_level", None)
    if str(level).upper() == "AUTOCOMMIT":
        raise _bad("commits by itself: what is to commit together needs a transaction")
    return connection


def check_database(connection: Connection, runtime: Runtime) -> None:
    """Refuse a connection to another database than the engine's, once for each of its engines.

    Args:
        connection: A user's connection.
        runtime: The engine's database.

    Raises:
        InvalidOptionError: It is another one.
    """
    known = _known.setdefault(connection.engine, set())
    journal_id = runtime.journal.committer.journal_id
    if journal_id in known:
        return
    backend = runtime.database.backend
    if connection.dialect.name != backend:
        raise _bad(f"is to {connection.dialect.name}, but this client's database is {backend}")
    if backend == "sqlite":
        rows = connection.exec_driver_sql("PRAGMA database_list").fetchall()
        file = next((str(row[2]) for row in rows if row[1] == "main"), "")
        ours = runtime.url.path
        if ours is None:
            raise _bad("cannot share a database in memory: connect the client to a file")
        if not file or not os.path.samefile(file, ours):
            raise _bad(f"is to another file than this client: {file or 'one in memory'}, not {ours}")
    else:
        theirs = tuple(connection.exec_driver_sql(_WHERE).one())
        with runtime.database.reader() as own:
            here = tuple(own.exec_driver_sql(_WHERE).one())
        if theirs[:2] != here[:2] or (theirs[2] != here[2] and not _sees_journal(connection, journal_id)):
            raise _bad(f"is to another database or schema than this client ({theirs[0]}, not {here[0]})")
    known.add(journal_id)


def _sees_journal(connection: Connection, journal_id: str) -> bool:
    """Return whether the row of this client's journal is there: of several servers any may answer for one database."""
    text = f"SELECT count(*) FROM journals WHERE journal_id = '{journal_id}'"
    return bool(connection.exec_driver_sql(text).scalar())


def _bad(problem: str) -> InvalidOptionError:
    return InvalidOptionError(f"connection {problem}", field="connection")
