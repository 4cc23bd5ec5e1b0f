"""The hot path's SQL as text: several rows per statement, built once per shape.

SQLAlchemy's tables say which columns there are. The text is made here and run by ``exec_driver_sql`` with tuples,
because compiling (or binding by name) for each batch costs more than the database's own work. On SQLite many rows are
one ``VALUES`` list, cut into chunks of a few sizes so that there are few distinct texts. On PostgreSQL they are one
array per column, so that one text serves any number. A few rows are written as on SQLite, because an array costs the
driver and the server more than its values do, and a lone workflow writes few rows.

An ``UPDATE`` here is a compare-and-set: it names the key *and* what the row is expected to be, and it fails as a whole
if it has not changed as many rows as it was given (:class:`StaleRows`). On PostgreSQL the server itself checks that
(:func:`_guarded`), so a transaction's ``COMMIT`` can be sent behind its statements without waiting for their answers:
the server skips it once a statement has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Protocol

from sqlalchemy import BigInteger, Boolean, Integer, Table

from outlast_store.database.postgres_arrays import BigintArray, BooleanArray, TextArray
from outlast_store.database.raw_connection import Executes
from outlast_store.database.sql_text import Values, columns_of, matching, with_percent_marks

MOST_PARAMETERS: Final = 8_000
"""How many values a statement on SQLite may have."""
STALE: Final = "stale rows of "
"""How the error of a guarded statement on PostgreSQL begins; the table's name and the number of right rows follow."""
CHUNK_SIZES: Final = (128, 64, 32, 16, 12, 8, 6, 5, 4, 3, 2, 1)
"""How many rows a statement may have: few texts for large batches, one text per number of rows for small ones."""
FEW_VALUES: Final = 50
"""Up to this many values go to PostgreSQL one by one. More go as arrays, because psycopg converts longer texts anew."""


class StaleRows(Exception):
    """A row was not what was expected (on PostgreSQL: the error that :func:`_guarded` makes)."""


class Statements(Protocol):
    """What a database family can do with many rows at once."""

    def insert(self, connection: Executes, table: Table, rows: Sequence[Values]) -> None:
        """Insert the rows: values in the table's column order, where all may leave out as many of the last ones."""
        ...

    def insert_new(self, connection: Executes, table: Table, rows: Sequence[Values]) -> set[Any]:
        """Insert those rows whose key (the first column) is not there yet, and return the keys inserted."""
        ...

    def update(
        self,
        connection: Executes,
        table: Table,
        where: tuple[str, ...],
        columns: tuple[str, ...],
        rows: Sequence[Values],
    ) -> None:
        """Set ``columns`` where the ``where`` columns equal; a row is the new values, then the expected ones.

        Raises:
            StaleRows: Fewer rows were changed than given. PostgreSQL says so by an error of its own.
        """
        ...

    def delete(
        self, connection: Executes, table: Table, keys: tuple[str, ...], rows: Sequence[Values]
    ) -> None:
        """Delete rows by key."""
        ...

    def read(
        self, connection: Executes, table: Table, keys: tuple[str, ...], rows: Sequence[Values]
    ) -> list[Values]:
        """Return whole rows by key, in no order, without locks."""
        ...

    def lock(
        self,
        connection: Executes,
        table: Table,
        keys: tuple[str, ...],
        rows: Sequence[Values],
        *,
        skip: bool = False,
    ) -> list[Values]:
        """Return whole rows by key, ordered by key and locked against other writers.

        Args:
            connection: A connection with a transaction.
            table: Which table.
            keys: The key's columns.
            rows: The keys' values.
            skip: Whether to pass over rows that another transaction has locked.
        """
        ...


def _chunks(rows: Sequence[Values], width: int) -> Sequence[Sequence[Values]]:
    """Cut the rows into chunks of a few sizes, the largest first."""
    left = len(rows)
    chunks: list[Sequence[Values]] = []
    start = 0
    for size in CHUNK_SIZES:
        while size <= left and (size * width <= MOST_PARAMETERS or size == 1):
            chunks.append(rows[start : start + size])
            start += size
            left -= size
    return chunks


class SqliteStatements:
    """Many rows as one ``VALUES`` list; a write transaction (``BEGIN IMMEDIATE``) is the lock."""

    def insert(self, connection: Executes, table: Table, rows: Sequence[Values]) -> None:
        """See :class:`Statements`."""
        count, width = len(rows), len(rows[0])
        whole = count in CHUNK_SIZES and count * width <= MOST_PARAMETERS
        for chunk in (rows,) if whole else _chunks(rows, width):
            text = _insert(table, len(chunk), width)
            connection.exec_driver_sql(text, tuple(chain.from_iterable(chunk)))

    def insert_new(self, connection: Executes, table: Table, rows: Sequence[Values]) -> set[Any]:
        """See :class:`Statements`."""
        inserted: set[Any] = set()
        for chunk in _chunks(rows, len(rows[0])):
            text = _insert_new(table, len(chunk))
            result = connection.exec_driver_sql(text, tuple(chain.from_iterable(chunk)))
            inserted.update(row[0] for row in result)
        return inserted

    def update(
        self,
        connection: Executes,
        table: Table,
        where: tuple[str, ...],
        columns: tuple[str, ...],
        rows: Sequence[Values],
    ) -> None:
        """See :class:`Statements`."""
        missing, width = len(rows), len(rows[0])
        whole = missing in CHUNK_SIZES and missing * width <= MOST_PARAMETERS
        for chunk in (rows,) if whole else _chunks(rows, width):
            text = _update(table, where, columns, len(chunk))
            missing -= connection.exec_driver_sql(text, tuple(chain.from_iterable(chunk))).rowcount
        if missing:
            raise StaleRows

    def delete(
        self, connection: Executes, table: Table, keys: tuple[str, ...], rows: Sequence[Values]
    ) -> None:
        """See :class:`Statements`."""
        for chunk in _chunks(rows, len(keys)):
            connection.exec_driver_sql(_delete(table, keys, len(chunk)), tuple(chain.from_iterable(chunk)))

    def read(
        self, connection: Executes, table: Table, keys: tuple[str, ...], rows: Sequence[Values]
    ) -> list[Values]:
        """See :class:`Statements`."""
        return self.lock(connection, table, keys, rows)

    def lock(
        self,
        connection: Executes,
        table: Table,
        keys: tuple[str, ...],
        rows: Sequence[Values],
        *,
        skip: bool = False,
    ) -> list[Values]:
        """See :class:`Statements`."""
        found: list[Values] = []
        for chunk in _chunks(rows, len(keys)):
            text = _sqlite_select(table, keys, len(chunk))
            found += [
                tuple(row) for row in connection.exec_driver_sql(text, tuple(chain.from_iterable(chunk)))
            ]
        return found


def _groups(width: int, count: int) -> str:
    group = "(" + ",".join("?" * width) + ")"
    return ",".join([group] * count)


def _into(table: Table, width: int) -> str:
    return f"INSERT INTO {table.name} ({', '.join(columns_of(table)[:width])})"


@lru_cache(1024)
def _insert(table: Table, count: int, width: int) -> str:
    return f"{_into(table, width)} VALUES {_groups(width, count)}"


@lru_cache(1024)
def _insert_new(table: Table, count: int) -> str:
    key = columns_of(table)[0]
    return f"{_insert(table, count, len(table.columns))} ON CONFLICT DO NOTHING RETURNING {key}"


@lru_cache(4096)
def _update(table: Table, where: tuple[str, ...], columns: tuple[str, ...], count: int) -> str:
    if count == 1:
        assignments = ", ".join(f"{name} = ?" for name in columns)
        return f"UPDATE {table.name} SET {assignments} WHERE {' AND '.join(f'{name} = ?' for name in where)}"
    assignments = ", ".join(f"{name} = v.column{place}" for place, name in enumerate(columns, 1))
    first = len(columns) + 1
    matches = " AND ".join(
        f"{table.name}.{name} = v.column{place}" for place, name in enumerate(where, first)
    )
    values = _groups(len(columns) + len(where), count)
    return f"UPDATE {table.name} SET {assignments} FROM (VALUES {values}) AS v WHERE {matches}"


@lru_cache(1024)
def _delete(table: Table, keys: tuple[str, ...], count: int) -> str:
    return f"DELETE FROM {table.name} WHERE {matching(keys, count)}"


@lru_cache(1024)
def _sqlite_select(table: Table, keys: tuple[str, ...], count: int) -> str:
    columns = ", ".join(f"t.{name}" for name in columns_of(table))
    matches = " AND ".join(f"t.{key} = v.column{place}" for place, key in enumerate(keys, 1))
    return f"SELECT {columns} FROM (VALUES {_groups(len(keys), count)}) AS v CROSS JOIN {table.name} AS t ON {matches}"


class PostgresStatements:
    """Many rows as one array per column, few rows by their values; rows are locked in key order.

    Args:
        skip_locked: Whether the database has ``SKIP LOCKED``. Without it a claim waits for the transaction that holds
            its candidates, then takes those that are still free: a compare-and-set either way.
    """

    def __init__(self, *, skip_locked: bool = True) -> None:
        self._skip_locked = skip_locked

    def insert(self, connection: Executes, table: Table, rows: Sequence[Values]) -> None:
        """See :class:`Statements`."""
        width = len(rows[0])
        few = len(rows) if len(rows) * width <= FEW_VALUES else 0
        names = columns_of(table)[:width]
        connection.exec_driver_sql(_postgres_insert(table, few, width), _given(table, names, rows, few))

    def insert_new(self, connection: Executes, table: Table, rows: Sequence[Values]) -> set[Any]:
        """See :class:`Statements`."""
        one = len(rows) == 1
        text = _postgres_insert_new(table, one)
        result = connection.exec_driver_sql(text, _given(table, columns_of(table), rows, one))
        return {row[0] for row in result}

    def update(
        self,
        connection: Executes,
        table: Table,
        where: tuple[str, ...],
        columns: tuple[str, ...],
        rows: Sequence[Values],
    ) -> None:
        """See :class:`Statements`."""
        one = len(rows) == 1
        text = _postgres_update(table, where, columns, one)
        connection.exec_driver_sql(text, (*_given(table, columns + where, rows, one), len(rows)))

    def delete(
        self, connection: Executes, table: Table, keys: tuple[str, ...], rows: Sequence[Values]
    ) -> None:
        """See :class:`Statements`."""
        one = len(rows) == 1
        connection.exec_driver_sql(_postgres_delete(table, keys, one), _given(table, keys, rows, one))

    def read(
        self, connection: Executes, table: Table, keys: tuple[str, ...], rows: Sequence[Values]
    ) -> list[Values]:
        """See :class:`Statements`."""
        one = len(rows) == 1
        text = _postgres_select(table, keys, one)
        return [tuple(row) for row in connection.exec_driver_sql(text, _given(table, keys, rows, one))]

    def lock(
        self,
        connection: Executes,
        table: Table,
        keys: tuple[str, ...],
        rows: Sequence[Values],
        *,
        skip: bool = False,
    ) -> list[Values]:
        """See :class:`Statements`."""
        one = len(rows) == 1
        text = _postgres_lock(table, keys, one, skip and self._skip_locked)
        return [tuple(row) for row in connection.exec_driver_sql(text, _given(table, keys, rows, one))]


def _given(table: Table, names: tuple[str, ...], rows: Sequence[Values], few: int) -> Values:
    """Return the values for a text for a few rows; ``few`` is 0 if the text takes any number, by arrays."""
    return tuple(chain.from_iterable(rows)) if few else _arrays(table, names, rows)


_ARRAYS = {"text": TextArray, "bigint": BigintArray, "boolean": BooleanArray}


def _arrays(table: Table, names: tuple[str, ...], rows: Sequence[Values]) -> tuple[Any, ...]:
    """Return one array per column."""
    columns = zip(*rows, strict=True)
    return tuple([kind(column) for kind, column in zip(_kinds(table, names), columns, strict=True)])


@lru_cache(1024)
def _kinds(table: Table, names: tuple[str, ...]) -> tuple[Callable[[Values], Any], ...]:
    return tuple(_ARRAYS[_postgres_type(table, name)] for name in names)


def _postgres_type(table: Table, name: str) -> str:
    kind = table.columns[name].type
    if isinstance(kind, Boolean):
        return "boolean"
    return "bigint" if isinstance(kind, BigInteger | Integer) else "text"


def _unnest(table: Table, names: tuple[str, ...]) -> str:
    return "unnest(" + ", ".join(f"%s::{_postgres_type(table, name)}[]" for name in names) + ")"


@lru_cache(256)
def _postgres_insert(table: Table, few: int, width: int) -> str:
    if few:
        return with_percent_marks(_insert(table, few, width))
    return f"{_into(table, width)} SELECT * FROM {_unnest(table, columns_of(table)[:width])}"


@lru_cache(256)
def _postgres_insert_new(table: Table, one: bool) -> str:
    if one:
        return with_percent_marks(_insert_new(table, 1))
    key = columns_of(table)[0]
    return (
        f"{_postgres_insert(table, 0, len(table.columns))} ORDER BY 1 ON CONFLICT DO NOTHING RETURNING {key}"
    )


@lru_cache(1024)
def _postgres_update(table: Table, where: tuple[str, ...], columns: tuple[str, ...], one: bool) -> str:
    if one:
        return _guarded(with_percent_marks(_update(table, where, columns, 1)), table.name)
    names = [f"n{place}" for place in range(len(columns))] + [f"w{place}" for place in range(len(where))]
    assignments = ", ".join(f"{name} = v.n{place}" for place, name in enumerate(columns))
    matches = " AND ".join(f"t.{name} = v.w{place}" for place, name in enumerate(where))
    source = f"{_unnest(table, columns + where)} AS v({', '.join(names)})"
    return _guarded(f"UPDATE {table.name} AS t SET {assignments} FROM {source} WHERE {matches}", table.name)


def _guarded(update: str, table: str, wanted: str = "%s") -> str:
    """Return the update with a check: the server raises an error unless it changes as many rows as are wanted.

    By default that number is the statement's last value. SQL has no conditional error, so the check casts a text that
    is no number, but only where the count is wrong.
    """
    wrong = f"('{STALE}{table}, ' || count(*) || ' found')::int"
    check = f"SELECT CASE WHEN count(*) = {wanted} THEN 0 ELSE {wrong} END FROM changed"
    return f"WITH changed AS ({update} RETURNING 1) {check}"


@lru_cache(256)
def _postgres_delete(table: Table, keys: tuple[str, ...], one: bool) -> str:
    if one:
        return with_percent_marks(_delete(table, keys, 1))
    return f"DELETE FROM {table.name} WHERE ({', '.join(keys)}) IN (SELECT * FROM {_unnest(table, keys)})"


@lru_cache(256)
def _postgres_select(table: Table, keys: tuple[str, ...], one: bool) -> str:
    columns = ", ".join(f"t.{name}" for name in columns_of(table))
    if one:
        matches = " AND ".join(f"t.{key} = %s" for key in keys)
    else:
        matches = f"({', '.join(f't.{key}' for key in keys)}) IN (SELECT * FROM {_unnest(table, keys)})"
    return f"SELECT {columns} FROM {table.name} AS t WHERE {matches}"


@lru_cache(256)
def _postgres_lock(table: Table, keys: tuple[str, ...], one: bool, skip: bool) -> str:
    order = ", ".join(f"t.{key}" for key in keys)
    wait = " SKIP LOCKED" if skip else ""
    return f"{_postgres_select(table, keys, one)} ORDER BY {order} FOR UPDATE{wait}"


def advance(backend: str) -> tuple[str, str]:
    """Return two statements that move a journal's row from one number to another, by ``(to, journal_id, from)``.

    Where the row has another number, the first, which is for a transaction, fails; the second changes nothing.
    """
    text = "UPDATE journals SET batch_no = {0} WHERE journal_id = {0} AND batch_no = {0}"
    if backend == "sqlite":
        return text.format("?"), text.format("?")
    return _guarded(text.format("%s"), "journals", "1"), text.format("%s")


def statements_for(backend: str, *, skip_locked: bool = True) -> Statements:
    """Return the statements of a database family: ``sqlite`` or ``postgresql``."""
    return PostgresStatements(skip_locked=skip_locked) if backend == "postgresql" else SqliteStatements()
