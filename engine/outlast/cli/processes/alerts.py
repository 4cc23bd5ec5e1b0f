"""``outlast alerts list``."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Url
from outlast.cli.common.output import document, show, table
from outlast.client.client import Client
from outlast.text.wording import ago, label
from outlast.visibility.alerts import checked_kind
from outlast_workflow.primitives.times import to_datetime

app = typer.Typer(
    name="alerts",
    help="List the alerts of deadlines that came near.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def group() -> None:
    """Keep ``list`` a command of its own, although it is the only one."""


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
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="The id of the alert to continue after.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most, up to 1000.")] = 100,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """List the alerts that were fired, the newest first."""
    wanted = checked_kind(kind)

    async def work(client: Client) -> None:
        found = await client.alerts.list(
            workflow_id=workflow, workflow_type=type, kind=wanted, after=after, limit=limit
        )
        if json:
            for one in found:
                document(one)
            return
        if not found:
            show("there are no such alerts")
            return
        now = to_datetime(client.runtime.environment.clock.now())
        made = table("FIRED", "WORKFLOW", "TYPE", "ACTIVITY", "WHAT", drop=("TYPE", "ACTIVITY"))
        for one in found:
            activity = "" if one.activity_type is None else f"{one.activity_type} ({one.activity_id})"
            made.add_row(
                ago(one.fired_at, now),
                label(one.workflow_id),
                label(one.workflow_type),
                label(activity),
                label(one.text),
            )
        show(made)

    with_client(url, work)
