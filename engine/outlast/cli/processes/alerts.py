"""``outlast alerts``."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.exit_codes import CommandFailedError
from outlast.cli.common.login import login_name
from outlast.cli.common.options import AsJson, Url
from outlast.cli.common.output import document, show, table
from outlast.cli.common.stderr import tell
from outlast.client.client import Client
from outlast.text.parsing import duration
from outlast.text.wording import ago, label
from outlast.visibility.alerts import checked_kind, delivery_words
from outlast_workflow.errors import WorkflowResultError
from outlast_workflow.primitives.times import to_datetime

app = typer.Typer(
    name="alerts",
    help="List or acknowledge the alerts of deadlines that came near, or test a channel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command(name="list")
def list_(
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="ID", help="Only those of this workflow.")
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only those of workflows of this type.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only those of this kind, for example start_to_close.")
    ] = None,
    acknowledged: Annotated[
        bool | None,
        typer.Option(
            "--acknowledged/--unacknowledged",
            help="Only those that somebody has acknowledged, or only those that nobody has.",
            show_default=False,
        ),
    ] = None,
    cursor: Annotated[
        str | None,
        typer.Option("--cursor", metavar="ID", help="Where the page before ended: its last alert's id."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most, up to 1000.")] = 100,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """List the alerts that were fired, the newest first."""
    wanted = checked_kind(kind)

    async def work(client: Client) -> None:
        page = await client.alerts.list(
            workflow_id=workflow,
            workflow_type=type,
            kind=wanted,
            acknowledged=acknowledged,
            cursor=cursor,
            limit=limit,
        )
        if page.stopped:
            tell(f"10,000 alerts were looked at, and older ones were not: go on with --cursor {page.cursor}")
        if json:
            for one in page.alerts:
                document(one)
            return
        if not page.alerts:
            show("there are no such alerts")
            return
        now = to_datetime(client.runtime.environment.clock.now())
        made = table(
            "FIRED",
            "WORKFLOW",
            "TYPE",
            "ACTIVITY",
            "WHAT",
            "TOLD",
            "SEEN BY",
            "ALERT",
            drop=("TYPE", "ACTIVITY", "TOLD"),
        )
        for one in page.alerts:
            activity = "" if one.activity_type is None else f"{one.activity_type} ({one.activity_id})"
            made.add_row(
                ago(one.fired_at, now),
                label(one.workflow_id),
                label(one.workflow_type),
                label(activity),
                label(one.text),
                delivery_words(one),
                label(one.acknowledged_by),
                one.alert_id,
            )
        show(made)

    with_client(url, work)


@app.command()
def ack(
    alerts: Annotated[list[str], typer.Argument(metavar="ALERT...", help="The alerts' ids.")],
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Who has seen them. Default: your login name.")
    ] = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Acknowledge alerts: say that you have seen them and take care. The first one who says so stands."""
    who = login_name() if by is None else by

    async def work(client: Client) -> None:
        for alert_id in alerts:
            done = await client.alerts.acknowledge(alert_id, by=who)
            if json:
                document(done)
            else:
                show(f"alert {done.alert_id} of {label(done.workflow_id)} is acknowledged by {label(who)}")

    with_client(url, work)


@app.command(name="test")
def send_test(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="The channel.", show_default=False)],
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="How long to wait until it is delivered.")
    ] = "30s",
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Deliver a test to a channel, on the way that alerts go, and wait for it."""
    seconds = duration("timeout", timeout) or 0

    async def work(client: Client) -> None:
        workflow_id = await client.alerts.test(channel)
        handle = client.handle(workflow_id)
        try:
            async with asyncio.timeout(seconds):
                await handle.result()
        except TimeoutError:
            raise CommandFailedError(await _why_not(client, channel, workflow_id, timeout)) from None
        except WorkflowResultError as error:
            cause = error.__cause__
            while cause is not None and cause.__cause__ is not None:
                cause = cause.__cause__
            raise CommandFailedError(f"channel {channel} did not take it: {cause or error}") from None
        if json:
            document({"channel": channel, "workflow_id": workflow_id, "delivered": True})
        else:
            show(f"channel {channel} has taken a test ({workflow_id})")

    with_client(url, work)


async def _why_not(client: Client, channel: str, workflow_id: str, timeout: str) -> str:
    """Return why a test has not been delivered in time."""
    found = await client.handle(workflow_id).describe()
    failures = [one.last_failure for one in found.pending_activities if one.last_failure is not None]
    if failures:
        why = f"it is tried again, and the last attempt failed: {failures[0].message}"
    elif found.run.status == "pending":
        why = "nobody serves it: Worker(alert_channels=...) and `outlast watchdog --alerts` do"
    else:
        why = "its attempt is under way"
    return f"channel {channel} has not taken it within {timeout}: {why} (`outlast describe {workflow_id}`)"
