"""The failures of a run, gathered: the same failure of the same kind of work is one, with how often it happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import columns_of, fetch, marks
from outlast_store.schema import tables
from outlast_store.schema.rows import FailureRow

MOST_FAILURES: Final = 5_000
"""How many failures, the latest, are gathered."""
ATTEMPTS_SEARCHED: Final = 5
"""Among how many attempts, the latest, the one that failed like this is sought."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures that are alike.

    Attributes:
        latest: The latest of them.
        subject: The type of the activity that failed; ``None`` for the run itself and its children.
        count: How many there were.
        sources: Of how many activities or children.
        first_at: When the first happened.
        document: The latest one's failure as JSON, with its stack and causes, if it is kept.
    """

    latest: FailureRow
    subject: str | None
    count: int
    sources: int
    first_at: int
    document: str | None


def find_failure_groups(connection: Connection, run_id: str, limit: int) -> list[FailureGroup]:
    """Return the failures of a run in groups, the latest first.

    Args:
        connection: Where to read.
        run_id: Which run.
        limit: How many groups at most.
    """
    with snapshot(connection):
        groups = fetch(
            connection,
            "SELECT a.activity_type, count(*), count(DISTINCT f.source_id), min(f.recorded_at), max(f.failure_id) "
            "FROM (SELECT failure_id, run_id, recorded_at, source_kind, source_id, propagation_kind, exception_class, "
            "timeout_kind, CASE WHEN source_kind = 'activity_execution' THEN CAST(source_id AS BIGINT) END "
            "AS activity_id "
            "FROM workflow_failures WHERE run_id = ? ORDER BY failure_id DESC LIMIT ?) AS f "
            "LEFT JOIN activity_executions a ON a.run_id = f.run_id AND a.activity_id = f.activity_id "
            "GROUP BY f.source_kind, a.activity_type, f.propagation_kind, f.exception_class, f.timeout_kind "
            "ORDER BY max(f.failure_id) DESC LIMIT ?",
            (run_id, MOST_FAILURES, limit),
        )
        if not groups:
            return []
        ids = tuple(group[4] for group in groups)
        columns = ", ".join(columns_of(tables.workflow_failures))
        rows = fetch(
            connection,
            f"SELECT {columns} FROM workflow_failures WHERE failure_id IN ({marks(ids)})",
            ids,
        )
        latest = {row[0]: FailureRow(*row) for row in rows}
        return [
            FailureGroup(row, subject, count, sources, first_at, _document(connection, row))
            for subject, count, sources, first_at, failure_id in groups
            for row in [latest[failure_id]]
        ]


def _document(connection: Connection, row: FailureRow) -> str | None:
    """Return the failure of the attempt that a row is about."""
    if row.source_kind != "activity_execution" or row.source_id is None:
        return None
    attempts = fetch(
        connection,
        "SELECT ended_at, failure FROM activity_attempts WHERE run_id = ? AND activity_id = ? "
        "ORDER BY attempt DESC LIMIT ?",
        (row.run_id, int(row.source_id), ATTEMPTS_SEARCHED),
    )
    return next((failure for ended_at, failure in attempts if ended_at == row.recorded_at), None)
