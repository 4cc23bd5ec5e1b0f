"""The engine itself: workers, task queues, workflow types, the watchdog, health."""

from __future__ import annotations

from fastapi import APIRouter

from outlast import __version__
from outlast.visibility.overview import (
    PassReport,
    TaskQueueView,
    TypeView,
    WatchdogView,
    pass_report,
    task_queue_views,
    type_views,
    watchdog_view,
)
from outlast.visibility.views import WorkerSummary
from outlast.watchdog import TaskWatchdog
from outlast_dashboard.api.contract.models import Health
from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_store.reads import overview

router = APIRouter(tags=["operations"])


@router.get("/workers")
async def workers(web: TheWeb, _: Reader) -> list[WorkerSummary]:
    """List the registered workers: their leases, what they serve and how much they hold."""
    return list(await web.client.workers())


@router.get("/task-queues")
async def task_queues(web: TheWeb, _: Reader) -> list[TaskQueueView]:
    """List the task queues: what waits in each, for how long, and how many workers serve it."""
    return await task_queue_views(web.client.runtime)


@router.get("/types")
async def types(web: TheWeb, _: Reader) -> list[TypeView]:
    """List the workflow types: rates, durations, failures and timeouts of the latest 10,000 runs."""
    return await type_views(web.client.runtime)


@router.get("/watchdog")
async def watchdog(web: TheWeb, _: Reader) -> WatchdogView:
    """Show open deadlines by kind and by when they are due, what was enforced recently, and what is overdue."""
    return await watchdog_view(web.client.runtime)


@router.post("/watchdog/pass")
async def run_pass(web: TheWeb, _: Writer) -> PassReport:
    """Make a watchdog pass now. Workers make them all the time."""
    return pass_report(await TaskWatchdog(web.client).run_pass())


@router.get("/health")
async def health(web: TheWeb, _: Reader) -> Health:
    """Check that the database answers."""
    client = web.client
    await client.runtime.read(overview.ping)
    return Health(status="ok", version=__version__, database=client.runtime.url.backend, now=web.now())
