"""``outlast top``: the whole engine on one live screen."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Url
from outlast.cli.common.output import attention, console, document, label_columns, left, show, status, table
from outlast.client.client import Client
from outlast.text.parsing import duration
from outlast.text.wording import ago, capped, words
from outlast.visibility.overview import (
    TaskQueueView,
    TypeView,
    WatchdogView,
    task_queue_views,
    type_views,
    watchdog_view,
)
from outlast.visibility.views import RunSummary, View
from outlast_store.reads.task_queues import MOST_COUNTED
from outlast_workflow.options.validation import timeout_seconds
from outlast_workflow.primitives.times import to_datetime

LINES: Final = 8
"""The most lines of each part, so that everything fits on a screen."""


class Overview(View):
    """What the screen shows."""

    open_runs: int
    attention: tuple[RunSummary, ...]
    latest: tuple[RunSummary, ...]
    task_queues: list[TaskQueueView]
    types: list[TypeView]
    watchdog: WatchdogView
    now: datetime


def top(
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="How often the screen is updated.")
    ] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Print it once and exit.")] = False,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Watch the engine: task queues, deadlines, workflow types, runs, and what needs attention."""
    pause = timeout_seconds("interval", duration("interval", interval))

    async def work(client: Client) -> None:
        if once or json:
            while True:
                found = await overview(client)
                if json:
                    document(found)
                else:
                    show(screen(found))
                if once:
                    return
                await asyncio.sleep(pause)
        with Live(console=console(), screen=True, auto_refresh=False) as view:
            while True:
                view.update(screen(await overview(client)), refresh=True)
                await asyncio.sleep(pause)

    with_client(url, work)


async def overview(client: Client) -> Overview:
    """Read everything that the screen shows."""
    return Overview(
        open_runs=await client.count(open=True),
        attention=tuple((await client.list(page_size=LINES, attention=True).page()).runs),
        latest=tuple((await client.list(page_size=LINES).page()).runs),
        task_queues=await task_queue_views(client.runtime),
        types=await type_views(client.runtime),
        watchdog=await watchdog_view(client.runtime),
        now=to_datetime(client.runtime.environment.clock.now()),
    )


def screen(found: Overview) -> RenderableType:
    """Return the overview as a screen."""
    parts: list[RenderableType] = [_head(found)]
    if found.attention:
        parts.append(_runs("NEEDS ATTENTION", found.attention, found.now))
        parts += attention(found.attention[:LINES])
    parts += [
        _task_queues(found),
        _deadlines(found),
        _types(found),
        _runs("LATEST RUNS", found.latest, found.now),
    ]
    return Group(*parts)


def _head(found: Overview) -> Text:
    overdue = sum(windows["overdue"] for windows in found.watchdog.open.values())
    head = Text.assemble(
        ("outlast", "bold"),
        f"  {found.now.isoformat(sep=' ', timespec='seconds').replace('+00:00', 'Z')}"
        f"  {found.open_runs} open {'run' if found.open_runs == 1 else 'runs'}",
    )
    if overdue:
        head.append(f"  {overdue} overdue", style="bold red")
    if found.attention:
        head.append(f"  {len(found.attention)} need attention", style="bold red")
    return head


def _task_queues(found: Overview) -> RenderableType:
    made = table(
        "TASK QUEUE",
        "WORKERS",
        "RUNS WAITING",
        "ACTIVITIES WAITING",
        "RUNNING",
        "OLDEST WAITS",
        drop=("RUNNING",),
    )
    for queue in found.task_queues[:LINES]:
        oldest = queue.oldest_waiting_seconds
        made.add_row(
            queue.task_queue,
            Text(str(queue.workers), style="" if queue.workers else "bold red"),
            capped(queue.waiting_runs, MOST_COUNTED),
            capped(queue.waiting_activities, MOST_COUNTED),
            capped(queue.running_activities, MOST_COUNTED),
            "" if oldest is None else words(oldest),
        )
    return _part(made, found.task_queues)


def _deadlines(found: Overview) -> RenderableType:
    made = table("DUE NEXT", "WHEN", "WORKFLOW OR SCHEDULE")
    for due in found.watchdog.nearest[:LINES]:
        whose = due.workflow_id or due.schedule_id or ""
        made.add_row(due.kind.replace("_", "-"), left(due.due_at, found.now), whose)
    return _part(made, found.watchdog.nearest)


def _types(found: Overview) -> RenderableType:
    made = table(
        "TYPE", "RUNS", "OPEN", "PER MINUTE", "MEDIAN", "95 %", "FAILED", "TIMED OUT", drop=("95 %", "MEDIAN")
    )
    for kind in found.types[:LINES]:
        made.add_row(
            kind.workflow_type,
            str(kind.runs),
            str(kind.open),
            f"{kind.per_minute:.1f}",
            "" if kind.median_seconds is None else words(kind.median_seconds),
            "" if kind.p95_seconds is None else words(kind.p95_seconds),
            "" if kind.failed_share is None else f"{kind.failed_share:.1%}",
            "" if kind.timed_out_share is None else f"{kind.timed_out_share:.1%}",
        )
    return _part(made, found.types)


def _runs(title: str, runs: tuple[RunSummary, ...], now: datetime) -> RenderableType:
    labels = label_columns(runs)
    columns = (title, "TYPE", "STATUS", *labels, "DEADLINE", "CREATED", "ATTENTION")
    made = table(*columns, drop=("CREATED", "TYPE", "DEADLINE"))
    for run in runs[:LINES]:
        deadlines = [at for at in (run.execution_deadline_at, run.run_deadline_at) if at is not None]
        made.add_row(
            run.workflow_id,
            run.workflow_type,
            status(run.status),
            *[of(run) for of in labels.values()],
            left(min(deadlines), now) if deadlines and run.closed_at is None else Text(""),
            ago(run.created_at, now),
            ", ".join(run.attention),
        )
    return _part(made, runs)


def _part(made: Any, rows: Any) -> RenderableType:
    return Group(Text(""), made) if rows else Text("")
