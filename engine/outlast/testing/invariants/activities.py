"""What must hold of an activity: its row, its events, its attempts and its deadlines."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from outlast_store.schema.rows import ActivityRow, AttemptRow, FailureRow
from outlast_workflow.history import events
from outlast_workflow.history.events import Event
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.enums import RetryState
from outlast_workflow.primitives.times import from_iso, later

OPEN = ("pending", "running")
STATUS_OF: dict[type[Event], str] = {
    events.ActivityCompleted: "completed",
    events.ActivityFailed: "failed",
    events.ActivityTimedOut: "timed_out",
    events.ActivityCancelled: "cancelled",
}
OWN_CANCELLATION = (None, "cancel_requested")
"""The causes by which an activity was cancelled alone, not with its run."""
MOST_RESCUES = 3
MOST_ATTEMPTS_KEPT = 100


def check_activity(
    row: ActivityRow,
    scheduled: tuple[int, events.ActivityScheduled] | None,
    ends: Sequence[tuple[int, Event]],
    attempts: Sequence[AttemptRow],
) -> list[str]:
    """Return what is wrong between an activity's row and its events.

    Args:
        row: The row.
        scheduled: The seq and the event that scheduled it.
        ends: The events of its end, with the times at which they were recorded.
        attempts: Its attempts that did not succeed, in order.
    """
    found: list[str] = []
    if scheduled is not None:
        found += _as_scheduled(row, *scheduled)
    if len(ends) > 1:
        found.append(f"ended {len(ends)} times: {', '.join(event.type for _, event in ends)}")
    ended = STATUS_OF[type(ends[-1][1])] if ends else None
    if ended is None and row.status not in OPEN:
        found.append(f"is {row.status}, but no event says so")
    elif ended is not None and row.status != ended:
        found.append(f"is {row.status}, its last event says {ended}")
    if (row.closed_at is None) != (row.status in OPEN):
        found.append(f"is {row.status} with closed_at={row.closed_at}")
    for recorded_at, event in ends:
        found += _end(row, recorded_at, event, attempts)
    return found


def _as_scheduled(row: ActivityRow, seq: int, event: events.ActivityScheduled) -> list[str]:
    found = [
        f"has {name}={getattr(row, name)!r}, it was scheduled with {getattr(event, name)!r}"
        for name in ("activity_type", "priority", "summary", "queue")
        if getattr(row, name) != getattr(event, name)
    ]
    if (
        row.public_task_queue != event.task_queue
        or row.local != bool(event.local)
        or row.local != (row.public_task_queue != row.task_queue)
    ):
        found.append(
            f"waits in {row.task_queue!r}, it was scheduled for {event.task_queue!r}, local={event.local}"
        )
    partition = None if event.queue is None else event.partition_key or ""
    if row.partition_key != partition:
        found.append(f"stands in partition {row.partition_key!r}, it was scheduled for {partition!r}")
    if row.scheduled_seq != seq:
        found.append(f"has scheduled_seq={row.scheduled_seq}, its event has seq {seq}")
    if orjson.loads(row.options) != event.options.value:
        found.append("has other options than it was scheduled with")
    return found


def _end(row: ActivityRow, recorded_at: int, event: Event, attempts: Sequence[AttemptRow]) -> list[str]:
    """Check an end. The row has its time; the event may have a later one, since time never goes back within a run."""
    found: list[str] = []
    closed_at = row.closed_at if row.closed_at is not None else recorded_at
    # The number that the user sees. If an attempt was rescued, nothing says whether it or the next one returned.
    attempt = getattr(event, "attempt", None)
    if attempt is not None and attempt != row.attempt - row.uncharged:
        found.append(f"{event.type} says attempt {attempt}, the row {row.attempt - row.uncharged}")
    # A failed attempt is not retried for one reason before all others: nobody wants the activity any more.
    if isinstance(event, events.ActivityFailed):
        unwanted = event.retry_state == RetryState.CANCEL_REQUESTED
        if unwanted != bool(row.cancel_requested):
            found.append(f"failed with {event.retry_state}, cancel_requested is {bool(row.cancel_requested)}")
    if isinstance(event, events.ActivityTimedOut):
        deadline_at = from_iso(event.deadline_at)
        if closed_at < deadline_at and not _closed_early(row, event, attempts):
            found.append(f"timed out before its deadline {event.deadline_at}")
        known = getattr(row, f"{event.timeout_kind}_deadline_at")
        if known != deadline_at:
            found.append(f"timed out by {event.timeout_kind} {deadline_at}, the row says {known}")
    # What is open when its run ends is closed, whether it is late or not.
    elif getattr(event, "by", None) in OWN_CANCELLATION:
        passed = [at for at in _set_deadlines(row) if closed_at >= at]
        if passed:
            found.append(f"{event.type} came {closed_at - min(passed)} µs past its deadline")
    return found


def _closed_early(row: ActivityRow, event: events.ActivityTimedOut, attempts: Sequence[AttemptRow]) -> bool:
    """Return whether its last attempt timed out, so that another could not have started in time."""
    last = attempts[-1] if attempts else None
    return (
        event.timeout_kind == "schedule_to_close"
        and event.retry_state == "timeout"
        and last is not None
        and (last.attempt, last.outcome) == (row.attempt, "timed_out")
        and last.timeout_kind != "schedule_to_close"
    )


def _too_early(row: ActivityRow, attempt: AttemptRow, before: AttemptRow | None) -> bool:
    """Return whether an attempt timed out before its timeout had passed since its known start.

    A later attempt waits from the end of the one before it, whatever clock recorded that.
    """
    waiting_since = row.scheduled_at if before is None else before.ended_at
    options = ActivityOptions.from_snapshot(row.options)
    since = {
        "start_to_close": (attempt.started_at, options.start_to_close_us),
        "heartbeat": (attempt.started_at, options.heartbeat_us),
        "schedule_to_start": (waiting_since, options.schedule_to_start_us),
        "schedule_to_close": (row.scheduled_at, options.schedule_to_close_us),
    }
    begun_at, limit = since.get(attempt.timeout_kind or "", (None, None))
    return begun_at is None or limit is None or attempt.ended_at < later(begun_at, limit)


def _too_late(row: ActivityRow, attempt: AttemptRow) -> int | None:
    """Return by how many µs an attempt ended past a deadline that should have ended it, or ``None`` if it was in time.

    The last heartbeat is known of the last attempt only. The end of a run closes what is open, even if it is late. A
    handler of a cancelled activity may fail after that.
    """
    cancelled = row.status == "cancelled" and attempt.attempt == row.attempt
    if cancelled or attempt.outcome == "cancelled" or attempt.timeout_kind == "schedule_to_close":
        return None
    options = ActivityOptions.from_snapshot(row.options)
    deadlines = [_after(row.scheduled_at, options.schedule_to_close_us)]
    if attempt.outcome != "timed_out":
        deadlines.append(_after(attempt.started_at, options.start_to_close_us))
        if attempt.attempt == row.attempt:
            last = row.heartbeat_at if row.heartbeat_at is not None else attempt.started_at
            deadlines.append(_after(last, options.heartbeat_us))
    passed = [at for at in deadlines if at is not None and attempt.ended_at >= at]
    return attempt.ended_at - min(passed) if passed else None


def _set_deadlines(row: ActivityRow) -> list[int]:
    deadlines = (
        row.schedule_to_start_deadline_at,
        row.start_to_close_deadline_at,
        row.schedule_to_close_deadline_at,
        row.heartbeat_deadline_at,
    )
    return [at for at in deadlines if at is not None]


def deadlines_of_activity(row: ActivityRow) -> list[str]:
    """Return what is wrong with the deadline columns."""
    found: list[str] = []
    options = ActivityOptions.from_snapshot(row.options)
    close_at = _after(row.scheduled_at, options.schedule_to_close_us)
    if row.schedule_to_close_deadline_at != close_at:
        found.append(f"was to close by {close_at}, the row says {row.schedule_to_close_deadline_at}")
    begin_by = (close_at, _after(row.available_at, options.schedule_to_start_us))
    missed = [at for at in begin_by if at is not None and row.started_at is not None and row.started_at >= at]
    if missed:
        found.append(f"was claimed at {row.started_at}, past its deadline {min(missed)}")
    least = min(_set_deadlines(row), default=None)
    if row.status not in OPEN:
        if row.next_deadline_at is not None:
            found.append(f"is {row.status} but has next_deadline_at")
        return found
    if row.next_deadline_at != least:
        found.append(f"next_deadline_at is {row.next_deadline_at}, the least of its deadlines {least}")
    expected: dict[str, int | None] = {
        "schedule_to_start": None,
        "start_to_close": None,
    }
    if row.status == "pending":
        expected["schedule_to_start"] = _after(row.available_at, options.schedule_to_start_us)
        if row.claimed_by is not None or row.started_at is not None:
            found.append("is pending but claimed")
        if row.heartbeat_deadline_at is not None:
            found.append("is pending but has a heartbeat deadline")
    else:
        expected["start_to_close"] = _after(row.started_at, options.start_to_close_us)
        if row.started_at is None:
            found.append("is running but was not started")
        # Without a worker it is deferred: others end it, or its timeouts.
        if row.claimed_by is None and row.local:
            found.append("is deferred, but local")
        bounds = (options.start_to_close_us, options.schedule_to_close_us, options.heartbeat_us)
        if row.claimed_by is None and not any(bounds):
            found.append("is deferred, but no timeout bounds it")
        last = row.heartbeat_at if row.heartbeat_at is not None else row.started_at
        if row.heartbeat_deadline_at != _after(last, options.heartbeat_us):
            found.append(
                f"heartbeat_deadline_at is {row.heartbeat_deadline_at}, the last heartbeat was at {last}"
            )
    for name, instant in expected.items():
        if getattr(row, f"{name}_deadline_at") != instant:
            found.append(f"{name}_deadline_at is {getattr(row, f'{name}_deadline_at')}, not {instant}")
    return found


def _after(instant: int | None, duration: int | None) -> int | None:
    return None if instant is None or duration is None else later(instant, duration)


def check_failures(
    row: ActivityRow, attempts: Sequence[AttemptRow], failures: Sequence[FailureRow]
) -> list[str]:
    """Return which attempts failed or timed out without a failure row, which is written in the same transaction.

    Args:
        row: The activity.
        attempts: Its attempts that did not succeed.
        failures: The failure rows of its run.
    """
    source = ("activity_execution", str(row.activity_id))
    recorded_at = {one.recorded_at for one in failures if (one.source_kind, one.source_id) == source}
    return [
        f"attempt {attempt.attempt} {attempt.outcome}, and no failure row says so"
        for attempt in attempts
        if attempt.outcome in ("failed", "timed_out") and attempt.ended_at not in recorded_at
    ]


def check_attempts(row: ActivityRow, attempts: Sequence[AttemptRow]) -> list[str]:
    """Return what is wrong with the attempts: their numbers have no gaps and are bounded, and a success has no row."""
    found: list[str] = []
    numbers = sorted(attempt.attempt for attempt in attempts)
    unfinished = row.attempt - 1 if row.status in ("running", "completed") else row.attempt
    if row.attempt <= MOST_ATTEMPTS_KEPT and numbers != list(range(1, unfinished + 1)):
        found.append(f"is {row.status} in attempt {row.attempt}, there are rows of the attempts {numbers}")
    if len(numbers) > MOST_ATTEMPTS_KEPT or (numbers and numbers[-1] > unfinished):
        found.append(f"has {len(numbers)} rows of attempts up to {numbers[-1]}, its own is {row.attempt}")
    by_outcome = [attempt.outcome for attempt in attempts]
    uncharged = by_outcome.count("rescued") + by_outcome.count("handed_back")
    # The last rescue ended the activity, so that no further attempt was uncharged.
    gone = row.rescues > MOST_RESCUES
    if row.attempt <= MOST_ATTEMPTS_KEPT and uncharged != row.uncharged + gone:
        found.append(f"uncharged is {row.uncharged}, {uncharged} attempts were released")
    if row.attempt <= MOST_ATTEMPTS_KEPT and by_outcome.count("rescued") != row.rescues:
        found.append(f"rescues is {row.rescues}, {by_outcome.count('rescued')} attempts were rescued")
    if row.rescues > MOST_RESCUES + 1:
        found.append(f"was rescued {row.rescues} times")
    policy = ActivityOptions.from_snapshot(row.options).retry_policy
    charged = row.attempt - row.uncharged
    if policy is not None and 0 < policy.max_attempts < charged and not gone:
        found.append(f"is in attempt {charged} of {policy.max_attempts}")
    by_number = {attempt.attempt: attempt for attempt in attempts}
    for attempt in attempts:
        if attempt.outcome in ("failed", "timed_out") and attempt.failure is None:
            found.append(f"attempt {attempt.attempt} {attempt.outcome} without saying why")
        if attempt.outcome == "timed_out" and _too_early(row, attempt, by_number.get(attempt.attempt - 1)):
            found.append(f"attempt {attempt.attempt} timed out ({attempt.timeout_kind}) before its timeout")
        late = _too_late(row, attempt)
        if late is not None:
            found.append(f"attempt {attempt.attempt} {attempt.outcome} {late} µs past another deadline")
    return found
