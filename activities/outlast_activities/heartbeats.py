"""Heartbeats: the newest details of each running attempt, and when they are written.

A handler may beat as often as it likes: a beat only replaces the one before in memory. They are written together, by
the ticker's thread, for one attempt at most once in 0.8 × its heartbeat timeout and, while there is something new, at
least every 30 seconds; without a heartbeat timeout, every 30 seconds. The first beat of an attempt is written at once.
A beat without details leaves the details of an earlier one as they are.

Written means: under the row's lock the claim still holds and no deadline has passed (at the same microsecond the
deadline wins). Otherwise the attempt is *lost*, and its handler is to be told. What an attempt had to say when it
failed but was not written yet is handed over by :meth:`Heartbeats.take_pending`, so that the next attempt gets it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from outlast_activities.deadlines import after, options_of, refresh
from outlast_activities.stop_reason import CANCEL_REQUESTED, LOST, TIMED_OUT
from outlast_activities.task import ActivityTask, AttemptKey
from outlast_store.database.sql_text import Values
from outlast_store.database.statements import statements_for
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.environment import Environment
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.enums import ActivityStatus
from outlast_workflow.primitives.interceptor_chain import NO_INTERCEPTORS, Chain

THROTTLE: Final = 0.8
LONGEST_THROTTLE_S: Final = 30.0
MOST_ROWS: Final = 1000


_KEY = ("run_id", "activity_id")
_GUARD = ("run_id", "activity_id", "attempt", "status")
_COLUMNS = ("heartbeat_at", "heartbeat_details", "heartbeat_deadline_at", "next_deadline_at")


@dataclass(slots=True)
class Heartbeat:
    """A heartbeat that interceptors see: an attempt says that it is alive."""

    details: tuple[Any, ...]


@dataclass(slots=True)
class Lost:
    """An attempt whose handler is to be told to stop, and why: cancel_requested, timed_out or lost."""

    run_id: str
    activity_id: int
    attempt: int
    reason: str


class Pending:
    """What one attempt has to say."""

    __slots__ = ("details", "due_at", "key", "newer", "throttle_s", "unwritten")

    def __init__(self, key: AttemptKey, throttle_s: float) -> None:
        self.key = key
        self.throttle_s = throttle_s
        self.due_at = 0.0  # monotonic seconds; the first beat is due at once
        self.details: str | None = None
        self.unwritten = False  # whether the details are not known to be in the database
        self.newer = False  # whether there was a beat since the last one taken to be written


class Heartbeats:
    """The heartbeats of one worker. Its methods may be called from any thread.

    Args:
        converter: Writes the details.
        environment: The clock.
        wake: Called, from any thread, when a beat wants to be written sooner than the next flush was planned.
        limits: The payload limit holds for details too.
        interceptors: What each heartbeat passes through first.
    """

    def __init__(
        self,
        converter: DataConverter,
        environment: Environment,
        wake: Callable[[], None] | None = None,
        *,
        limits: StructuralLimits | None = None,
        interceptors: Chain = NO_INTERCEPTORS,
    ) -> None:
        self.wake = wake
        self._interceptors = interceptors
        self._converter = converter
        self._clock = environment.clock
        self._limits = limits if limits is not None else StructuralLimits()
        self._lock = threading.Lock()
        self._pending: dict[AttemptKey, Pending] = {}
        self._planned_at = math.inf

    def record(self, task: ActivityTask, details: tuple[Any, ...]) -> None:
        """An attempt is alive, and this far.

        Raises:
            PayloadEncodeError: The details have no JSON form.
            StructuralLimitError: They are too large.
        """
        if self._interceptors:
            self._interceptors.call(
                "heartbeat", Heartbeat(details), lambda call: self._record(task, call.details)
            )
        else:
            self._record(task, details)

    def _record(self, task: ActivityTask, details: tuple[Any, ...]) -> None:
        text: str | None = None
        if details:
            text = self._converter.encode_args(details, None, "heartbeat").json.decode()
            self._limits.check("payload_bytes", len(text), whose=task.workflow_id)
        self.record_text(task, text)

    def record_text(self, task: ActivityTask, details: str | None) -> None:
        """As :meth:`record`, of details that are a JSON array's text already."""
        key = task.key
        with self._lock:
            pending = self._pending.get(key)
            if pending is None:
                pending = self._pending[key] = Pending(key, _throttle_s(task.row))
            if details is not None:
                pending.details = details
                pending.unwritten = True
            if pending.newer:
                return
            pending.newer = True
            if pending.due_at >= self._planned_at:
                return
            self._planned_at = pending.due_at
        if self.wake is not None:
            self.wake()

    def take_pending(self, run_id: str, activity_id: int, attempt: int) -> str | None:
        """The details that an attempt which ends has not written yet: they belong into its end. Forgets the attempt."""
        with self._lock:
            pending = self._pending.pop((run_id, activity_id, attempt), None)
        return pending.details if pending is not None and pending.unwritten else None

    def forget(self, key: AttemptKey) -> None:
        """An attempt ended."""
        if self._pending:
            with self._lock:
                self._pending.pop(key, None)

    def due_in_s(self) -> float | None:
        """In how many seconds :meth:`flush` has something to write; ``None``: not before there is another beat."""
        with self._lock:
            at = min((one.due_at for one in self._pending.values() if one.newer), default=math.inf)
            self._planned_at = at
        return None if at == math.inf else max(0.0, at - self._clock.monotonic())

    # --- writing ----------------------------------------------------------------------------------------------------

    def flush(self, connection: Connection, now: int) -> list[Lost]:
        """Write all beats that are due, in one transaction; returns the attempts whose handlers are to be told.

        An error leaves everything to be written by the next flush. ``now`` is only a floor: what decides is the clock
        once the locks are held.
        """
        with self._lock:
            self._planned_at = math.inf
        lost: list[Lost] = []
        while due := self._take_due():
            try:
                lost += self._write(connection, now, due)
            except BaseException:
                self._put_back(due)
                raise
        return lost

    def _take_due(self) -> dict[AttemptKey, str | None]:
        """The attempts that have something to write, and what; each waits out its throttle from now on."""
        now = self._clock.monotonic()
        due: dict[AttemptKey, str | None] = {}
        with self._lock:
            for key, pending in self._pending.items():
                if pending.newer and pending.due_at <= now and len(due) < MOST_ROWS:
                    due[key] = pending.details if pending.unwritten else None
                    pending.newer = False
                    pending.due_at = now + pending.throttle_s
        return due

    def _put_back(self, keys: Iterable[AttemptKey]) -> None:
        with self._lock:
            for key in keys:
                pending = self._pending.get(key)
                if pending is not None:
                    pending.newer = True
                    pending.due_at = 0.0

    def _write(self, connection: Connection, now: int, due: dict[AttemptKey, str | None]) -> list[Lost]:
        sqlite = connection.dialect.name == "sqlite"
        statements = statements_for("sqlite" if sqlite else "postgresql")
        keys = sorted({(run_id, activity_id) for run_id, activity_id, _ in due})
        connection.exec_driver_sql("BEGIN IMMEDIATE" if sqlite else "BEGIN")
        found = statements.lock(connection, tables.activity_executions, _KEY, keys)
        rows = {(values[0], values[1]): ActivityRow(*values) for values in found}
        now = max(now, self._clock.now())
        lost: list[Lost] = []
        beaten: list[AttemptKey] = []
        changed: list[Values] = []
        for key, details in due.items():
            row = rows.get(key[:2])
            reason = _why_lost(row, key[2], now)
            if row is None or reason is not None:
                lost.append(Lost(*key, reason or LOST))
                continue
            if row.cancel_requested:
                lost.append(Lost(*key, CANCEL_REQUESTED))
            beat(row, details, now)
            beaten.append(key)
            changed.append(
                (
                    *[getattr(row, name) for name in _COLUMNS],
                    *[getattr(row, name) for name in _GUARD],
                )
            )
        if changed:
            statements.update(connection, tables.activity_executions, _GUARD, _COLUMNS, changed)
        connection.exec_driver_sql("COMMIT")
        self._written(beaten, due)
        return lost

    def _written(self, keys: Iterable[AttemptKey], due: dict[AttemptKey, str | None]) -> None:
        with self._lock:
            for key in keys:
                pending = self._pending.get(key)
                if pending is not None and pending.details is due[key]:
                    pending.unwritten = False


def beat(row: ActivityRow, details: str | None, now: int) -> None:
    """A running attempt was heard of: its heartbeat deadline counts from now.

    A clock that was set back moves no deadline towards the present: who beats is never timed out sooner for it.
    """
    before = row.heartbeat_at if row.heartbeat_at is not None else row.started_at
    row.heartbeat_at = now = now if before is None else max(now, before)
    if details is not None:
        row.heartbeat_details = details
    row.heartbeat_deadline_at = after(now, options_of(row).heartbeat_us)
    refresh(row)


def _why_lost(row: ActivityRow | None, attempt: int, now: int) -> str | None:
    if row is None or row.status != ActivityStatus.RUNNING or row.attempt != attempt:
        return LOST
    if row.next_deadline_at is not None and now >= row.next_deadline_at:
        return TIMED_OUT
    return None


def _throttle_s(row: ActivityRow) -> float:
    timeout = options_of(row).heartbeat_timeout
    return LONGEST_THROTTLE_S if timeout is None else min(THROTTLE * timeout, LONGEST_THROTTLE_S)
