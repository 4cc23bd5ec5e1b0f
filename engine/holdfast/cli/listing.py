"""``holdfast list``, ``count`` and ``workers``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from holdfast.cli.connecting import with_client
from holdfast.cli.options import AsJson, Url, moment
from holdfast.cli.output import ago, document, left, show, status, table
from holdfast.client import Client
from holdfast.listing import MOST_PER_PAGE, Filters
from holdfast.views import RunSummary, WorkerSummary
from holdfast_workflow.times import to_datetime
from holdfast_workflow.validation import integer

Status = Annotated[
    list[str] | None,
    typer.Option("--status", help="Only runs that are so; may be given several times.", show_default=False),
]
Type = Annotated[str | None, typer.Option("--type", help="Only this workflow.", show_default=False)]
Queue = Annotated[str | None, typer.Option("--task-queue", help="Only this task queue.", show_default=False)]
Id = Annotated[
    str | None, typer.Option("--id", help="Only the runs of this workflow id.", show_default=False)
]
CreatedAfter = Annotated[
    str | None,
    typer.Option("--created-after", metavar="WHEN", help="Created then or later.", show_default=False),
]
CreatedBefore = Annotated[
    str | None, typer.Option("--created-before", metavar="WHEN", help="Created earlier.", show_default=False)
]
ClosedAfter = Annotated[
    str | None,
    typer.Option("--closed-after", metavar="WHEN", help="Closed then or later.", show_default=False),
]
ClosedBefore = Annotated[
    str | None, typer.Option("--closed-before", metavar="WHEN", help="Closed earlier.", show_default=False)
]
DeadlineBefore = Annotated[
    str | None,
    typer.Option(
        "--deadline-before", metavar="WHEN", help="Open, with an earlier deadline.", show_default=False
    ),
]
NeedsAttention = Annotated[bool, typer.Option("--attention", help="Only runs that need a person.")]
Overdue = Annotated[
    bool, typer.Option("--overdue", help="Only runs of which a deadline passed that nobody enforced.")
]
Open = Annotated[
    bool | None, typer.Option("--open/--closed", help="Only open, or only closed runs.", show_default=False)
]


def list_(
    status: Status = None,
    type: Type = None,
    task_queue: Queue = None,
    id: Id = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    closed_after: ClosedAfter = None,
    closed_before: ClosedBefore = None,
    deadline_before: DeadlineBefore = None,
    attention: NeedsAttention = False,
    overdue: Overdue = False,
    open: Open = None,
    limit: Annotated[int, typer.Option("--limit", help="How many; 0 for all.")] = 50,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """List runs, newest first."""
    integer("limit", limit, 0)

    async def work(client: Client) -> None:
        now = _now(client)
        filters = _filters(
            now, status, type, task_queue, id, created_after, created_before, closed_after, closed_before,
            deadline_before, attention, overdue, open,
        )  # fmt: skip
        runs = client.list(page_size=min(limit, MOST_PER_PAGE) or MOST_PER_PAGE, **filters)
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
            _show_runs(found, now, more=more)

    with_client(url, work)


def count(
    status: Status = None,
    type: Type = None,
    task_queue: Queue = None,
    id: Id = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    closed_after: ClosedAfter = None,
    closed_before: ClosedBefore = None,
    deadline_before: DeadlineBefore = None,
    attention: NeedsAttention = False,
    overdue: Overdue = False,
    open: Open = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Count runs."""

    async def work(client: Client) -> None:
        filters = _filters(
            _now(client), status, type, task_queue, id, created_after, created_before, closed_after, closed_before,
            deadline_before, attention, overdue, open,
        )  # fmt: skip
        number = await client.count(**filters)
        if json:
            document({"count": number})
        else:
            show(str(number))

    with_client(url, work)


def _filters(
    now: datetime,
    status: list[str] | None,
    type: str | None,
    task_queue: str | None,
    id: str | None,
    created_after: str | None,
    created_before: str | None,
    closed_after: str | None,
    closed_before: str | None,
    deadline_before: str | None,
    attention: bool,
    overdue: bool,
    open: bool | None,
) -> Filters:
    return Filters(
        status=status or None,
        workflow_type=type,
        task_queue=task_queue,
        workflow_id=id,
        created_after=moment("created after", created_after, now),
        created_before=moment("created before", created_before, now),
        closed_after=moment("closed after", closed_after, now),
        closed_before=moment("closed before", closed_before, now),
        deadline_before=moment("deadline before", deadline_before, now, ahead=True),
        attention=attention,
        overdue=overdue,
        open=open,
    )


def _now(client: Client) -> datetime:
    return to_datetime(client.hub.environment.clock.now())


def _show_runs(runs: list[RunSummary], now: datetime, *, more: bool) -> None:
    if not runs:
        show("no runs")
        return
    made = table(
        "WORKFLOW ID", "TYPE", "STATUS", "RUN", "QUEUE", "CREATED", "CLOSED", "DEADLINE", "ATTENTION"
    )
    for run in runs:
        deadlines = [at for at in (run.execution_deadline_at, run.run_deadline_at) if at is not None]
        made.add_row(
            run.workflow_id,
            run.workflow_type,
            status(run.status),
            str(run.run_number),
            run.task_queue,
            ago(run.created_at, now),
            ago(run.closed_at, now),
            left(min(deadlines), now) if deadlines and run.closed_at is None else "",
            ", ".join(run.attention),
        )
    show(made)
    if more:
        show(f"… and more: --limit 0 lists all, filters list less ({len(runs)} shown)")


def workers(url: Url = None, json: AsJson = False) -> None:
    """List the registered workers: their leases, what they serve and how much they hold."""

    async def work(client: Client) -> None:
        found = await client.workers()
        if json:
            for worker in found:
                document(worker)
        else:
            _show_workers(found, _now(client))

    with_client(url, work)


def _show_workers(found: Sequence[WorkerSummary], now: datetime) -> None:
    if not found:
        show("no workers are registered: `holdfast worker MODULE` starts one")
        return
    made = table(
        "WORKER", "HOST", "PID", "LEASE", "STARTED", "QUEUES", "RUNS", "ACTIVITIES", "SERVES", "BUILD"
    )
    for worker in found:
        made.add_row(
            worker.worker_id,
            worker.host,
            str(worker.pid),
            left(worker.lease_expires_at, now),
            ago(worker.started_at, now),
            ", ".join(worker.task_queues),
            str(worker.runs_held),
            str(worker.activities_held),
            ", ".join((*worker.workflows, *worker.activities)),
            worker.build_id or "",
        )
    show(made)
