"""The overview of a database: workflow types, deadlines that lie ahead, and timeouts enforced lately.

Everything here is bounded: counts stop at :data:`MOST_COUNTED`, and the figures of workflow types are of the latest
runs. So it costs the same however many runs there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import fetch, marks
from outlast_workflow.primitives.enums import RunStatus, TimeoutKind

MOST_COUNTED: Final = 10_000
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


# --- deadlines ------------------------------------------------------------------------------------------------------

TIMER: Final = "timer"
_RUN_KIND: Final = (
    "CASE WHEN execution_deadline_at IS NOT NULL AND execution_deadline_at <= next_deadline_at "
    f"THEN '{TimeoutKind.EXECUTION_TIMEOUT.value}' ELSE '{TimeoutKind.RUN_TIMEOUT.value}' END"
)
_ACTIVITY_KIND: Final = (
    "CASE next_deadline_at "
    f"WHEN schedule_to_close_deadline_at THEN '{TimeoutKind.SCHEDULE_TO_CLOSE.value}' "
    f"WHEN schedule_to_start_deadline_at THEN '{TimeoutKind.SCHEDULE_TO_START.value}' "
    f"WHEN start_to_close_deadline_at THEN '{TimeoutKind.START_TO_CLOSE.value}' "
    f"ELSE '{TimeoutKind.HEARTBEAT.value}' END"
)
_AHEAD: Final = (
    (
        f"SELECT {_RUN_KIND} AS kind, next_deadline_at AS due_at, run_id, NULL AS command_id, "
        "workflow_type AS name FROM workflow_runs "
        "WHERE next_deadline_at IS NOT NULL ORDER BY next_deadline_at LIMIT ?"
    ),
    (
        f"SELECT {_ACTIVITY_KIND} AS kind, next_deadline_at AS due_at, run_id, activity_id AS command_id, "
        "activity_type AS name FROM activity_executions "
        "WHERE next_deadline_at IS NOT NULL ORDER BY next_deadline_at LIMIT ?"
    ),
    (
        f"SELECT '{TIMER}' AS kind, fire_at AS due_at, run_id, timer_id AS command_id, "
        "summary AS name FROM timers ORDER BY fire_at LIMIT ?"
    ),
)


@dataclass(frozen=True, slots=True)
class Due:
    """A deadline or a timer that lies ahead, or is past and not enforced yet.

    ``name`` is the type of the workflow or the activity, or the timer's summary.
    """

    kind: str
    due_at: int
    run_id: str
    workflow_id: str
    command_id: int | None
    name: str | None


@dataclass(slots=True)
class Outlook:
    """The deadlines and timers that lie ahead.

    Attributes:
        counts: By kind, how many fall due before each of the given bounds, and how many later. Of runs, activities and
            timers the nearest 10,000 each are counted.
        nearest: The nearest ones, without heartbeats.
        heartbeats: The nearest heartbeats. They stand aside: each activity that works moves its own all the time.
        more: Whether counting stopped at that limit, so that there may be more.
    """

    counts: dict[str, list[int]]
    nearest: list[Due]
    heartbeats: list[Due]
    more: bool


def outlook(connection: Connection, bounds: Sequence[int]) -> Outlook:
    """Return the open deadlines and timers, by kind and by when they fall due.

    Args:
        connection: Where to read.
        bounds: Instants in microseconds since the epoch, rising.
    """
    counts: dict[str, list[int]] = {}
    rows: list[tuple[int, str, str, int | None, str | None]] = []
    more = False
    passed = " + ".join(["CASE WHEN due_at < ? THEN 0 ELSE 1 END"] * len(bounds)) or "0"
    with snapshot(connection):
        for ahead in _AHEAD:
            placed = f"SELECT kind, {passed} AS place FROM ({ahead}) AS ahead"
            text = f"SELECT kind, place, count(*) FROM ({placed}) AS placed GROUP BY kind, place"
            found = fetch(connection, text, (*bounds, MOST_COUNTED))
            for kind, place, count in found:
                counts.setdefault(kind, [0] * (len(bounds) + 1))[place] = count
            more = more or sum(count for _, _, count in found) == MOST_COUNTED
            for sign in ("=", "<>") if _ACTIVITY_KIND in ahead else ("<>",):
                text = (
                    f"SELECT due_at, kind, run_id, command_id, name FROM ({ahead}) AS ahead "
                    f"WHERE kind {sign} '{TimeoutKind.HEARTBEAT.value}' ORDER BY due_at LIMIT ?"
                )
                rows += fetch(connection, text, (MOST_COUNTED, MOST_LISTED))
        rows.sort(key=lambda row: row[:3])
        beating = [row for row in rows if row[1] == TimeoutKind.HEARTBEAT][:MOST_LISTED]
        nearest = [row for row in rows if row[1] != TimeoutKind.HEARTBEAT][:MOST_LISTED]
        ids = _workflow_ids(connection, {row[2] for row in (*beating, *nearest)})

    def due(row: tuple[int, str, str, int | None, str | None]) -> Due:
        at, kind, run_id, of, name = row
        return Due(kind, at, run_id, ids.get(run_id, ""), of, name)

    return Outlook(
        counts=counts,
        nearest=[due(row) for row in nearest],
        heartbeats=[due(row) for row in beating],
        more=more,
    )


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
