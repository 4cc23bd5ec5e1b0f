"""Opening SQLite: the write-ahead log, full fsync, and transactions that the journal begins and commits itself."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from sqlalchemy import Connection, Engine, NullPool, QueuePool, StaticPool, create_engine

from outlast_store.database.driver_errors import read_only
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Clock
from outlast_workflow.errors import StoreUnreachableError

Synchronous = Literal["FULL", "NORMAL", "EXTRA", "OFF"]

BUSY_TIMEOUT_S: Final = 10.0
"""How long a connection waits for the file on a thread: longer than a guest may keep it."""
JOURNAL_BUSY_TIMEOUT_S: Final = 0.025
"""How long the journal waits for the file, which it does on the event loop; then it lets the loop go on meanwhile."""
_CACHE_KIB: Final = 16 * 1024
_CACHED_STATEMENTS: Final = 512
_WAL_RETRY_S: Final = 0.01


def memory_engine() -> Engine:
    """Return an engine with one shared connection, which is the database: both end when the engine is disposed of."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, cached_statements=_CACHED_STATEMENTS
        )
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    # When a reader returns the shared connection, that must not roll back what the writer has begun on it.
    return create_engine(
        "sqlite://",
        creator=connect,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        hide_parameters=True,
    )


def writer_connect(
    url: DatabaseUrl, path: Path, synchronous: Synchronous, clock: Clock
) -> Callable[[], sqlite3.Connection]:
    """Return what opens the journal's connection: it creates the file, and checks at once that it may write.

    Args:
        url: The URL, for error messages.
        path: The file.
        synchronous: SQLite's durability.
        clock: The process's clock.
    """

    def connect() -> sqlite3.Connection:
        connection = _open(path, "rwc")
        try:
            _prove_writable(connection, url)
            _use_wal(connection, url, clock)
            connection.execute(f"PRAGMA synchronous = {synchronous}")
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


def reader_connect(path: Path) -> Callable[[], sqlite3.Connection]:
    """Return what opens a reader's connection: it sees committed rows while the journal writes, and creates no file."""

    def connect() -> sqlite3.Connection:
        connection = _open(path, "rw")
        connection.execute("PRAGMA query_only = ON")
        return connection

    return connect


def guest_connect(
    path: Path, synchronous: Synchronous, factory: type[sqlite3.Connection]
) -> Callable[[], sqlite3.Connection]:
    """Return what opens a connection for transactions of user code.

    Args:
        path: The file.
        synchronous: SQLite's durability, as the journal's.
        factory: The class of the connection.
    """

    def connect() -> sqlite3.Connection:
        connection = _open(path, "rw", factory)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        return connection

    return connect


def wait_shortly(connection: Connection, *, shortly: bool = True) -> None:
    """Set how long a connection waits for the file: shortly, on the event loop, or as others do.

    Args:
        connection: The connection.
        shortly: Whether it is used on the event loop.
    """
    seconds = JOURNAL_BUSY_TIMEOUT_S if shortly else BUSY_TIMEOUT_S
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def file_engines(
    url: DatabaseUrl, path: Path, synchronous: Synchronous, clock: Clock
) -> tuple[Engine, Engine]:
    """Return the journal's engine, which pools nothing, and the readers'.

    Readers are kept open, because opening one reads the schema again. Their number is not limited, so none waits.

    Args:
        url: The URL, for error messages.
        path: The file.
        synchronous: SQLite's durability.
        clock: The process's clock.
    """
    writer = create_engine(
        "sqlite://",
        creator=writer_connect(url, path, synchronous, clock),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
    )
    reader = create_engine(
        "sqlite://",
        creator=reader_connect(path),
        poolclass=QueuePool,
        pool_size=2,
        max_overflow=-1,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
    )
    return writer, reader


def _open(
    path: Path, mode: str, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_CACHED_STATEMENTS,
        factory=factory,
    )
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    return connection


def _prove_writable(connection: sqlite3.Connection, url: DatabaseUrl) -> None:
    """Write once, because SQLite opens a file that it may not write without complaint and fails at the first write.

    A lock that another process holds proves the same, so this does not wait for it.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        # On a read-only file BEGIN IMMEDIATE quietly begins a read; only a write fails.
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("PRAGMA user_version = 0")
        finally:
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        code = error.sqlite_errorcode & 0xFF
        if code == sqlite3.SQLITE_READONLY:
            raise read_only(url.display) from error
        if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(BUSY_TIMEOUT_S * 1000)}")


def _use_wal(connection: sqlite3.Connection, url: DatabaseUrl, clock: Clock) -> None:
    """Switch a new file to the write-ahead log. SQLite does not wait for other processes here, so this does."""
    give_up_at = clock.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or clock.monotonic() >= give_up_at:
                raise
            time.sleep(_WAL_RETRY_S)
            continue
        if mode != "wal":
            raise StoreUnreachableError(
                f"{url.display} cannot use a write-ahead log (its journal mode stays {mode!r}): SQLite needs a local "
                "file system for it; move the file to one, or use PostgreSQL"
            )
        return
