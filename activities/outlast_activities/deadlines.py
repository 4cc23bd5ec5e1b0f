"""The four deadlines of an activity, as pure functions of a row and an instant.

=================== ================================= ==================================================
deadline            computed                          again when
=================== ================================= ==================================================
schedule-to-start   available_at + timeout            each retry; cleared on claim
start-to-close      claim + timeout                   each claim; cleared when the attempt ends
heartbeat           claim, or last beat, + timeout    each claim and each accepted heartbeat; cleared likewise
schedule-to-close   first scheduling + timeout        never
=================== ================================= ==================================================
"""

from __future__ import annotations

from typing import Final

from outlast_store.schema.rows import ActivityRow
from outlast_store.transitions.run_deadlines import PassedDeadline
from outlast_workflow.errors import DamagedHistoryError
from outlast_workflow.options.options import ActivityOptions, RetryPolicy
from outlast_workflow.primitives.enums import TimeoutKind
from outlast_workflow.primitives.times import later

UNREADABLE: Final = ActivityOptions(start_to_close_timeout=60, retry_policy=RetryPolicy(max_attempts=1))
"""Stands for options that cannot be read: the attempt that finds that out is the last one."""


def options_of(row: ActivityRow) -> ActivityOptions:
    """Return the options that an activity was scheduled with; :data:`UNREADABLE` if they are damaged.

    So one damaged row spoils no claim of others. Whoever runs or enforces the activity checks them
    (:func:`read_options`).
    """
    try:
        return ActivityOptions.from_snapshot(row.options)
    except Exception:
        return UNREADABLE


def read_options(row: ActivityRow) -> ActivityOptions:
    """Return the options that an activity was scheduled with.

    Raises:
        DamagedHistoryError: They cannot be read.
    """
    options = options_of(row)
    if options is UNREADABLE:
        raise DamagedHistoryError(row.run_id, f"options of activity {row.activity_id}")
    return options


def after(instant: int, duration: int | None) -> int | None:
    """Return the instant a duration later, if there is a duration (both in microseconds)."""
    return None if duration is None else later(instant, duration)


def is_bounded(row: ActivityRow) -> bool:
    """Return whether a running attempt ends by a deadline of its own, whatever becomes of whoever runs it."""
    deadlines = (row.start_to_close_deadline_at, row.schedule_to_close_deadline_at, row.heartbeat_deadline_at)
    return any(deadline is not None for deadline in deadlines)


def refresh(row: ActivityRow) -> None:
    """Set ``next_deadline_at`` to the least of the deadlines that apply now."""
    least = row.schedule_to_close_deadline_at
    for deadline in (
        row.schedule_to_start_deadline_at,
        row.start_to_close_deadline_at,
        row.heartbeat_deadline_at,
    ):
        if deadline is not None and (least is None or deadline < least):
            least = deadline
    row.next_deadline_at = least


def set_claimed(row: ActivityRow, options: ActivityOptions, now: int) -> None:
    """Set the deadlines of an attempt that starts now.

    Args:
        row: The activity.
        options: Its options.
        now: When it starts, in microseconds.
    """
    row.schedule_to_start_deadline_at = None
    # Most activities have one of these deadlines, so the others cost no call.
    start_to_close, heartbeat = options.start_to_close_us, options.heartbeat_us
    row.start_to_close_deadline_at = None if start_to_close is None else later(now, start_to_close)
    row.heartbeat_deadline_at = None if heartbeat is None else later(now, heartbeat)
    refresh(row)


def set_available(row: ActivityRow, options: ActivityOptions) -> None:
    """Set the deadlines of an attempt that may be claimed from ``available_at`` on."""
    row.schedule_to_start_deadline_at = after(row.available_at, options.schedule_to_start_us)
    row.start_to_close_deadline_at = None
    row.heartbeat_deadline_at = None
    refresh(row)


def passed(row: ActivityRow, now: int) -> PassedDeadline | None:
    """Return the deadline that ends the attempt (inclusive), if one has passed.

    Schedule-to-close wins if it has passed; otherwise the one that passed first; on a tie heartbeat comes last.

    Args:
        row: The activity.
        now: The instant to compare with, in microseconds.
    """
    if row.next_deadline_at is None or now < row.next_deadline_at:
        return None
    close = row.schedule_to_close_deadline_at
    if close is not None and now >= close:
        return PassedDeadline(TimeoutKind.SCHEDULE_TO_CLOSE, close)
    candidates = (
        (row.schedule_to_start_deadline_at, 0, TimeoutKind.SCHEDULE_TO_START),
        (row.start_to_close_deadline_at, 1, TimeoutKind.START_TO_CLOSE),
        (row.heartbeat_deadline_at, 2, TimeoutKind.HEARTBEAT),
    )
    due = [
        (deadline, rank, kind)
        for deadline, rank, kind in candidates
        if deadline is not None and now >= deadline
    ]
    if not due:
        return None
    deadline, _, kind = min(due)
    return PassedDeadline(kind, deadline)
