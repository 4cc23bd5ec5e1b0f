"""The watchdog's metrics, through the OpenTelemetry API.

The API alone does nothing: without an SDK in the process (``set_meter_provider``) each call is a no-op. With an SDK,
the instruments of :data:`METRICS` are exported.

Open deadlines are counted only when a reader collects. A collection requests a count, the next pass makes it (up to
10,000 of each kind, so that the cost is bounded), and the following collection shows it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry.metrics import (
    CallbackOptions,
    Meter,
    MeterProvider,
    Observation,
    get_meter,
)

from outlast_runs.deadlines import Enforced
from outlast_runs.outbox import AppliedOutbox
from outlast_schedules.firing import FiredSlots
from outlast_watchdog.event_log import EventLog
from outlast_watchdog.report import SCHEDULE_FIRED, TIMER_FIRED, WatchdogReport
from outlast_workflow.primitives.enums import TimeoutKind
from outlast_workflow.primitives.metric import LATENESS_BUCKETS_S, Metric

METER: Final = "outlast.watchdog"
DURATION_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
ENFORCED_KINDS: Final = (*(kind.value for kind in TimeoutKind), TIMER_FIRED, SCHEDULE_FIRED)


ENFORCED: Final = Metric(
    "outlast.watchdog.enforced",
    "counter",
    "{deadline}",
    ("kind",),
    "Deadlines enforced, timers and schedules fired",
)
LATENESS: Final = Metric(
    "outlast.watchdog.lateness",
    "histogram",
    "s",
    ("kind",),
    "How late each deadline was enforced, or timer or schedule fired",
)
ACTIONS: Final = Metric(
    "outlast.watchdog.actions",
    "counter",
    "{action}",
    ("kind",),
    "Other actions: slots of schedules that started nothing, for children of closed parents, and for dead workers",
)
SET_ASIDE: Final = Metric(
    "outlast.watchdog.set_aside",
    "counter",
    "{row}",
    (),
    "Rows that could not be handled, counted each time they are met",
)
PASS_DURATION: Final = Metric(
    "outlast.watchdog.pass.duration", "histogram", "s", ("outcome",), "How long passes took"
)
OPEN_DEADLINES: Final = Metric(
    "outlast.watchdog.open_deadlines",
    "observable gauge",
    "{deadline}",
    ("of",),
    "Open deadlines and timers, counted up to 10,000 of each kind",
)
OUTBOX: Final = Metric(
    "outlast.watchdog.outbox",
    "counter",
    "{row}",
    ("kind", "outcome"),
    "Rows of the outbox that were applied or refused, by watchdogs or by the process that wrote them",
)
OUTBOX_WAIT: Final = Metric(
    "outlast.watchdog.outbox.wait",
    "histogram",
    "s",
    ("kind",),
    "How long rows of the outbox had waited since they were written, the rest of their transaction included",
)
METRICS: Final = (ENFORCED, LATENESS, ACTIONS, SET_ASIDE, PASS_DURATION, OPEN_DEADLINES, OUTBOX, OUTBOX_WAIT)


class WatchdogMetrics:
    """The instruments of one meter provider, shared by the watchdogs of a process."""

    def __init__(self, meter: Meter) -> None:
        self._enforced = ENFORCED.counter(meter)
        self._actions = ACTIONS.counter(meter)
        self._set_aside = SET_ASIDE.counter(meter)
        self._lateness = LATENESS.histogram(meter, LATENESS_BUCKETS_S)
        self._duration = PASS_DURATION.histogram(meter, DURATION_BUCKETS_S)
        self._outbox = OUTBOX.counter(meter)
        self._outbox_wait = OUTBOX_WAIT.histogram(meter, LATENESS_BUCKETS_S)
        # A reader collects on a thread of its own.
        self._lock = threading.Lock()
        self._samples: WeakKeyDictionary[object, dict[str, int]] = WeakKeyDictionary()
        self._unasked: WeakSet[object] = WeakSet()
        meter.create_observable_gauge(
            OPEN_DEADLINES.name,
            [self._observe],
            unit=OPEN_DEADLINES.unit,
            description=OPEN_DEADLINES.description,
        )

    def late(self, kind: str, microseconds: int) -> None:
        """Record how late a deadline was enforced or a timer fired.

        Args:
            kind: The kind of deadline.
            microseconds: How late.
        """
        self._lateness.record(microseconds / 1_000_000, {"kind": kind})

    def outbox_applied(self, applied: AppliedOutbox) -> None:
        """Record what became of rows of the outbox."""
        refused = [row for row, _ in applied.refused]
        for outcome, rows in (("applied", applied.applied), ("refused", refused)):
            for row in rows:
                self._outbox.add(1, {"kind": row.kind, "outcome": outcome})
                if row.created_at is not None:
                    waited = max(0, applied.at - row.created_at) / 1_000_000
                    self._outbox_wait.record(waited, {"kind": row.kind})

    def passed(self, report: WatchdogReport) -> None:
        """Record a pass that has ended."""
        for kind, number in report.counts.items():
            if kind in ENFORCED_KINDS:
                self._enforced.add(number, {"kind": kind})
            else:
                self._actions.add(number, {"kind": kind})
        if report.set_aside:
            self._set_aside.add(report.set_aside)
        outcome = "skipped" if report.skipped else "busy" if report.done else "idle"
        self._duration.record(report.duration_s, {"outcome": outcome})

    def failed(self, duration_s: float) -> None:
        """Record a pass that failed, with its duration in seconds."""
        self._duration.record(duration_s, {"outcome": "failed"})

    def wants_open(self, database: object) -> bool:
        """Return whether a reader has collected since the last count of a database."""
        with self._lock:
            if database in self._samples:
                return database not in self._unasked
            self._samples[database] = {}
            self._unasked.add(database)
            return False

    def sampled(self, database: object, counts: dict[str, int]) -> None:
        """Keep the number of open deadlines of a database.

        Args:
            database: The database.
            counts: The numbers by what the deadlines are of.
        """
        with self._lock:
            self._samples[database] = counts
            self._unasked.add(database)

    def _observe(self, _options: CallbackOptions) -> Iterable[Observation]:
        total: dict[str, int] = {}
        with self._lock:
            self._unasked.clear()
            for counts in self._samples.values():
                for of, number in counts.items():
                    total[of] = total.get(of, 0) + number
        return [Observation(number, {"of": of}) for of, number in total.items()]


class MeasuringEventLog(EventLog):
    """An event log that also records how late each enforcement was."""

    def __init__(self, metrics: WatchdogMetrics) -> None:
        super().__init__()
        self._metrics = metrics

    def enforced(self, enforced: Enforced, **ids: Any) -> None:
        """See :class:`EventLog`."""
        self._metrics.late(enforced.kind.value, enforced.at - enforced.deadline_at)
        super().enforced(enforced, **ids)

    def timer_fired(self, run_id: str, timer_id: int, fire_at: int, at: int) -> None:
        """See :class:`EventLog`."""
        self._metrics.late(TIMER_FIRED, at - fire_at)
        super().timer_fired(run_id, timer_id, fire_at, at)

    def outbox_applied(self, applied: AppliedOutbox) -> None:
        """See :class:`EventLog`."""
        self._metrics.outbox_applied(applied)
        super().outbox_applied(applied)

    def schedule_fired(self, fired: FiredSlots, late: Sequence[int]) -> None:
        """See :class:`EventLog`."""
        for microseconds in late:
            self._metrics.late(SCHEDULE_FIRED, microseconds)
        super().schedule_fired(fired, late)


_made: WeakKeyDictionary[MeterProvider, WatchdogMetrics] = WeakKeyDictionary()
_own: list[WatchdogMetrics] = []


def watchdog_metrics(provider: MeterProvider | None = None) -> WatchdogMetrics:
    """Return the metrics of a provider; by default the process's own, whether it is set already or later."""
    if provider is None:
        if not _own:
            _own.append(WatchdogMetrics(get_meter(METER)))
        return _own[0]
    found = _made.get(provider)
    if found is None:
        found = _made[provider] = WatchdogMetrics(provider.get_meter(METER))
    return found
