"""Adding and dropping columns, on SQLite by copying the table.

SQLite's own ALTER TABLE leaves a schema unlike a fresh one, and both must be the same. So there the table is made again
from what the database knows of it, filled, and indexed as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op


def text_or_null(name: str) -> sa.Column[Any]:
    """Return a column of text that may be null."""
    return sa.Column(name, sa.Text(), nullable=True)


def bytes_or_null(name: str) -> sa.Column[Any]:
    """Return a column of text that may be null and that PostgreSQL, too, compares by its bytes."""
    return sa.Column(name, text_of_bytes(), nullable=True)


def text_of_bytes() -> sa.types.TypeEngine[Any]:
    """Return the type of text that both databases compare by its bytes."""
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def integer_or_null(name: str) -> sa.Column[Any]:
    """Return a column of 64-bit integers that may be null."""
    return sa.Column(name, sa.BigInteger(), nullable=True)


def add_columns(table: str, *columns: sa.Column[Any]) -> None:
    """Add columns at the end of a table.

    Args:
        table: Which table.
        *columns: The columns; they may be null.
    """
    if _is_sqlite():
        _remake(table, _columns(table), columns)
    else:
        for column in columns:
            op.add_column(table, column)


def drop_columns(table: str, *names: str) -> None:
    """Drop columns of a table; no index may use them.

    Args:
        table: Which table.
        *names: The columns.
    """
    if _is_sqlite():
        _remake(table, [column for column in _columns(table) if column.name not in names], ())
    else:
        for name in names:
            op.drop_column(table, name)


def _is_sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"


def _columns(table: str) -> list[sa.Column[Any]]:
    found = sa.inspect(op.get_bind()).get_columns(table)
    return [sa.Column(one["name"], one["type"], nullable=one["nullable"]) for one in found]


def _remake(table: str, columns: Sequence[sa.Column[Any]], more: Sequence[sa.Column[Any]]) -> None:
    """Copy a table to one with other columns.

    Args:
        table: Which table.
        columns: The columns that both have.
        more: The new ones.
    """
    inspector = sa.inspect(op.get_bind())
    indexes = inspector.get_indexes(table)
    key = inspector.get_pk_constraint(table)["constrained_columns"]
    for index in indexes:
        op.drop_index(str(index["name"]), table)
    op.rename_table(table, f"{table}_before")
    op.create_table(
        table,
        *columns,
        *more,
        sa.PrimaryKeyConstraint(*key, name=f"pk_{table}"),
        sqlite_with_rowid=False,
    )
    names = ", ".join(column.name for column in columns)
    op.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {table}_before")
    op.drop_table(f"{table}_before")
    for index in indexes:
        where = index.get("dialect_options", {}).get("sqlite_where")
        unique = bool(index["unique"])
        op.create_index(str(index["name"]), table, _names(index), unique=unique, sqlite_where=where)


def _names(index: Any) -> list[str]:
    return [str(name) for name in index["column_names"]]
