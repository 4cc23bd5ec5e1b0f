"""``outlast upcoming``: what fires when."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Url
from outlast.cli.common.output import console, document, left, show, table
from outlast.client.client import Client
from outlast.text.alert_words import mark_words
from outlast.text.parsing import duration
from outlast.text.wording import label, words
from outlast.visibility.upcoming import Due, Upcoming, checked_kinds
from outlast_workflow.options.validation import timeout_seconds
from outlast_workflow.primitives.enums import UpcomingKind


def upcoming(
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="Only this kind, for example timer or alert; repeatable. Default: all but heartbeat.",
        ),
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only workflows of this type.")
    ] = None,
    task_queue: Annotated[
        str | None, typer.Option("--task-queue", help="Only what is about this task queue.")
    ] = None,
    within: Annotated[
        str | None, typer.Option("--within", metavar="TIME", help="Only what falls due within this time.")
    ] = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", help="The cursor of the page before (--json has it).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How much at most, up to 1000.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", help="Keep it up to date until Ctrl-C.")] = False,
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="How often --follow looks.")
    ] = "1s",
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Show what fires when: the next deadlines, timers, alerts and schedules of all workflows."""
    pause = timeout_seconds("interval", duration("interval", interval))
    kinds = checked_kinds(kind or None)

    async def read(client: Client) -> Upcoming:
        return await client.upcoming(
            limit,
            within=duration("within", within),
            kinds=kinds,
            workflow_type=type,
            task_queue=task_queue,
            cursor=cursor,
        )

    async def work(client: Client) -> None:
        if json or not follow:
            while True:
                found = await read(client)
                if json:
                    document(found)
                else:
                    show(*_page(found, more=True))
                if not follow:
                    return
                await asyncio.sleep(pause)
        with Live(console=console(), screen=True, auto_refresh=False) as view:
            while True:
                view.update(Group(*_page(await read(client), more=False)), refresh=True)
                await asyncio.sleep(pause)

    with_client(url, work)


def _page(found: Upcoming, *, more: bool) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if found.due:
        made = table(
            "WHEN",
            "WHAT",
            "WORKFLOW OR SCHEDULE",
            "TYPE",
            "TASK QUEUE",
            "AT",
            drop=("TASK QUEUE", "AT", "TYPE"),
        )
        for due in found.due:
            made.add_row(
                when(due, found.now),
                label(what(due)),
                label(due.workflow_id or due.schedule_id),
                label(due.workflow_type),
                label(due.task_queue),
                due.due_at.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z"),
            )
        parts.append(made)
    elif not found.stopped:
        parts.append(Text("nothing is due" if found.cursor is None else "nothing more on this page"))
    if found.stopped:
        parts.append(Text("it looked at 10,000 that fall due; what comes later was not looked at"))
    if more and found.cursor is not None:
        parts.append(Text(f"more: --cursor {found.cursor}"))
    return parts


def when(due: Due, now: datetime) -> Text:
    """Return how far ahead it is; only a deadline that passes is bad news.

    Args:
        due: What falls due.
        now: The instant.
    """
    if due.kind not in (UpcomingKind.TIMER, UpcomingKind.ALERT, UpcomingKind.SCHEDULE):
        return left(due.due_at, now)
    seconds = (due.due_at - now).total_seconds()
    return Text(f"in {words(seconds)}" if seconds > 0 else "now")


def what(due: Due) -> str:
    """Return what falls due, in words: ``start-to-close of charge (3)``."""
    kind = due.kind.replace("_", "-")
    if due.kind is UpcomingKind.SCHEDULE:
        return kind
    if due.alert_kind is not None and due.mark is not None:
        kind = f"alert {mark_words(due.mark, due.alert_kind)}"
    if due.command_id is None:
        return kind
    return f"{kind} of {due.name} ({due.command_id})" if due.name else f"{kind} {due.command_id}"
