"""Heartbeats: the newest details of each running attempt, and when they are written.

A handler may heartbeat as often as it likes: each heartbeat only replaces the previous one in memory. The ticker's
thread writes them together, for one attempt at most once in 0.8 × its heartbeat timeout and, while there is something
new, at least every 30 seconds; without a heartbeat timeout, every 30 seconds. The first heartbeat of an attempt is
written at once. A heartbeat without details leaves the details of an earlier one unchanged.

The deadline and the throttle count from when the handler beat, not from when that was written. So a handler that is
silent for its heartbeat timeout times out, whenever its last heartbeat was written. A heartbeat has two instants: one
of the engine's clock, for the deadline, and one of the monotonic clock, for the throttle.

A heartbeat is written only if, under the row's lock, the claim still holds and no deadline has passed (at the same
microsecond the deadline wins). Otherwise the attempt is *lost*, and its handler is to stop. When an attempt fails,
:meth:`Heartbeats.take_pending` returns the details that are not written yet, so that the next attempt gets them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

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
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND

THROTTLE: Final = 0.8
LONGEST_THROTTLE_S: Final = 30.0
MOST_ROWS: Final = 1000

_KEY = ("run_id", "activity_id")
_GUARD = ("run_id", "activity_id", "attempt", "status")
_COLUMNS = ("heartbeat_at", "heartbeat_details", "heartbeat_deadline_at", "next_deadline_at")


@dataclass(slots=True)
class Heartbeat:
    """A heartbeat, as interceptors see it."""

    details: tuple[Any, ...]


class Due(NamedTuple):
    """What is to be written of one attempt: the details as JSON text, if they are new, and when its handler beat."""

    details: str | None
    beat_at: int


@dataclass(slots=True)
class Lost:
    """An attempt whose handler is to stop, and why: cancel_requested, timed_out or lost.

    ``closed`` says that the activity was closed as cancelled already, alone or with its run.
    """

    run_id: str
    activity_id: int
    attempt: int
    reason: str
    closed: bool = False


class Pending:
    """The newest heartbeat of one attempt.

    Attributes:
        key: The attempt.
        throttle_s: The least time between two heartbeats that are written, in seconds.
        due_at: When it may be written next, in monotonic seconds; the first is due at once.
        beat_at: When the handler beat, in microseconds of the engine's clock.
        beat_s: When the handler beat, in monotonic seconds.
        details: The newest details, as JSON text.
        unwritten: Whether the details are not known to be in the database.
        newer: Whether there was a heartbeat since the last one taken to be written.
    """

    __slots__ = ("beat_at", "beat_s", "details", "due_at", "key", "newer", "throttle_s", "unwritten")

    def __init__(self, key: AttemptKey, throttle_s: float) -> None:
        self.key = key
        self.throttle_s = throttle_s
        self.due_at = 0.0
        self.beat_at = 0
        self.beat_s = -math.inf
        self.details: str | None = None
        self.unwritten = False
        self.newer = False


class Heartbeats:
    """The heartbeats of one worker. Its methods may be called from any thread.

    Args:
        converter: Encodes the details.
        environment: The clock.
        wake: Called, from any thread, when a heartbeat is due sooner than the next flush was planned.
        limits: Their payload limit applies to details.
        interceptors: What each heartbeat passes through.
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

    def record(self, task: ActivityTask, details: tuple[Any, ...], *, ago_s: float = 0.0) -> None:
        """Record a heartbeat.

        Args:
            task: The attempt.
            details: How far it is.
            ago_s: How long ago the handler beat, in seconds, where it runs in another process.

        Raises:
            PayloadEncodeError: The details have no JSON form.
            StructuralLimitError: They are too large.
        """
        # Before interceptors and codecs, which take time of their own.
        beat_at = self._clock.now() - int(ago_s * MICROSECONDS_PER_SECOND)
        beat_s = self._clock.monotonic() - ago_s
        if self._interceptors:
            self._interceptors.call(
                "heartbeat",
                Heartbeat(details),
                lambda call: self._record(task, call.details, beat_at, beat_s),
            )
        else:
            self._record(task, details, beat_at, beat_s)

    def _record(self, task: ActivityTask, details: tuple[Any, ...], beat_at: int, beat_s: float) -> None:
        text: str | None = None
        if details:
            text = self._converter.encode_args(details, None, "heartbeat").json.decode()
            self._limits.check("payload_bytes", len(text), whose=task.workflow_id)
        key = task.key
        with self._lock:
            pending = self._pending.get(key)
            if pending is None:
                pending = self._pending[key] = Pending(key, _throttle_s(task.row))
            # Two threads of one handler may get here in the other order.
            if beat_s >= pending.beat_s:
                pending.beat_at = beat_at
                pending.beat_s = beat_s
            if text is not None:
                pending.details = text
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
        """Return the details that an ending attempt has not written yet, and forget the attempt.

        Args:
            run_id: The run.
            activity_id: The activity.
            attempt: The attempt.
        """
        with self._lock:
            pending = self._pending.pop((run_id, activity_id, attempt), None)
        return pending.details if pending is not None and pending.unwritten else None

    def take_newest(self, key: AttemptKey) -> Due | None:
        """Return the heartbeat that an attempt which goes on elsewhere has not written yet, and forget the attempt."""
        with self._lock:
            pending = self._pending.pop(key, None)
        if pending is None or not (pending.newer or pending.unwritten):
            return None
        return Due(pending.details if pending.unwritten else None, pending.beat_at)

    def newest(self, key: AttemptKey) -> Due | None:
        """Return the heartbeat that an attempt has not written yet."""
        with self._lock:
            pending = self._pending.get(key)
            if pending is None or not (pending.newer or pending.unwritten):
                return None
            return Due(pending.details if pending.unwritten else None, pending.beat_at)

    def forget(self, key: AttemptKey) -> None:
        """Forget an attempt that ended."""
        if self._pending:
            with self._lock:
                self._pending.pop(key, None)

    def due_in_s(self) -> float | None:
        """Return the seconds until :meth:`flush` has something to write; ``None`` until the next heartbeat."""
        with self._lock:
            at = min((one.due_at for one in self._pending.values() if one.newer), default=math.inf)
            self._planned_at = at
        return None if at == math.inf else max(0.0, at - self._clock.monotonic())

    # --- writing ----------------------------------------------------------------------------------------------------

    def flush(self, connection: Connection, now: int) -> list[Lost]:
        """Write all heartbeats that are due, in one transaction; return the attempts whose handlers are to stop.

        An error leaves everything to the next flush.

        Args:
            connection: Where to write.
            now: The least instant to write, in microseconds; the clock decides once the locks are held.
        """
        with self._lock:
            self._planned_at = math.inf
        lost: list[Lost] = []
        while due := self._take_due():
            try:
                lost += self._write(connection, now, due)
            except BaseException:
                self._reschedule(due)
                raise
        return lost

    def _take_due(self) -> dict[AttemptKey, Due]:
        """Return the attempts that have something to write, and what; each is throttled from that heartbeat on."""
        now = self._clock.monotonic()
        due: dict[AttemptKey, Due] = {}
        with self._lock:
            for key, pending in self._pending.items():
                if pending.newer and pending.due_at <= now and len(due) < MOST_ROWS:
                    due[key] = Due(pending.details if pending.unwritten else None, pending.beat_at)
                    pending.newer = False
                    pending.due_at = pending.beat_s + pending.throttle_s
        return due

    def _reschedule(self, keys: Iterable[AttemptKey]) -> None:
        with self._lock:
            for key in keys:
                pending = self._pending.get(key)
                if pending is not None:
                    pending.newer = True
                    pending.due_at = 0.0

    def _write(self, connection: Connection, now: int, due: dict[AttemptKey, Due]) -> list[Lost]:
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
        for key, (details, beat_at) in due.items():
            row = rows.get(key[:2])
            stop = why_to_stop(key, row, now)
            if stop is not None:
                lost.append(stop)
            if row is None or (stop is not None and (stop.closed or stop.reason != CANCEL_REQUESTED)):
                continue
            beat(row, details, now, beat_at)
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

    def _written(self, keys: Iterable[AttemptKey], due: dict[AttemptKey, Due]) -> None:
        with self._lock:
            for key in keys:
                pending = self._pending.get(key)
                if pending is not None and pending.details is due[key].details:
                    pending.unwritten = False


def beat(row: ActivityRow, details: str | None, now: int, at: int | None = None) -> None:
    """Write a heartbeat into a row: its heartbeat deadline counts from when the handler beat.

    A clock that was set back moves no deadline closer, so a heartbeat never makes an attempt time out sooner.

    Args:
        row: The activity.
        details: The details as JSON text; ``None`` leaves those of an earlier heartbeat.
        now: The instant under the row's lock, in microseconds.
        at: When the handler beat, in microseconds; ``None`` for a heartbeat that counts from its write.
    """
    before = row.heartbeat_at if row.heartbeat_at is not None else row.started_at
    at = now if at is None else min(at, now)
    row.heartbeat_at = at = at if before is None else max(at, before)
    if details is not None:
        row.heartbeat_details = details
    row.heartbeat_deadline_at = after(at, options_of(row).heartbeat_us)
    refresh(row)


def why_to_stop(key: AttemptKey, row: ActivityRow | None, now: int) -> Lost | None:
    """Return why the handler of an attempt is to stop; ``None`` if it is to go on.

    Args:
        key: The attempt.
        row: Its activity; ``None`` if it was deleted.
        now: The instant of the look, in microseconds.
    """
    reason = _why_lost(row, key[2], now)
    if reason is not None:
        return Lost(*key, reason, closed=reason == CANCEL_REQUESTED)
    if row is not None and row.cancel_requested:
        return Lost(*key, CANCEL_REQUESTED)
    return None


def _why_lost(row: ActivityRow | None, attempt: int, now: int) -> str | None:
    if row is None or row.attempt != attempt:
        return LOST
    if row.status == ActivityStatus.CANCELLED:
        return CANCEL_REQUESTED
    if row.status != ActivityStatus.RUNNING:
        return LOST
    if row.next_deadline_at is not None and now >= row.next_deadline_at:
        return TIMED_OUT
    return None


def _throttle_s(row: ActivityRow) -> float:
    timeout = options_of(row).heartbeat_timeout
    return LONGEST_THROTTLE_S if timeout is None else min(THROTTLE * timeout, LONGEST_THROTTLE_S)
