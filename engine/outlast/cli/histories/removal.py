"""``outlast delete`` and ``retention``: deleting closed workflows."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Reason, Url, WorkflowId
from outlast.cli.common.output import document, show
from outlast.client.client import Client
from outlast.histories.retention import Retention
from outlast.histories.retention_policy import RetentionPolicy
from outlast.text.parsing import duration
from outlast.text.wording import counted
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import integer


def delete(
    workflow_id: WorkflowId,
    terminate: Annotated[bool, typer.Option("--terminate", help="Terminate it first if it is open.")] = False,
    children: Annotated[
        bool,
        typer.Option("--children", help="Also delete what it has started as children, and theirs."),
    ] = False,
    reason: Reason = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Delete a closed workflow: all of its runs and their histories."""

    async def work(client: Client) -> None:
        runs = await client.delete(workflow_id, terminate=terminate, children=children, reason=reason)
        if json:
            document({"workflow_id": workflow_id, "runs": runs})
        else:
            show(f"deleted {workflow_id}: {counted(runs, 'run')}")

    with_client(url, work)


def retention(
    once: Annotated[bool, typer.Option("--once", help="Make one pass and exit; required.")] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Delete workflows that were closed longer ago.",
            show_default=False,
        ),
    ] = None,
    keep_last: Annotated[
        int | None,
        typer.Option(
            "--keep-last", help="Keep this many of the newest closed workflows.", show_default=False
        ),
    ] = None,
    export_to: Annotated[
        Path | None,
        typer.Option(
            "--export-to", metavar="DIR", help="Write each workflow to this folder first.", show_default=False
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="The most workflows to delete; 0 for all.")] = 0,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Delete closed workflows by age or number, in small steps."""
    if not once:
        raise InvalidOptionError(
            "retention needs --once; for a pass every hour, give a worker Worker(retention=RetentionPolicy(…))",
            field="once",
        )
    integer("limit", limit, 0)
    age = duration("older than", older_than)
    policy = RetentionPolicy(
        days=None if age is None else timedelta(seconds=age), keep_last=keep_last, export_to=export_to
    )

    async def work(client: Client) -> None:
        report = await Retention(client, policy).run_pass(limit or None)
        if json:
            document(asdict(report))
        else:
            show(
                f"deleted {counted(report.runs, 'run')} of {counted(report.chains, 'workflow')}, "
                f"exported {report.exported:,}, kept {report.kept:,}"
            )

    with_client(url, work)
