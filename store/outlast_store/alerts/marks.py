"""The marks that a row arms: a pure function of the row.

A workflow's row, or an activity's, holds its deadlines and its policy, so what must be armed follows from it alone.
Whoever changes the row in whatever way need not think of alerts: :mod:`outlast_store.alerts.arming` compares what the
row armed before with what it arms afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from outlast_store.schema.rows import ActivityRow, AlertRow, AlertTimerRow, RunRow
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.activity import ALERTS, ActivityOptions
from outlast_workflow.options.alerts import ENFORCED, AlertPolicy, check_deadlines, read_stored
from outlast_workflow.primitives.enums import AlertKind, TimeoutKind
from outlast_workflow.primitives.times import iso

RUN: int = 0
"""Stands for the run itself where an activity's id is asked for. The ids of commands begin at 1."""
OF_CHAINS = frozenset({AlertKind.EXECUTION, AlertKind.AFTER, AlertKind.AT_INSTANT})
"""The kinds that a workflow has once in all runs of its chain."""
KIND_OF = {
    TimeoutKind.EXECUTION_TIMEOUT: AlertKind.EXECUTION,
    TimeoutKind.RUN_TIMEOUT: AlertKind.RUN,
    TimeoutKind.SCHEDULE_TO_START: AlertKind.SCHEDULE_TO_START,
    TimeoutKind.START_TO_CLOSE: AlertKind.START_TO_CLOSE,
    TimeoutKind.SCHEDULE_TO_CLOSE: AlertKind.SCHEDULE_TO_CLOSE,
}


class Mark(NamedTuple):
    """When a mark is due.

    Attributes:
        attempt: The attempt that it is about; 0 for all of them, and for a run.
        due_at: When it is fired, in microseconds.
        deadline_at: The deadline that it comes before; ``None`` where it needs none.
    """

    attempt: int
    due_at: int
    deadline_at: int | None


Marks = dict[tuple[str, str], Mark]
"""The marks of a row by kind and name."""
Columns = Mapping[str, Any]
"""A row's values by column."""


def marks_of_run(run: Columns) -> Marks:
    """Return the marks that a run arms: none if it is closed."""
    found: Marks = {}
    if run["closed_at"] is not None or run["alerts"] is None:
        return found
    stored = read_stored(run["alerts"])
    if stored is None:
        return found
    for policy in stored.policies:
        _add_marks_of_run(found, run, policy, stored.since)
    return found


def _add_marks_of_run(found: Marks, run: Columns, policy: AlertPolicy, since: int) -> None:
    for kind, begun_at in ((AlertKind.EXECUTION, since), (AlertKind.RUN, run["created_at"])):
        deadline, timeout = run[f"{kind}_deadline_at"], run[f"{kind}_timeout"]
        if deadline is not None:
            # A reset may have given it a new timeout, and a parent or its own code a nearer deadline.
            total = deadline - begun_at
            _add(found, policy, kind, deadline, total if timeout is None else min(total, timeout))
    deadline = run["start_deadline_at"]
    if deadline is not None:
        joins_at = run["queued_at"] if run["queued_at"] is not None else run["not_before"]
        _add(found, policy, AlertKind.SCHEDULE_TO_START, deadline, deadline - joins_at)
    _add_waits(found, policy, since)
    at = policy.at_instant_us
    if at is not None and at > since:
        found[AlertKind.AT_INSTANT.value, iso(at)] = Mark(0, at, None)


def marks_of_activity(activity: Columns) -> Marks:
    """Return the marks that an activity arms: none if it is closed."""
    found: Marks = {}
    if activity["closed_at"] is not None or ALERTS not in activity["options"]:
        return found
    options = _options(activity["options"])
    policy = options.alerts if options is not None else None
    if options is None or policy is None:
        return found
    attempt = activity["attempt"]
    for kind, column, timeout, of in (
        # It waits for the attempt to come.
        (
            AlertKind.SCHEDULE_TO_START,
            "schedule_to_start_deadline_at",
            options.schedule_to_start_us,
            attempt + 1,
        ),
        (AlertKind.START_TO_CLOSE, "start_to_close_deadline_at", options.start_to_close_us, attempt),
        (AlertKind.SCHEDULE_TO_CLOSE, "schedule_to_close_deadline_at", options.schedule_to_close_us, 0),
    ):
        deadline = activity[column]
        if deadline is not None and timeout is not None:
            _add(found, policy, kind, deadline, timeout, of)
    _add_waits(found, policy, activity["scheduled_at"])
    return found


def _options(text: str) -> ActivityOptions | None:
    try:
        return ActivityOptions.from_snapshot(text)
    except (ValueError, TypeError, KeyError, AttributeError):
        # Whoever claims the activity finds that out, too.
        return None


def _add(
    found: Marks, policy: AlertPolicy, kind: AlertKind, deadline: int, total: int, attempt: int = 0
) -> None:
    if policy.covers(kind):
        for name, due_at in policy.marks(deadline, total):
            found[kind.value, name] = Mark(attempt, due_at, deadline)


def _add_waits(found: Marks, policy: AlertPolicy, since: int) -> None:
    for name, wait in policy.waits():
        found[AlertKind.AFTER.value, name] = Mark(0, since + wait, None)


def policies_of(run: RunRow, activity: ActivityRow | None) -> tuple[AlertPolicy, ...]:
    """Return the policies of a run, or that of one of its activities; none if they cannot be read.

    Args:
        run: The run.
        activity: The activity, if it is about one.
    """
    if activity is not None:
        options = _options(activity.options)
        return () if options is None or options.alerts is None else (options.alerts,)
    stored = read_stored(run.alerts) if run.alerts is not None else None
    return () if stored is None else stored.policies


def alert_of(
    timer: AlertTimerRow, run: RunRow, activity: ActivityRow | None, *, alert_id: str, now: int
) -> AlertRow:
    """Return the row of an alert that is fired now.

    Args:
        timer: What was armed.
        run: Its run.
        activity: The activity, if it is about one.
        alert_id: Its id.
        now: The instant, in microseconds.
    """
    return AlertRow(
        alert_id=alert_id,
        scope=run.first_run_id if activity is None and timer.kind in OF_CHAINS else run.run_id,
        activity_id=timer.activity_id,
        attempt=timer.attempt,
        kind=timer.kind,
        mark=timer.mark,
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        workflow_type=run.workflow_type,
        activity_type=None if activity is None else activity.activity_type,
        task_queue=run.task_queue if activity is None else activity.public_task_queue,
        deadline_at=timer.deadline_at,
        due_at=timer.due_at,
        fired_at=now,
    )


def alert_of_end(
    kind: TimeoutKind,
    deadline_at: int,
    run: RunRow,
    activity: ActivityRow | None,
    *,
    alert_id: str,
    now: int,
) -> AlertRow | None:
    """Return the row of the alert that a deadline is enforced now; ``None`` where nobody asked for it.

    Args:
        kind: Which deadline.
        deadline_at: When it was, in microseconds.
        run: The run.
        activity: The activity whose deadline it is, if it is one's.
        alert_id: The alert's id.
        now: The instant, in microseconds.
    """
    policies, alert_kind = policies_of(run, activity), KIND_OF.get(kind)
    if alert_kind is None or not any(one.tells_of_the_end and one.covers(alert_kind) for one in policies):
        return None
    attempt = 0
    if activity is not None and alert_kind is not AlertKind.SCHEDULE_TO_CLOSE:
        attempt = activity.attempt
    activity_id = RUN if activity is None else activity.activity_id
    timer = AlertTimerRow(
        run.run_id, activity_id, alert_kind.value, ENFORCED, attempt, deadline_at, deadline_at
    )
    return alert_of(timer, run, activity, alert_id=alert_id, now=now)


def document_of(alert: AlertRow) -> dict[str, Any]:
    """Return an alert as the argument of the signal that tells of it: JSON, without what does not apply."""
    document: dict[str, Any] = {
        "alert_id": alert.alert_id,
        "kind": alert.kind,
        "mark": alert.mark,
        "due_at": iso(alert.due_at),
        "fired_at": iso(alert.fired_at),
    }
    if alert.deadline_at is not None:
        document["deadline_at"] = iso(alert.deadline_at)
    if alert.activity_type is not None:
        document |= {"activity_id": alert.activity_id, "activity_type": alert.activity_type}
    if alert.attempt:
        document["attempt"] = alert.attempt
    return document


def check_alerts(run: RunRow) -> None:
    """Refuse the alerts of a new run that could never be fired.

    Raises:
        InvalidOptionError: No deadline that they are about is set, or their instant has passed.
    """
    stored = read_stored(run.alerts) if run.alerts is not None else None
    if stored is None:
        return
    policy, since = stored.policies[0], stored.since
    there = {
        AlertKind.EXECUTION: run.execution_deadline_at,
        AlertKind.RUN: run.run_timeout,
        AlertKind.SCHEDULE_TO_START: run.start_deadline_at,
    }
    set_kinds = [kind for kind, value in there.items() if value is not None]
    check_deadlines(policy, set_kinds, "give execution_timeout or run_timeout, or use after=")
    if policy.at_instant_us is not None and policy.at_instant_us <= since:
        raise InvalidOptionError(
            f"alerts at_instant {iso(policy.at_instant_us)} has passed (it is {iso(since)}): give a later one",
            field="at_instant",
        )
