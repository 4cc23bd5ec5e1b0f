"""A batch: the rows that some changes are about, and what the changes make of them, until one transaction writes it.

A :class:`Change` is a pure function of the rows that it names and of ``batch.now``. It first looks (and may raise
:class:`~outlast_workflow.errors.RefusedError`), then changes rows through the batch; later changes of the same batch
see what earlier ones did. Nothing reaches the database before :meth:`Batch.flush`, which writes one statement per table
and shape.

**Optimistic rows.** A row that only this process writes (its worker owns the run, or runs the activity) may come from a
cache instead of being read under a lock. The ``UPDATE`` then proves that it was right: it is a
compare-and-set on what the row was. Where it was not, :class:`StaleRows` is raised and the whole batch runs again with
every row read under its lock. A decision *against* a caller is never taken on cached rows: :meth:`Batch.require_locks`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import orjson
from sqlalchemy import Table

from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.sql_text import Values
from outlast_store.database.statements import StaleRows as StaleRows
from outlast_store.database.statements import Statements
from outlast_store.journal.commit_news import ActivityKey as ActivityKey
from outlast_store.journal.commit_news import Answer
from outlast_store.journal.commit_news import Cache as Cache
from outlast_store.journal.commit_news import Committed as Committed
from outlast_store.schema import search_index, tables
from outlast_store.schema.rows import (
    ActivityRow,
    AttemptRow,
    FailureRow,
    InstanceRow,
    RequestKey,
    Row,
    RunRow,
)
from outlast_workflow.environment import Environment
from outlast_workflow.history.events import Event

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R", bound=Row)


class Change(Protocol[T_co]):
    """What is to be written about one or more runs, all or nothing."""

    @property
    def runs(self) -> Sequence[str]:
        """The ids of the runs that it looks at."""
        ...

    @property
    def activities(self) -> Sequence[ActivityKey]:
        """The activities that it looks at."""
        ...

    @property
    def timers(self) -> Sequence[tuple[str, int]]:
        """The timers that it looks at, of runs that it names."""
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
        """The instance rows that it would like to make."""
        ...

    @property
    def needs_locks(self) -> bool:
        """Whether it is known to need rows read under their lock (:meth:`Batch.require_locks`).

        Cached ones are not tried.
        """
        ...

    @property
    def weight(self) -> int:
        """Roughly how many bytes it writes."""
        ...

    def apply(self, batch: Batch) -> T_co:
        """Look at the rows, raise ``RefusedError`` or change them, and say what was done."""
        ...


class BaseChange:
    """The defaults of a change: it names no rows and is light."""

    runs: Sequence[str] = ()
    activities: Sequence[ActivityKey] = ()
    instances: Sequence[str] = ()
    closes: Sequence[str] = ()
    timers: Sequence[tuple[str, int]] = ()
    new_instances: Sequence[InstanceRow] = ()
    needs_locks: bool = False
    weight: int = 1024


class Entry(Generic[R]):
    """A row in a batch: as it is being made, and as it was (``None``: it is new)."""

    __slots__ = ("before", "row")

    def __init__(self, row: R, before: dict[str, Any] | None) -> None:
        self.row = row
        self.before = before


class Opened:
    """What was open in a run when its batch began: for changes that close it."""

    __slots__ = ("activities", "children", "timers")

    def __init__(self) -> None:
        self.activities: list[int] = []
        self.timers: list[int] = []
        self.children: list[str] = []


RUN_GUARD = ("run_id", "fence", "last_seq", "inbox")
ACTIVITY_GUARD = ("run_id", "activity_id", "attempt", "status")


class Batch:
    """The rows of some changes, in memory, under their locks or trusted from the cache."""

    def __init__(
        self, link: RawConnection, statements: Statements, cache: Cache | None, environment: Environment
    ) -> None:
        self.link = link
        self.ids = environment.ids
        self.random = environment.random.random
        self.now = 0
        self.change: object = None
        self._statements = statements
        self._cache = cache
        self._trusted_runs: list[str] = []
        self._trusted_activities: list[ActivityKey] = []
        self._instances: dict[str, Entry[InstanceRow]] = {}
        self._unconfirmed: set[str] = set()
        self._runs: dict[str, Entry[RunRow]] = {}
        self._activities: dict[ActivityKey, Entry[ActivityRow]] = {}
        self._events: list[Values] = []
        self._appended: dict[str, list[tuple[int, Event, object]]] = {}
        self._timers: dict[tuple[str, int], int] = {}
        self._fired: set[tuple[str, int]] = set()
        self._attempts: list[Values] = []
        self._failures: list[Values] = []
        self._touched = False
        self._opened: dict[str, Opened] = {}
        self._named_timers: dict[tuple[str, int], int | None] = {}
        self.answered: dict[RequestKey, Answer] = {}
        self.asked = False

    # --- reading ----------------------------------------------------------------------------------------------------

    def load(self, changes: Sequence[Change[Any]], now: int) -> None:
        """Lock and read what the changes name, in the one order: new instances, instances, runs, activities."""
        runs: set[str] = set()
        activities: set[ActivityKey] = set()
        instances: set[str] = set()
        wanted: dict[str, InstanceRow] = {}
        for change in changes:
            runs.update(change.runs)
            instances.update(change.instances)
            activities.update(change.activities)
            for instance in change.new_instances:
                if instance.workflow_id not in wanted:
                    wanted[instance.workflow_id] = instance.copy()
        if wanted or instances:
            self._load_instances(wanted, instances, runs, now)
        if runs:
            self._load_runs(runs)
        if activities:
            self._load_activities(activities)
        timers = {key for change in changes for key in change.timers}
        if timers:
            self._read_timers(sorted(timers))
        closing = {run_id for change in changes for run_id in change.closes}
        if len(closing) > 1:
            self._look_into(sorted(closing))

    def _read_timers(self, keys: list[tuple[str, int]]) -> None:
        """When the timers that changes name fire; their runs are locked."""
        self._named_timers = dict.fromkeys(keys)
        for run_id, timer_id, fire_at in self.read(tables.timers, ("run_id", "timer_id"), keys):
            self._named_timers[run_id, timer_id] = fire_at

    def _look_into(self, run_ids: list[str]) -> None:
        """What is open in runs that are about to be closed: a statement a table for all of them, not for each."""
        values = (orjson.dumps(run_ids).decode(),) if self.link.qmark else (run_ids,)
        among = "IN (SELECT value FROM json_each(?))" if self.link.qmark else "= ANY(?)"
        opened: dict[str, Opened] = {run_id: Opened() for run_id in run_ids}
        text = (
            f"SELECT run_id, activity_id FROM activity_executions WHERE closed_at IS NULL AND run_id {among}"
        )
        for run_id, activity_id in self._scan(text, values):
            opened[run_id].activities.append(activity_id)
        for run_id, timer_id in self._scan(
            f"SELECT run_id, timer_id FROM timers WHERE run_id {among}", values
        ):
            opened[run_id].timers.append(timer_id)
        text = f"SELECT parent_run_id, run_id FROM workflow_runs WHERE parent_run_id {among} AND closed_at IS NULL"
        for parent_run_id, run_id in self._scan(text, values):
            opened[parent_run_id].children.append(run_id)
        self._opened = opened

    def _load_instances(
        self, wanted: dict[str, InstanceRow], named: set[str], runs: set[str], now: int
    ) -> None:
        new: set[str] = set()
        if wanted:
            for instance in wanted.values():
                instance.created_at = now
            rows = [tuple(vars(wanted[key]).values()) for key in sorted(wanted)]
            new = self._statements.insert_new(self.link, tables.workflow_instances, rows)
            for key in new:
                self._instances[key] = Entry(wanted[key], dict(vars(wanted[key])))
            self._unconfirmed = new
        known = sorted((wanted.keys() | named) - new)
        if known:
            for row in self._lock_instances(known):
                if row.workflow_id in wanted:
                    runs.add(row.current_run_id)

    def _lock_instances(self, workflow_ids: Sequence[str]) -> list[InstanceRow]:
        found = self._statements.lock(
            self.link, tables.workflow_instances, ("workflow_id",), [(key,) for key in workflow_ids]
        )
        rows = [InstanceRow(*values) for values in found]
        for row in rows:
            self._instances[row.workflow_id] = Entry(row, dict(vars(row)))
        return rows

    def _load_runs(self, run_ids: set[str]) -> None:
        missing: list[Values] = []
        for run_id in sorted(run_ids):
            trusted = self._cache.runs.get(run_id) if self._cache is not None else None
            if trusted is None:
                missing.append((run_id,))
            else:
                self._runs[run_id] = Entry(trusted.copy(), trusted.__dict__)
                self._trusted_runs.append(run_id)
        if missing:
            for values in self._statements.lock(self.link, tables.workflow_runs, ("run_id",), missing):
                row = RunRow(*values)
                self._runs[row.run_id] = Entry(row, dict(vars(row)))

    def _load_activities(self, keys: Iterable[ActivityKey]) -> None:
        missing: list[Values] = []
        for key in sorted(keys):
            trusted = self._cache.activities.get(key) if self._cache is not None else None
            if trusted is None:
                missing.append(key)
            else:
                self._activities[key] = Entry(trusted.copy(), trusted.__dict__)
                self._trusted_activities.append(key)
        if missing:
            found = self._statements.lock(
                self.link, tables.activity_executions, ("run_id", "activity_id"), missing
            )
            for values in found:
                self._admit(values)

    def _admit(self, values: Values) -> ActivityRow:
        """The batch's row for an activity just read under its lock (an earlier change may have changed it)."""
        key = (values[0], values[1])
        entry = self._activities.get(key)
        if entry is None:
            row = ActivityRow(*values)
            entry = self._activities[key] = Entry(row, dict(vars(row)))
        return entry.row

    def require_locks(self) -> None:
        """Before deciding against a caller: be sure that every row was read under its lock."""
        if self._trusted_runs or self._trusted_activities:
            raise StaleRows

    def trusted(self) -> tuple[list[str], list[ActivityKey]]:
        """The rows that came from the cache."""
        return self._trusted_runs, self._trusted_activities

    def run(self, run_id: str) -> RunRow | None:
        """A run that a change named (or that an earlier change of the batch made)."""
        entry = self._runs.get(run_id)
        return entry.row if entry is not None else None

    def activity(self, run_id: str, activity_id: int) -> ActivityRow | None:
        """An activity that a change named (or that an earlier change of the batch made)."""
        entry = self._activities.get((run_id, activity_id))
        return entry.row if entry is not None else None

    def instance(self, workflow_id: str) -> InstanceRow | None:
        """The instance, or ``None`` where it is new in this batch and nobody has started it yet."""
        if workflow_id in self._unconfirmed:
            return None
        entry = self._instances.get(workflow_id)
        return entry.row if entry is not None else None

    def more_runs(self, run_ids: Iterable[str]) -> None:
        """Lock runs that a change learns of only while it is applied."""
        unknown = {run_id for run_id in run_ids if run_id not in self._runs}
        if unknown:
            self._load_runs(unknown)

    def lock_instance(self, workflow_id: str) -> InstanceRow | None:
        """Lock an instance that a change learns of only while it is applied."""
        if workflow_id not in self._instances:
            self._lock_instances([workflow_id])
        return self.instance(workflow_id)

    def lock_activities(self, keys: Sequence[ActivityKey], *, skip: bool = False) -> list[ActivityRow]:
        """Lock activities found by a scan; ``skip`` passes over those that another transaction holds."""
        if not keys:
            return []
        found = self._statements.lock(
            self.link, tables.activity_executions, ("run_id", "activity_id"), sorted(keys), skip=skip
        )
        return [self._admit(values) for values in found]

    def lock_runs(self, run_ids: Sequence[str], *, skip: bool = False) -> list[RunRow]:
        """Lock runs found by a scan; ``skip`` passes over those that another transaction holds."""
        if not run_ids:
            return []
        rows: list[RunRow] = []
        for values in self._statements.lock(
            self.link, tables.workflow_runs, ("run_id",), [(key,) for key in sorted(run_ids)], skip=skip
        ):
            entry = self._runs.get(values[0])
            if entry is None:
                row = RunRow(*values)
                entry = self._runs[row.run_id] = Entry(row, dict(vars(row)))
            rows.append(entry.row)
        return rows

    @property
    def runs_taken(self) -> int:
        """How many runs that had no owner have one since changes of this batch; a scan does not see that yet."""
        entries = self._runs.values()
        return sum(
            entry.row.owner_id is not None
            for entry in entries
            if entry.before is not None and entry.before["owner_id"] is None
        )

    @property
    def activities_taken(self) -> int:
        """How many activities that were pending are not since changes of this batch; a scan does not see that yet."""
        entries = self._activities.values()
        return sum(
            entry.row.status != "pending"
            for entry in entries
            if entry.before is not None and entry.before["status"] == "pending"
        )

    def open_activities(self, run_id: str) -> list[ActivityRow]:
        """The run's activities that are still open, locked, in the order in which they were scheduled."""
        known = self._opened.get(run_id)
        if known is not None:
            keys = [(run_id, activity_id) for activity_id in known.activities]
        else:
            text = "SELECT activity_id FROM activity_executions WHERE run_id = ? AND closed_at IS NULL"
            keys = [(run_id, row[0]) for row in self._scan(text, (run_id,))]
        for key, entry in self._activities.items():
            if key[0] == run_id and entry.before is None:
                keys.append(key)
        self.lock_activities([key for key in keys if key not in self._activities])
        rows = [self._activities[key].row for key in keys]
        return sorted((row for row in rows if row.is_open), key=lambda row: row.activity_id)

    def open_timers(self, run_id: str) -> list[int]:
        """The run's timers that are still open."""
        known = self._opened.get(run_id)
        if known is not None:
            found = set(known.timers)
        else:
            found = {row[0] for row in self._scan("SELECT timer_id FROM timers WHERE run_id = ?", (run_id,))}
        found.update(timer for run, timer in self._timers if run == run_id)
        return sorted(timer for timer in found if (run_id, timer) not in self._fired)

    def has_open_children(self, run_id: str) -> bool:
        """Whether a child that the run started is still open."""
        mine = [entry.row for entry in self._runs.values() if entry.row.parent_run_id == run_id]
        if any(row.is_open for row in mine):
            return True
        known = {row.run_id for row in mine}
        opened = self._opened.get(run_id)
        if opened is not None:
            return any(child not in known for child in opened.children)
        text = "SELECT run_id FROM workflow_runs WHERE parent_run_id = ? AND closed_at IS NULL LIMIT ?"
        return any(row[0] not in known for row in self._scan(text, (run_id, len(known) + 1)))

    def timer(self, run_id: str, timer_id: int) -> int | None:
        """When an open timer fires, or ``None`` where there is none."""
        key = (run_id, timer_id)
        if key in self._fired:
            return None
        if key in self._timers:
            return self._timers[key]
        rows = self._scan("SELECT fire_at FROM timers WHERE run_id = ? AND timer_id = ?", key)
        return int(rows[0][0]) if rows else None

    def timers(self, run_id: str, timer_ids: Sequence[int]) -> dict[int, int]:
        """When those of the run's timers fire that are open; the change has named them."""
        found: dict[int, int] = {}
        for timer_id in timer_ids:
            fire_at = self._named_timers[run_id, timer_id]
            if fire_at is not None:
                found[timer_id] = fire_at
            key = (run_id, timer_id)
            if key in self._timers:
                found[timer_id] = self._timers[key]
            elif key in self._fired:
                found.pop(timer_id, None)
        return found

    def event_types(self, run_id: str, after_seq: int) -> list[str]:
        """The types of the run's events after a seq, those of this batch included."""
        text = "SELECT type FROM history_events WHERE run_id = ? AND seq > ? ORDER BY seq"
        types = [row[0] for row in self._scan(text, (run_id, after_seq))]
        types += [event.type for seq, event, _ in self._appended.get(run_id, ()) if seq > after_seq]
        return types

    def appended(self, run_id: str) -> Sequence[tuple[int, Event, object]]:
        """The events that this batch has appended to a run so far."""
        return self._appended.get(run_id, ())

    def scan(self, text: str, values: Values) -> list[Values]:
        """Rows of a read-only statement written with ``?`` marks."""
        return self._scan(text, values)

    def read(self, table: Table, keys: tuple[str, ...], rows: Sequence[Values]) -> list[Values]:
        """Whole rows by key, in no order, without locks: for what never changes once it is there."""
        return self._statements.read(self.link, table, keys, rows)

    def _scan(self, text: str, values: Values) -> list[Values]:
        found: list[Values] = self.link.exec_driver_sql(self.link.marked(text), values).fetchall()
        return found

    # --- writing ----------------------------------------------------------------------------------------------------

    def begin(self, change: object) -> None:
        """The next change starts."""
        self.change = change
        self._touched = False

    @property
    def touched(self) -> bool:
        """Whether the change being applied has written anything yet."""
        return self._touched

    def append(self, run: RunRow, event: Event) -> int:
        """Append an event to a run's history; the run's time never falls. Returns the seq."""
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

    def add_run(self, row: RunRow) -> RunRow:
        """Insert a run; the batch works on its own copy, which it returns."""
        self._touched = True
        row = row.copy()
        self._runs[row.run_id] = Entry(row, None)
        if row.search_attributes is not None:
            search_index.index(self.execute, row)
        return row

    def confirm_instance(self, row: InstanceRow) -> None:
        """A start took the instance row that was made for it."""
        self._touched = True
        self._unconfirmed.discard(row.workflow_id)
        entry = self._instances[row.workflow_id]
        vars(entry.row).update(current_run_id=row.current_run_id, workflow_type=row.workflow_type)

    def insert(self, table: Table, rows: Sequence[Values]) -> None:
        """Insert whole rows at once: those that no other change of the batch looks at."""
        self._touched = True
        self._statements.insert(self.link, table, rows)

    def add_activity(self, row: ActivityRow) -> None:
        """Insert an activity."""
        self._activities[(row.run_id, row.activity_id)] = Entry(row, None)

    def add_timer(self, run_id: str, timer_id: int, fire_at: int) -> None:
        """Insert a timer."""
        self._timers[(run_id, timer_id)] = fire_at

    def remove_timer(self, run_id: str, timer_id: int) -> None:
        """Delete a timer, be it there or not."""
        self._touched = True
        if self._timers.pop((run_id, timer_id), None) is None:
            self._fired.add((run_id, timer_id))

    def add_attempt(self, row: AttemptRow) -> None:
        """Insert the row of an attempt that did not succeed."""
        self._attempts.append(tuple(vars(row).values()))

    def add_failure(self, row: FailureRow) -> None:
        """Insert a failure row."""
        self._failures.append(tuple(vars(row).values()))

    def execute(self, text: str, values: Values) -> int:
        """Run a writing statement (with ``?`` marks) that has no batch form; returns the rows it changed."""
        self._touched = True
        changed: int = self.link.exec_driver_sql(self.link.marked(text), values).rowcount
        return changed

    # --- the end ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write everything: one statement per table and shape.

        Raises:
            StaleRows: a cached row was not what the database holds. PostgreSQL says so by an error of its own.
        """
        link, statements = self.link, self._statements
        if self._unconfirmed:
            keys = [(key,) for key in sorted(self._unconfirmed)]
            statements.delete(link, tables.workflow_instances, ("workflow_id",), keys)
            for key in self._unconfirmed:
                del self._instances[key]
        if self._instances:
            self._write(tables.workflow_instances, ("workflow_id",), self._instances)
        self._write(tables.workflow_runs, RUN_GUARD, self._runs)
        self._write(tables.activity_executions, ACTIVITY_GUARD, self._activities)
        if self._events:
            statements.insert(link, tables.history_events, self._events)
        if self._fired:
            statements.delete(link, tables.timers, ("run_id", "timer_id"), sorted(self._fired))
        if self._timers:
            rows = [(run_id, timer_id, fire_at) for (run_id, timer_id), fire_at in self._timers.items()]
            statements.insert(link, tables.timers, rows)
        if self._attempts:
            statements.insert(link, tables.activity_attempts, self._attempts)
        if self._failures:
            statements.insert(link, tables.workflow_failures, self._failures)

    def _write(self, table: Table, guard: tuple[str, ...], entries: dict[Any, Entry[R]]) -> None:
        """Insert the new rows; update those that changed, grouped by the columns that did."""
        new: list[Values] = []
        changed: dict[tuple[str, ...], list[Values]] = defaultdict(list)
        for entry in entries.values():
            values, before = entry.row.__dict__, entry.before
            if before is None:
                new.append(tuple(values.values()))
            elif values != before:
                names = tuple([name for name, value in values.items() if value != before[name]])
                changed[names].append(
                    tuple([values[name] for name in names]) + tuple([before[name] for name in guard])
                )
        if new:
            self._statements.insert(self.link, table, new)
        for names, rows in changed.items():
            self._statements.update(self.link, table, guard, names, rows)

    def committed(self) -> Committed:
        """What a commit makes true of what :meth:`flush` has written."""
        committed = Committed(self.now)
        committed.events = self._appended
        for run_id, entry in self._runs.items():
            if entry.before is None:
                committed.runs[run_id] = entry.row
                committed.begun.append(run_id)
            elif entry.row.__dict__ != entry.before:
                committed.runs[run_id] = entry.row
        for activity in self._activities.values():
            if activity.before is None or activity.row.__dict__ != activity.before:
                committed.activities.append(activity.row)
        committed.attempts = self._attempts
        committed.timers = list(self._timers.values())
        committed.answered = self.answered
        committed.asked = self.asked
        return committed
