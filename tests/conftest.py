"""Databases for tests: each test gets one of its own, on every backend that it asks for."""

from __future__ import annotations

import itertools
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from sqlalchemy import Connection
from tests.recorded import Recorder, known_code

from outlast.runtime import schema_check
from outlast.runtime.runtime import Runtime
from outlast.runtime.schema_check import ensure_schema
from outlast.testing import check_database
from outlast.testing.postgres import TemporaryPostgres
from outlast.worker.runs.owner import RunOwner
from outlast.worker.settings import WorkerSettings
from outlast_migrations import HEAD, current_revision, migrate
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment
from outlast_workflow.errors import StoreReplacedError, StoreUnreachableError

TEMPLATE = "outlast_template"
SHARED_MEMORY = Path("/dev/shm")
ROOM_FOR_A_SERVER = 1 << 30

_numbers = itertools.count(1)

# Property tests are judged by what they find, never by how long a busy machine takes. They try the same examples on
# every machine, so a run that is red can be repeated; `--hypothesis-profile exploring` looks for new ones each time.
settings.register_profile(
    "outlast",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("exploring", settings.get_profile("outlast"), derandomize=False)
settings.load_profile("outlast")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background ignores Ctrl-C, and what it starts would inherit that. A handler is not inherited: the
    # programs that tests interrupt begin with Python's own.
    signal.signal(signal.SIGINT, lambda number, frame: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses the server is marked `postgresql`, so that `-m "not postgresql"` never starts one.

    What needs a second connection (the fixture `on_disk`) is not collected for a database in memory, which has one.
    """
    for item in items:
        if "postgres_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.postgresql)
    items[:] = [
        item
        for item in items
        if not ("on_disk" in getattr(item, "fixturenames", ()) and "sqlite-memory" in item.name)
    ]


@pytest.fixture
def anyio_backend() -> str:
    """Tests that are coroutines run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def recorder() -> Iterator[Recorder]:
    """What this session (of each process that runs tests) records is replayed in another process when it ends."""
    made = Recorder()
    yield made
    wrong = made.replay_elsewhere()
    made.close()
    assert not wrong, f"what this session has recorded does not replay elsewhere:\n{wrong}"


@pytest.fixture(autouse=True)
def invariants(monkeypatch: pytest.MonkeyPatch, recorder: Recorder) -> Iterator[list[str]]:
    """What the engine leaves in any database holds the invariants, and every history in it replays.

    Whoever breaks that on purpose clears this list.
    """
    found: list[str] = []
    of_the_engine: list[Database] = []
    owners: list[Any] = []
    open_hub, dispose, make_owner = Runtime.__init__, Database.dispose, RunOwner.__init__

    def note_and_own(
        owner: RunOwner, runtime: Runtime, settings: WorkerSettings, workflows: Any, *rest: Any
    ) -> None:
        owners.append((settings, workflows))
        make_owner(owner, runtime, settings, workflows, *rest)

    def note_and_open(
        runtime: Runtime, url: DatabaseUrl, environment: Environment, database: Database, **more: Any
    ) -> None:
        of_the_engine.append(database)
        open_hub(runtime, url, environment, database, **more)

    def check_and_dispose(database: Database) -> None:
        try:
            if database in of_the_engine and is_there(database):
                with database.reader() as connection:
                    found.extend(check_database(connection))
                    found.extend(recorder.take(connection, known_code(owners)))
        except Exception as error:
            found.append(f"{database.url.display} can't be checked: {error!r}")
        finally:
            dispose(database)

    monkeypatch.setattr(Runtime, "__init__", note_and_open)
    monkeypatch.setattr(RunOwner, "__init__", note_and_own)
    monkeypatch.setattr(Database, "dispose", check_and_dispose)
    yield found
    assert not found, "\n".join(["the test broke what must always hold:", *found])


def is_there(database: Database) -> bool:
    """Whether there is something to look at: not where a test has ended the database, or never made the tables."""
    try:
        with database.reader() as connection:
            return current_revision(connection) == HEAD
    except (StoreUnreachableError, StoreReplacedError):
        return False


@pytest.fixture(scope="session")
def sqlite_script() -> str:
    """The statements that make a SQLite database at head at once, as the migrations have left one."""
    database = Database(DatabaseUrl.parse("sqlite://"), Environment())
    with closing(database.writer()) as connection:
        migrate(connection)
        driver: Any = connection.connection.dbapi_connection
        statements = "\n".join(list(driver.iterdump())[1:-1])
    database.dispose()
    return f"BEGIN IMMEDIATE;\n{statements}\nCOMMIT;"


@pytest.fixture(autouse=True)
def sqlite_at_once(monkeypatch: pytest.MonkeyPatch, sqlite_script: str) -> None:
    """A new SQLite database gets its tables at once: forty times as fast as through each migration.

    Where that makes a difference, a test asks for ``migrated_step_by_step``.
    """

    def make_or_migrate(connection: Connection) -> str | None:
        if connection.dialect.name != "sqlite":
            return migrate(connection)
        driver: Any = connection.connection.dbapi_connection
        try:
            driver.executescript(sqlite_script)
        except sqlite3.OperationalError:
            # There are tables, or someone else makes them.
            driver.rollback()
            return migrate(connection)
        return None

    monkeypatch.setattr(schema_check, "run_migrations", make_or_migrate)


@pytest.fixture
def migrated_step_by_step(monkeypatch: pytest.MonkeyPatch, sqlite_at_once: None) -> None:
    """SQLite databases go through each migration, as they do for users."""
    monkeypatch.setattr(schema_check, "run_migrations", migrate)


class ServerOfManyDatabases(TemporaryPostgres):
    """Makes and drops a database for each test: what it says for that goes through one connection, not two for each."""

    _connection: psycopg.Connection[Any] | None = None

    def execute(self, statement: sql.Composed | sql.SQL) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(self.url(), autocommit=True)
        self._connection.execute(statement)

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        super().stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[TemporaryPostgres]:
    """One server for the whole session, with a template database at head."""
    # Without disks a new database takes an eighth of the processor's time. Containers may have 64 MB there.
    roomy = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free >= ROOM_FOR_A_SERVER
    small: dict[str, object] = {"min_wal_size": "32MB", "max_wal_size": "256MB"}
    with ServerOfManyDatabases(parent=SHARED_MEMORY if roomy else None, settings=small) as server:
        database = Database(DatabaseUrl.parse(server.create_database(TEMPLATE)), Environment())
        ensure_schema(database, migrate=True)
        database.dispose()
        yield server


@pytest.fixture
def new_postgresql_url(postgres_server: TemporaryPostgres) -> Iterator[Callable[..., str]]:
    """Makes PostgreSQL databases, each gone at the test's end: at head, or with ``migrated=False`` empty."""
    made: list[str] = []

    def make(*, migrated: bool = True) -> str:
        made.append(f"test_{next(_numbers)}")
        return postgres_server.create_database(made[-1], template=TEMPLATE if migrated else None)

    yield make
    for name in made:
        postgres_server.drop_database(name)


@pytest.fixture
def postgresql_url(new_postgresql_url: Callable[..., str]) -> str:
    """A PostgreSQL database at head."""
    return new_postgresql_url()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> Iterator[str]:
    """A SQLite file that does not exist yet; in memory where the system has a place there, for fsync is slow."""
    if not SHARED_MEMORY.is_dir():
        yield f"sqlite:///{tmp_path / 'outlast.db'}"
        return
    with tempfile.TemporaryDirectory(prefix="outlast-", dir=SHARED_MEMORY) as folder:
        yield f"sqlite:///{Path(folder) / 'outlast.db'}"


@pytest.fixture(
    params=["sqlite-file", "sqlite-memory", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database on each backend in turn."""
    if request.param == "sqlite-memory":
        return "sqlite://"
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite-file" else "postgresql_url")
    return url


@pytest.fixture(params=["sqlite-file", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def shared_url(request: pytest.FixtureRequest) -> str:
    """A fresh database that several connections, threads and processes can share, on each backend that has such."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite-file" else "postgresql_url")
    return url


@pytest.fixture
def on_disk(database: Database) -> Database:
    """The database, where it has more than one connection, and losing one does not lose the database."""
    return database


@contextmanager
def at_head(url: str) -> Generator[Database]:
    """A database, opened and migrated."""
    opened = Database(DatabaseUrl.parse(url), Environment())
    ensure_schema(opened)
    yield opened
    opened.dispose()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database at head on each backend in turn."""
    with at_head(database_url) as opened:
        yield opened


@pytest.fixture
def shared_database(shared_url: str) -> Iterator[Database]:
    """The same, opened, at head."""
    with at_head(shared_url) as opened:
        yield opened
