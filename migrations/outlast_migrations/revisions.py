"""Which version a schema has, and which versions there are. Cheap: every connect asks, and alembic stays unloaded."""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

VERSION_TABLE: Final = "outlast_schema"
"""Not alembic's default name: the application may keep its own tables, and its own alembic, in the same database."""

REVISIONS: Final = ("0001", "0002")
"""Every version, oldest first; a test compares them with the files."""

HEAD: Final = REVISIONS[-1]


def head_revision() -> str:
    """The version that this code works with."""
    return HEAD


def current_revision(connection: Connection) -> str | None:
    """The version that the database is at; None if it has no Outlast tables."""
    if connection.dialect.name == "postgresql":
        # Asked first, because a statement that fails would end a transaction that the caller has open.
        if connection.exec_driver_sql(f"SELECT to_regclass('{VERSION_TABLE}')").scalar() is None:
            return None
        return _read(connection)
    try:
        return _read(connection)
    except OperationalError as error:
        if isinstance(error.orig, sqlite3.OperationalError) and "no such table" in str(error.orig):
            return None
        raise


def _read(connection: Connection) -> str | None:
    row = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").first()
    return str(row[0]) if row is not None else None
