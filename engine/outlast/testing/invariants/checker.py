"""What must hold in a database at any moment: one checker, used at the end of every test of the engine.

It reads everything in one snapshot and compares the tables with the histories. A history is the truth: every row about
a run must equal what its history folds to. The checker shares no code with what writes the rows, so that it can find
the errors of that code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, Table

from outlast.testing.invariants.activities import check_activity, check_attempts, check_failures
from outlast.testing.invariants.activities import deadlines_of_activity as deadlines
from outlast.testing.invariants.alerts import check_alerts
from outlast.testing.invariants.attributes import check_attributes
from outlast.testing.invariants.chains import (
    check_chains,
    check_forks,
    check_instances,
    copied_point,
    is_reset,
)
from outlast.testing.invariants.dags import check_dag
from outlast.testing.invariants.debounces import check_debounces
from outlast.testing.invariants.events import check_events
from outlast.testing.invariants.outbox import check_outbox
from outlast.testing.invariants.owner_losses import check_owner_losses
from outlast.testing.invariants.parents import ENDS, check_parents
from outlast.testing.invariants.queues import check_queued, check_slots
from outlast.testing.invariants.requests import check_messages, check_requests, check_signals_applied
from outlast.testing.invariants.run_deadlines import check_lowered, last_lowering, run_deadline_of
from outlast.testing.invariants.schedules import check_schedules
from outlast.testing.invariants.streams import check_streams
from outlast.testing.invariants.waking import check_awake
from outlast_store.database.sql_text import columns_of, fetch
from outlast_store.schema import tables
from outlast_store.schema.rows import (
    ActivityRow,
    AlertRow,
    AlertTimerRow,
    AttemptRow,
    DebounceRow,
    FailureRow,
    InstanceRow,
    OutboxRow,
    QueueRow,
    RequestRow,
    RunRow,
    ScheduleRow,
    StreamItemRow,
    StreamRow,
)
from outlast_store.transitions.queued_runs import START_TIMER
from outlast_workflow.history import events
from outlast_workflow.history.events import Event
from outlast_workflow.history.transitions import STATUS_AFTER, check_history
from outlast_workflow.primitives.enums import RunStatus
from outlast_workflow.primitives.times import from_iso, iso, later, microseconds

WITH_FAILURE = frozenset({"failed", "timed_out", "cancelled", "terminated"})
SAME_IN_STARTED = (
    "workflow_id",
    "workflow_type",
    "task_queue",
    "first_run_id",
    "run_number",
    "attempt",
    "priority",
    "previous_run_id",
    "summary",
    "queue",
)

Timer = tuple[int, str | None]
"""When a timer fires, and its summary."""


def check_database(connection: Connection, *, deleting: bool = False, now: int | None = None) -> list[str]:
    """Return what is wrong in a database: one sentence for each violation.

    It reads everything in one snapshot: it is for tests, not for production.

    Args:
        connection: A connection in autocommit to a database at the newest schema, with no transaction open.
        deleting: Whether retention is running. It deletes the first runs of a chain before the last.
        now: The instant of the newest transaction, in microseconds, if it is known. Only alerts need it: those that
            nobody saw before their deadline are dropped without an event.
    """
    with _snapshot(connection):
        return _Checker(connection, deleting=deleting, now=now).check()


@contextmanager
def _snapshot(connection: Connection) -> Generator[None]:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # Between two statements it looks at what it has read, which takes long where that is much.
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    else:
        connection.exec_driver_sql("BEGIN")
    try:
        yield
    finally:
        connection.exec_driver_sql("ROLLBACK")


class History:
    """The history of one run."""

    __slots__ = ("events", "recorded_at", "seqs", "size")

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.events: list[Event] = []
        self.recorded_at: list[int] = []
        self.size = 0

    def of_type(self, *types: type[Event]) -> list[tuple[int, Any]]:
        """Return the events of these types with their seqs."""
        pairs = zip(self.seqs, self.events, strict=True)
        return [(seq, event) for seq, event in pairs if isinstance(event, types)]


class _Checker:
    """One check of a database."""

    def __init__(self, connection: Connection, *, deleting: bool = False, now: int | None = None) -> None:
        self.violations: list[str] = []
        self.now = now
        self.deleting = deleting
        self.instances = {row[0]: InstanceRow(*row) for row in _all(connection, tables.workflow_instances)}
        self.runs = {row[0]: RunRow(*row) for row in _all(connection, tables.workflow_runs)}
        self.queues = {row[0]: QueueRow(*row) for row in _all(connection, tables.queues)}
        self.histories = self._histories(connection)
        self.activities: dict[str, list[ActivityRow]] = defaultdict(list)
        for row in _all(connection, tables.activity_executions):
            self.activities[row[0]].append(ActivityRow(*row))
        self.attempts: dict[tuple[str, int], list[AttemptRow]] = defaultdict(list)
        for row in _all(connection, tables.activity_attempts):
            self.attempts[row[:2]].append(AttemptRow(*row))
        self.failures: dict[str, list[FailureRow]] = defaultdict(list)
        for row in _all(connection, tables.workflow_failures):
            self.failures[row[1]].append(FailureRow(*row))
        self.timers: dict[str, dict[int, Timer]] = defaultdict(dict)
        for run_id, timer_id, *timer in _all(connection, tables.timers):
            self.timers[run_id][timer_id] = (timer[0], timer[1])
        self.indexed: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for run_id, name, value in _all(connection, tables.search_attributes):
            self.indexed[run_id].add((name, value))
        self.requests = [RequestRow(*row) for row in _all(connection, tables.workflow_requests)]
        self.requests_of: dict[str, list[RequestRow]] = defaultdict(list)
        self.debounces = [DebounceRow(*row) for row in _all(connection, tables.debounces)]
        self.alert_timers = [AlertTimerRow(*row) for row in _all(connection, tables.alert_timers)]
        self.alerts = [AlertRow(*row) for row in _all(connection, tables.alerts)]
        self.outbox = [OutboxRow(*row) for row in _all(connection, tables.outbox)]
        self.published = _all(connection, tables.serverless_events)
        self.subscriptions = _all(connection, tables.serverless_subscriptions)
        self.schedules = [ScheduleRow(*row) for row in _all(connection, tables.schedules)]
        self.streams = [StreamRow(*row) for row in _all(connection, tables.streams)]
        self.items = [StreamItemRow(*row) for row in _all(connection, tables.stream_items)]
        for request in self.requests:
            self.requests_of[request.run_id].append(request)

    def _histories(self, connection: Connection) -> dict[str, History]:
        histories: dict[str, History] = defaultdict(History)
        for run_id, seq, kind, recorded_at, payload in _all(connection, tables.history_events):
            history = histories[run_id]
            history.seqs.append(seq)
            history.recorded_at.append(recorded_at)
            history.size += len(payload.encode())
            try:
                history.events.append(events.from_json(kind, payload))
            except Exception as error:
                self.say(f"run {run_id}", f"event {seq} ({kind}) cannot be read: {error!r:.200}")
                history.events.append(events.WorkflowReset(""))
        # Whoever asks for one that is gone must not make an empty one.
        return dict(histories)

    def say(self, where: str, what: str) -> None:
        self.violations.append(f"{where}: {what}")

    def check(self) -> list[str]:
        for run in self.runs.values():
            self.check_run(run)
        for orphan in sorted(
            {*self.histories, *self.activities, *self.timers, *self.failures} - self.runs.keys()
        ):
            self.say(f"run {orphan}", "has rows but is not in workflow_runs")
        for where, what in check_chains(self.runs, self.histories, deleting=self.deleting):
            self.say(where, what)
        for where, what in check_forks(self.runs, self.histories):
            self.say(where, what)
        for where, what in check_instances(self.instances, self.runs):
            self.say(where, what)
        for where, what in check_parents(self.runs, self.histories):
            self.say(where, what)
        histories = {run_id: history.events for run_id, history in self.histories.items()}
        for where, what in check_attributes(self.runs, histories, self.indexed):
            self.say(where, what)
        for where, what in check_requests(self.requests, self.runs, histories, deleting=self.deleting):
            self.say(where, what)
        activities = (row for rows in self.activities.values() for row in rows)
        for where, what in check_slots(self.queues, self.runs.values(), activities):
            self.say(where, what)
        for where, what in check_outbox(self.outbox, self.runs):
            self.say(where, what)
        for where, what in check_alerts(self.alert_timers, self.alerts, self.runs, self.activities, self.now):
            self.say(where, what)
        for where, what in check_events(self.published, self.subscriptions):
            self.say(where, what)
        for where, what in check_debounces(self.debounces, self.runs, histories):
            self.say(where, what)
        for where, what in check_schedules(self.schedules, self.runs, histories):
            self.say(where, what)
        found = check_streams(self.streams, self.items, self.runs, histories, deleting=self.deleting)
        for where, what in found:
            self.say(where, what)
        return self.violations

    # --- one run ----------------------------------------------------------------------------------------------------

    def check_run(self, run: RunRow) -> None:
        where = f"run {run.run_id} of {run.workflow_id}"
        history = self.histories.get(run.run_id)
        if history is None:
            self.say(where, "has no history")
            return
        self.check_events(where, run, history)
        self.check_started(where, run, history)
        self.check_state(where, run, history)
        self.check_end(where, run, history)
        self.check_deadline(where, run, history)
        self.check_timers(where, run, history)
        self.check_activities(where, run, history)
        for what in check_awake(run, history.events, self.requests_of[run.run_id]):
            self.say(where, what)
        for what in check_dag(history.events):
            self.say(where, what)
        for what in check_owner_losses(run, history.events[-1]):
            self.say(where, what)
        for what in check_queued(run, history.events, self.timers.get(run.run_id, ())):
            self.say(where, what)
        for what in check_messages(history.events):
            self.say(where, what)

    def check_events(self, where: str, run: RunRow, history: History) -> None:
        if history.seqs != list(range(1, len(history.seqs) + 1)):
            self.say(where, f"the seqs have gaps: {history.seqs[:20]}…")
        for violation in check_history(history.events):
            self.say(where, violation)
        for (seq, before), (_, after) in pairwise(enumerate(history.recorded_at, 1)):
            if after < before:
                self.say(where, f"event {seq + 1} was recorded {before - after} µs before event {seq}")
        if run.last_seq != history.seqs[-1]:
            self.say(where, f"last_seq is {run.last_seq}, the history ends at {history.seqs[-1]}")
        if run.last_event_at != history.recorded_at[-1]:
            self.say(where, "last_event_at is not when the last event was recorded")
        if run.history_bytes != history.size:
            self.say(where, f"history_bytes is {run.history_bytes}, the payloads have {history.size}")

    def check_started(self, where: str, run: RunRow, history: History) -> None:
        started = history.events[0]
        if not isinstance(started, events.WorkflowStarted):
            # check_history has reported it.
            return
        for name in SAME_IN_STARTED:
            if getattr(started, name) != getattr(run, name):
                self.say(
                    where,
                    f"WorkflowStarted says {name}={getattr(started, name)!r}, the row {getattr(run, name)!r}",
                )
        said = {
            "execution_deadline_at": started.execution_deadline_at,
            "run_deadline_at": run_deadline_of(history.events),
        }
        for name, instant in said.items():
            known: int | None = getattr(run, name)
            expected = iso(known) if known is not None else None
            # A run that goes back into its line has no run deadline until it leaves it.
            waits = run.queue is not None and name == "run_deadline_at" and known is None
            if instant != expected and not waits:
                self.say(where, f"the history says {name}={instant}, the row {expected}")
        for name, duration in (("execution", run.execution_timeout), ("run", run.run_timeout)):
            said = getattr(started, f"{name}_timeout_seconds")
            if (microseconds(said) if said is not None else None) != duration:
                self.say(where, f"WorkflowStarted says an {name} timeout of {said} s, the row {duration} µs")
            lowered = name == "run" and history.of_type(events.WorkflowDeadlineLowered)
            if (duration is None) != (getattr(run, f"{name}_deadline_at") is None) and not (
                (name == "execution" and duration is None and run.parent_close_policy == "terminate")
                # such a child has its parent's deadline
                or (lowered and duration is None)
                or (name == "run" and run.queue is not None and run.run_deadline_at is None)
            ):
                self.say(where, f"{name} timeout and {name} deadline are not both set")
        timeout, deadline = run.run_timeout, run.run_deadline_at
        # A queue may be admitted from by a process whose clock is behind that of the starter.
        known = timeout is not None and deadline is not None and run.queue is None
        limits = [event.timeout_seconds for _, event in history.of_type(events.WorkflowDeadlineLowered)]
        timeout = min([timeout or 0, *map(microseconds, limits)])
        if known and (deadline or 0) < later(run.created_at, timeout):
            self.say(where, "the run deadline comes before its timeout is over")
        for what in check_lowered(history.events):
            self.say(where, what)

    def check_state(self, where: str, run: RunRow, history: History) -> None:
        """Check that the row is what the history folds to."""
        last = history.events[-1]
        activated = history.of_type(events.WorkflowTaskCompleted)
        expected = STATUS_AFTER.get(last.type)
        if expected is None:
            expected = RunStatus.RUNNING if activated else RunStatus.PENDING
            if run.status == RunStatus.QUEUED:
                expected = RunStatus.QUEUED
        if run.status != expected:
            self.say(where, f"the status is {run.status}, the history says {expected.value}")
        limited = (
            getattr(last, "by", None) is not None
        )  # a limit may end the first workflow task: it leaves no record
        if (run.started_at is None) == bool(activated) and not limited:
            self.say(where, f"started_at is {run.started_at} after {len(activated)} workflow tasks")
        asked = history.of_type(events.WorkflowCancelRequested)
        if len(asked) > 1 or bool(asked) != (run.cancel_requested_at is not None):
            self.say(
                where, f"cancel_requested_at is {run.cancel_requested_at} with {len(asked)} cancel requests"
            )
        streak = False
        for seq, event in history.of_type(events.WorkflowTaskFailed, events.WorkflowTaskCompleted):
            failed = isinstance(event, events.WorkflowTaskFailed)
            if failed and streak:
                self.say(where, f"event {seq} is a second WorkflowTaskFailed of one streak")
            streak = failed
        if not last.terminal and streak != bool(run.task_failures):
            self.say(
                where,
                f"task_failures is {run.task_failures}, the history says {'some' if streak else 'none'}",
            )
        following = getattr(last, "next_run_id", None) if last.terminal else None
        if run.next_run_id != following and not (
            following is None and is_reset(self.histories.get(run.next_run_id or ""))
        ):
            self.say(where, f"next_run_id is {run.next_run_id}, the history says {following}")

    def check_end(self, where: str, run: RunRow, history: History) -> None:
        if run.status in ("queued", "pending", "running"):
            if run.closed_at is not None:
                self.say(where, f"is {run.status} but has closed_at")
            deadlines = (run.execution_deadline_at, run.run_deadline_at, run.start_deadline_at)
            known = [at for at in deadlines if at is not None]
            if run.next_deadline_at != min(known, default=None):
                self.say(where, f"next_deadline_at is {run.next_deadline_at}, not the lesser of {known}")
            return
        if run.closed_at != run.last_event_at:
            self.say(
                where, f"closed_at is {run.closed_at}, the last event was recorded at {run.last_event_at}"
            )
        for name in ("owner_id", "wake_at", "next_deadline_at", "attention"):
            if getattr(run, name) is not None:
                self.say(where, f"is {run.status} but has {name}={getattr(run, name)}")
        for what in check_signals_applied(history.events):
            self.say(where, what)
        failures = [one for one in self.failures[run.run_id] if one.event_seq == run.last_seq]
        if (run.status in WITH_FAILURE) != (len(failures) == 1):
            self.say(where, f"is {run.status} with {len(failures)} failure rows for its terminal event")
        last = history.events[-1]
        if isinstance(last, events.WorkflowTimedOut):
            if history.recorded_at[-1] < from_iso(last.deadline_at):
                self.say(
                    where, f"timed out at {history.recorded_at[-1]}, before its deadline {last.deadline_at}"
                )
            deadline = (
                run.execution_deadline_at if last.timeout_kind == "execution_timeout" else run.run_deadline_at
            )
            if last.timeout_kind != "schedule_to_start" and deadline != from_iso(last.deadline_at):
                self.say(
                    where, f"timed out by {last.timeout_kind} {last.deadline_at}, the row says {deadline}"
                )

    def check_deadline(self, where: str, run: RunRow, history: History) -> None:
        """Check that after a run's deadline only its timeout is recorded, with what it closes, and ends of children.

        The time of an event counts only if it is later than that of the event before. Time never goes back within a
        run, so that an event may have its predecessor's time after the clock was set back.
        """
        lowered_by, deadline_before = last_lowering(history.events)
        deadlines = [at for at in (run.execution_deadline_at, run.run_deadline_at) if at is not None]
        if not deadlines:
            return
        before_that = [at for at in (run.execution_deadline_at, deadline_before) if at is not None]
        timed_out = isinstance(history.events[-1], events.WorkflowTimedOut)
        stamped = list(zip(history.events, history.recorded_at, strict=True))
        first = max(copied_point(history) - 1, 0)
        for seq, ((_, before), (event, recorded_at)) in enumerate(pairwise(stamped[first:]), first + 2):
            known = deadlines if seq > lowered_by else before_that
            if not known or recorded_at < max(min(known), before + 1):
                continue
            closed_by_timeout = timed_out and getattr(event, "by", None) is not None
            if not closed_by_timeout and not isinstance(event, (events.WorkflowTimedOut, *ENDS)):
                self.say(where, f"{event.type} was recorded {recorded_at - min(known)} µs past the deadline")

    # --- what a run has open ----------------------------------------------------------------------------------------

    def check_timers(self, where: str, run: RunRow, history: History) -> None:
        open_timers: dict[int, Timer] = {}
        kinds = (events.TimerScheduled, events.TimerFired, events.TimerCancelled)
        for seq, event in history.of_type(*kinds):
            if isinstance(event, events.TimerScheduled):
                open_timers[event.command_id] = (event.fire_at, event.summary)
            else:
                fire_at, _ = open_timers.pop(event.command_id, (None, None))
                if isinstance(event, events.TimerFired) and fire_at != event.fire_at:
                    self.say(
                        where, f"timer {event.command_id} was set for {fire_at} and fired for {event.fire_at}"
                    )
                if isinstance(event, events.TimerFired) and history.recorded_at[seq - 1] < event.fire_at:
                    self.say(where, f"timer {event.command_id} fired early")
        found = {id: timer for id, timer in self.timers.get(run.run_id, {}).items() if id != START_TIMER}
        if found != open_timers:
            self.say(where, f"the open timers are {found}, the history says {open_timers}")
        if found and run.closed_at is not None:
            self.say(where, f"is {run.status} but has open timers {sorted(found)}")

    def check_activities(self, where: str, run: RunRow, history: History) -> None:
        scheduled = {
            event.command_id: (seq, event) for seq, event in history.of_type(events.ActivityScheduled)
        }
        kinds = (
            events.ActivityCompleted,
            events.ActivityFailed,
            events.ActivityTimedOut,
            events.ActivityCancelled,
        )
        ends: dict[int, list[tuple[int, Event]]] = defaultdict(list)
        for seq, event in history.of_type(*kinds):
            ends[event.command_id].append((history.recorded_at[seq - 1], event))
        rows = {row.activity_id: row for row in self.activities.get(run.run_id, ())}
        if rows.keys() != scheduled.keys():
            self.say(
                where,
                f"has rows of activities {sorted(rows.keys() ^ scheduled.keys())} or their events, not both",
            )
        for activity_id, row in rows.items():
            place = f"activity {activity_id} of {where}"
            attempts = self.attempts[(run.run_id, activity_id)]
            found = check_activity(row, scheduled.get(activity_id), ends[activity_id], attempts)
            found += deadlines(row)
            found += check_attempts(row, attempts)
            # A reset or a fork copies activities with their attempts, but not their failures.
            if not copied_point(history):
                found += check_failures(row, attempts, self.failures[run.run_id])
            if run.closed_at is not None and row.closed_at is None:
                found.append(f"is open, its run is {run.status}")
            for what in found:
                self.say(place, what)


def _all(connection: Connection, table: Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table in the order of its key."""
    key = ", ".join(column.name for column in table.primary_key)
    return fetch(connection, f"SELECT {', '.join(columns_of(table))} FROM {table.name} ORDER BY {key}")
