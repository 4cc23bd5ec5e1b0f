"""Prometheus metrics: gauges read from the database at each scrape, and what else this process exports.

The engine's own instruments (:mod:`outlast_watchdog.metrics`) use OpenTelemetry. If its Prometheus exporter runs in the
process, they are in the default registry, and so part of this page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from outlast.outbox.outbox import OutboxSummary
from outlast.queues.descriptions import QueueDescription
from outlast.visibility.overview import (
    StatusCounts,
    TaskQueueView,
    WatchdogView,
    status_counts,
    task_queue_views,
    watchdog_view,
)
from outlast_dashboard.authorization import Reader, TheWeb
from outlast_store.reads.queues import count_queues
from outlast_workflow.options.alerts import DELIVERY
from outlast_workflow.primitives.enums import RunStatus

MOST_QUEUES = 500
"""How many queues a scrape tells of, the first by name: each takes some statements."""

_WAITING: Final = (RunStatus.QUEUED, RunStatus.PENDING, RunStatus.RUNNING)

router = APIRouter(tags=["operations"])


class _Snapshot(Collector):
    """The gauges of one scrape."""

    def __init__(
        self,
        task_queues: list[TaskQueueView],
        queues: Sequence[QueueDescription],
        queues_left_out: int,
        watchdog: WatchdogView,
        outbox: OutboxSummary,
        open_runs: int,
        attention: int,
        unacknowledged: int,
        deliveries: StatusCounts,
    ) -> None:
        self._task_queues = task_queues
        self._queues = queues
        self._queues_left_out = queues_left_out
        self._watchdog = watchdog
        self._outbox = outbox
        self._open_runs = open_runs
        self._attention = attention
        self._unacknowledged = unacknowledged
        self._deliveries = deliveries

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("outlast_open_runs", "Runs that are open", value=self._open_runs)
        yield GaugeMetricFamily("outlast_attention_runs", "Runs that need attention", value=self._attention)
        yield GaugeMetricFamily(
            "outlast_unacknowledged_alerts",
            "Alerts that nobody has acknowledged, counted up to 10,000",
            value=self._unacknowledged,
        )
        deliveries = GaugeMetricFamily(
            "outlast_alert_deliveries",
            "Deliveries of alerts that are kept, by how they stand",
            labels=["status"],
        )
        for status, number in _standings(self._deliveries).items():
            deliveries.add_metric([status], number)
        yield deliveries
        deadlines = GaugeMetricFamily(
            "outlast_open_deadlines",
            "Deadlines, timers, alerts and schedules by kind and by when they fall due",
            labels=["kind", "due"],
        )
        for kind, windows in self._watchdog.open.items():
            for window, number in windows.items():
                deadlines.add_metric([kind, window], number)
        yield deadlines
        for name, words in (
            ("waiting_runs", "Runs that are ready and that no worker owns"),
            ("waiting_activities", "Activities that are ready and have not started"),
            ("running_activities", "Activities that are running"),
            ("oldest_waiting_seconds", "How long the oldest waiting run or activity has waited"),
            ("workers", "Live workers that serve the task queue"),
        ):
            gauge = GaugeMetricFamily(f"outlast_task_queue_{name}", words, labels=["task_queue"])
            for queue in self._task_queues:
                gauge.add_metric([queue.task_queue], getattr(queue, name) or 0)
            yield gauge
        for name, words in (
            ("waiting", "What stands in the queue's line"),
            ("running", "Slots of the queue that are held"),
            ("delayed", "What has yet to join the queue's line"),
            ("oldest_waiting_seconds", "How long the first in the queue's line has waited"),
            ("paused", "Whether the queue is paused: 1 or 0"),
        ):
            gauge = GaugeMetricFamily(f"outlast_queue_{name}", words, labels=["queue"])
            for described in self._queues:
                gauge.add_metric([described.name], float(getattr(described, name) or 0))
            yield gauge
        for name, words in (
            ("waiting", "Rows of the outbox that are to be applied"),
            ("refused", "Rows of the outbox that were refused and are kept"),
            ("oldest_waiting_seconds", "How long the first row of the outbox that waits has waited"),
        ):
            value = float(getattr(self._outbox, name) or 0)
            yield GaugeMetricFamily(f"outlast_outbox_{name}", words, value=value)
        yield GaugeMetricFamily(
            "outlast_queues_left_out",
            f"Queues of which this page says nothing: those after the first {MOST_QUEUES} by name",
            value=self._queues_left_out,
        )


def _standings(deliveries: StatusCounts) -> dict[str, int]:
    """Return how many deliveries wait, have been made, and have failed for good."""
    found = {"waiting": 0, "delivered": 0, "failed": 0}
    for status, number in deliveries.counts.items():
        if status in _WAITING:
            found["waiting"] += number
        else:
            found["delivered" if status is RunStatus.COMPLETED else "failed"] += number
    return found


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(web: TheWeb, _: Reader) -> Response:
    """Return the metrics in the text format of Prometheus."""
    client = web.client
    queues = await client.queues.list(limit=MOST_QUEUES)
    full = len(queues) == MOST_QUEUES
    snapshot = _Snapshot(
        await task_queue_views(client.runtime),
        queues,
        await client.runtime.read(count_queues, queues[-1].name) if full else 0,
        await watchdog_view(client.runtime),
        await client.outbox.summary(),
        await client.count(open=True),
        await client.count(attention=True),
        await client.alerts.unacknowledged(),
        await status_counts(client.runtime, {"workflow_type": DELIVERY}),
    )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(snapshot)
    return Response(generate_latest(registry) + generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)
