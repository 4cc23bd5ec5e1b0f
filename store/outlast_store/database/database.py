"""An open database: where the journal and the readers get their connections.

Every connection is in driver-level autocommit. The journal itself runs BEGIN, COMMIT and ROLLBACK, so that a
transaction is exactly what it wrote, and SQLAlchemy's transactions take no part.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Connection, Dialect, Engine

from outlast_store.database.driver_errors import is_disconnect, is_transient, translate
from outlast_store.database.fork_guard import forked, refuse_after_fork
from outlast_store.database.open_file import OpenFile
from outlast_store.database.postgres_server import database_clock_offset, has_skip_locked
from outlast_store.database.postgres_settings import PostgresSettings
from outlast_store.database.sqlite import Synchronous, file_engines, memory_engine
from outlast_store.database.statements import Statements, statements_for
from outlast_store.database.urls import Backend, DatabaseUrl
from outlast_workflow.environment import Environment

__all__ = [
    "Database",
    "PostgresSettings",
    "database_clock_offset",
    "is_disconnect",
    "is_transient",
    "translate",
]


class Database:
    """The connections of one process to one database. Nothing is opened before the first connection is asked for.

    Args:
        url: Which database.
        environment: The process's clock.
        synchronous: SQLite's durability. With ``FULL`` an acknowledged write survives a loss of power.
        postgres: Settings of PostgreSQL connections, such as timeouts.
    """

    __slots__ = (
        "_pid",
        "_reader_engine",
        "_skip_locked",
        "_writer_engine",
        "environment",
        "file",
        "postgres",
        "synchronous",
        "url",
    )

    def __init__(
        self,
        url: DatabaseUrl,
        environment: Environment,
        *,
        synchronous: Synchronous = "FULL",
        postgres: PostgresSettings | None = None,
    ) -> None:
        self.url = url
        self.environment = environment
        self.file = OpenFile(url.path, url.display) if url.path is not None else None
        """The SQLite file, which is to stay where it is; ``None`` for other databases."""
        self._pid = os.getpid()
        self.synchronous: Synchronous = synchronous
        self.postgres = postgres = postgres if postgres is not None else PostgresSettings()
        self._skip_locked = postgres.skip_locked
        self._writer_engine, self._reader_engine = _engines(url, environment, synchronous, postgres)
        refuse_after_fork(self._writer_engine.dialect)
        refuse_after_fork(self._reader_engine.dialect)

    @property
    def backend(self) -> Backend:
        """``"sqlite"`` or ``"postgresql"``."""
        return self.url.backend

    @property
    def dialect(self) -> Dialect:
        """The dialect that SQLAlchemy compiles statements for."""
        return self._writer_engine.dialect

    def statements(self, connection: Connection) -> Statements:
        """Return the statements that suit the database at the other end of a connection."""
        if self._skip_locked is None:
            self._skip_locked = self.backend != "postgresql" or has_skip_locked(connection)
        return statements_for(self.backend, skip_locked=self._skip_locked)

    def writer(self) -> Connection:
        """Return a new connection in autocommit, for one thread at a time. In memory it is the shared one.

        Raises:
            StoreUnreachableError: No database answers there, or it does not let this user in.
            StoreReadOnlyError: It is a SQLite file that this user may not write.
            StoreReplacedError: It is a SQLite file that is no longer the one that was opened.
            ForkedConnectionError: This process was forked from the one that made this object.
        """
        return self._connect(self._writer_engine)

    @contextmanager
    def reader(self) -> Generator[Connection]:
        """Lend a connection for short reads, each statement its own snapshot. In memory it is the writer's.

        Raises:
            StoreUnreachableError: No database answers there, or it does not let this user in.
            StoreReplacedError: It is a SQLite file that is no longer the one that was opened.
            ForkedConnectionError: This process was forked from the one that made this object.
        """
        connection = self._connect(self._reader_engine)
        try:
            yield connection
        finally:
            connection.close()

    def dispose(self) -> None:
        """Close pooled connections, and with them a database in memory. In a forked child this closes nothing."""
        close = os.getpid() == self._pid
        self._writer_engine.dispose(close=close)
        self._reader_engine.dispose(close=close)

    def check_usable(self) -> None:
        """Check that connections of this process lead to the database that was opened.

        Raises:
            StoreReplacedError: It is a SQLite file that is no longer the one that was opened.
            ForkedConnectionError: This process was forked from the one that made this object.
        """
        if os.getpid() != self._pid:
            raise forked()
        if self.file is not None:
            self.file.check()

    def _connect(self, engine: Engine) -> Connection:
        if os.getpid() != self._pid:
            raise forked()
        file = self.file
        if file is not None:
            file.check()
        try:
            connection = engine.connect()
            if file is not None:
                file.opened()
            return connection
        except Exception as error:
            if file is not None:
                file.check()
            problem = translate(error, self.url)
            if problem is error:
                raise
            raise problem from error


def _engines(
    url: DatabaseUrl, environment: Environment, synchronous: Synchronous, postgres: PostgresSettings
) -> tuple[Engine, Engine]:
    """Return the writer's engine and the readers'; in memory they are one."""
    if url.backend == "postgresql":
        # Loads the driver, which a process with SQLite does without.
        from outlast_store.database.postgresql import reader_engine, writer_engine

        return writer_engine(url, postgres), reader_engine(url, postgres)
    if url.path is None:
        engine = memory_engine()
        return engine, engine
    return file_engines(url, url.path, synchronous, environment.clock)
