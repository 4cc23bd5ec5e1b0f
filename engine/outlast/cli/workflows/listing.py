"""``outlast list``, ``count`` and ``workers``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.filters import Chosen, with_filters
from outlast.cli.common.options import AsJson, Url
from outlast.cli.common.output import attention, document, hold_ups, label_columns, left, show, status, table
from outlast.client.client import Client
from outlast.text.wording import ago
from outlast.visibility.listing import MOST_PER_PAGE
from outlast.visibility.views import RunSummary, WorkerSummary
from outlast_store.reads.run_listing import Order
from outlast_workflow.options.validation import integer
from outlast_workflow.primitives.times import to_datetime


@with_filters
def list_(
    chosen: Chosen,
    limit: Annotated[int, typer.Option("--limit", help="The number of runs; 0 for all.")] = 50,
    order: Annotated[
        Order, typer.Option("--order", help="Newest or oldest first, or open runs by their nearest deadline.")
    ] = Order.NEWEST,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """List runs, newest first."""
    integer("limit", limit, 0)

    async def work(client: Client) -> None:
        size = min(limit, MOST_PER_PAGE) or MOST_PER_PAGE
        runs = client.list(page_size=size, order=order, **chosen.filters(client))
        found: list[RunSummary] = []
        seen, more = 0, False
        async for run in runs:
            if limit and seen == limit:
                more = True
                break
            seen += 1
            if json:
                document(run)
            else:
                found.append(run)
        if not json:
            _show_runs(found, now_of(client), more=more)

    with_client(url, work)


@with_filters
def count(chosen: Chosen, url: Url = None, json: AsJson = False) -> None:
    """Count runs."""

    async def work(client: Client) -> None:
        number = await client.count(**chosen.filters(client))
        if json:
            document({"count": number})
        else:
            show(str(number))

    with_client(url, work)


def now_of(client: Client) -> datetime:
    """Return the time by the engine's clock."""
    return to_datetime(client.runtime.environment.clock.now())


def _show_runs(runs: list[RunSummary], now: datetime, *, more: bool) -> None:
    if not runs:
        show("no runs")
        return
    labels = label_columns(runs)
    made = table(
        "WORKFLOW ID", "TYPE", "STATUS", *labels, "RUN", "TASK QUEUE", "CREATED", "CLOSED", "DEADLINE", "ATTENTION",
        drop=("RUN", "TASK QUEUE", "CLOSED", "CREATED", "TYPE", "DEADLINE", "ATTENTION"),
    )  # fmt: skip
    for run in runs:
        deadlines = [at for at in (run.execution_deadline_at, run.run_deadline_at) if at is not None]
        made.add_row(
            run.workflow_id,
            run.workflow_type,
            status(run.status),
            *[of(run) for of in labels.values()],
            str(run.run_number),
            run.task_queue,
            ago(run.created_at, now),
            ago(run.closed_at, now),
            left(min(deadlines), now) if deadlines and run.closed_at is None else "",
            ", ".join(run.attention),
        )
    show(made)
    told = [*attention(runs), *hold_ups(runs)]
    if told:
        show("", *told)
    if more:
        show(f"… and more: {len(runs)} shown; --limit 0 lists all, filters narrow the list")


def workers(url: Url = None, json: AsJson = False) -> None:
    """List the registered workers: their leases, what they serve and how much they hold."""

    async def work(client: Client) -> None:
        found = await client.workers()
        if json:
            for worker in found:
                document(worker)
        else:
            _show_workers(found, now_of(client))

    with_client(url, work)


def _show_workers(found: Sequence[WorkerSummary], now: datetime) -> None:
    if not found:
        show("no workers are registered: `outlast worker MODULE` starts one")
        return
    # Most workers admit from all queues.
    queues = ["QUEUES"] if any(worker.queues is not None for worker in found) else []
    made = table(
        "WORKER", "HOST", "PID", "LEASE", "STARTED", "TASK QUEUES", *queues, "RUNS", "ACTIVITIES", "SERVES", "BUILD",
        drop=("BUILD", "STARTED", "SERVES", "PID", "HOST", "ACTIVITIES", "RUNS", *queues, "TASK QUEUES"),
    )  # fmt: skip
    for worker in found:
        made.add_row(
            worker.worker_id,
            worker.host,
            str(worker.pid),
            left(worker.lease_expires_at, now),
            ago(worker.started_at, now),
            ", ".join(worker.task_queues),
            *["all" if worker.queues is None else ", ".join(worker.queues) or "none" for _ in queues],
            str(worker.runs_held),
            str(worker.activities_held)
            + ("" if worker.activity_slots is None else f" of {worker.activity_slots}"),
            ", ".join((*worker.workflows, *worker.activities)),
            worker.build_id or "",
        )
    show(made)
