"""``outlast replay``: recorded histories, replayed with the current code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.exit_codes import CommandFailedError
from outlast.cli.common.filters import CreatedAfter, Open, Status, Type
from outlast.cli.common.options import AsJson, Codec, Url
from outlast.cli.common.output import document, progress, show
from outlast.cli.common.user_code import converter, interceptors, load
from outlast.cli.workflows.listing import now_of
from outlast.client.client import Client
from outlast.histories.source import Documents
from outlast.testing.replayer import ReplayedRun, Replayer, ReplayReport
from outlast.text.parsing import moment
from outlast.text.wording import counted
from outlast.visibility.filters import Filters
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import integer

MOST_SHOWN = 10


def replay(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE[:NAME]",
            help="Everything that a module defines, or one workflow or a list of them.",
            show_default=False,
        ),
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Files that `outlast export` wrote; without any, a database.",
            show_default=False,
        ),
    ] = None,
    type: Type = None,
    status: Status = None,
    created_after: CreatedAfter = None,
    open: Open = None,
    limit: Annotated[int, typer.Option("--limit", help="The most runs of a database; 0 for all.")] = 0,
    interceptor: Annotated[
        list[str] | None,
        typer.Option(
            "--interceptor",
            metavar="MODULE:NAME",
            help="An interceptor that the worker has, its class, or a list of either; repeatable.",
            show_default=False,
        ),
    ] = None,
    no_runtime_guard: Annotated[
        bool, typer.Option("--no-runtime-guard", help="Let workflow code open files, sockets and processes.")
    ] = False,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Replay recorded histories with the current code; exit with 1 if one no longer replays."""
    integer("limit", limit, 0)
    workflows, _ = load([target])
    if not workflows:
        raise InvalidOptionError(f"{target!r} holds no workflow", field="module")
    replayer = Replayer(
        workflows,
        converter=converter(codec),
        interceptors=interceptors(interceptor or ()),
        runtime_guard=not no_runtime_guard,
    )
    report = ReplayReport()
    if files:
        for file in files:
            with progress(f"replaying {file.name}", Documents(file).size) as reached:
                for place, run in replayer.replay_each(file):
                    report.add(run)
                    reached(place)
    else:

        async def work(client: Client) -> ReplayReport:
            filters = Filters(
                status=status or None,
                workflow_type=type,
                created_after=moment("created after", created_after, now_of(client)),
                open=open,
            )
            total = await client.count(**filters)
            with progress("replaying", min(total, limit) if limit else total) as reached:
                return await replayer.replay_all(client, limit=limit or None, progress=reached, **filters)

        report = with_client(url, work, codec=codec)
    _show(report, json=json)


def _show(report: ReplayReport, *, json: bool) -> None:
    if json:
        document(
            {
                "runs": report.runs,
                "events": report.events,
                "workflow_tasks": report.workflow_tasks,
                "failures": report.failures,
                "skipped": dict(report.skipped),
                "failed": [_failure(run) for run in report.failed],
            }
        )
    else:
        for run in report.failed[:MOST_SHOWN]:
            kind = run.error.__class__.__name__
            show(
                f"run {run.run_id} of workflow {run.workflow_id} ({run.workflow_type}): {kind}",
                f"{run.error}\n",
            )
        if report.failures > MOST_SHOWN:
            show(f"… and {report.failures - MOST_SHOWN:,} more: --json has a hundred")
        others = ", ".join(f"{count:,} of {name}" for name, count in sorted(report.skipped.items()))
        show(
            f"replayed {counted(report.runs, 'run')}, {counted(report.events, 'event')}"
            + (f"; skipped {others}" if others else "")
        )
    if report.failures:
        raise CommandFailedError(
            f"{report.failures:,} of {report.runs:,} histories no longer replay: restore the order of calls, or put "
            "the new code behind workflow.patched"
        )


def _failure(run: ReplayedRun) -> dict[str, Any]:
    error = run.error
    names: tuple[str, ...] = getattr(error, "facts", ())
    return {
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "workflow_type": run.workflow_type,
        "error": {
            "type": error.__class__.__name__,
            "message": str(error),
            **{name: getattr(error, name) for name in names},
        },
    }
