"""The rows of a transaction: read under their locks, or trusted from the cache.

**Locks come in one order**: gates of queues, new instances, instances, runs, activities, streams, each by
key, so that two transactions cannot wait for each other. Rows that a change finds by a scan come after.

**Trusted rows.** A row that only this process writes (its worker owns the run, or runs the activity) may come from the
cache instead of being read under a lock. The ``UPDATE`` then proves that the cache was right, because it compares what
the row was. Where it was not, :class:`~outlast_store.database.statements.StaleRows` is raised, and the whole batch runs
again with every row read under its lock. A stream that is not cached is locked only where everything before it is
locked as well, because the lock of a trusted row comes with its ``UPDATE``. A decision *against* a caller is never
taken on trusted rows: :meth:`LockedRows.require_locks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import Table

from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.sql_text import Asked, Values
from outlast_store.database.statements import StaleRows, Statements
from outlast_store.journal.commit_news import ActivityKey, Cache
from outlast_store.journal.row_sets import ActivityRows, InstanceRows, RunRows, StreamRows
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow, InstanceRow, QueueRow, RunRow, StreamKey, StreamRow

_NOTHING: Final = MappingProxyType[Any, Any]({})


class LockedRows:
    """The rows of a transaction, and reads within it."""

    def __init__(self, raw: RawConnection, statements: Statements, cache: Cache | None) -> None:
        self.raw = raw
        self.instance_rows = InstanceRows()
        self.instance_rows.before = {}
        self.run_rows = RunRows()
        self.run_rows.before = {}
        self.activity_rows = ActivityRows()
        self.activity_rows.before = {}
        self.run: Callable[[str], RunRow | None] = self.run_rows.get
        """Return a run that a change named (or that an earlier change of the batch made)."""
        self._statements = statements
        self._cached_runs: Mapping[str, RunRow] = cache.runs if cache is not None else _NOTHING
        self._cached_activities: Mapping[ActivityKey, ActivityRow] = (
            cache.activities if cache is not None else _NOTHING
        )
        self.stream_rows: StreamRows | None = None
        """The streams that this transaction is about; made for the first of them."""
        self._cached_streams: Mapping[StreamKey, StreamRow] = cache.streams if cache is not None else _NOTHING
        self.children: dict[str, list[str]] = {}
        """By run, the children that this transaction has added or given to it."""
        self.gates: dict[str, QueueRow] = {}
        """The queues whose gates this transaction holds."""
        self._trusted_runs: list[str] = []
        self._trusted_activities: list[ActivityKey] = []
        self._trusted_streams: list[StreamKey] = []
        self._made_streams: set[StreamKey] = set()
        self._unconfirmed: set[str] = set()

    def activity(self, run_id: str, activity_id: int) -> ActivityRow | None:
        """Return an activity that a change named (or that an earlier change of the batch made)."""
        return self.activity_rows.get((run_id, activity_id))

    def instance(self, workflow_id: str) -> InstanceRow | None:
        """Return the instance, or ``None`` where it is new in this batch and nobody has started it yet."""
        if workflow_id in self._unconfirmed:
            return None
        return self.instance_rows.get(workflow_id)

    def stream(self, key: StreamKey) -> StreamRow:
        """Return a stream that a change named; one that is new has no item yet."""
        assert self.stream_rows is not None
        return self.stream_rows[key]

    # --- trust ------------------------------------------------------------------------------------------------------

    def require_locks(self) -> None:
        """Make sure that every row was read under its lock: call it before deciding against a caller.

        Raises:
            StaleRows: One came from the cache; the batch runs again without it.
        """
        if self._trusted_runs or self._trusted_activities or self._trusted_streams:
            raise StaleRows

    def trusted(self) -> tuple[list[str], list[ActivityKey], list[StreamKey]]:
        """Return the keys of the rows that came from the cache."""
        return self._trusted_runs, self._trusted_activities, self._trusted_streams

    # --- locking ----------------------------------------------------------------------------------------------------

    def load_instances(
        self, wanted: dict[str, InstanceRow], named: set[str], runs: set[str], now: int
    ) -> None:
        """Make instances that are not there yet, and lock those that are.

        Args:
            wanted: The rows to make, by workflow id.
            named: Workflow ids whose rows changes may alter.
            runs: Where the current runs of those wanted instances go that are there already: they are to be locked too.
            now: When the new ones are made, in microseconds since the epoch.
        """
        new: set[str] = set()
        if wanted:
            for instance in wanted.values():
                instance.created_at = now
            rows = [tuple(vars(wanted[key]).values()) for key in sorted(wanted)]
            new = self._statements.insert_new(self.raw, InstanceRows.table, rows)
            for key in new:
                self.instance_rows[key] = wanted[key]
                self.instance_rows.before[key] = dict(vars(wanted[key]))
            self._unconfirmed = new
        known = sorted((wanted.keys() | named) - new)
        if known:
            for row in self.instance_rows.lock(self.raw, self._statements, known):
                if row.workflow_id in wanted:
                    runs.add(row.current_run_id)

    def load_gates(self, awaited: set[str], wanted: set[str]) -> None:
        """Lock the rows of queues.

        Args:
            awaited: Those to wait for.
            wanted: Those to do without where another transaction holds them.
        """
        for names, skip in ((awaited, False), (wanted - awaited, True)):
            keys = [(name,) for name in sorted(names)]
            if keys:
                for values in self._statements.lock(self.raw, tables.queues, ("queue",), keys, skip=skip):
                    self.gates[values[0]] = QueueRow(*values)

    def load_streams(self, keys: Iterable[StreamKey]) -> None:
        """Take streams from the cache, lock those that it does not hold, and make those that are not there yet.

        Raises:
            StaleRows: One must be locked, and a row before it in the order of locks came from the cache.
        """
        known = self.stream_rows
        if known is None:
            known = self.stream_rows = StreamRows()
            known.before = {}
        missing: list[StreamKey] = []
        for key in sorted(keys):
            if key in known:
                continue
            row = self._cached_streams.get(key)
            if row is None:
                missing.append(key)
            else:
                known[key] = row.copy()
                known.before[key] = row.__dict__
                self._trusted_streams.append(key)
        if not missing:
            return
        # On SQLite the transaction has the one lock that there is.
        alone = self.raw.qmark
        if not alone:
            self.require_locks()
        known.lock(self.raw, self._statements, missing)
        new = [key for key in missing if key not in known]
        rows = [StreamRow(*key, 0, 0, 0, None) for key in new]
        if alone:
            known.update((row.key, row) for row in rows)
        elif rows:
            # Another process may make one of them now: whoever comes second waits here.
            self._statements.insert_new(
                self.raw, StreamRows.table, [tuple(vars(row).values()) for row in rows]
            )
            known.lock(self.raw, self._statements, new)
            self._made_streams.update(new)

    def more_runs(self, run_ids: Iterable[str]) -> None:
        """Lock runs that a change learns of only while it is applied."""
        unknown = {run_id for run_id in run_ids if run_id not in self.run_rows}
        if unknown:
            self._trusted_runs += self.run_rows.load(self.raw, self._statements, unknown, self._cached_runs)

    def lock_instance(self, workflow_id: str) -> InstanceRow | None:
        """Lock an instance that a change learns of only while it is applied."""
        if workflow_id not in self.instance_rows:
            self.instance_rows.lock(self.raw, self._statements, [workflow_id])
        return self.instance(workflow_id)

    def lock_queue(self, name: str) -> QueueRow | None:
        """Lock a queue's row, which is its gate, and wait for it; ``None`` if there is none."""
        rows = self._statements.lock(self.raw, tables.queues, ("queue",), [(name,)])
        return QueueRow(*rows[0]) if rows else None

    def lock_activities(self, keys: Sequence[ActivityKey], *, skip: bool = False) -> list[ActivityRow]:
        """Lock activities found by a scan.

        Args:
            keys: Which.
            skip: Whether to pass over those that another transaction holds.
        """
        if not keys:
            return []
        return self.activity_rows.lock(self.raw, self._statements, sorted(keys), skip=skip)

    def lock_runs(self, run_ids: Sequence[str], *, skip: bool = False) -> list[RunRow]:
        """Lock runs found by a scan.

        Args:
            run_ids: Which.
            skip: Whether to pass over those that another transaction holds.
        """
        if not run_ids:
            return []
        return self.run_rows.lock(self.raw, self._statements, sorted(run_ids), skip=skip)

    # --- scans ------------------------------------------------------------------------------------------------------

    @property
    def runs_taken(self) -> int:
        """How many runs have an owner since changes of this batch that had none; a scan does not see that yet."""
        rows = self.run_rows
        return sum(
            rows[key].owner_id is not None
            for key, before in rows.before.items()
            if before["owner_id"] is None
        )

    @property
    def activities_taken(self) -> int:
        """How many activities are not pending since changes of this batch that were; a scan does not see that yet."""
        rows = self.activity_rows
        return sum(
            rows[key].status != "pending"
            for key, before in rows.before.items()
            if before["status"] == "pending"
        )

    def scan(self, text: str, values: Values) -> list[Values]:
        """Return the rows of a read-only statement written with ``?`` marks."""
        found: list[Values] = self.raw.exec_driver_sql(self.raw.marked(text), values).fetchall()
        return found

    def scan_together(self, asked: Sequence[Asked]) -> list[list[Values]]:
        """Return the rows of each of some read-only statements, which are sent together where the driver can."""
        if len(asked) < 2 or not self.raw.pipelined:
            return [self.scan(text, values) for text, values in asked]
        with self.raw.together():
            cursors = [self.raw.exec_driver_sql(self.raw.marked(text), values) for text, values in asked]
        return [cursor.fetchall() for cursor in cursors]

    def lock(self, table: Table, keys: tuple[str, ...], rows: Sequence[Values]) -> list[Values]:
        """Return whole rows by key, locked, of a table that no other method knows.

        Args:
            table: Which table.
            keys: The key's columns.
            rows: The keys' values, in order.
        """
        return self._statements.lock(self.raw, table, keys, rows)

    def read(self, table: Table, keys: tuple[str, ...], rows: Sequence[Values]) -> list[Values]:
        """Return whole rows by key, in no order, without locks: for what never changes once it is there.

        Args:
            table: Which table.
            keys: The key's columns.
            rows: The keys' values.
        """
        return self._statements.read(self.raw, table, keys, rows)
