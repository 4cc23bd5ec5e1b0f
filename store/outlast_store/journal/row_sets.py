"""The rows of one table in a batch: as its changes make them, and as they were.

A set is a dict from a row's key to the row. It knows how its table is locked, which rows may come from the cache
instead, what they were, and how they are written: new rows by one ``INSERT``, changed rows by one ``UPDATE`` for each
combination of columns that changed. Every ``UPDATE`` is a compare-and-set on the guard columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import Table

from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.sql_text import Values, columns_of
from outlast_store.database.statements import Statements
from outlast_store.journal.commit_news import ActivityKey
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow, InstanceRow, Row, RunRow, StreamKey, StreamRow

R = TypeVar("R", bound=Row)
K = TypeVar("K", str, ActivityKey, StreamKey)


class RowSet(dict[K, R], Generic[K, R]):
    """The rows of one table, by key.

    Attributes:
        before: By key, the values of rows as they were. A row that is not there is new.
    """

    __slots__ = ("before",)

    before: dict[K, dict[str, Any]]
    table: ClassVar[Table]
    key: ClassVar[tuple[str, ...]]
    """The key's columns, which are the table's first."""
    guard: ClassVar[tuple[str, ...]]
    """The columns that an update compares: the key, and what changes with every write."""
    usual: ClassVar[int]
    """How many columns a new row is written with if the others, which are the last, are null."""
    row_type: ClassVar[Any]

    def load(
        self, raw: RawConnection, statements: Statements, keys: Iterable[K], cached: Mapping[K, R]
    ) -> list[K]:
        """Take the rows from the cache, and read those that it does not hold under their locks.

        Args:
            raw: The transaction's connection.
            statements: The statements of its database family.
            keys: Which rows; none of them is in the set yet.
            cached: The rows that may be trusted.

        Returns:
            The keys of the rows that came from the cache.
        """
        trusted: list[K] = []
        missing: list[K] = []
        for key in sorted(keys):
            row = cached.get(key)
            if row is None:
                missing.append(key)
            else:
                # A copy, as `Row.copy` makes it, without the call.
                self[key] = copy = object.__new__(self.row_type)
                copy.__dict__.update(row.__dict__)
                self.before[key] = row.__dict__
                trusted.append(key)
        if missing:
            self.lock(raw, statements, missing)
        return trusted

    def lock(
        self, raw: RawConnection, statements: Statements, keys: Sequence[K], *, skip: bool = False
    ) -> list[R]:
        """Lock rows and return them, ordered by key; a row that is in the set already stays as changes have made it.

        Args:
            raw: The transaction's connection.
            statements: The statements of its database family.
            keys: Which rows, in order.
            skip: Whether to pass over rows that another transaction holds.
        """
        width = len(self.key)
        wanted: Any = [(key,) for key in keys] if width == 1 else keys
        rows: list[R] = []
        for values in statements.lock(raw, self.table, self.key, wanted, skip=skip):
            key: Any = values[0] if width == 1 else values[:width]
            row = self.get(key)
            if row is None:
                row = self[key] = self.row_type(*values)
                self.before[key] = dict(row.__dict__)
            rows.append(row)
        return rows

    def write(self, raw: RawConnection, statements: Statements) -> None:
        """Insert the new rows; update those that changed, grouped by the columns that did."""
        new: list[Values] = []
        usual: list[Values] = []
        width = self.usual
        changed: dict[tuple[str, ...], list[Values]] = defaultdict(list)
        known = self.before
        for key, row in self.items():
            values, before = row.__dict__, known.get(key)
            if before is None:
                inserted = tuple(values.values())
                if inserted[width:] == (None,) * (len(inserted) - width):
                    usual.append(inserted[:width])
                else:
                    new.append(inserted)
            elif values != before:
                names = tuple([name for name, value in values.items() if value != before[name]])
                changed[names].append(
                    tuple([values[name] for name in names]) + tuple([before[name] for name in self.guard])
                )
        if usual:
            statements.insert(raw, self.table, usual)
        if new:
            statements.insert(raw, self.table, new)
        for names, rows in changed.items():
            statements.update(raw, self.table, self.guard, names, rows)


class InstanceRows(RowSet[str, InstanceRow]):
    """The instances of workflow ids."""

    __slots__ = ()
    table = tables.workflow_instances
    key = ("workflow_id",)
    guard = ("workflow_id",)
    usual = len(table.columns)
    row_type = InstanceRow


class RunRows(RowSet[str, RunRow]):
    """Runs."""

    __slots__ = ()
    table = tables.workflow_runs
    key = ("run_id",)
    guard = ("run_id", "fence", "last_seq", "inbox")
    usual = columns_of(table).index("search_attributes")
    row_type = RunRow


class ActivityRows(RowSet[ActivityKey, ActivityRow]):
    """Activities."""

    __slots__ = ()
    table = tables.activity_executions
    key = ("run_id", "activity_id")
    guard = ("run_id", "activity_id", "attempt", "status")
    usual = columns_of(table).index("summary")
    row_type = ActivityRow


class StreamRows(RowSet[StreamKey, StreamRow]):
    """The streams of chains."""

    __slots__ = ()
    table = tables.streams
    key = ("first_run_id", "name")
    guard = ("first_run_id", "name", "version")
    usual = len(table.columns)
    row_type = StreamRow
