"""The overview of a database: workflow types, and timeouts enforced lately.

The figures are of the latest runs and failures, so they cost the same however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import fetch, marks
from outlast_workflow.primitives.enums import RunStatus

MOST_LISTED: Final = 50
LATEST_RUNS: Final = 10_000
LATEST_FAILURES: Final = 2_000


def ping(connection: Connection) -> None:
    """Check that the database answers; raise its error if it does not."""
    fetch(connection, "SELECT 1")


# --- workflow types -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TypeShare:
    """How the latest runs of a workflow type went."""

    workflow_type: str
    statuses: dict[str, int] = field(default_factory=dict)
    durations_us: list[int] = field(default_factory=list)
    """How long the ended ones took, in microseconds, the shortest first."""
    first_created_at: int = 0
    last_created_at: int = 0

    @property
    def runs(self) -> int:
        """How many runs these are."""
        return sum(self.statuses.values())

    def of(self, *statuses: RunStatus) -> int:
        """Return how many of them have one of the statuses."""
        return sum(self.statuses.get(status.value, 0) for status in statuses)

    def quantile_us(self, share: float) -> int | None:
        """Return the duration, in microseconds, that this share of the ended ones did not exceed."""
        if not self.durations_us:
            return None
        return self.durations_us[min(int(share * len(self.durations_us)), len(self.durations_us) - 1)]


def type_shares(connection: Connection, *, latest: int = LATEST_RUNS) -> list[TypeShare]:
    """Return how the latest runs went, by workflow type, the busiest type first."""
    shares: dict[str, TypeShare] = {}
    text = (
        "SELECT workflow_type, status, created_at, started_at, closed_at FROM workflow_runs "
        "ORDER BY run_id DESC LIMIT ?"
    )
    for name, status, created_at, started_at, closed_at in fetch(connection, text, (latest,)):
        share = shares.get(name)
        if share is None:
            share = shares[name] = TypeShare(name, first_created_at=created_at, last_created_at=created_at)
        share.statuses[status] = share.statuses.get(status, 0) + 1
        share.first_created_at = min(share.first_created_at, created_at)
        share.last_created_at = max(share.last_created_at, created_at)
        if closed_at is not None:
            share.durations_us.append(closed_at - (started_at if started_at is not None else created_at))
    for share in shares.values():
        share.durations_us.sort()
    return sorted(shares.values(), key=lambda share: (-share.runs, share.workflow_type))


# --- timeouts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EnforcedLately:
    """A timeout that was enforced."""

    kind: str
    deadline_at: int
    recorded_at: int
    run_id: str
    workflow_id: str
    source_kind: str
    source_id: str | None


def enforced_lately(connection: Connection) -> list[EnforcedLately]:
    """Return the timeouts among the latest failures, the newest first."""
    text = (
        "SELECT timeout_kind, deadline_at, recorded_at, run_id, source_kind, source_id FROM ("
        "SELECT * FROM workflow_failures ORDER BY failure_id DESC LIMIT ?) AS latest "
        "WHERE failure_category = 'timeout' AND timeout_kind IS NOT NULL AND deadline_at IS NOT NULL "
        "ORDER BY failure_id DESC LIMIT ?"
    )
    with snapshot(connection):
        rows = fetch(connection, text, (LATEST_FAILURES, MOST_LISTED))
        ids = _workflow_ids(connection, {row[3] for row in rows})
    return [
        EnforcedLately(kind, deadline_at, recorded_at, run_id, ids.get(run_id, ""), source_kind, source_id)
        for kind, deadline_at, recorded_at, run_id, source_kind, source_id in rows
    ]


def _workflow_ids(connection: Connection, run_ids: set[str]) -> dict[str, str]:
    if not run_ids:
        return {}
    ordered = sorted(run_ids)
    text = f"SELECT run_id, workflow_id FROM workflow_runs WHERE run_id IN ({marks(ordered)})"
    return {row[0]: row[1] for row in fetch(connection, text, tuple(ordered))}
