"""The watchdog's scans: what is due, by kind, in bounded batches that a cursor leads through.

A cursor is the last row of the batch before. It leads past rows that stay (because others hold them, or nobody can read
them), so such rows never hide what comes after them. The scans decide nothing: the pass hands the journal a change,
which checks again under the row's lock. The statements are in :mod:`outlast_store.reads.due`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from outlast_store.reads import due
from outlast_store.reads.due import BEGINNING
from outlast_store.reads.schedules import find_latest_run, read_due_schedules, read_waiting_schedules
from outlast_store.schema.rows import AlertTimerKey, ScheduleRow

Upcoming = tuple[int | None, int | None]
"""The nearest deadline, timer or alert, and the nearest look at a schedule.

Leases do not count: every interval polls them.
"""


@dataclass(slots=True, frozen=True)
class Peek:
    """The low end of every index, in one statement. An idle pass reads nothing else."""

    runs: int | None
    activities: int | None
    timers: int | None
    schedules: int | None
    alerts: int | None
    close_policies: int | None
    leases: int | None
    leases_ahead: bool
    lost_owners: bool
    lost_claimers: bool
    expired: due.Expired
    outbox: bool

    @property
    def upcoming(self) -> Upcoming:
        """When the next things become due, if nothing is due now."""
        return _least(self.runs, self.activities, self.timers, self.alerts), self.schedules


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
    """A timer that is due."""

    fire_at: int
    run_id: str
    timer_id: int


@dataclass(slots=True, frozen=True)
class DueAlert:
    """A mark that is due."""

    due_at: int
    run_id: str
    activity_id: int
    kind: str
    mark: str

    @property
    def key(self) -> AlertTimerKey:
        """The key of what is armed."""
        return self.run_id, self.activity_id, self.kind, self.mark


@dataclass(slots=True, frozen=True)
class DueSchedule:
    """A schedule that has something to do, and the latest run of what it started last, if there is one."""

    next_look_at: int
    schedule_id: str
    row: ScheduleRow
    latest_run_id: str | None


@dataclass(slots=True, frozen=True)
class DueClosePolicy:
    """A run that has ended and whose children await their close policy."""

    due_at: int
    run_id: str


@dataclass(slots=True, frozen=True)
class LapsedWorker:
    """A worker whose lease is over."""

    deadline_at: int
    worker_id: str


@dataclass(slots=True, frozen=True)
class LeaseAhead:
    """A lease that ends further ahead than it lasts; instant and duration in microseconds."""

    worker_id: str
    expires_at: int
    duration: int


@dataclass(slots=True, frozen=True)
class Scan:
    """A peek, and the first batch of each kind that is due; ``None`` where nothing is."""

    peek: Peek
    runs: list[DueRun] | None
    activities: list[DueActivity] | None
    timers: list[DueTimer] | None
    schedules: list[DueSchedule] | None
    alerts: list[DueAlert] | None


def _least(*instants: int | None) -> int | None:
    return min((instant for instant in instants if instant is not None), default=None)


def peek(connection: Connection, now: int) -> Peek:
    """Return whether anything is due, and when the next thing is."""
    found = due.read_low_ends(connection, now)
    runs, activities, timers, schedules, alerts, close_policies, leases = found[:7]
    leases_ahead, lost_owners, lost_claimers, *expired, outbox = found[7:]
    return Peek(
        runs,
        activities,
        timers,
        schedules,
        alerts,
        close_policies,
        leases,
        leases_ahead=bool(leases_ahead),
        lost_owners=bool(lost_owners),
        lost_claimers=bool(lost_claimers),
        expired=due.Expired(*map(bool, expired)),
        outbox=bool(outbox),
    )


def scan(connection: Connection, now: int, until: int, limit: int) -> Scan:
    """Return whether anything is due, and the first rows of what is: one statement to peek, and one per kind due.

    Args:
        connection: Where to read.
        now: Microseconds since the epoch.
        until: Where something of a kind is due already, rows that become due up to this instant are found too.
        limit: Rows of each kind at most.
    """
    seen = peek(connection, now)
    runs = activities = timers = schedules = alerts = None
    if seen.runs is not None and seen.runs <= now:
        runs = due_runs(connection, until, None, limit)
    if seen.activities is not None and seen.activities <= now:
        activities = due_activities(connection, until, None, limit)
    if seen.timers is not None and seen.timers <= now:
        timers = due_timers(connection, until, None, limit)
    if seen.schedules is not None and seen.schedules <= now:
        schedules = due_schedules(connection, now, None, limit)
    if seen.alerts is not None and seen.alerts <= now:
        alerts = due_alerts(connection, until, None, limit)
    return Scan(seen, runs, activities, timers, schedules, alerts)


def upcoming(connection: Connection, after: int = BEGINNING) -> Upcoming:
    """Return when the next things after an instant become due."""
    *deadlines, schedule = due.read_next_deadlines(connection, after)
    return _least(*deadlines), schedule


def due_runs(connection: Connection, now: int, cursor: DueRun | None, limit: int) -> list[DueRun]:
    """Return open runs whose deadline has passed."""
    position = (cursor.deadline_at, cursor.run_id) if cursor is not None else (BEGINNING, "")
    rows = due.read_due_runs(connection, now, position, limit)
    return [DueRun(row[0], row[1], row[2], bool(row[3])) for row in rows]


def due_activities(
    connection: Connection, now: int, cursor: DueActivity | None, limit: int
) -> list[DueActivity]:
    """Return open activities one of whose deadlines has passed."""
    position = (BEGINNING, "", 0)
    if cursor is not None:
        position = (cursor.deadline_at, cursor.run_id, cursor.activity_id)
    return [DueActivity(*row) for row in due.read_due_activities(connection, now, position, limit)]


def due_timers(connection: Connection, now: int, cursor: DueTimer | None, limit: int) -> list[DueTimer]:
    """Return timers that are due."""
    position = (BEGINNING, "", 0)
    if cursor is not None:
        position = (cursor.fire_at, cursor.run_id, cursor.timer_id)
    return [DueTimer(*row) for row in due.read_due_timers(connection, now, position, limit)]


def due_alerts(connection: Connection, now: int, cursor: DueAlert | None, limit: int) -> list[DueAlert]:
    """Return marks that are due."""
    position = (BEGINNING, "", 0, "", "")
    if cursor is not None:
        position = (cursor.due_at, *cursor.key)
    return [DueAlert(*row) for row in due.read_due_alerts(connection, now, position, limit)]


def due_schedules(
    connection: Connection, now: int, cursor: DueSchedule | None, limit: int
) -> list[DueSchedule]:
    """Return schedules that have something to do."""
    position = (cursor.next_look_at, cursor.schedule_id) if cursor is not None else (BEGINNING, "")
    rows = read_due_schedules(connection, now, position, limit)
    return [_due_schedule(row, row.next_look_at or now, _latest_run(connection, row)) for row in rows]


def waiting_schedules(connection: Connection, now: int, schedule_ids: Sequence[str]) -> list[DueSchedule]:
    """Return those of the schedules that have slots which need not wait any more, and that are not due anyway."""
    found: list[DueSchedule] = []
    for row in read_waiting_schedules(connection, schedule_ids):
        latest = _latest_run(connection, row)
        is_open = latest is not None and latest[1]
        if row.next_look_at is not None and row.next_look_at > now and not is_open:
            found.append(_due_schedule(row, row.next_look_at, latest))
    return found


def _latest_run(connection: Connection, row: ScheduleRow) -> tuple[str, bool] | None:
    if row.last_workflow_id is None or row.last_first_run_id is None:
        return None
    return find_latest_run(connection, row.last_workflow_id, row.last_first_run_id)


def _due_schedule(row: ScheduleRow, at: int, latest: tuple[str, bool] | None) -> DueSchedule:
    return DueSchedule(at, row.schedule_id, row, None if latest is None else latest[0])


def due_close_policies(
    connection: Connection, now: int, cursor: DueClosePolicy | None, limit: int
) -> list[DueClosePolicy]:
    """Return ended runs whose children await their close policy."""
    position = (cursor.due_at, cursor.run_id) if cursor is not None else (BEGINNING, "")
    return [DueClosePolicy(*row) for row in due.read_due_close_policies(connection, now, position, limit)]


def lapsed_workers(
    connection: Connection, now: int, cursor: LapsedWorker | None, limit: int
) -> list[LapsedWorker]:
    """Return workers whose lease is over."""
    position = (cursor.deadline_at, cursor.worker_id) if cursor is not None else (BEGINNING, "")
    return [LapsedWorker(*row) for row in due.read_overdue_leases(connection, now, position, limit)]


def leases_ahead(connection: Connection, now: int) -> list[LeaseAhead]:
    """Return the leases that end further ahead than they last."""
    return [LeaseAhead(*row) for row in due.read_leases_ahead(connection, now)]


def runs_of(connection: Connection, owner_id: str, limit: int) -> list[str]:
    """Return some of an owner's runs, those first that have something to do."""
    awake = due.list_awake_runs(connection, owner_id, limit)
    if len(awake) == limit:
        return awake
    return awake + due.list_idle_runs(connection, owner_id, limit - len(awake))


def activities_of(
    connection: Connection, worker_id: str, cursor: DueActivity | None, limit: int
) -> list[DueActivity]:
    """Return the activities that a worker is running, by key."""
    after = (cursor.run_id, cursor.activity_id) if cursor is not None else ("", 0)
    rows = due.read_running_activities(connection, worker_id, after, limit)
    return [DueActivity(BEGINNING, row[0], row[1]) for row in rows]
