"""Columns of values, for statements that take many rows as one array per column on PostgreSQL.

The classes name the type of a column's elements. Connections write them as
:mod:`outlast_store.database.postgres_dumpers` teaches them, which alone needs the driver.
"""

from __future__ import annotations

from typing import Any


class TextArray(list[Any]):
    """The values of a text column: strings and ``None``."""

    __slots__ = ()


class BigintArray(list[Any]):
    """The values of an integer column: integers of 64 bits and ``None``."""

    __slots__ = ()


class BooleanArray(list[Any]):
    """The values of a boolean column, and ``None``."""

    __slots__ = ()
