"""The engine at a glance: task queues, workflow types, and what the watchdog has done and has ahead."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from outlast.runtime.runtime import Runtime
from outlast.visibility.filters import Filters, run_filter
from outlast.visibility.upcoming import Due, due_view
from outlast.visibility.views import Instant, View
from outlast.visibility.workers import worker_summaries
from outlast.watchdog import WatchdogReport
from outlast_store.reads import overview, run_listing, task_queues
from outlast_store.upcoming.outlook import outlook
from outlast_workflow.primitives.enums import RunStatus
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND, from_datetime, to_datetime

WINDOWS: Final = {
    "overdue": timedelta(),
    "within_a_minute": timedelta(minutes=1),
    "within_an_hour": timedelta(hours=1),
    "within_a_day": timedelta(days=1),
}
"""The windows in which deadlines fall due; ``later`` counts the rest."""


class TaskQueueView(View):
    """A task queue.

    Attributes:
        waiting_runs: Runs that are ready and that no worker owns, counted up to 10,000.
        waiting_activities: Activities that are ready and not started, counted up to 10,000.
        running_activities: Activities that are running, of the first 10,000 of all task queues.
        oldest_waiting_seconds: How long the first of those has waited.
        workers: How many live workers serve the task queue.
    """

    task_queue: str
    waiting_runs: int
    waiting_activities: int
    running_activities: int
    oldest_waiting_seconds: float | None
    workers: int


async def task_queue_views(runtime: Runtime) -> list[TaskQueueView]:
    """Return the task queues that hold anything or that a live worker serves."""
    now = runtime.environment.clock.now()
    loads = await runtime.read(task_queues.task_queue_loads, now)
    serving: dict[str, int] = {}
    for worker in await worker_summaries(runtime):
        if worker.alive:
            for queue in worker.task_queues:
                serving[queue] = serving.get(queue, 0) + 1
    views: list[TaskQueueView] = []
    for queue in sorted({*loads, *serving}):
        load = loads.get(queue) or task_queues.TaskQueueLoad(queue)
        oldest = load.oldest_waiting_at
        views.append(
            TaskQueueView(
                task_queue=queue,
                waiting_runs=load.waiting_runs,
                waiting_activities=load.waiting_activities,
                running_activities=load.running_activities,
                oldest_waiting_seconds=None if oldest is None else max(0.0, _seconds(now - oldest)),
                workers=serving.get(queue, 0),
            )
        )
    return views


class StatusCounts(View):
    """How many runs match, by status.

    Attributes:
        counts: The number of each status, those without any runs included.
        at_least: The statuses of which there may be more than was counted.
        attention: How many of the runs need attention.
    """

    counts: dict[RunStatus, int]
    at_least: frozenset[RunStatus]
    attention: int


async def status_counts(runtime: Runtime, filters: Filters) -> StatusCounts:
    """Return how many runs match, by status, at a cost that does not grow with the number of runs.

    Args:
        runtime: The database.
        filters: Which runs; their statuses are ignored.
    """
    now = runtime.environment.clock.now()
    wanted = run_filter(**filters)
    found, more = await runtime.read_aside(run_listing.count_by_status, wanted, now)
    needing = await runtime.read_aside(
        run_listing.count, replace(wanted, statuses=(), open=None, attention=True), now
    )
    return StatusCounts(
        counts={status: found.get(status.value, 0) for status in RunStatus},
        at_least=frozenset(RunStatus(name) for name in more),
        attention=needing,
    )


class TypeView(View):
    """How the latest runs of a workflow type went.

    Attributes:
        runs: How many of the latest 10,000 runs are of the type.
        per_minute: How many were started a minute, since the first of them; a span under a minute counts as one.
        failed_share: The share of the ended ones that failed.
        timed_out_share: The share of the ended ones that timed out.
        median_seconds: The median duration of the ended ones.
        p95_seconds: Their 95th percentile.
    """

    workflow_type: str
    runs: int
    open: int
    statuses: dict[str, int]
    per_minute: float
    failed_share: float | None
    timed_out_share: float | None
    median_seconds: float | None
    p95_seconds: float | None


async def type_views(runtime: Runtime) -> list[TypeView]:
    """Return the workflow types of the latest runs, the busiest first."""
    now = runtime.environment.clock.now()
    return [_type_view(share, now) for share in await runtime.read(overview.type_shares)]


def _type_view(share: overview.TypeShare, now: int) -> TypeView:
    opened = share.of(RunStatus.QUEUED, RunStatus.PENDING, RunStatus.RUNNING)
    ended = share.runs - opened
    minutes = max(1.0, _seconds(now - share.first_created_at) / 60)
    median, slow = share.quantile_us(0.5), share.quantile_us(0.95)
    return TypeView(
        workflow_type=share.workflow_type,
        runs=share.runs,
        open=opened,
        statuses=dict(sorted(share.statuses.items())),
        per_minute=share.runs / minutes,
        failed_share=share.of(RunStatus.FAILED) / ended if ended else None,
        timed_out_share=share.of(RunStatus.TIMED_OUT) / ended if ended else None,
        median_seconds=None if median is None else _seconds(median),
        p95_seconds=None if slow is None else _seconds(slow),
    )


class EnforcedView(View):
    """A timeout that was enforced, and how late."""

    kind: str
    deadline_at: Instant
    recorded_at: Instant
    lateness_seconds: float
    workflow_id: str
    run_id: str
    source_kind: str
    source_id: str | None


class WatchdogView(View):
    """What lies ahead, and the timeouts that were enforced lately.

    Attributes:
        open: By kind, how much falls due in which window: ``overdue``, ``within_a_minute``, ``within_an_hour``,
            ``within_a_day``, ``later``; of the nearest 10,000 of runs, activities, timers, alerts and schedules each.
        more: Whether there are more than were counted.
        nearest: The nearest fifty, without heartbeats.
        heartbeats: The nearest fifty heartbeats.
        enforced: Timeouts among the latest failures, newest first, fifty at most.
        worst_lateness_seconds: The greatest lateness among those.
    """

    open: dict[str, dict[str, int]]
    more: bool
    nearest: list[Due]
    heartbeats: list[Due]
    enforced: list[EnforcedView]
    worst_lateness_seconds: float | None
    now: Instant


async def watchdog_view(runtime: Runtime) -> WatchdogView:
    """Return what the watchdog has ahead and what it has enforced lately."""
    now = to_datetime(runtime.environment.clock.now())
    bounds = [from_datetime(now + ahead) for ahead in WINDOWS.values()]
    ahead = await runtime.read(outlook, bounds)
    lately = await runtime.read(overview.enforced_lately)
    windows = (*WINDOWS, "later")
    enforced = [
        EnforcedView(
            kind=one.kind,
            deadline_at=to_datetime(one.deadline_at),
            recorded_at=to_datetime(one.recorded_at),
            lateness_seconds=max(0.0, _seconds(one.recorded_at - one.deadline_at)),
            workflow_id=one.workflow_id,
            run_id=one.run_id,
            source_kind=one.source_kind,
            source_id=one.source_id,
        )
        for one in lately
    ]
    return WatchdogView(
        open={kind: dict(zip(windows, counts, strict=True)) for kind, counts in sorted(ahead.counts.items())},
        more=ahead.more,
        nearest=[due_view(due) for due in ahead.nearest],
        heartbeats=[due_view(due) for due in ahead.heartbeats],
        enforced=enforced,
        worst_lateness_seconds=max((one.lateness_seconds for one in enforced), default=None),
        now=now,
    )


class PassReport(View):
    """What a pass of a watchdog did."""

    passed_at: Instant
    counts: dict[str, int]
    worst_lateness_seconds: float
    set_aside: int
    left: dict[str, int]
    reached_limit: bool
    next_deadline_at: Instant | None
    skipped: bool
    duration_seconds: float


def pass_report(report: WatchdogReport) -> PassReport:
    """Return a report as a view."""
    document: dict[str, Any] = report.to_document()
    for name in ("passed_at", "next_deadline_at"):
        if document[name] is not None:
            document[name] = datetime.fromisoformat(document[name])
    return PassReport(**document)


def _seconds(us: int) -> float:
    return us / MICROSECONDS_PER_SECOND
