"""Several reads that see one state of the database."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Connection


@contextmanager
def snapshot(connection: Connection) -> Generator[None]:
    """All reads in the block see the same committed state; on both databases readers and writers don't wait.

    On SQLite the first read of a transaction fixes what it sees; PostgreSQL is asked for as much. In memory, where the
    journal shares the connection, nothing else runs meanwhile.
    """
    sqlite = connection.dialect.name == "sqlite"
    connection.exec_driver_sql("BEGIN" if sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK")
