"""Fresh databases to measure on, as durable as Outlast makes them: every commit waits for the disk."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from sqlalchemy import Connection

from outlast.runtime.schema_check import ensure_schema
from outlast.testing.postgres import TemporaryPostgres
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment

Backend = Literal["sqlite", "postgresql"]
BACKENDS: tuple[Backend, ...] = ("sqlite", "postgresql")

_TEMPLATE = "outlast_template"


class Databases:
    """Makes migrated databases and removes them. SQLite files are in ``folder``; PostgreSQL is a real server."""

    def __init__(self, folder: Path | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="outlast-bench-", dir=folder)
        self._folder = Path(self._temporary.name)
        self._server: TemporaryPostgres | None = None
        self._made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.stop()
        self._temporary.cleanup()

    @contextmanager
    def fresh(self, backend: Backend) -> Generator[str]:
        """Yield the URL of an empty, migrated database, which is removed when the block ends."""
        self._made += 1
        if backend == "postgresql":
            server, name = self._postgres(), f"bench_{self._made}"
            yield server.create_database(name, template=_TEMPLATE)
            server.drop_database(name)
        else:
            file = self._folder / f"bench_{self._made}.db"
            url = f"sqlite:///{file}"
            migrate(url)
            yield url
            for suffix in ("", "-wal", "-shm"):
                Path(f"{file}{suffix}").unlink(missing_ok=True)

    def facts(self, backend: Backend) -> dict[str, str]:
        """Return the settings that decide how fast and how safe a commit is, as the database states them."""
        names = (
            ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers")
            if backend == "postgresql"
            else ("journal_mode", "synchronous", "page_size", "wal_autocheckpoint")
        )
        ask = "SHOW" if backend == "postgresql" else "PRAGMA"
        with self.fresh(backend) as url, opened(url) as connection:
            found = {name: str(connection.exec_driver_sql(f"{ask} {name}").scalar()) for name in names}
            version = "SHOW server_version" if backend == "postgresql" else "SELECT sqlite_version()"
            return {"version": str(connection.exec_driver_sql(version).scalar()), **found}

    def _postgres(self) -> TemporaryPostgres:
        if self._server is None:
            self._server = TemporaryPostgres(fsync=True)
            self._server.start()
            migrate(self._server.create_database(_TEMPLATE))
        return self._server


def migrate(url: str) -> None:
    """Migrate a database."""
    database = Database(DatabaseUrl.parse(url), Environment())
    ensure_schema(database, migrate=True)
    database.dispose()


@contextmanager
def opened(url: str) -> Generator[Connection]:
    """Return a connection like the journal's: the same durability, autocommit."""
    database = Database(DatabaseUrl.parse(url), Environment())
    connection = database.writer()
    try:
        yield connection
    finally:
        connection.close()
        database.dispose()


def count_rows(url: str) -> dict[str, int]:
    """Return the numbers of rows in the tables of the hot path."""
    tables = ("workflow_instances", "workflow_runs", "history_events", "activity_executions")
    with opened(url) as connection:
        return {
            table: int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())
            for table in tables
        }


def count_where(url: str, table: str, condition: str) -> int:
    """Return how many rows of a table meet a condition."""
    with opened(url) as connection:
        found: Any = connection.exec_driver_sql(
            f"SELECT count(*) FROM {table} WHERE {condition}"
        ).scalar_one()
        return int(found)
