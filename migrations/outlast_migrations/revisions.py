"""The version that a schema has, and all versions. Every connect reads this, so it does not load Alembic."""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

VERSION_TABLE: Final = "outlast_schema"
"""It is not Alembic's default name: an application may have its own tables and its own Alembic in the same database."""

REVISIONS: Final = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
    "0014",
    "0015",
)
"""Every version, oldest first; a test compares them with the files."""

HEAD: Final = REVISIONS[-1]


def head_revision() -> str:
    """Return the version that this code works with."""
    return HEAD


def current_revision(connection: Connection) -> str | None:
    """Return the version that the database has; ``None`` if it has no Outlast tables."""
    if connection.dialect.name == "postgresql":
        # This is checked first, because a statement that fails would end a transaction that the caller has open.
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
