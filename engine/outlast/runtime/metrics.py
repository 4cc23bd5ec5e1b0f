"""The engine's metrics, recorded through the OpenTelemetry API: :data:`METRICS`.

A process writes everything through its journal, so the metrics are taken there: a listener reads each committed batch
once. They include what a watchdog in this process enforces; what another process writes is in that process's metrics.
If the process has set no meter provider, nothing subscribes to the journal and the metrics cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from opentelemetry.metrics import MeterProvider, get_meter_provider

from outlast_store.alerts.channels import channel_of
from outlast_store.journal.commit_news import Committed
from outlast_store.schema.rows import ActivityRow, AlertRow, AlertTimerRow, AttemptRow, RunRow
from outlast_store.transitions.requests import REJECTED
from outlast_workflow.history.events import (
    Event,
    SignalReceived,
    UpdateAccepted,
    WorkflowCancelRequested,
    WorkflowDequeued,
    WorkflowTaskFailed,
)
from outlast_workflow.options.alerts import DELIVERY
from outlast_workflow.primitives.enums import ActivityStatus, AlertKind, RunStatus
from outlast_workflow.primitives.metric import LATENESS_BUCKETS_S, Metric

METER: Final = "outlast"
DURATION_BUCKETS_S: Final = (
    0.001,
    0.005,
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
    10.0,
    60.0,
    300.0,
    3600.0,
    86_400.0,
)

_RUN: Final = ("workflow_type", "task_queue")
_ACTIVITY: Final = ("activity_type", "task_queue", "outcome")

STARTED: Final = Metric("outlast.workflow.started", "counter", "{run}", _RUN, "Runs started")
ENDED: Final = Metric("outlast.workflow.ended", "counter", "{run}", (*_RUN, "outcome"), "Runs ended")
DURATION: Final = Metric(
    "outlast.workflow.duration",
    "histogram",
    "s",
    (*_RUN, "outcome"),
    "Time from a run's creation to its end",
)
TASK_FAILURES: Final = Metric(
    "outlast.workflow.task_failures",
    "counter",
    "{streak}",
    _RUN,
    "Streaks of failed workflow tasks, each counted when it starts",
)
ACTIVITY_ENDED: Final = Metric(
    "outlast.activity.ended",
    "counter",
    "{activity}",
    _ACTIVITY,
    "Activities ended, each counted once whatever its number of attempts",
)
ACTIVITY_DURATION: Final = Metric(
    "outlast.activity.duration",
    "histogram",
    "s",
    _ACTIVITY,
    "Time from scheduling an activity to its end, including all attempts and waits",
)
ATTEMPTS: Final = Metric(
    "outlast.activity.attempts", "counter", "{attempt}", _ACTIVITY, "Activity attempts ended"
)
REQUESTS: Final = Metric(
    "outlast.requests",
    "counter",
    "{request}",
    ("kind", "outcome"),
    "Signals, updates and cancel requests that reached a run",
)
ADMISSIONS: Final = Metric(
    "outlast.queue.admissions",
    "counter",
    "{admission}",
    ("queue",),
    "Runs and attempts of activities that their queue admitted",
)
_ALERT: Final = ("kind", "mark", "workflow_type")
ALERTS_FIRED: Final = Metric("outlast.alerts.fired", "counter", "{alert}", _ALERT, "Alerts fired")
ALERTS_LATENESS: Final = Metric(
    "outlast.alerts.lateness", "histogram", "s", _ALERT, "How late each alert was fired"
)
ALERTS_MISSED: Final = Metric(
    "outlast.alerts.missed",
    "counter",
    "{alert}",
    ("kind", "mark"),
    "Marks that no watchdog saw before their deadlines",
)
DELIVERY_ATTEMPTS: Final = Metric(
    "outlast.alerts.delivery_attempts",
    "counter",
    "{attempt}",
    ("channel", "outcome"),
    "Attempts to deliver alerts to a channel that ended",
)
DELIVERIES: Final = Metric(
    "outlast.alerts.deliveries",
    "counter",
    "{delivery}",
    ("channel", "outcome"),
    "Deliveries of alerts that ended, of up to a hundred alerts each",
)
METRICS: Final = (
    STARTED,
    ENDED,
    DURATION,
    TASK_FAILURES,
    ACTIVITY_ENDED,
    ACTIVITY_DURATION,
    ATTEMPTS,
    REQUESTS,
    ADMISSIONS,
    ALERTS_FIRED,
    ALERTS_LATENESS,
    ALERTS_MISSED,
    DELIVERY_ATTEMPTS,
    DELIVERIES,
)

_REQUESTS: Final[dict[type[Event], dict[str, str]]] = {
    SignalReceived: {"kind": "signal", "outcome": "accepted"},
    UpdateAccepted: {"kind": "update", "outcome": "accepted"},
    WorkflowCancelRequested: {"kind": "cancel", "outcome": "accepted"},
}
DELIVERED: Final = "delivered"
_REJECTED: Final = {"kind": "update", "outcome": "rejected"}


class EngineMetrics:
    """The instruments of one meter provider, and the listener of the journal that records to them."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(METER)
        self._started = STARTED.counter(meter)
        self._ended = ENDED.counter(meter)
        self._duration = DURATION.histogram(meter, DURATION_BUCKETS_S)
        self._task_failures = TASK_FAILURES.counter(meter)
        self._activity_ended = ACTIVITY_ENDED.counter(meter)
        self._activity_duration = ACTIVITY_DURATION.histogram(meter, DURATION_BUCKETS_S)
        self._attempts = ATTEMPTS.counter(meter)
        self._requests = REQUESTS.counter(meter)
        self._admissions = ADMISSIONS.counter(meter)
        self._alerts_fired = ALERTS_FIRED.counter(meter)
        self._alerts_lateness = ALERTS_LATENESS.histogram(meter, LATENESS_BUCKETS_S)
        self._alerts_missed = ALERTS_MISSED.counter(meter)
        self._delivery_attempts = DELIVERY_ATTEMPTS.counter(meter)
        self._deliveries = DELIVERIES.counter(meter)

    def on_commit(self, committed: Committed) -> None:
        """Record what a committed batch contains."""
        for run_id in committed.begun:
            self._started.add(1, _of_run(committed.runs[run_id]))
        for run_id, appended in committed.events.items():
            self._events(committed.runs[run_id], appended)
        activities: dict[tuple[str, int], ActivityRow] = {}
        for row in committed.activities:
            activities[row.run_id, row.activity_id] = row
            if row.closed_at is not None:
                self._activity(row, row.closed_at)
            elif row.queue is not None and row.started_at == committed.now:
                self._admissions.add(1, {"queue": row.queue})
        for values in committed.attempts:
            attempt = AttemptRow(*values)
            row = activities[attempt.run_id, attempt.activity_id]
            self._attempt(row, attempt.outcome)
        for answer in committed.answered.values():
            if answer[0] == REJECTED:
                self._requests.add(1, _REJECTED)
        for alert in committed.alerts:
            of = {**_of_mark(alert), "workflow_type": alert.workflow_type}
            self._alerts_fired.add(1, of)
            self._alerts_lateness.record((alert.fired_at - alert.due_at) / 1_000_000, of)
        for timer in committed.missed_alerts:
            self._alerts_missed.add(1, _of_mark(timer))

    def _events(self, run: RunRow, appended: Sequence[tuple[int, Event, object]]) -> None:
        for _, event, _ in appended:
            request = _REQUESTS.get(type(event))
            if request is not None:
                self._requests.add(1, request)
            elif type(event) is WorkflowDequeued:
                self._admissions.add(1, {"queue": event.queue})
            elif type(event) is WorkflowTaskFailed:
                self._task_failures.add(1, _of_run(run))
        if run.closed_at is not None and appended[-1][1].terminal:
            of = {**_of_run(run), "outcome": run.status}
            self._ended.add(1, of)
            self._duration.record((run.closed_at - run.created_at) / 1_000_000, of)
            if run.workflow_type == DELIVERY:
                self._deliveries.add(1, _of_delivery(run.task_queue, run.status))

    def _activity(self, row: ActivityRow, closed_at: int) -> None:
        of = _of_activity(row, row.status)
        self._activity_ended.add(1, of)
        self._activity_duration.record((closed_at - row.scheduled_at) / 1_000_000, of)
        # An attempt that succeeds has no row of its own.
        if row.status == ActivityStatus.COMPLETED:
            self._attempt(row, row.status)

    def _attempt(self, row: ActivityRow, outcome: str) -> None:
        self._attempts.add(1, _of_activity(row, outcome))
        if row.activity_type == DELIVERY:
            self._delivery_attempts.add(1, _of_delivery(row.public_task_queue, outcome))


def _of_run(run: RunRow) -> Mapping[str, str]:
    return {"workflow_type": run.workflow_type, "task_queue": run.task_queue}


def _of_mark(row: AlertRow | AlertTimerRow) -> dict[str, str]:
    # Instants are as many as there are workflows.
    return {"kind": row.kind, "mark": row.kind if row.kind == AlertKind.AT_INSTANT else row.mark}


def _of_delivery(task_queue: str, outcome: str) -> Mapping[str, str]:
    return {
        "channel": channel_of(task_queue) or task_queue,
        "outcome": DELIVERED if outcome == RunStatus.COMPLETED else outcome,
    }


def _of_activity(row: ActivityRow, outcome: str) -> Mapping[str, str]:
    return {"activity_type": row.activity_type, "task_queue": row.public_task_queue, "outcome": outcome}


_made: WeakKeyDictionary[MeterProvider, EngineMetrics] = WeakKeyDictionary()


def engine_metrics(provider: MeterProvider | None = None) -> EngineMetrics | None:
    """Return the metrics of a provider or of the process's own; ``None`` if that provider discards them."""
    provider = provider or get_meter_provider()
    # The API's own providers: one does nothing, one waits for a provider to be set.
    if type(provider).__module__.startswith("opentelemetry.metrics"):
        return None
    found = _made.get(provider)
    if found is None:
        found = _made[provider] = EngineMetrics(provider)
    return found
