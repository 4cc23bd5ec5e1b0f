"""What must hold of deadline alerts: what is armed follows from the rows, and each alert fires once, never early."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Any

import orjson

from outlast_store.schema.rows import ActivityRow, AlertRow, AlertTimerRow, RunRow
from outlast_workflow.primitives.times import from_iso, iso

_MICROSECONDS = 1_000_000
_OF_CHAINS = ("execution", "after", "at_instant")

Expected = dict[tuple[str, str], tuple[int, int, int | None]]
"""What a row arms: the attempt, the instant and the deadline, by kind and mark."""


def check_alerts(
    timers: Sequence[AlertTimerRow],
    alerts: Sequence[AlertRow],
    runs: Mapping[str, RunRow],
    activities: Mapping[str, Sequence[ActivityRow]],
    now: int | None = None,
) -> Iterator[tuple[str, str]]:
    """Check what is armed and what was fired. Yield the place, and a sentence.

    Args:
        timers: What is armed.
        alerts: What was fired.
        runs: All runs.
        activities: Their activities.
        now: The instant, in microseconds; by default that of the newest event.
    """
    fired = {(row.scope, row.activity_id, row.attempt, row.kind, row.mark) for row in alerts}
    by_key = {(row.run_id, row.activity_id): row for rows in activities.values() for row in rows}
    armed = {(row.run_id, row.activity_id, row.kind, row.mark): row for row in timers}
    # What is missed, because nobody saw it before its deadline, leaves no event.
    newest = max((run.last_event_at for run in runs.values()), default=0) if now is None else now
    for timer in timers:
        activity = by_key.get((timer.run_id, timer.activity_id))
        for what in _check_timer(timer, runs.get(timer.run_id), activity, newest):
            yield f"alert {timer.kind} {timer.mark} of run {timer.run_id}", what
    workflows = {run.workflow_id: run.workflow_type for run in runs.values()}
    for alert in alerts:
        for what in _check_alert(alert, runs.get(alert.run_id), workflows):
            yield f"alert {alert.alert_id}", what
    for run in runs.values():
        subjects: list[tuple[int, Expected]] = [(0, _of_run(run))]
        subjects += [(row.activity_id, _of_activity(row)) for row in activities.get(run.run_id, ())]
        for activity_id, expected in subjects:
            for (kind, mark), (attempt, due_at, _) in expected.items():
                scope = run.first_run_id if activity_id == 0 and kind in _OF_CHAINS else run.run_id
                known = (scope, activity_id, attempt, kind, mark) in fired
                if due_at > newest and not known and (run.run_id, activity_id, kind, mark) not in armed:
                    yield f"run {run.run_id}", f"alert {kind} {mark} is neither armed nor fired"


def _check_timer(
    timer: AlertTimerRow, run: RunRow | None, activity: ActivityRow | None, newest: int
) -> Iterator[str]:
    if run is None or run.closed_at is not None:
        yield "is armed, but its run is closed or gone"
        return
    if timer.activity_id and (activity is None or activity.closed_at is not None):
        yield "is armed, but its activity is closed or gone"
        return
    expected = _of_run(run) if activity is None else _of_activity(activity)
    found = expected.get((timer.kind, timer.mark))
    if found is None:
        yield "is armed, but no policy asks for it"
        return
    attempt, due_at, deadline_at = found
    if timer.attempt != attempt:
        yield f"is armed for attempt {timer.attempt}, but attempt {attempt} is the current one"
    # What is due stays as it is until it is fired.
    if (timer.due_at, timer.deadline_at) != (due_at, deadline_at) and max(timer.due_at, due_at) > newest:
        yield f"is armed for {iso(timer.due_at)}, but its deadline says {iso(due_at)}"


def _check_alert(alert: AlertRow, run: RunRow | None, workflows: Mapping[str, str]) -> Iterator[str]:
    if alert.fired_at < alert.due_at:
        yield f"was fired {alert.due_at - alert.fired_at} µs early"
    for channel, workflow_id in orjson.loads(alert.deliveries or "{}").items():
        if workflow_id is not None and workflows.get(workflow_id) != "outlast.deliver":
            yield f"is delivered to {channel} by {workflow_id}, which is not there"
    if (alert.acknowledged_at is None) != (alert.acknowledged_by is None):
        yield "says when it was acknowledged or by whom, but not both"
    if alert.acknowledged_at is not None and alert.acknowledged_at < alert.fired_at:
        yield f"was acknowledged {alert.fired_at - alert.acknowledged_at} µs before it was fired"
    if run is None:
        # A chain is deleted in steps, and its alerts go before their run.
        yield "was fired for a run that is gone"
        return
    of_chain = alert.activity_id == 0 and alert.kind in _OF_CHAINS
    scope = run.first_run_id if of_chain else run.run_id
    if alert.scope != scope:
        yield f"is unique in {alert.scope}, but should be in {scope}"


def _of_run(run: RunRow) -> Expected:
    if run.closed_at is not None or run.alerts is None:
        return {}
    document = orjson.loads(run.alerts)
    found = Expected()
    # A rule that found the run has added its policy to the run's own.
    for policy in (document, *document.get("rules", ())):
        found |= _of_policy(run, policy, document["since"])
    return found


def _of_policy(run: RunRow, policy: dict[str, Any], since: int) -> Expected:
    found = Expected()
    if run.execution_deadline_at is not None:
        total = min(run.execution_deadline_at - since, run.execution_timeout or run.execution_deadline_at)
        found |= _marks(policy, "execution", run.execution_deadline_at, total)
    if run.run_deadline_at is not None:
        total = min(run.run_deadline_at - run.created_at, run.run_timeout or run.run_deadline_at)
        found |= _marks(policy, "run", run.run_deadline_at, total)
    if run.start_deadline_at is not None:
        joins_at = run.not_before if run.queued_at is None else run.queued_at
        found |= _marks(policy, "schedule_to_start", run.start_deadline_at, run.start_deadline_at - joins_at)
    at = from_iso(policy["at_instant"]) if "at_instant" in policy else None
    if at is not None and at > since:
        found["at_instant", iso(at)] = (0, at, None)
    return found | _waits(policy, since)


def _of_activity(row: ActivityRow) -> Expected:
    options = orjson.loads(row.options)
    policy = options.get("alerts")
    if row.closed_at is not None or policy is None:
        return {}
    found = Expected()
    for kind, attempt in (
        ("schedule_to_start", row.attempt + 1),
        ("start_to_close", row.attempt),
        ("schedule_to_close", 0),
    ):
        deadline, timeout = getattr(row, f"{kind}_deadline_at"), options.get(f"{kind}_timeout")
        if deadline is not None and timeout is not None:
            found |= _marks(policy, kind, deadline, _us(timeout), attempt)
    return found | _waits(policy, row.scheduled_at)


def _marks(policy: dict[str, Any], kind: str, deadline: int, total: int, attempt: int = 0) -> Expected:
    found = Expected()
    if kind not in policy.get("kinds", [kind]):
        return found
    for share in policy.get("at", ()):
        if share < 1:
            left = floor((1 - Fraction(str(share))) * total)
            found[kind, f"{float(Fraction(str(share)) * 100):.8g}%"] = (attempt, deadline - left, deadline)
    for lead in policy.get("before", ()):
        if _us(lead) < total:
            found[kind, f"-{lead:.15g}s"] = (attempt, deadline - _us(lead), deadline)
    return found


def _waits(policy: dict[str, Any], since: int) -> Expected:
    return {("after", f"+{wait:.15g}s"): (0, since + _us(wait), None) for wait in policy.get("after", ())}


def _us(seconds: float) -> int:
    exact = Fraction(str(seconds)) * _MICROSECONDS
    return -floor(-exact)
