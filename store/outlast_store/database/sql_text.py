"""SQL as text: statements written once, with ``?`` marks, and run on either database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import methodcaller
from typing import Any

from sqlalchemy import Connection, Table

from outlast_workflow.primitives.type_families import prefixes

Values = tuple[Any, ...]
"""The values of one row, or of one statement's marks."""
Asked = tuple[str, Values]
"""A statement that reads, written with ``?`` marks, and its values."""


@lru_cache(256)
def columns_of(table: Table) -> tuple[str, ...]:
    """Return the table's column names, in order."""
    return tuple(column.name for column in table.columns)


def marks(values: Sequence[object]) -> str:
    """Return ``?, ?, ?``: one mark for each value."""
    return ", ".join("?" * len(values))


# The hot path calls it for each statement: a function of C costs it no Python frame.
with_percent_marks: Callable[[str], str] = methodcaller("replace", "?", "%s")
"""Return a statement with its ``?`` marks written as psycopg wants them."""


def matching(keys: Sequence[str], count: int) -> str:
    """Return the condition that a row has one of some keys, whose values are given one key after the other.

    SQLite looks up each key for it. For ``(a, b) IN (VALUES …)`` it would read the whole table.

    Args:
        keys: The key's columns.
        count: How many keys; some hundreds at most.
    """
    if len(keys) == 1 and count > 1:
        return f"{keys[0]} IN ({', '.join('?' * count)})"
    one = " AND ".join(f"{key} = ?" for key in keys)
    return one if count == 1 else "(" + " OR ".join([f"({one})"] * count) + ")"


def fetch(connection: Connection, text: str, values: Values = ()) -> list[Values]:
    """Run a statement written with ``?`` marks and return its rows."""
    if connection.dialect.paramstyle != "qmark":
        text = with_percent_marks(text)
    return [tuple(row) for row in connection.exec_driver_sql(text, values)]


def execute(connection: Connection, text: str, values: Values) -> int:
    """Run a writing statement written with ``?`` marks and return how many rows it changed."""
    if connection.dialect.paramstyle != "qmark":
        text = with_percent_marks(text)
    return connection.exec_driver_sql(text, values).rowcount


def select(table: Table, where: str) -> str:
    """Return the statement that reads whole rows of a table."""
    return f"SELECT {', '.join(columns_of(table))} FROM {table.name} WHERE {where}"


def of_types(column: str, types: Sequence[str]) -> tuple[str, Values]:
    """Return the condition, and its values, that a row is of one of some types or families of types.

    It is for rows that an index has found by something else: no index finds the types of a family by it.

    Args:
        column: The column of the type.
        types: Types and families.
    """
    among = f"{column} IN ({marks(types)})"
    families = prefixes(tuple(types))
    if not families:
        return among, tuple(types)
    beginnings = "".join(f" OR substr({column}, 1, {len(prefix)}) = ?" for prefix in families)
    return f"({among}{beginnings})", (*types, *families)
