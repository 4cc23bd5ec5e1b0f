"""The import's target: a database that Outlast knows nothing about.

Writing the same rows twice has the same result as writing them once, which an activity needs that runs at least once.
As evidence, each row counts how often it was written, and a ledger has an entry for each time a chunk was started.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from outlast.demo.csv_file import Order

_SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    order_id TEXT PRIMARY KEY, row INTEGER NOT NULL UNIQUE, customer TEXT NOT NULL, email TEXT NOT NULL,
    country TEXT NOT NULL, currency TEXT NOT NULL, cents INTEGER NOT NULL, ordered_at TEXT NOT NULL,
    note TEXT NOT NULL, writes INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rejected (row INTEGER PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (
    chunk INTEGER NOT NULL, execution INTEGER NOT NULL, attempt INTEGER NOT NULL, worker_pid INTEGER NOT NULL,
    from_row INTEGER NOT NULL, reached_row INTEGER NOT NULL, rows INTEGER NOT NULL DEFAULT 0,
    begun_at REAL NOT NULL, finished_at REAL, PRIMARY KEY (chunk, execution)
) WITHOUT ROWID;
"""
_NOW = "(julianday('now') - 2440587.5) * 86400"
_UPSERT = """
INSERT INTO orders (row, order_id, customer, email, country, currency, cents, ordered_at, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (order_id) DO UPDATE SET
    row = excluded.row, customer = excluded.customer, email = excluded.email, country = excluded.country,
    currency = excluded.currency, cents = excluded.cents, ordered_at = excluded.ordered_at, note = excluded.note,
    writes = writes + 1
"""


@dataclass(frozen=True, slots=True)
class Execution:
    """An entry of the ledger: a chunk was started. Instants are seconds since the epoch.

    ``attempt`` is the number that the activity gets, which does not count rescues; ``execution`` counts everything.
    """

    chunk: int
    execution: int
    attempt: int
    worker_pid: int
    from_row: int
    reached_row: int
    rows: int
    begun_at: float
    finished_at: float | None


@dataclass(frozen=True, slots=True)
class Totals:
    """What the warehouse holds: orders, the sums of their amounts by currency, and rejected rows."""

    rows: int
    cents: dict[str, int]
    rejected: int


class Warehouse:
    """A connection to the warehouse, for one thread. It is a context manager."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        if create:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _fetch(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(text, values).fetchall()

    # --- what the import writes -------------------------------------------------------------------------------------

    def begin(self, chunk: int, *, attempt: int, worker_pid: int, from_row: int) -> int:
        """Record that a chunk is started; return how many times it has been by now."""
        text = (
            "INSERT INTO ledger (chunk, execution, attempt, worker_pid, from_row, reached_row, begun_at) "
            "SELECT ?, 1 + COUNT(*), ?, ?, ?, ?, "
            f"{_NOW} FROM ledger WHERE chunk = ? RETURNING execution"
        )
        values = (chunk, attempt, worker_pid, from_row, from_row - 1, chunk)
        execution: int = self._fetch(text, values)[0][0]
        return execution

    def write(
        self,
        chunk: int,
        execution: int,
        orders: Sequence[Order],
        rejected: Sequence[tuple[int, str]],
        reached_row: int,
    ) -> None:
        """Write some rows in one transaction."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(
                _UPSERT,
                [
                    (
                        o.row,
                        o.order_id,
                        o.customer,
                        o.email,
                        o.country,
                        o.currency,
                        o.cents,
                        o.ordered_at,
                        o.note,
                    )
                    for o in orders
                ],
            )
            connection.executemany("INSERT OR REPLACE INTO rejected (row, reason) VALUES (?, ?)", rejected)
            connection.execute(
                "UPDATE ledger SET rows = rows + ?, reached_row = ? WHERE chunk = ? AND execution = ?",
                (len(orders) + len(rejected), reached_row, chunk, execution),
            )
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def finish(self, chunk: int, execution: int) -> None:
        """Record that a chunk is finished."""
        text = f"UPDATE ledger SET finished_at = {_NOW} WHERE chunk = ? AND execution = ?"
        self._connection.execute(text, (chunk, execution))

    # --- what the checks read ---------------------------------------------------------------------------------------

    def totals(self, first_row: int | None = None, last_row: int | None = None) -> Totals:
        """Return what is there of a range of the file's rows, by default of all."""
        where: str = "1 = 1"
        values: tuple[int, ...] = ()
        if first_row is not None and last_row is not None:
            where, values = "row BETWEEN ? AND ?", (first_row, last_row)
        text = f"SELECT currency, COUNT(*), SUM(cents) FROM orders WHERE {where} GROUP BY currency ORDER BY currency"
        found = self._fetch(text, values)
        rejected: int = self._fetch(f"SELECT COUNT(*) FROM rejected WHERE {where}", values)[0][0]
        return Totals(sum(row[1] for row in found), {row[0]: row[2] for row in found}, rejected)

    def rejected(self) -> dict[int, str]:
        """Return the rejected rows, and why they were rejected."""
        return {row[0]: row[1] for row in self._fetch("SELECT row, reason FROM rejected ORDER BY row")}

    def ledger(self) -> list[Execution]:
        """Return the ledger in the order of chunks."""
        columns = "chunk, execution, attempt, worker_pid, from_row, reached_row, rows, begun_at, finished_at"
        return [
            Execution(*row) for row in self._fetch(f"SELECT {columns} FROM ledger ORDER BY chunk, execution")
        ]

    def written_again(self) -> list[int]:
        """Return the numbers of the rows that were written more than once."""
        return [row[0] for row in self._fetch("SELECT row FROM orders WHERE writes > 1 ORDER BY row")]
