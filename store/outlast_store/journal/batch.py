"""A batch: some changes, the rows that they are about, and what they write in one transaction.

A :class:`Change` is a pure function of the rows that it names and of ``batch.now``. It first checks (and may raise
:class:`~outlast_workflow.errors.RefusedError`), then changes rows through the batch. Later changes of the same batch
see what earlier ones did. Rows, events, timers, attempts and failures reach the database in :meth:`Batch.flush`, which
writes one statement per table and shape. What has no such form is written at once (:meth:`Batch.execute`).

:mod:`outlast_store.journal.locked_rows` explains where the rows come from, :mod:`outlast_store.journal.row_sets` how
they are written, and :mod:`outlast_store.journal.open_items` what is open in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Table

from outlast_store.alerts.arming import Changed, arm
from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.sql_text import Values, columns_of
from outlast_store.database.statements import StaleRows as StaleRows
from outlast_store.database.statements import Statements
from outlast_store.journal.commit_news import ActivityKey as ActivityKey
from outlast_store.journal.commit_news import Answer
from outlast_store.journal.commit_news import Cache as Cache
from outlast_store.journal.commit_news import Committed as Committed
from outlast_store.journal.locked_rows import LockedRows
from outlast_store.journal.open_items import OpenItems
from outlast_store.journal.row_sets import StreamRows
from outlast_store.schema import search_index, tables
from outlast_store.schema.rows import (
    ActivityRow,
    AlertRow,
    AlertTimerKey,
    AlertTimerRow,
    AttemptRow,
    FailureRow,
    InstanceRow,
    QueueRow,
    RequestKey,
    RunRow,
    StreamItemRow,
    StreamKey,
)
from outlast_workflow.environment import Environment
from outlast_workflow.history.events import Event, UpdateAccepted
from outlast_workflow.options.activity import ALERTS

FAILED_RUN: Final = [column.name for column in tables.workflow_failures.columns].index("run_id")
"""The place of the run in the values of a failure row."""

T_co = TypeVar("T_co", covariant=True)

_ATTEMPT_KEY = ("run_id", "activity_id", "attempt")
_ATTEMPT_COLUMNS = columns_of(tables.activity_attempts)[len(_ATTEMPT_KEY) :]


class Change(Protocol[T_co]):
    """What is to be written about one or more runs, all of it or nothing."""

    @property
    def gates(self) -> Sequence[str]:
        """The queues whose gates it needs."""
        ...

    @property
    def awaits_gates(self) -> bool:
        """Whether it waits for those gates, rather than do without one that somebody else has."""
        ...

    @property
    def runs(self) -> Sequence[str]:
        """The ids of the runs that it reads or changes."""
        ...

    @property
    def activities(self) -> Sequence[ActivityKey]:
        """The activities that it reads or changes."""
        ...

    @property
    def timers(self) -> Sequence[tuple[str, int]]:
        """The timers that it reads, of runs that it names."""
        ...

    @property
    def streams(self) -> Sequence[StreamKey]:
        """The streams that it writes to, of chains whose runs it names."""
        ...

    @property
    def closes(self) -> Sequence[str]:
        """The runs that it is likely to close: what is open in them is read for the whole batch at once."""
        ...

    @property
    def instances(self) -> Sequence[str]:
        """The workflow ids whose instance rows it may change."""
        ...

    @property
    def new_instances(self) -> Sequence[InstanceRow]:
        """The instance rows that it makes unless they are there already."""
        ...

    @property
    def needs_locks(self) -> bool:
        """Whether it always needs rows read under their locks (:meth:`Batch.require_locks`).

        If so, cached rows are not tried.
        """
        ...

    @property
    def weight(self) -> int:
        """Roughly how many bytes it writes."""
        ...

    def apply(self, batch: Batch) -> T_co:
        """Check the rows, then raise ``RefusedError`` or change them, and return what was done."""
        ...


class BaseChange:
    """The defaults of a change: it names no rows and is light."""

    gates: Sequence[str] = ()
    awaits_gates: bool = False
    runs: Sequence[str] = ()
    activities: Sequence[ActivityKey] = ()
    streams: Sequence[StreamKey] = ()
    instances: Sequence[str] = ()
    closes: Sequence[str] = ()
    timers: Sequence[tuple[str, int]] = ()
    new_instances: Sequence[InstanceRow] = ()
    needs_locks: bool = False
    weight: int = 1024


class Batch(LockedRows):
    """The rows of some changes, under their locks or trusted from the cache, and what the changes write."""

    def __init__(
        self, raw: RawConnection, statements: Statements, cache: Cache | None, environment: Environment
    ) -> None:
        super().__init__(raw, statements, cache)
        self._clock = environment.clock
        self.ids = environment.ids
        self.random = environment.random.random
        self.now = 0
        """The instant of the transaction, in microseconds since the epoch."""
        self.change: object = None
        """The change that is being applied."""
        self.answered: dict[RequestKey, Answer] = {}
        self.asked = False
        self.memo: dict[str, Any] = {}
        """What its changes have read once for all of them."""
        self._open: OpenItems | None = None
        self._updates: dict[str, list[UpdateAccepted]] = {}
        self._events: list[Values] = []
        self._appended: dict[str, list[tuple[int, Event, object]]] = {}
        self.queues: dict[str, QueueRow] = {}
        """The queues' rows that this batch has written."""
        self.totals: dict[str, tuple[int, int]] = {}
        """By chain, how many items its streams have, and their size: as read, with what this batch has written."""
        self._stream_items: list[Values] = []
        self._attempts: list[Values] = []
        self._failures: list[Values] = []
        self._alerts: dict[tuple[Any, ...], AlertRow] = {}
        self._disarmed: list[AlertTimerKey] = []
        self._missed_alerts: list[AlertTimerRow] = []
        self._at_end: list[Callable[[frozenset[str]], None]] = []
        self._due: list[int] = []
        self._touched = False

    def load(self, changes: Sequence[Change[Any]]) -> None:
        """Lock and read what the changes name, then take the time: ``now`` is not before any lock was granted."""
        gates: set[str] = set()
        awaited: set[str] = set()
        runs: set[str] = set()
        activities: set[ActivityKey] = set()
        timers: set[tuple[str, int]] = set()
        closing: set[str] = set()
        instances: set[str] = set()
        streams: list[StreamKey] = []
        wanted: dict[str, InstanceRow] = {}
        for change in changes:
            if change.gates:
                (awaited if change.awaits_gates else gates).update(change.gates)
            runs.update(change.runs)
            activities.update(change.activities)
            timers.update(change.timers)
            closing.update(change.closes)
            instances.update(change.instances)
            if change.streams:
                streams += change.streams
            for instance in change.new_instances:
                if instance.workflow_id not in wanted:
                    wanted[instance.workflow_id] = instance.copy()
        if awaited or gates:
            self.load_gates(awaited, gates)
        if wanted or instances:
            self.load_instances(wanted, instances, runs, self._clock.now() if wanted else 0)
        if runs:
            self._trusted_runs += self.run_rows.load(self.raw, self._statements, runs, self._cached_runs)
        if activities:
            self._trusted_activities += self.activity_rows.load(
                self.raw, self._statements, activities, self._cached_activities
            )
        if streams:
            self.load_streams(streams)
        if timers:
            self._items.read_timers(self, sorted(timers))
        if len(closing) > 1:
            self._items.prefetch(self, sorted(closing))
        self.now = self._clock.now()

    # --- what is open in a run --------------------------------------------------------------------------------------

    @property
    def _items(self) -> OpenItems:
        """What is open in runs; made for the first change that asks, or has a timer."""
        if self._open is None:
            self._open = OpenItems()
        return self._open

    def open_activities(self, run_id: str) -> list[ActivityRow]:
        """Return the run's open activities, locked, in the order in which they were scheduled."""
        return self._items.activities(self, run_id)

    def open_timers(self, run_id: str) -> list[int]:
        """Return the run's open timers."""
        return self._items.timers(self, run_id)

    def has_open_children(self, run_id: str) -> bool:
        """Return whether a child that the run started is still open."""
        return self._items.has_children(self, run_id)

    def timers(self, run_id: str, timer_ids: Sequence[int]) -> dict[int, int]:
        """Return when those of the run's timers fire that are open; the change has named them."""
        return self._items.fire_times(run_id, timer_ids)

    # --- writing ----------------------------------------------------------------------------------------------------

    def begin(self, change: object) -> None:
        """Begin the next change."""
        self.change = change
        self._touched = False

    @property
    def touched(self) -> bool:
        """Whether the change being applied has written anything yet."""
        return self._touched

    def append(self, run: RunRow, event: Event) -> int:
        """Append an event to a run's history and return its seq. The time of a run's events never falls."""
        if run.closed_at is not None:
            raise AssertionError(f"{event.type} after the terminal event of run {run.run_id}")
        self._touched = True
        seq = run.last_seq + 1
        recorded_at = run.last_event_at if run.last_event_at > self.now else self.now
        payload = event.to_json()
        self._events.append((run.run_id, seq, event.type, recorded_at, payload.decode()))
        run.last_seq = seq
        run.last_event_at = recorded_at
        run.history_bytes += len(payload)
        appended = self._appended.get(run.run_id)
        if appended is None:
            appended = self._appended[run.run_id] = []
        appended.append((seq, event, self.change))
        return seq

    def appended(self, run_id: str) -> Sequence[tuple[int, Event, object]]:
        """Return the events that this batch has appended to a run so far, each with its seq and its change."""
        return self._appended.get(run_id, ())

    def event_types(self, run_id: str, after_seq: int) -> list[str]:
        """Return the types of the run's events after a seq, those of this batch included."""
        text = "SELECT type FROM history_events WHERE run_id = ? AND seq > ? ORDER BY seq"
        types = [row[0] for row in self.scan(text, (run_id, after_seq))]
        types += [event.type for seq, event, _ in self._appended.get(run_id, ()) if seq > after_seq]
        return types

    def add_run(self, row: RunRow) -> RunRow:
        """Insert a run; the batch works on its own copy, which it returns."""
        self._touched = True
        row = row.copy()
        self.run_rows[row.run_id] = row
        if row.parent_run_id is not None:
            self.children.setdefault(row.parent_run_id, []).append(row.run_id)
        if row.search_attributes is not None:
            search_index.index(self.execute, row)
        return row

    def adopt(self, child: RunRow, run_id: str, command_id: int) -> None:
        """Make a run the child of another one.

        Args:
            child: The run, locked.
            run_id: Its parent.
            command_id: The parent's command.
        """
        child.parent_run_id = run_id
        child.parent_command_id = command_id
        self.children.setdefault(run_id, []).append(child.run_id)

    def confirm_instance(self, row: InstanceRow) -> None:
        """Keep the instance row that was made for a start, now that the start takes it."""
        self._touched = True
        self._unconfirmed.discard(row.workflow_id)
        made = self.instance_rows[row.workflow_id]
        made.current_run_id, made.workflow_type = row.current_run_id, row.workflow_type

    def insert(self, table: Table, rows: Sequence[Values]) -> None:
        """Insert whole rows at once: those that no other change of the batch reads."""
        self._touched = True
        self._statements.insert(self.raw, table, rows)

    def make_queue(self, row: QueueRow) -> bool:
        """Insert a queue's row; ``False`` if another transaction has made one."""
        made = bool(self._statements.insert_new(self.raw, tables.queues, [tuple(vars(row).values())]))
        if made:
            self.note_queue(row)
        return made

    def note_queue(self, row: QueueRow) -> None:
        """Note that a queue's row was written: later changes of the batch go by it, and the commit tells of it."""
        self._touched = True
        self.queues[row.queue] = row
        self.gates[row.queue] = row

    def add_activity(self, row: ActivityRow) -> None:
        """Insert an activity."""
        self.activity_rows[row.run_id, row.activity_id] = row

    def add_timer(self, run_id: str, timer_id: int, fire_at: int, summary: str | None = None) -> None:
        """Insert a timer.

        Args:
            run_id: Its run.
            timer_id: The command that started it.
            fire_at: When it fires, in microseconds since the epoch.
            summary: What it is for.
        """
        self._items.added_timers[run_id, timer_id] = fire_at
        if summary is not None:
            self._items.summaries[run_id, timer_id] = summary

    def remove_timer(self, run_id: str, timer_id: int) -> None:
        """Delete a timer, whether it is there or not."""
        self._touched = True
        self._items.remove_timer((run_id, timer_id))

    def add_attempt(self, row: AttemptRow) -> None:
        """Insert the row of an attempt that did not succeed."""
        self._attempts.append(tuple(vars(row).values()))

    @property
    def attempts(self) -> list[AttemptRow]:
        """The rows of attempts that this batch has inserted so far."""
        return [AttemptRow(*values) for values in self._attempts]

    def change_attempt(self, row: AttemptRow) -> None:
        """Write the row of an attempt that this batch or an earlier one has inserted."""
        values = tuple(vars(row).values())
        key = values[: len(_ATTEMPT_KEY)]
        for place, inserted in enumerate(self._attempts):
            if inserted[: len(key)] == key:
                self._attempts[place] = values
                return
        self._touched = True
        changed = (*values[len(key) :], *key)
        self._statements.update(self.raw, tables.activity_attempts, _ATTEMPT_KEY, _ATTEMPT_COLUMNS, [changed])

    def add_stream_item(self, row: StreamItemRow) -> None:
        """Insert an item of a stream, which a change of the stream's row makes room for."""
        self._touched = True
        self._stream_items.append(tuple(vars(row).values()))

    def add_instance(self, row: InstanceRow) -> None:
        """Insert the instance of a workflow id that nobody else can have."""
        self.instance_rows[row.workflow_id] = row

    def fire_alert(self, row: AlertRow) -> bool:
        """Insert the row of an alert, unless its mark was fired before; return whether this batch has not done so."""
        self._touched = True
        return self._alerts.setdefault(row.once, row) is row

    def at_end(self, step: Callable[[frozenset[str]], None]) -> None:
        """Call a step before the batch is written, with the ids of the alerts that it has fired."""
        self._at_end.append(step)

    def fired(self, row: AlertRow) -> bool:
        """Return whether this batch has fired the same mark already."""
        return row.once in self._alerts

    def disarm(self, row: AlertTimerRow, *, missed: bool = False) -> None:
        """Delete what is armed, since it was fired, or can be fired no more.

        Args:
            row: What is armed.
            missed: Whether it comes to nothing because nobody saw it before its deadline.
        """
        self._touched = True
        self._disarmed.append(row.key)
        if missed:
            self._missed_alerts.append(row)

    def add_failure(self, row: FailureRow) -> None:
        """Insert a failure row."""
        self._failures.append(tuple(vars(row).values()))

    def note_update(self, run_id: str, event: UpdateAccepted) -> None:
        """Tell the owner of a run, if it is in this process, of an update that the run's inbox now counts.

        Args:
            run_id: The run.
            event: What the update becomes if it is accepted.
        """
        self._updates.setdefault(run_id, []).append(event)

    def note_due(self, at: int) -> None:
        """Tell the watchdog of this process when a row that it does not hear of otherwise will be due."""
        self._due.append(at)

    def execute(self, text: str, values: Values) -> int:
        """Run a writing statement (with ``?`` marks) that has no batch form; return how many rows it changed."""
        changed: int = self.raw.exec_driver_sql(self.raw.marked(text), values).rowcount
        if changed:
            self._touched = True
        return changed

    # --- the end ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write everything: one statement per table and shape.

        Raises:
            StaleRows: A cached row was not what the database holds. PostgreSQL says so by an error of its own.
        """
        raw, statements = self.raw, self._statements
        if self._alerts:
            self._insert_alerts()
        if self._unconfirmed:
            keys = [(key,) for key in sorted(self._unconfirmed)]
            statements.delete(raw, tables.workflow_instances, ("workflow_id",), keys)
            for key in self._unconfirmed:
                del self.instance_rows[key]
        if self.instance_rows:
            self.instance_rows.write(raw, statements)
        if self.run_rows:
            self.run_rows.write(raw, statements)
        if self.activity_rows:
            self.activity_rows.write(raw, statements)
        if self._events:
            statements.insert(raw, tables.history_events, self._events)
        if self._open is not None:
            self._open.write(raw, statements)
        if self._attempts:
            statements.insert(raw, tables.activity_attempts, self._attempts)
        if self._failures:
            statements.insert(raw, tables.workflow_failures, self._failures)
        if self.stream_rows is not None:
            self._write_streams(self.stream_rows)
        # Without a function of their own, because nearly no row has a policy.
        runs: list[Changed] = []
        activities: list[Changed] = []
        for run_id, run in self.run_rows.items():
            if run.alerts is not None:
                runs.append((run.__dict__, self.run_rows.before.get(run_id)))
        for activity_key, activity in self.activity_rows.items():
            if ALERTS in activity.options:
                activities.append((activity.__dict__, self.activity_rows.before.get(activity_key)))
        if runs or activities or self._disarmed:
            self._due += arm(raw, statements, self.now, runs, activities, self._disarmed)

    def _insert_alerts(self) -> None:
        """Write the alerts that were fired, and do what is to be done about them."""
        rows = {row.alert_id: row for row in self._alerts.values()}
        new = [tuple(vars(row).values()) for row in rows.values()]
        made = frozenset(self._statements.insert_new(self.raw, tables.alerts, new))
        self._alerts = {row.once: row for alert_id, row in rows.items() if alert_id in made}
        for step in self._at_end:
            step(made)

    def _write_streams(self, rows: StreamRows) -> None:
        """Write the streams and their new items. A stream that nothing was written to after all is not made."""
        unused = sorted(key for key, row in rows.items() if row.version == 0)
        for key in unused:
            del rows[key]
        made = [key for key in unused if key in self._made_streams]
        if made:
            self._statements.delete(self.raw, StreamRows.table, StreamRows.key, made)
        rows.write(self.raw, self._statements)
        if self._stream_items:
            self._statements.insert(self.raw, tables.stream_items, self._stream_items)

    def committed(self) -> Committed:
        """Return what a commit makes true of what :meth:`flush` has written."""
        committed = Committed(self.now)
        committed.events = self._appended
        known = self.run_rows.before
        for run_id, row in self.run_rows.items():
            before = known.get(run_id)
            if row.__dict__ != before:
                committed.runs[run_id] = row
                if before is None:
                    committed.begun.append(run_id)
                if row.closed_at is not None:
                    committed.ended.append(run_id)
        was = self.activity_rows.before
        for key, activity in self.activity_rows.items():
            if activity.__dict__ != was.get(key):
                committed.activities.append(activity)
        committed.attempts = self._attempts
        if self._failures:
            committed.failures = self._failures
            run_ids = [values[FAILED_RUN] for values in self._failures]
            committed.failed_runs = {
                run_id: self.run_rows[run_id] for run_id in run_ids if run_id in self.run_rows
            }
        if self._alerts or self._missed_alerts:
            committed.alerts = [*self._alerts.values()]
            committed.missed_alerts = self._missed_alerts
        committed.queues = self.queues
        if self.stream_rows is not None:
            read = self.stream_rows.before
            committed.streams = {
                name: stream
                for name, stream in self.stream_rows.items()
                if name not in read or stream.version != read[name]["version"]
            }
        committed.timers = self._due
        if self._open is not None:
            committed.timers += self._open.added_timers.values()
        if self._updates:
            committed.updates = self._updates
        committed.answered = self.answered
        committed.asked = self.asked
        return committed
