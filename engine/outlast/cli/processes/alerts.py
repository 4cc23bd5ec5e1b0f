"""``outlast alerts``."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Url
from outlast.cli.common.output import document, show, table
from outlast.cli.common.stderr import tell
from outlast.client.client import Client
from outlast.text.wording import ago, label
from outlast.visibility.alerts import checked_kind
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.times import to_datetime

app = typer.Typer(
    name="alerts",
    help="List or acknowledge the alerts of deadlines that came near.",
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
            "FIRED", "WORKFLOW", "TYPE", "ACTIVITY", "WHAT", "SEEN BY", "ALERT", drop=("TYPE", "ACTIVITY")
        )
        for one in page.alerts:
            activity = "" if one.activity_type is None else f"{one.activity_type} ({one.activity_id})"
            made.add_row(
                ago(one.fired_at, now),
                label(one.workflow_id),
                label(one.workflow_type),
                label(activity),
                label(one.text),
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
    who = _login() if by is None else by

    async def work(client: Client) -> None:
        for alert_id in alerts:
            done = await client.alerts.acknowledge(alert_id, by=who)
            if json:
                document(done)
            else:
                show(f"alert {done.alert_id} of {label(done.workflow_id)} is acknowledged by {label(who)}")

    with_client(url, work)


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number that no user has.
        raise InvalidOptionError("nobody knows your login name: give --by", field="by") from None
