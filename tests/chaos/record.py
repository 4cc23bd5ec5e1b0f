"""What the database says when all is over, read once: runs, histories, activities, attempts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, Table

from outlast_store.database.sql_text import columns_of, fetch
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow, AttemptRow, RunRow


@dataclass(slots=True)
class Event:
    """One event of a history; ``at`` is its stamp, in microseconds."""

    seq: int
    kind: str
    at: int
    payload: dict[str, Any]


@dataclass(slots=True)
class Record:
    """The rows, and the history of each run."""

    runs: dict[str, RunRow] = field(default_factory=dict)
    histories: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    activities: list[ActivityRow] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)

    def events(self, *kinds: str) -> Iterator[tuple[RunRow, Event]]:
        """All events of these kinds, each with its run."""
        for run_id, history in self.histories.items():
            for event in history:
                if event.kind in kinds:
                    yield self.runs[run_id], event

    def ends(self) -> Iterator[tuple[str, list[Any]]]:
        """How each chain of runs has ended: the workflow's id, its status, and what it returned or what ended it."""
        for run in self.runs.values():
            if run.next_run_id is None:
                last = self.histories[run.run_id][-1].payload
                what = last.get("result", last.get("timeout_kind", last.get("reason")))
                yield run.workflow_id, [run.status, what]


def read(connection: Connection) -> Record:
    """Read it all."""
    record = Record()
    for row in _all(connection, tables.workflow_runs):
        run = RunRow(*row)
        record.runs[run.run_id] = run
    for run_id, seq, kind, at, payload in _all(connection, tables.history_events, " ORDER BY run_id, seq"):
        record.histories[run_id].append(Event(seq, kind, at, orjson.loads(payload)))
    record.activities = [ActivityRow(*row) for row in _all(connection, tables.activity_executions)]
    record.attempts = [AttemptRow(*row) for row in _all(connection, tables.activity_attempts)]
    return record


def _all(connection: Connection, table: Table, order: str = "") -> list[tuple[Any, ...]]:
    return fetch(connection, f"SELECT {', '.join(columns_of(table))} FROM {table.name}{order}")
