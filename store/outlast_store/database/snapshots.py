"""Snapshots: several reads that see the same state of the database."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Connection


@contextmanager
def snapshot(connection: Connection) -> Generator[None]:
    """Let all reads in the block see the same committed state. Readers and writers do not wait for each other.

    On SQLite the first read of a transaction fixes what the transaction sees; on PostgreSQL the isolation level
    ``REPEATABLE READ`` does. In memory, where the journal shares the connection, nothing else runs meanwhile.
    """
    sqlite = connection.dialect.name == "sqlite"
    connection.exec_driver_sql("BEGIN" if sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK")
