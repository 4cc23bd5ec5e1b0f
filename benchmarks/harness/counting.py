"""Counting what reaches SQLite: statements, rows and bytes, exactly, however the engine sends them.

SQLite itself reports each statement, with its values in place, while :meth:`Counter.counting` is open. The figures are
the same on every machine and in every run, so they can guard against costs that creep in.

Bytes are those of the statements' text, with each id and each number counted as one byte: the tenth event of a history
and its ten-thousandth differ only in the length of their numbers.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter as Tally
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from sqlalchemy import event
from sqlalchemy.pool import Pool

_NUMBERS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")
_TABLE = re.compile(r"^(?:INSERT INTO|UPDATE|DELETE FROM|SELECT\b.*? FROM) ([a-z_]+)", re.S)
_TIMED = ("workers", "PRAGMA")
"""Lease renewals and polls follow the clock and are not part of what a workflow costs."""


@dataclass(slots=True)
class Counts:
    """What was sent. ``reads`` counts the statements of connections that only read; the rest is of those that write."""

    statements: int = 0
    rows: int = 0
    bytes: int = 0
    commits: int = 0
    reads: int = 0
    kinds: Tally[str] = field(default_factory=Tally)

    @property
    def written(self) -> tuple[int, int, int, int]:
        """Statements, rows, bytes and commits."""
        return self.statements, self.rows, self.bytes, self.commits

    def document(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        names = ("statements", "rows", "bytes", "commits", "reads")
        return {**{name: getattr(self, name) for name in names}, "kinds": dict(self.kinds)}


class Counter:
    """Counts what is sent through connections that are opened while its ``with`` block is open."""

    def __init__(self) -> None:
        self._connections: list[sqlite3.Connection] = []

    def __enter__(self) -> Self:
        event.listen(Pool, "connect", self._connected)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        event.remove(Pool, "connect", self._connected)

    def _connected(self, connection: Any, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            self._connections.append(connection)

    @contextmanager
    def counting(self) -> Generator[Counts]:
        """Count what is sent until the block ends."""
        counts = Counts()
        traces = [_Trace(connection, counts) for connection in self._connections if _is_open(connection)]
        for trace in traces:
            trace.connection.set_trace_callback(trace)
        yield counts
        for trace in traces:
            if _is_open(trace.connection):
                trace.connection.set_trace_callback(None)
                counts.rows += trace.rows


class _Trace:
    """Receives the statements of one connection."""

    def __init__(self, connection: sqlite3.Connection, counts: Counts) -> None:
        self.connection = connection
        self._counts = counts
        self._before = connection.total_changes
        self._writes = not connection.execute("PRAGMA query_only").fetchone()[0]
        self._heard = False

    @property
    def rows(self) -> int:
        """Return how many rows were changed, or 0 if the statements are not to be counted."""
        return self.connection.total_changes - self._before if self._heard else 0

    def __call__(self, text: str) -> None:
        counts, kind = self._counts, kind_of(text)
        if any(word in kind for word in _TIMED):
            return
        counts.kinds[kind] += 1
        if not self._writes:
            counts.reads += 1
            return
        self._heard = True
        counts.statements += 1
        counts.bytes += len(_NUMBERS.sub("0", text).encode())
        counts.commits += text.startswith("COMMIT")


def kind_of(text: str) -> str:
    """Return a statement's verb and table: ``INSERT history_events``."""
    found = _TABLE.match(text)
    verb = text.split(None, 1)[0]
    return f"{verb} {found[1]}" if found is not None else verb


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False
