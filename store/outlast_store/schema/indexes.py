"""Indexes, with the options that only PostgreSQL has kept aside.

SQLAlchemy loads a dialect when an index is given one of its options: 2 MB that a process on SQLite does without. They
are needed to create the tables, and to compare a database with them.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Index, MetaData, text

_OPTIONS: Final[list[tuple[Index, dict[str, Any]]]] = []


def on_postgresql(index: Index, **options: Any) -> Index:
    """Note an index's options on PostgreSQL, and return it."""
    _OPTIONS.append((index, options))
    return index


def partial(name: str, *columns: str, where: str) -> Index:
    """Return an index of the rows that meet a condition."""
    return on_postgresql(Index(name, *columns, sqlite_where=text(where)), postgresql_where=text(where))


def complete(metadata: MetaData) -> MetaData:
    """Give the indexes of the tables their options on PostgreSQL, and return the tables."""
    for index, options in _OPTIONS:
        if index.table is not None and index.table.metadata is metadata:
            index.dialect_kwargs.update(options)
    return metadata
