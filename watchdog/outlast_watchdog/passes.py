"""One pass: everything that is due, in the order that keeps every promise.

1. run deadlines, so that nothing else is done for a run past its deadline;
2. activity deadlines, before a rescue could restart what has expired;
3. due timers;
4. due slots of schedules;
5. alerts;
6. what waits in the outbox, in order;
7. parent close policy: the children of chains that have ended, at most a hundred a change;
8. lost workers: each is declared dead first (its row is deleted, so it can no longer renew). Then its runs and
   activities are found because their worker has no row. A pass that dies in between loses nothing: the next one, in
   any process, finds the same.

The first six are found by one read. Their changes are handed to the journal in that order without waiting for one
another, so that one commit takes them all; the rest follows batch by batch. A row whose change is refused, or fails for
a reason of its own, is *set aside*: counted, named once in the log, and passed over by the cursor. Only an error of the
database itself ends the pass.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import Connection

from outlast_runs.deadlines import Enforced, EnforceRunDeadline
from outlast_schedules.damage import refuse_damaged
from outlast_schedules.due_slots import ON_TIME_US, DueSlots, due_slots
from outlast_schedules.firing import FiredSlots, FireSchedule
from outlast_schedules.specs.calendar import Calendar
from outlast_store.journal.batch import Change
from outlast_store.journal.journal import Journal
from outlast_store.reads.due import Expired, count_due, list_lost_claimers, list_lost_owners
from outlast_store.schema.rows import AlertTimerKey
from outlast_store.transitions.children import AppliedClosePolicy, next_children
from outlast_watchdog import scans
from outlast_watchdog.alerts import RUNS_IN_A_CHANGE as ALERTED_RUNS_IN_A_CHANGE
from outlast_watchdog.alerts import FireAlerts, FiredAlerts
from outlast_watchdog.enforcement import (
    ApplyClosePolicy,
    DeclareWorkerLost,
    EnforceActivityDeadline,
    Fired,
    FireTimers,
    ReleaseLostRuns,
    RescueActivity,
    Rescued,
)
from outlast_watchdog.event_log import EventLog
from outlast_watchdog.leases_ahead import LeasesAhead
from outlast_watchdog.outbox import drain
from outlast_watchdog.report import (
    ACTIVITY_RESCUED,
    ALERT_FIRED,
    ALERT_MISSED,
    CHILD_CANCEL_REQUESTED,
    CHILD_TERMINATED,
    CHILD_TIMED_OUT,
    OUTBOX_APPLIED,
    OUTBOX_REFUSED,
    OWNERS_DIED,
    RUN_RELEASED,
    SCHEDULE_FIRED,
    SCHEDULE_PAUSED,
    SLOT_MISSED,
    SLOT_SKIPPED,
    TIMER_FIRED,
    WORKER_LOST,
    WatchdogReport,
)
from outlast_watchdog.watched import NOT_THE_ROWS, WatchedRuntime
from outlast_workflow.errors import (
    DamagedScheduleError,
    RefusedError,
    StoreError,
)
from outlast_workflow.options.limits import DEFAULT_LIMITS
from outlast_workflow.primitives.enums import TimeoutKind

P = ParamSpec("P")
T = TypeVar("T")
RowT = TypeVar("RowT")

RUNS_IN_A_CHANGE = 100
RUN_KINDS = (TimeoutKind.EXECUTION_TIMEOUT, TimeoutKind.RUN_TIMEOUT)


async def apply_all(journal: Journal, changes: Sequence[Change[Any]]) -> list[Any]:
    """Hand changes over together; return the value or error of each, in order.

    Args:
        journal: The journal.
        changes: The changes.
    """
    outcomes: list[Any] = [None] * len(changes)
    missing = len(changes)
    settled: asyncio.Future[None] = journal.loop.create_future()

    def done(place: int, value: Any, error: BaseException | None) -> None:
        nonlocal missing
        outcomes[place] = value if error is None else error
        missing -= 1
        if missing == 0 and not settled.done():
            settled.set_result(None)

    for place, change in enumerate(changes):
        journal.submit(change, partial(done, place))
    if changes:
        await settled
    return outcomes


def _look_at(
    _connection: Connection, rows: Sequence[scans.DueSchedule], now: int
) -> list[tuple[Calendar, DueSlots] | DamagedScheduleError]:
    """Return what is due in each schedule, or why it cannot be read."""
    looks: list[tuple[Calendar, DueSlots] | DamagedScheduleError] = []
    for row in rows:
        try:
            refuse_damaged(row.row)
            calendar = Calendar.from_json(row.row.spec)
            looks.append((calendar, due_slots(calendar, row.row, now)))
        except DamagedScheduleError as error:
            looks.append(error)
    return looks


async def together(steps: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run steps concurrently to their ends, then raise what the first failed one raised."""
    for outcome in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


class Pass:
    """One pass over what was due when it began.

    Args:
        runtime: Database, journal and clock.
        event_log: Writes the log.
        batch: How many rows are read, and handled together, at a time.
        limit: How many of each kind are handled at most; ``None`` handles all.
        declare: Whether it may declare workers dead.
        leases_ahead: What its watchdog has observed of leases that end too far ahead.
        most_losses: How many owners in a row a run may lose; 0 sets no limit.
        ahead: How far it reads ahead where something is due, in microseconds. What becomes due while its changes wait
            for the previous commit then goes with them. A change that is applied too early does nothing.
        ended_for: The schedules of which a workflow has ended in this process: slots that wait for it start now.
    """

    def __init__(
        self,
        runtime: WatchedRuntime,
        event_log: EventLog,
        *,
        batch: int,
        limit: int | None,
        declare: bool,
        leases_ahead: LeasesAhead,
        most_losses: int = DEFAULT_LIMITS.owner_losses,
        ahead: int = 0,
        ended_for: Sequence[str] = (),
    ) -> None:
        self.now = runtime.environment.clock.now()
        self.report = WatchdogReport(self.now)
        self._runtime = runtime
        self._event_log = event_log
        self._batch = batch
        self._limit = limit
        self._declare = declare
        self._leases_ahead = leases_ahead
        self._most_losses = most_losses
        self._until = self.now + ahead
        self._ended_for = ended_for
        self._aside: Counter[str] = Counter()
        self._runs_ended = False
        self.came_first: bool | None = None
        """Whether it has fired a schedule; ``False`` if others came first each time, ``None`` if none was due."""
        self.upcoming: scans.Upcoming = (None, None)
        """When the next things become due, as it has read at its end."""
        self.expired = Expired(queries=False, rate_logs=False, refusals=False, debounces=False)
        """Which rows it has seen that count for nothing any more."""

    async def run(self) -> WatchdogReport:
        """Do everything that is due, and return what was done.

        Raises:
            StoreError: The database cannot be read or written.
        """
        report, now, runtime = self.report, self.now, self._runtime
        first = self._batch if self._limit is None else max(0, min(self._batch, self._limit))
        found = await runtime.read(scans.scan, now, self._until, first)
        waiting: list[scans.DueSchedule] = []
        if self._ended_for:
            waiting = await runtime.read(scans.waiting_schedules, now, self._ended_for)
        peek = found.peek
        self.expired = peek.expired
        steps: list[Coroutine[Any, Any, object]] = []
        if found.runs is not None:
            steps.append(self._drain("runs", scans.due_runs, self._end_runs, found.runs))
        if found.activities is not None:
            steps.append(
                self._drain("activities", scans.due_activities, self._end_attempts, found.activities)
            )
        if found.timers is not None:
            steps.append(self._drain("timers", scans.due_timers, self._fire, found.timers))
        if found.schedules is not None:
            steps.append(self._drain("schedules", scans.due_schedules, self._fire_schedules, found.schedules))
        if waiting:
            steps.append(self._fire_schedules(waiting))
        if found.alerts is not None:
            steps.append(self._drain("alerts", scans.due_alerts, self._fire_alerts, found.alerts))
        due = bool(steps)
        if peek.outbox:
            steps.append(self._apply_outbox())
        await together(steps)
        if self._runs_ended or (peek.close_policies is not None and peek.close_policies <= now):
            # Children that end take their deadlines with them.
            due = True
            await self._drain("cascades", self._due_close_policies, self._apply_close_policies)
        lapsed = peek.leases is not None and peek.leases <= now
        if lapsed and not self._declare:
            lapsed = False
            report.note_left("workers", await runtime.read(count_due, "workers", now))
        if lapsed:
            await self._drain("workers", scans.lapsed_workers, self._declare_lost)
        if await self._declare_silent(peek):
            lapsed = True
        if lapsed or peek.lost_claimers:
            # Rescued activities get other deadlines.
            due = True
            await self._rescue()
        if (lapsed or peek.lost_owners) and await self._release():
            # Their children are due for their close policy.
            due = True
        self.upcoming = await runtime.read(scans.upcoming, now) if due else peek.upcoming
        deadline, look = self.upcoming
        report.next_deadline_at = deadline if look is None or (deadline or look) < look else look
        return report

    # --- the steps --------------------------------------------------------------------------------------------------

    async def _end_runs(self, rows: list[scans.DueRun]) -> int:
        # All watchdogs lock in this order.
        rows.sort(key=lambda row: row.run_id)
        changes = [EnforceRunDeadline(row.run_id, row.workflow_id, retries=row.retries) for row in rows]
        handled = 0
        for row, outcome in zip(rows, await self._apply(changes), strict=True):
            if not self._set_aside("runs", outcome, run_id=row.run_id) and isinstance(outcome, Enforced):
                handled += 1
                self._note_enforced(outcome, row.deadline_at, workflow_id=row.workflow_id, run_id=row.run_id)
        return handled

    async def _end_attempts(self, rows: list[scans.DueActivity]) -> int:
        rows.sort(key=lambda row: (row.run_id, row.activity_id))
        changes = [EnforceActivityDeadline(row.run_id, row.activity_id) for row in rows]
        handled = 0
        for row, outcome in zip(rows, await self._apply(changes), strict=True):
            ids: dict[str, Any] = {"run_id": row.run_id, "activity_id": row.activity_id}
            if not self._set_aside("activities", outcome, **ids) and isinstance(outcome, Enforced):
                handled += 1
                self._note_enforced(outcome, row.deadline_at, **ids)
        return handled

    async def _fire(self, rows: list[scans.DueTimer]) -> int:
        timers: dict[str, list[int]] = {}
        for row in rows:
            timers.setdefault(row.run_id, []).append(row.timer_id)
        keys = sorted(timers)
        changes = [FireTimers(run_id, timers[run_id]) for run_id in keys]
        handled = 0
        for run_id, outcome in zip(keys, await self._apply(changes), strict=True):
            if self._set_aside("timers", outcome, run_id=run_id, rows=len(timers[run_id])):
                continue
            assert isinstance(outcome, Fired)
            handled += len(outcome.timers)
            if outcome.run is not None:
                handled += 1
                self._note_enforced(outcome.run, outcome.run.deadline_at, run_id=run_id)
            for timer_id, fire_at in outcome.timers:
                self.report.count(TIMER_FIRED)
                self.report.note_lateness(outcome.at - fire_at)
                self._event_log.timer_fired(run_id, timer_id, fire_at, outcome.at)
        return handled

    async def _fire_alerts(self, rows: list[scans.DueAlert]) -> int:
        keys: dict[str, list[AlertTimerKey]] = {}
        for row in rows:
            keys.setdefault(row.run_id, []).append(row.key)
        run_ids = sorted(keys)
        starts = range(0, len(run_ids), ALERTED_RUNS_IN_A_CHANGE)
        groups = [run_ids[start : start + ALERTED_RUNS_IN_A_CHANGE] for start in starts]
        handled = 0
        while groups:
            changes = [FireAlerts([key for run_id in group for key in keys[run_id]]) for group in groups]
            alone: list[list[str]] = []
            for group, change, outcome in zip(groups, changes, await self._apply(changes), strict=True):
                if isinstance(outcome, Exception) and len(group) > 1:
                    # One of its runs is in a state that should not occur, and keeps no other from its alerts.
                    alone += [[run_id] for run_id in group]
                elif not self._set_aside("alerts", outcome, run_id=group[0], rows=len(change.keys)):
                    assert isinstance(outcome, FiredAlerts)
                    handled += self._note_alerts(outcome)
            groups = alone
        return handled

    def _note_alerts(self, fired: FiredAlerts) -> int:
        for kind, number in ((ALERT_FIRED, len(fired.alerts)), (ALERT_MISSED, len(fired.missed))):
            if number:
                self.report.count(kind, number)
        for alert in fired.alerts:
            self.report.note_lateness(fired.at - alert.due_at)
        return len(fired.alerts) + len(fired.missed)

    async def _fire_schedules(self, rows: list[scans.DueSchedule]) -> int:
        rows.sort(key=lambda row: row.schedule_id)
        environment = self._runtime.environment
        handled = 0
        # Cron texts are work of some hundred microseconds each, so a reader does it.
        looks = await self._runtime.read(_look_at, rows, environment.clock.now())
        changes: list[FireSchedule] = []
        fires: dict[str, Callable[[int], int]] = {}
        for row, look in zip(rows, looks, strict=True):
            if isinstance(look, DamagedScheduleError):
                self._set_aside("schedules", look, schedule_id=row.schedule_id)
                continue
            calendar, due = look
            decided = due.found or due.decided_until != row.row.decided_until
            if not decided and row.row.buffered is None and due.next_at == row.next_look_at:
                continue  # it was read ahead, and is not due yet
            fires[row.schedule_id] = partial(calendar.fire_at, row.schedule_id)
            changes.append(FireSchedule(row.row, due, row.latest_run_id, environment))
        for change, outcome in zip(changes, await self._apply(changes), strict=True):
            schedule_id = change.row.schedule_id
            if self._set_aside("schedules", outcome, schedule_id=schedule_id):
                continue
            if not isinstance(outcome, FiredSlots):
                self.came_first = self.came_first or False
                continue
            self.came_first = True
            handled += 1
            late = [
                lateness
                for slot, _ in outcome.started
                if (lateness := outcome.at - fires[schedule_id](slot)) <= ON_TIME_US
            ]
            self._note_fired(outcome, late)
        return handled

    def _note_fired(self, fired: FiredSlots, late: list[int]) -> None:
        for kind, number in (
            (SCHEDULE_FIRED, len(fired.started)),
            (SLOT_SKIPPED, fired.skipped),
            (SLOT_MISSED, fired.missed),
            (SCHEDULE_PAUSED, 0 if fired.paused_by is None else 1),
        ):
            if number:
                self.report.count(kind, number)
        for microseconds in late:
            self.report.note_lateness(microseconds)
        if fired.more:
            self.report.reached_limit = True
        self._event_log.schedule_fired(fired, late)

    async def _apply_outbox(self) -> None:
        drained = await drain(self._runtime, self._event_log, most=self._limit)
        for kind, number in ((OUTBOX_APPLIED, drained.applied), (OUTBOX_REFUSED, drained.refused)):
            if number:
                self.report.count(kind, number)
        if drained.more:
            self.report.reached_limit = True
            self.report.note_left("outbox", await self._runtime.read(count_due, "outbox", self.now))

    def _due_close_policies(
        self, connection: Connection, now: int, cursor: scans.DueClosePolicy | None, limit: int
    ) -> list[scans.DueClosePolicy]:
        """Return the runs whose children are due, those included that this pass has ended."""
        return scans.due_close_policies(connection, self._runtime.environment.clock.now(), cursor, limit)

    async def _apply_close_policies(self, rows: list[scans.DueClosePolicy]) -> int:
        """Apply close policies step by step, then those of children that ended by it and have children themselves."""
        handled = 0
        for row in rows:
            due = [row.run_id]
            while due:
                run_id = due.pop()
                children = await self._runtime.read(next_children, run_id)
                [outcome] = await self._apply([ApplyClosePolicy(run_id, children)])
                if self._set_aside("cascades", outcome, run_id=run_id) or not isinstance(
                    outcome, AppliedClosePolicy
                ):
                    continue
                handled += 1
                due += outcome.due
                if outcome.done:
                    self._note_close_policy(run_id, outcome)
        return handled

    def _note_close_policy(self, run_id: str, applied: AppliedClosePolicy) -> None:
        for kind, run_ids in (
            (CHILD_TERMINATED, applied.terminated),
            (CHILD_CANCEL_REQUESTED, applied.cancel_requested),
            (CHILD_TIMED_OUT, applied.timed_out),
        ):
            if run_ids:
                self.report.count(kind, len(run_ids))
        self._event_log.close_policy_applied(run_id, applied)

    async def _declare_lost(self, rows: list[scans.LapsedWorker]) -> int:
        rows.sort(key=lambda row: row.worker_id)
        changes = [DeclareWorkerLost(row.worker_id) for row in rows]
        for row, outcome in zip(rows, await self._apply(changes), strict=True):
            if not self._set_aside("workers", outcome, worker_id=row.worker_id) and outcome:
                self.report.count(WORKER_LOST)
                self._event_log.worker_lost(row.worker_id, row.deadline_at, self.now)
        return len(rows)

    async def _declare_silent(self, peek: scans.Peek) -> bool:
        """Declare workers lost that do not renew leases which end too far ahead; return whether there were any."""
        if not peek.leases_ahead:
            self._leases_ahead.forget()
            return False
        leases = await self._runtime.read(scans.leases_ahead, self.now)
        silent = self._leases_ahead.not_renewed(leases, self._runtime.environment.clock.monotonic())
        if not silent or not self._declare:
            return False
        changes = [DeclareWorkerLost(lease.worker_id, not_renewed=lease.expires_at) for lease in silent]
        for lease, outcome in zip(silent, await self._apply(changes), strict=True):
            if not self._set_aside("workers", outcome, worker_id=lease.worker_id) and outcome:
                self.report.count(WORKER_LOST)
                self._event_log.worker_silent(lease.worker_id, lease.expires_at, self.now)
        return True

    async def _rescue(self) -> None:
        """Rescue the activities of workers that are gone."""
        for worker_id in await self._runtime.read(list_lost_claimers):
            await self._drain(
                "lost_work",
                partial(self._claims, worker_id),
                partial(self._rescue_from, worker_id),
                dated=False,
            )

    @staticmethod
    def _claims(
        worker_id: str, connection: Connection, now: int, cursor: scans.DueActivity | None, limit: int
    ) -> list[scans.DueActivity]:
        return scans.activities_of(connection, worker_id, cursor, limit)

    async def _rescue_from(self, worker_id: str, rows: list[scans.DueActivity]) -> int:
        changes = [RescueActivity(row.run_id, row.activity_id, worker_id) for row in rows]
        handled = 0
        for row, outcome in zip(rows, await self._apply(changes), strict=True):
            ids: dict[str, Any] = {"run_id": row.run_id, "activity_id": row.activity_id}
            if self._set_aside("lost_work", outcome, **ids):
                continue
            if not isinstance(outcome, Rescued):
                continue
            handled += 1
            if outcome.enforced is not None:
                self._note_enforced(
                    outcome.enforced, outcome.enforced.deadline_at, worker_id=worker_id, **ids
                )
            else:
                self.report.count(ACTIVITY_RESCUED)
                self._event_log.rescued(worker_id, closed=outcome.closed, **ids)
        return handled

    async def _release(self) -> bool:
        """Release the runs of workers that are gone, those first that have something to do.

        Returns:
            Whether any of them ended, because it had lost too many owners.
        """
        handled = 0
        for worker_id in await self._runtime.read(list_lost_owners):
            while self._limit is None or handled < self._limit:
                run_ids = await self._runtime.read(scans.runs_of, worker_id, self._batch)
                released = await self._release_from(worker_id, run_ids)
                handled += released
                if len(run_ids) < self._batch or not released:
                    break
            else:
                self.report.reached_limit = True
                self.report.note_left("lost_work", 1)
                break
        return OWNERS_DIED in self.report.counts

    async def _release_from(self, worker_id: str, run_ids: list[str]) -> int:
        run_ids = sorted(run_ids)
        starts = range(0, len(run_ids), RUNS_IN_A_CHANGE)
        changes = [
            ReleaseLostRuns(worker_id, run_ids[start : start + RUNS_IN_A_CHANGE], self._most_losses)
            for start in starts
        ]
        released = 0
        for change, outcome in zip(changes, await self._apply(changes), strict=True):
            if self._set_aside("lost_work", outcome, worker_id=worker_id, rows=len(change.runs)):
                continue
            released += len(outcome.waiting) + len(outcome.ended)
            if outcome.waiting:
                self.report.count(RUN_RELEASED, len(outcome.waiting))
                self._event_log.released(worker_id, outcome.waiting)
            if outcome.ended:
                self.report.count(OWNERS_DIED, len(outcome.ended))
        return released

    # --- what the steps share ---------------------------------------------------------------------------------------

    async def _drain(
        self,
        kind: str,
        scan: Callable[[Connection, int, RowT | None, int], list[RowT]],
        handle: Callable[[list[RowT]], Awaitable[int]],
        found: list[RowT] | None = None,
        *,
        dated: bool = True,
    ) -> None:
        """Read and handle one kind batch by batch until nothing more is due, or the limit is reached.

        Args:
            kind: The kind, as the report names it.
            scan: Reads a batch after a cursor.
            handle: Handles a batch; returns how many things were done.
            found: The first batch, if it was read already.
            dated: Whether rows of the kind have an instant at which they are due, by which the rest can be counted.
        """
        cursor: RowT | None = None
        handled = left = 0
        set_aside = self._aside[kind]
        while True:
            wanted = self._batch if self._limit is None else min(self._batch, self._limit - handled)
            if wanted <= 0:
                left = await self._runtime.read(count_due, kind, self.now) if dated else 1
                self.report.reached_limit = True
                break
            rows = found if found is not None else await self._runtime.read(scan, self._until, cursor, wanted)
            found = None
            if rows:
                cursor = rows[-1]
                handled += await handle(list(rows))
            if len(rows) < wanted:
                left = self._aside[kind] - set_aside
                break
        self.report.note_left(kind, left)

    async def _apply(self, changes: Sequence[Change[Any]]) -> list[Any]:
        """Return each change's value or error; raise if the database failed rather than a change."""
        outcomes = await apply_all(self._runtime.journal, changes)
        failed = [outcome for outcome in outcomes if isinstance(outcome, StoreError)]
        if failed:
            if isinstance(failed[0], NOT_THE_ROWS) or len(failed) == len(outcomes) > 1:
                raise failed[0]
            await self._runtime.read(scans.peek, self.now)
        return outcomes

    def _note_enforced(self, enforced: Enforced, due_at: int, **ids: Any) -> None:
        """Count and log an enforcement. Its lateness counts from the first deadline that had passed."""
        self.report.count(enforced.kind.value)
        self._runs_ended = self._runs_ended or enforced.kind in RUN_KINDS
        self.report.note_lateness(enforced.at - min(due_at, enforced.deadline_at))
        self._event_log.enforced(enforced, **ids)

    def _set_aside(self, kind: str, outcome: Any, *, rows: int = 1, **ids: Any) -> bool:
        """Set a row aside if its change failed; return whether it did."""
        if not isinstance(outcome, Exception):
            return False
        self._aside[kind] += rows
        self.report.set_aside += rows
        reason = outcome.reason if isinstance(outcome, RefusedError) else type(outcome).__name__
        self._event_log.set_aside(reason, outcome, **ids)
        return True
