"""``outlast serverless trace``: the tasks that have run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from outlast import Client
from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Url, WorkflowId
from outlast.cli.common.output import console, document, show, table
from outlast.text.wording import words
from outlast_serverless.runtime.run import DocumentRun
from outlast_serverless.state_output import ended
from outlast_serverless.tracing.steps import TaskStep
from outlast_workflow.errors import InvalidOptionError

_AT_ONCE = 1_000
_OTHER_COLUMNS = 38
"""How much room all columns but the first need."""


def trace(
    workflow_id: WorkflowId,
    data: Annotated[
        bool, typer.Option("--data", help="With --json: tell the inputs and outputs of tasks, too.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", help="How many tasks are told at most.")] = 1_000,
    cursor: Annotated[
        str | None,
        typer.Option("--cursor", help="Where to go on, as the last trace has said.", show_default=False),
    ] = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Show every task of a run that has run, in the order in which they began. No worker is needed."""
    if data and not json:
        raise InvalidOptionError("--data is told as JSON: give --json, too", field="data")

    async def work(client: Client) -> None:
        run, left, next_ = DocumentRun(client.handle(workflow_id), client.runtime), limit, cursor
        steps: list[TaskStep] = []
        while True:
            page = await run.trace_page(next_, limit=min(left, _AT_ONCE), data=data)
            for step in page.steps:
                if json:
                    told = asdict(step)
                    if not data:
                        del told["input"], told["output"]
                    document(told)
                else:
                    steps.append(step)
            left, next_ = left - len(page.steps), page.cursor
            if next_ is None or left <= 0:
                break
        if not json:
            _show(workflow_id, steps)
        if next_ is not None:
            rest = {"cursor": next_}
            if json:
                document(rest)
            else:
                show(f"more have run: --cursor {next_}")

    with_client(url, work)


def _show(workflow_id: str, steps: list[TaskStep]) -> None:
    if not steps:
        show(f"{workflow_id}: no task has begun")
        return
    first = steps[0].began
    show(f"{workflow_id}: the first of these tasks began {first.isoformat(timespec='milliseconds')}")
    rows = table("TASK", "KIND", "AFTER", "TOOK", "OUTCOME", drop=("KIND",), clip="TASK")
    room = max(console().width - _OTHER_COLUMNS, 20)
    for step in steps:
        took = "" if step.ended is None else words((step.ended - step.began).total_seconds())
        error = "" if step.error is None else f" {step.error.get('status')}"
        rows.add_row(
            ended(step.id, room),
            step.kind,
            words((step.began - first).total_seconds()),
            took,
            step.outcome + error,
        )
    show(rows)
