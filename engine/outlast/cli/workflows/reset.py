"""``outlast reset``."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Reason, RunId, Url, WorkflowId
from outlast.cli.common.output import document, show
from outlast.client.client import Client
from outlast.text.parsing import duration


def reset(
    workflow_id: WorkflowId,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="POINT",
            help="The number of the last event to keep, first-workflow-task, last-workflow-task or last-successful.",
        ),
    ] = "last-workflow-task",
    run_id: RunId = None,
    reason: Reason = None,
    execution_timeout: Annotated[
        str | None,
        typer.Option(
            "--execution-timeout",
            metavar="TIME",
            help="A new execution timeout, from now.",
            show_default=False,
        ),
    ] = None,
    signals: Annotated[
        bool,
        typer.Option("--signals/--no-signals", help="Carry over the signals after the point, or drop them."),
    ] = True,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Start a new run of a workflow from a point of its history."""
    point = int(to) if to.isascii() and to.isdigit() else to
    timeout = duration("execution timeout", execution_timeout)

    async def work(client: Client) -> None:
        handle = await client.reset(
            workflow_id, point, run_id=run_id, reason=reason, execution_timeout=timeout, signals=signals
        )
        if json:
            document({"workflow_id": workflow_id, "run_id": handle.run_id})
        else:
            show(f"reset {workflow_id}: it continues as run {handle.run_id}")

    with_client(url, work)
