"""What is due: index range reads over open rows, ordered by deadline, in bounded batches.

Each reads one partial index from its low end, so its cost follows what is due and not what is open. A cursor
``(deadline, key)`` leads past rows that stay (others hold them, or nobody can read them): they never hide what comes
after them. Nothing is decided here: whoever found something hands the journal a change that looks again.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch

BEGINNING = -1
MOST_COUNTED = 10_000

# Distinct ids by leaps through the index, one seek each: as many as there are workers, not rows.
LOST_OWNERS = """
    WITH RECURSIVE holders (id) AS (
        SELECT MIN(owner_id) FROM workflow_runs WHERE owner_id IS NOT NULL
        UNION ALL
        SELECT (SELECT MIN(owner_id) FROM workflow_runs WHERE owner_id > holders.id)
        FROM holders WHERE holders.id IS NOT NULL
    )
    SELECT id FROM holders
    WHERE id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers WHERE worker_id = id)"""

LOST_CLAIMERS = """
    WITH RECURSIVE holders (id) AS (
        SELECT MIN(claimed_by) FROM activity_executions WHERE status = 'running' AND claimed_by IS NOT NULL
        UNION ALL
        SELECT (SELECT MIN(claimed_by) FROM activity_executions WHERE status = 'running' AND claimed_by > holders.id)
        FROM holders WHERE holders.id IS NOT NULL
    )
    SELECT id FROM holders
    WHERE id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers WHERE worker_id = id)"""

LOOK = f"""
    SELECT
        (SELECT MIN(next_deadline_at) FROM workflow_runs WHERE next_deadline_at IS NOT NULL),
        (SELECT MIN(next_deadline_at) FROM activity_executions WHERE next_deadline_at IS NOT NULL),
        (SELECT MIN(fire_at) FROM timers),
        (SELECT MIN(cascade_at) FROM workflow_runs WHERE cascade_at IS NOT NULL),
        (SELECT MIN(lease_expires_at) FROM workers),
        EXISTS ({LOST_OWNERS}),
        EXISTS ({LOST_CLAIMERS})"""

NEAREST = """
    SELECT
        (SELECT MIN(next_deadline_at) FROM workflow_runs WHERE next_deadline_at > ?),
        (SELECT MIN(next_deadline_at) FROM activity_executions WHERE next_deadline_at > ?),
        (SELECT MIN(fire_at) FROM timers WHERE fire_at > ?)"""

DUE_RUNS = """
    SELECT next_deadline_at, run_id, workflow_id, retry_policy IS NOT NULL FROM workflow_runs
    WHERE next_deadline_at <= ? AND next_deadline_at >= ? AND (next_deadline_at, run_id) > (?, ?)
    ORDER BY next_deadline_at, run_id LIMIT ?"""

DUE_ACTIVITIES = """
    SELECT next_deadline_at, run_id, activity_id FROM activity_executions
    WHERE next_deadline_at <= ? AND next_deadline_at >= ? AND (next_deadline_at, run_id, activity_id) > (?, ?, ?)
    ORDER BY next_deadline_at, run_id, activity_id LIMIT ?"""

DUE_TIMERS = """
    SELECT fire_at, run_id, timer_id FROM timers
    WHERE fire_at <= ? AND fire_at >= ? AND (fire_at, run_id, timer_id) > (?, ?, ?)
    ORDER BY fire_at, run_id, timer_id LIMIT ?"""

DUE_CASCADES = """
    SELECT cascade_at, run_id FROM workflow_runs
    WHERE cascade_at <= ? AND cascade_at >= ? AND (cascade_at, run_id) > (?, ?)
    ORDER BY cascade_at, run_id LIMIT ?"""

LAPSED_WORKERS = """
    SELECT lease_expires_at, worker_id FROM workers
    WHERE lease_expires_at <= ? AND lease_expires_at >= ? AND (lease_expires_at, worker_id) > (?, ?)
    ORDER BY lease_expires_at, worker_id LIMIT ?"""

AWAKE_RUNS_OF = """
    SELECT run_id FROM workflow_runs WHERE owner_id = ? AND wake_at IS NOT NULL ORDER BY wake_at LIMIT ?"""

IDLE_RUNS_OF = "SELECT run_id FROM workflow_runs WHERE owner_id = ? AND wake_at IS NULL LIMIT ?"

ACTIVITIES_OF = """
    SELECT run_id, activity_id FROM activity_executions
    WHERE status = 'running' AND claimed_by = ? AND (run_id, activity_id) > (?, ?)
    ORDER BY run_id, activity_id LIMIT ?"""

COUNTS = {
    "runs": "SELECT 1 FROM workflow_runs WHERE next_deadline_at <= ? LIMIT ?",
    "activities": "SELECT 1 FROM activity_executions WHERE next_deadline_at <= ? LIMIT ?",
    "timers": "SELECT 1 FROM timers WHERE fire_at <= ? LIMIT ?",
    "cascades": "SELECT 1 FROM workflow_runs WHERE cascade_at <= ? LIMIT ?",
    "workers": "SELECT 1 FROM workers WHERE lease_expires_at <= ? LIMIT ?",
}

OPEN = {
    "runs": "SELECT 1 FROM workflow_runs WHERE next_deadline_at IS NOT NULL LIMIT ?",
    "activities": "SELECT 1 FROM activity_executions WHERE next_deadline_at IS NOT NULL LIMIT ?",
    "timers": "SELECT 1 FROM timers LIMIT ?",
}


@dataclass(slots=True, frozen=True)
class Look:
    """The low end of every index: all that an idle pass reads, in one statement."""

    runs: int | None
    activities: int | None
    timers: int | None
    cascades: int | None
    leases: int | None
    lost_owners: bool
    lost_claimers: bool

    @property
    def nearest_deadline(self) -> int | None:
        """The nearest of all deadlines and timers (leases are looked at every interval)."""
        return _least(self.runs, self.activities, self.timers)


@dataclass(slots=True, frozen=True)
class DueRun:
    """A run past its deadline."""

    deadline_at: int
    run_id: str
    workflow_id: str
    retries: bool


@dataclass(slots=True, frozen=True)
class DueActivity:
    """An activity past its deadline, or one that a dead worker was running."""

    deadline_at: int
    run_id: str
    activity_id: int


@dataclass(slots=True, frozen=True)
class DueTimer:
    """A timer whose time has come."""

    fire_at: int
    run_id: str
    timer_id: int


@dataclass(slots=True, frozen=True)
class DueCascade:
    """A run that has ended and whose children await their close policy."""

    due_at: int
    run_id: str


@dataclass(slots=True, frozen=True)
class LapsedWorker:
    """A worker whose lease is over."""

    deadline_at: int
    worker_id: str


@dataclass(slots=True, frozen=True)
class Survey:
    """A look, and by kind the first of what is due; ``None`` where nothing is."""

    look: Look
    runs: list[DueRun] | None
    activities: list[DueActivity] | None
    timers: list[DueTimer] | None


def _least(*instants: int | None) -> int | None:
    return min((instant for instant in instants if instant is not None), default=None)


def look(connection: Connection) -> Look:
    """Whether anything is due, and when the next thing is."""
    runs, activities, timers, cascades, leases, owners, claimers = fetch(connection, LOOK)[0]
    return Look(runs, activities, timers, cascades, leases, bool(owners), bool(claimers))


def survey(connection: Connection, now: int, until: int, limit: int) -> Survey:
    """Whether anything is due, and the first rows of what is: the statement of a look, and one for each kind due.

    Of a kind of which something is due already, what becomes due ``until`` an instant is found too.
    """
    seen = look(connection)
    return Survey(
        seen,
        due_runs(connection, until, None, limit) if _passed(seen.runs, now) else None,
        due_activities(connection, until, None, limit) if _passed(seen.activities, now) else None,
        due_timers(connection, until, None, limit) if _passed(seen.timers, now) else None,
    )


def _passed(instant: int | None, now: int) -> bool:
    return instant is not None and instant <= now


def nearest_deadline(connection: Connection, after: int = BEGINNING) -> int | None:
    """The nearest deadline or timer of all kinds that lies after an instant."""
    return _least(*fetch(connection, NEAREST, (after, after, after))[0])


def due_runs(connection: Connection, now: int, cursor: DueRun | None, limit: int) -> list[DueRun]:
    """Open runs whose deadline has passed."""
    at, run_id = (cursor.deadline_at, cursor.run_id) if cursor is not None else (BEGINNING, "")
    rows = fetch(connection, DUE_RUNS, (now, at, at, run_id, limit))
    return [DueRun(row[0], row[1], row[2], bool(row[3])) for row in rows]


def due_activities(
    connection: Connection, now: int, cursor: DueActivity | None, limit: int
) -> list[DueActivity]:
    """Open activities one of whose deadlines has passed."""
    at, run_id, number = _position(cursor)
    rows = fetch(connection, DUE_ACTIVITIES, (now, at, at, run_id, number, limit))
    return [DueActivity(*row) for row in rows]


def due_timers(connection: Connection, now: int, cursor: DueTimer | None, limit: int) -> list[DueTimer]:
    """Timers whose time has come."""
    at, run_id, number = BEGINNING, "", 0
    if cursor is not None:
        at, run_id, number = cursor.fire_at, cursor.run_id, cursor.timer_id
    return [DueTimer(*row) for row in fetch(connection, DUE_TIMERS, (now, at, at, run_id, number, limit))]


def due_cascades(connection: Connection, now: int, cursor: DueCascade | None, limit: int) -> list[DueCascade]:
    """Ended runs whose children await their close policy."""
    at, run_id = (cursor.due_at, cursor.run_id) if cursor is not None else (BEGINNING, "")
    return [DueCascade(*row) for row in fetch(connection, DUE_CASCADES, (now, at, at, run_id, limit))]


def lapsed_workers(
    connection: Connection, now: int, cursor: LapsedWorker | None, limit: int
) -> list[LapsedWorker]:
    """Workers whose lease is over."""
    at, worker_id = (cursor.deadline_at, cursor.worker_id) if cursor is not None else (BEGINNING, "")
    return [LapsedWorker(*row) for row in fetch(connection, LAPSED_WORKERS, (now, at, at, worker_id, limit))]


def lost_owners(connection: Connection) -> list[str]:
    """Workers that own runs and are no longer registered."""
    return [row[0] for row in fetch(connection, LOST_OWNERS)]


def lost_claimers(connection: Connection) -> list[str]:
    """Workers that run activities and are no longer registered."""
    return [row[0] for row in fetch(connection, LOST_CLAIMERS)]


def runs_of(connection: Connection, owner_id: str, limit: int) -> list[str]:
    """Some of an owner's runs, those first that have something to do."""
    awake = [row[0] for row in fetch(connection, AWAKE_RUNS_OF, (owner_id, limit))]
    if len(awake) == limit:
        return awake
    return awake + [row[0] for row in fetch(connection, IDLE_RUNS_OF, (owner_id, limit - len(awake)))]


def activities_of(
    connection: Connection, worker_id: str, cursor: DueActivity | None, limit: int
) -> list[DueActivity]:
    """The activities that a worker is running, by key."""
    _, run_id, number = _position(cursor)
    rows = fetch(connection, ACTIVITIES_OF, (worker_id, run_id, number, limit))
    return [DueActivity(BEGINNING, row[0], row[1]) for row in rows]


def count_due(connection: Connection, kind: str, now: int) -> int:
    """How much of a kind is due, counted up to ten thousand."""
    text = f"SELECT COUNT(*) FROM ({COUNTS[kind]}) AS due"
    count: int = fetch(connection, text, (now, MOST_COUNTED))[0][0]
    return count


def count_open(connection: Connection) -> dict[str, int]:
    """How many deadlines and timers lie ahead, by what they are of, each counted up to ten thousand."""
    found: dict[str, int] = {}
    for of, text in OPEN.items():
        found[of] = fetch(connection, f"SELECT COUNT(*) FROM ({text}) AS ahead", (MOST_COUNTED,))[0][0]
    return found


def _position(cursor: DueActivity | None) -> tuple[int, str, int]:
    return (
        (cursor.deadline_at, cursor.run_id, cursor.activity_id) if cursor is not None else (BEGINNING, "", 0)
    )
