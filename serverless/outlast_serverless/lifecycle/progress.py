"""Progress: who exports to a sink, and up to which event the history of each run was exported.

A sink has one exporter at a time. It holds the sink's row for some seconds and renews that; when it dies, another one
takes it over. Should two be at work for a moment, they send the same events with the same ids, and neither takes the
progress of a run back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from outlast_serverless.interpreter.request import TYPE_PREFIX
from outlast_store.database.sql_text import fetch, marks
from outlast_store.journal.batch import BaseChange, Batch

HELD_US: Final = 5_000_000
"""So long a sink is held, unless its exporter renews that."""
_SKEW_US: Final = 10_000_000
"""So much a clock of another machine may be behind, whose runs are new to a sink all the same."""
_PREFIX: Final = "substr(r.workflow_type, 1, ?) = ?"
_PREFIXED: Final = (len(TYPE_PREFIX), TYPE_PREFIX)


class DueRun(NamedTuple):
    """A run of which something is to be exported.

    Attributes:
        run_id: The run.
        workflow_id: Its workflow.
        workflow_type: Its type.
        closed_at: When it ended, in microseconds since the epoch.
        seq: Up to which event it was exported.
    """

    run_id: str
    workflow_id: str
    workflow_type: str
    closed_at: int | None
    seq: int


def since_id(at: int) -> str:
    """Return what the ids of all runs that were started at an instant, or later, come after.

    Args:
        at: The instant, in microseconds since the epoch.
    """
    digits = f"{max(at, 0) // 1000:012x}"
    return f"{digits[:8]}-{digits[8:]}"


class HoldSink(BaseChange):
    """Hold a sink, so that no other exporter takes it.

    Args:
        sink: Its name.
        holder: Who holds it.
    """

    def __init__(self, sink: str, holder: str) -> None:
        self.sink = sink
        self.holder = holder

    def apply(self, batch: Batch) -> str | None:
        """Return from which run on it is looked for new ones; ``None`` if another one holds the sink."""
        until = batch.now + HELD_US
        made = batch.execute(
            "INSERT INTO serverless_sinks (sink, since, holder, held_until) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (self.sink, since_id(batch.now - _SKEW_US), self.holder, until),
        )
        if not made:
            held = batch.execute(
                "UPDATE serverless_sinks SET holder = ?, held_until = ? "
                "WHERE sink = ? AND (holder = ? OR held_until < ?)",
                (self.holder, until, self.sink, self.holder, batch.now),
            )
            if not held:
                return None
        since = batch.scan("SELECT since FROM serverless_sinks WHERE sink = ?", (self.sink,))[0][0]
        return str(since)


class ReleaseSink(BaseChange):
    """Let another exporter have a sink.

    Args:
        sink: Its name.
        holder: Who held it.
    """

    def __init__(self, sink: str, holder: str) -> None:
        self.values = (sink, holder)

    def apply(self, batch: Batch) -> None:
        """Release it."""
        batch.execute("UPDATE serverless_sinks SET held_until = 0 WHERE sink = ? AND holder = ?", self.values)


class NoteExported(BaseChange):
    """Note up to which event a run was exported. What is noted is never taken back.

    Args:
        sink: The name of the sink.
        run_id: The run.
        seq: The number of the event.
    """

    def __init__(self, sink: str, run_id: str, seq: int) -> None:
        self.key = (sink, run_id)
        self.seq = seq

    def apply(self, batch: Batch) -> None:
        """Note it."""
        made = batch.execute(
            "INSERT INTO serverless_exports (sink, run_id, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (*self.key, self.seq),
        )
        if not made:
            batch.execute(
                "UPDATE serverless_exports SET seq = ? WHERE sink = ? AND run_id = ? AND seq < ?",
                (self.seq, *self.key, self.seq),
            )


class ForgetExported(BaseChange):
    """Look for new runs from a later one on, and forget what was exported of earlier ones that have ended.

    Args:
        sink: The name of the sink.
        since: From which run on.
        run_ids: Those runs.
    """

    def __init__(self, sink: str, since: str, run_ids: Sequence[str]) -> None:
        self.sink = sink
        self.since = since
        self.run_ids = run_ids

    def apply(self, batch: Batch) -> None:
        """Forget them."""
        batch.execute(
            "UPDATE serverless_sinks SET since = ? WHERE sink = ? AND since < ?",
            (self.since, self.sink, self.since),
        )
        if self.run_ids:
            batch.execute(
                f"DELETE FROM serverless_exports WHERE sink = ? AND run_id IN ({marks(self.run_ids)})",
                (self.sink, *self.run_ids),
            )


def new_runs(connection: Connection, sink: str, after: str, most: int) -> list[DueRun]:
    """Return runs of documents of which nothing was exported yet, in the order in which they were started.

    Args:
        connection: Where to read.
        sink: The name of the sink.
        after: Only runs after this one.
        most: How many at most.
    """
    text = (
        "SELECT r.run_id, r.workflow_id, r.workflow_type, r.closed_at, 0 FROM workflow_runs r "
        "LEFT JOIN serverless_exports e ON e.sink = ? AND e.run_id = r.run_id "
        f"WHERE r.run_id > ? AND {_PREFIX} AND e.run_id IS NULL ORDER BY r.run_id LIMIT ?"
    )
    return [DueRun(*row) for row in fetch(connection, text, (sink, after, *_PREFIXED, most))]


def due_runs(connection: Connection, sink: str, after: str, most: int) -> list[DueRun]:
    """Return runs whose histories have more than was exported. The arguments are those of :func:`new_runs`."""
    text = (
        "SELECT r.run_id, r.workflow_id, r.workflow_type, r.closed_at, e.seq FROM serverless_exports e "
        "JOIN workflow_runs r ON r.run_id = e.run_id "
        "WHERE e.sink = ? AND e.run_id > ? AND e.seq < r.last_seq ORDER BY e.run_id LIMIT ?"
    )
    return [DueRun(*row) for row in fetch(connection, text, (sink, after, most))]


def finished_runs(connection: Connection, sink: str, before: str, most: int) -> list[str]:
    """Return runs whose progress need not be known any more: ended and exported, or deleted.

    Args:
        connection: Where to read.
        sink: The name of the sink.
        before: Only runs before this one.
        most: How many at most.
    """
    text = (
        "SELECT e.run_id FROM serverless_exports e LEFT JOIN workflow_runs r ON r.run_id = e.run_id "
        "WHERE e.sink = ? AND e.run_id < ? AND (r.run_id IS NULL OR (r.closed_at IS NOT NULL AND e.seq >= r.last_seq)) "
        "ORDER BY e.run_id LIMIT ?"
    )
    return [row[0] for row in fetch(connection, text, (sink, before, most))]
