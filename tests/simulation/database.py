"""The database of a simulation: real SQL on SQLite in memory, behind connections that can fail as connections do.

All processes share one real connection: a transaction never spans two callbacks, so they could not tell. Each has
connections of its own in front of it, which are cut, find the database busy, lose a COMMIT, or lose the answer to one
that was done. What is open when its process crashes is rolled back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine
from sqlalchemy.exc import OperationalError
from tests.simulation.views import ProcessView

from outlast_migrations import migrate
from outlast_store.database.database import Database, translate
from outlast_store.database.postgres_settings import PostgresSettings
from outlast_store.database.urls import DatabaseUrl
from outlast_store.schema import tables

BUSY, FULL = 5, 13
USERS_TABLE = "CREATE TABLE bookings (run_id TEXT, activity_id INTEGER, attempt INTEGER)"
"""What transactional activities write to. No key forbids a second row: the engine has to."""
SIMULATED_URL = DatabaseUrl(
    "sqlite", False, Path("/simulated.db"), URL.create("sqlite"), "simulated", "simulated"
)


def failure(code: int, text: str) -> sqlite3.OperationalError:
    """An error as SQLite raises it."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


def cut() -> sqlite3.ProgrammingError:
    """The error of a connection that is no more."""
    return sqlite3.ProgrammingError("Cannot operate on a closed database.")


class SharedDatabase:
    """The one real database; emptied for each seed."""

    def __init__(self) -> None:
        self.real = sqlite3.connect(":memory:", isolation_level=None, cached_statements=1024)
        self.writing: SimulatedConnection | None = None
        """Whose transaction is open."""
        self.engine = create_engine(
            "sqlite://",
            creator=self._connect,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            pool_reset_on_return=None,
        )
        with self.engine.connect() as connection:
            migrate(connection)
        self.real.execute(USERS_TABLE)
        self.plain: Any = LightConnection(SimulatedConnection(self, None))
        """For checks: a connection that never fails."""

    def _connect(self) -> Any:
        return SimulatedConnection(self, None)

    def empty(self) -> None:
        """Forget everything."""
        if self.real.in_transaction:
            self.real.execute("ROLLBACK")
        self.writing = None
        for table in tables.metadata.tables.values():
            self.real.execute(f"DELETE FROM {table.name}")
        self.real.execute("DELETE FROM bookings")


class SimulatedConnection:
    """What a driver's connection is to the engine."""

    def __init__(self, shared: SharedDatabase, process: ProcessView | None) -> None:
        self.shared = shared
        self.process = process
        self.open = True
        self.isolation_level: str | None = None
        self.inserted: list[tuple[str, str]] = []
        """The runs and types of the events of the transaction."""

    # --- what drivers have ------------------------------------------------------------------------------------------

    def execute(self, text: str, values: Sequence[Any] = ()) -> Any:
        return self.run(self.shared.real.execute, text, values)

    def cursor(self) -> SimulatedCursor:
        cursor = self.shared.real.cursor(SimulatedCursor)
        cursor.owner = self
        return cursor

    @property
    def in_transaction(self) -> bool:
        return self.shared.writing is self

    def create_function(self, *args: Any, **kwargs: Any) -> None:
        """SQLAlchemy brings a function that nobody uses."""

    def commit(self) -> None:
        """In autocommit there is nothing to say."""

    def rollback(self) -> None:
        """As for commit."""

    def close(self) -> None:
        self.open = False
        self.abandon()

    # --- what happens -----------------------------------------------------------------------------------------------

    def run(self, real: Any, text: str, values: Sequence[Any]) -> Any:
        """Run a statement, unless something happens to it."""
        process = self.process
        if process is None:
            return real(text, values)
        process.world.loop.step()
        process.step()
        if not self.open:
            raise cut()
        if text[0] == "C" and text == "COMMIT":
            return self._commit(process, real)
        if text[0] == "B":
            fate = process.faults.at_begin()
            if fate == "busy":
                raise failure(BUSY, "database is locked")
            if fate == "cut":
                self.lose()
            answer = real(text, values)
            self.shared.writing = self
            self.inserted = []
            return answer
        if text == "ROLLBACK":
            self.abandon()
            return None
        fate = process.faults.at_statement()
        if fate is not None:
            if fate == "cut":
                self.lose()
            if fate == "full" and self.in_transaction:
                raise failure(FULL, "database or disk is full")
        answer = real(text, values)
        if self.shared.writing is None:
            if text[0] == "U":
                process.world.note(process, text.partition(" SET")[0])
        elif text.startswith("INSERT INTO history_events"):
            self.inserted += zip(values[0::5], values[2::5], strict=True)
        return answer

    def _commit(self, process: ProcessView, real: Any) -> Any:
        fate = process.faults.at_commit()
        if fate == "lost":
            self.lose()
        if fate == "crash before":
            process.crash("before a commit")
        if fate == "full":
            raise failure(FULL, "database or disk is full")
        answer = real("COMMIT", ())
        self.shared.writing = None
        process.world.wrote(process, "commit", self.inserted)
        self.inserted = []
        if fate == "crash after":
            process.crash("after a commit")
        if fate == "answer lost":
            self.lose()
        return answer

    def abandon(self) -> None:
        """Roll back what is open."""
        if self.shared.writing is self:
            self.shared.writing = None
            self.shared.real.execute("ROLLBACK")

    def lose(self) -> None:
        """The connection is cut."""
        self.open = False
        self.abandon()
        raise cut()


class SimulatedCursor(sqlite3.Cursor):
    """A cursor of such a connection, as SQLAlchemy uses it."""

    owner: SimulatedConnection

    def execute(self, text: str, values: Any = ()) -> Any:
        return self.owner.run(super().execute, text, values)


class SimulatedDatabase(Database):
    """What a process has open."""

    __slots__ = ("_process", "_reader", "_shared")

    def __init__(self, shared: SharedDatabase, process: ProcessView) -> None:
        self.url = SIMULATED_URL
        self.file = None
        self.environment = process.environment
        self.postgres = PostgresSettings()
        self._shared = shared
        self._process = process
        self._writer_engine = self._reader_engine = shared.engine
        self._reader: LightConnection | None = None
        self._skip_locked: bool | None = None

    def writer(self) -> Connection:
        process = self._process
        process.step()
        try:
            if process.faults.at_connect():
                raise failure(14, "unable to open database file")
        except sqlite3.Error as error:
            raise translate(error, self.url) from error
        light: Any = LightConnection(SimulatedConnection(self._shared, process))
        connection: Connection = light  # it does what writers do
        return connection

    @contextmanager
    def reader(self) -> Generator[Connection]:
        if self._reader is None or not self._reader.driver.open:
            self._process.step()
            if self._process.faults.at_connect():
                raise translate(failure(14, "unable to open database file"), self.url)
            self._reader = LightConnection(SimulatedConnection(self._shared, self._process))
        reader: Any = self._reader  # it does what readers do
        yield reader

    def check_usable(self) -> None:
        """It is never moved."""

    def guest_engine(self) -> Engine:
        """What transactional activities connect with."""
        return create_engine(
            "sqlite://",
            creator=lambda: GuestConnection(self._guest_connection()),
            poolclass=NullPool,
            hide_parameters=True,
        )

    def _guest_connection(self) -> SimulatedConnection:
        self._process.step()
        if self._process.faults.at_connect():
            raise failure(14, "unable to open database file")
        return SimulatedConnection(self._shared, self._process)

    def dispose(self) -> None:
        if self._reader is not None:
            self._reader.driver.close()


class GuestConnection(sqlite3.Connection):
    """A simulated connection as user code has it: SQLAlchemy and the engine want one of the driver's own class."""

    def __init__(self, simulated: SimulatedConnection) -> None:
        super().__init__(":memory:", isolation_level=None)
        self.simulated = simulated

    @property
    def in_transaction(self) -> bool:
        return self.simulated.in_transaction

    def execute(self, text: str, values: Any = ()) -> Any:
        return self.simulated.execute(text, values)

    def cursor(self, factory: Any = None) -> Any:
        return self.simulated.cursor()

    def commit(self) -> None:
        if self.in_transaction:
            self.simulated.execute("COMMIT")

    def rollback(self) -> None:
        self.simulated.abandon()

    def close(self) -> None:
        self.simulated.close()
        super().close()


class LightConnection:
    """What the engine needs of SQLAlchemy's connection, without its cost: a simulation is made of statements."""

    class dialect:
        name = "sqlite"
        driver = "pysqlite"
        paramstyle = "qmark"

    def __init__(self, driver: SimulatedConnection) -> None:
        self.driver = self.driver_connection = driver
        self.connection = self

    @property
    def invalidated(self) -> bool:
        return not self.driver.open

    def close(self) -> None:
        self.driver.close()

    def invalidate(self) -> None:
        self.driver.close()

    def exec_driver_sql(self, text: str, values: Sequence[Any] = ()) -> Any:
        try:
            return self.driver.execute(text, values)
        except sqlite3.Error as error:
            raise OperationalError(text, None, error) from error
