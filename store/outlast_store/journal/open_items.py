"""What is open in a run: activities, timers and children, as the changes of a batch see it.

The database does not know yet what those changes did, so each answer is what was read, corrected by the batch. Where
several runs of a batch are likely to close, what is open in them is read for all at once: a statement a table, not one
a run (:meth:`OpenItems.prefetch`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

import orjson

from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.sql_text import Values
from outlast_store.database.statements import Statements
from outlast_store.journal.commit_news import ActivityKey
from outlast_store.journal.locked_rows import LockedRows
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow

TimerKey = tuple[str, int]


class Prefetched:
    """What was open in a run when its batch began."""

    __slots__ = ("activities", "children", "timers")

    def __init__(self) -> None:
        self.activities: list[int] = []
        self.timers: list[int] = []
        self.children: list[str] = []


class OpenItems:
    """What is open in runs, and the timers that a batch adds and removes."""

    __slots__ = (
        "_added_activities",
        "_named_timers",
        "_prefetched",
        "_seen_activities",
        "added_timers",
        "removed_timers",
        "summaries",
    )

    def __init__(self) -> None:
        self.added_timers: dict[TimerKey, int] = {}
        self.removed_timers: set[TimerKey] = set()
        self.summaries: dict[TimerKey, str] = {}
        """What added timers are for, where that was said."""
        self._named_timers: dict[TimerKey, int | None] = {}
        self._prefetched: dict[str, Prefetched] = {}
        self._added_activities: defaultdict[str, list[ActivityKey]] = defaultdict(list)
        self._seen_activities = 0

    # --- reading, before the changes are applied --------------------------------------------------------------------

    def read_timers(self, rows: LockedRows, keys: list[TimerKey]) -> None:
        """Read when timers fire that changes name; their runs are locked."""
        self._named_timers = dict.fromkeys(keys)
        for run_id, timer_id, fire_at, _ in rows.read(tables.timers, ("run_id", "timer_id"), keys):
            self._named_timers[run_id, timer_id] = fire_at

    def prefetch(self, rows: LockedRows, run_ids: list[str]) -> None:
        """Read what is open in runs that are about to be closed."""
        qmark = rows.raw.qmark
        values: Values = (orjson.dumps(run_ids).decode(),) if qmark else (run_ids,)
        among = "IN (SELECT value FROM json_each(?))" if qmark else "= ANY(?)"
        found = {run_id: Prefetched() for run_id in run_ids}
        text = (
            f"SELECT run_id, activity_id FROM activity_executions WHERE closed_at IS NULL AND run_id {among}"
        )
        for run_id, activity_id in rows.scan(text, values):
            found[run_id].activities.append(activity_id)
        for run_id, timer_id in rows.scan(
            f"SELECT run_id, timer_id FROM timers WHERE run_id {among}", values
        ):
            found[run_id].timers.append(timer_id)
        text = f"SELECT parent_run_id, run_id FROM workflow_runs WHERE parent_run_id {among} AND closed_at IS NULL"
        for parent_run_id, run_id in rows.scan(text, values):
            found[parent_run_id].children.append(run_id)
        self._prefetched = found

    # --- answers, while they are ------------------------------------------------------------------------------------

    def activities(self, rows: LockedRows, run_id: str) -> list[ActivityRow]:
        """Return the run's open activities, locked, in the order in which they were scheduled."""
        locked = rows.activity_rows
        known = self._prefetched.get(run_id)
        if known is not None:
            keys: list[ActivityKey] = [(run_id, activity_id) for activity_id in known.activities]
        else:
            text = "SELECT activity_id FROM activity_executions WHERE run_id = ? AND closed_at IS NULL"
            keys = [(run_id, row[0]) for row in rows.scan(text, (run_id,))]
        # Looking at all of a batch's rows for each of its runs would take the square of their number.
        for key in islice(locked, self._seen_activities, None):
            if key not in locked.before:
                self._added_activities[key[0]].append(key)
        self._seen_activities = len(locked)
        keys += self._added_activities.get(run_id, ())
        rows.lock_activities([key for key in keys if key not in locked])
        found = [locked[key] for key in keys]
        return sorted((row for row in found if row.is_open), key=lambda row: row.activity_id)

    def timers(self, rows: LockedRows, run_id: str) -> list[int]:
        """Return the run's open timers."""
        known = self._prefetched.get(run_id)
        if known is not None:
            found = set(known.timers)
        else:
            text = "SELECT timer_id FROM timers WHERE run_id = ?"
            found = {row[0] for row in rows.scan(text, (run_id,))}
        found = {timer for timer in found if (run_id, timer) not in self.removed_timers}
        # A timer that is moved is removed and added again.
        found.update(timer for run, timer in self.added_timers if run == run_id)
        return sorted(found)

    def has_children(self, rows: LockedRows, run_id: str) -> bool:
        """Return whether a child that the run started is still open."""
        runs = rows.run_rows

        def is_open_child(child_id: str) -> bool:
            # One that is not among the batch's rows is as it was read.
            child = runs.get(child_id)
            return child is None or (child.is_open and child.parent_run_id == run_id)

        if any(map(is_open_child, rows.children.get(run_id, ()))):
            return True
        prefetched = self._prefetched.get(run_id)
        if prefetched is not None:
            return any(map(is_open_child, prefetched.children))
        text = "SELECT run_id FROM workflow_runs WHERE parent_run_id = ? AND closed_at IS NULL LIMIT ?"
        return any(is_open_child(row[0]) for row in rows.scan(text, (run_id, len(runs) + 1)))

    def fire_times(self, run_id: str, timer_ids: Sequence[int]) -> dict[int, int]:
        """Return when those of the timers fire that are open; the change has named them."""
        found: dict[int, int] = {}
        for timer_id in timer_ids:
            key = (run_id, timer_id)
            fire_at = self.added_timers.get(key)
            if fire_at is None and key not in self.removed_timers:
                fire_at = self._named_timers[key]
            if fire_at is not None:
                found[timer_id] = fire_at
        return found

    # --- the timers' rows -------------------------------------------------------------------------------------------

    def remove_timer(self, key: TimerKey) -> None:
        """Delete a timer, whether it is there or not."""
        if self.added_timers.pop(key, None) is None:
            self.removed_timers.add(key)

    def write(self, raw: RawConnection, statements: Statements) -> None:
        """Delete and insert the timers' rows."""
        if self.removed_timers:
            statements.delete(raw, tables.timers, ("run_id", "timer_id"), sorted(self.removed_timers))
        if self.added_timers:
            summaries = self.summaries
            rows = [(*key, fire_at, summaries.get(key)) for key, fire_at in self.added_timers.items()]
            statements.insert(raw, tables.timers, rows)
