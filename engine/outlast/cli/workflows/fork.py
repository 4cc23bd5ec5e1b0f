"""``outlast fork``."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Point, Reason, Url, WorkflowId, point_of
from outlast.cli.common.output import document, show
from outlast.cli.workflows.reset import CarrySignals, NewTimeout, queue_option
from outlast.client.client import Client
from outlast.histories.fork import ForkOptions
from outlast.text.parsing import duration
from outlast_workflow.primitives.enums import DuplicatePolicy


def fork(
    workflow_id: WorkflowId,
    to: Point = "last-workflow-task",
    before: Annotated[
        int | None,
        typer.Option(
            "--before",
            metavar="COMMAND",
            help="Keep what came before the workflow task that gave this command, instead.",
            show_default=False,
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option("--id", help="The fork's workflow id; a new one if left out.", show_default=False),
    ] = None,
    duplicate_policy: Annotated[
        DuplicatePolicy, typer.Option("--duplicate-policy", help="What to do if that id is in use.")
    ] = DuplicatePolicy.ALLOW_DUPLICATE,
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="Fork this run instead of the latest.", show_default=False)
    ] = None,
    reason: Reason = None,
    execution_timeout: NewTimeout = None,
    task_queue: Annotated[
        str | None, typer.Option("--task-queue", help="Its task queue, if another one.", show_default=False)
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", help="Its queue, if another one.", show_default=False)
    ] = None,
    no_queue: Annotated[
        bool, typer.Option("--no-queue", help="Keep it out of the original's queue.")
    ] = False,
    partition_key: Annotated[
        str | None,
        typer.Option("--partition-key", help="Its partition there, if another one.", show_default=False),
    ] = None,
    signals: CarrySignals = True,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Start another workflow with the history of one up to a point."""
    point = point_of(to)
    options = ForkOptions(
        before=before,
        id=id,
        duplicate_policy=duplicate_policy,
        reason=reason,
        execution_timeout=duration("execution timeout", execution_timeout),
        task_queue=task_queue,
        queue=queue_option(queue, no_queue),
        signals=signals,
    )
    if partition_key is not None:
        options["partition_key"] = partition_key

    async def work(client: Client) -> None:
        handle = await client.fork(workflow_id, point, run_id=run_id, **options)
        if json:
            document({"workflow_id": handle.workflow_id, "run_id": handle.run_id, "existed": handle.existed})
        elif handle.existed:
            show(f"{handle.workflow_id} is open already, as run {handle.run_id}")
        else:
            show(f"forked {workflow_id}: {handle.workflow_id} starts as run {handle.run_id}")

    with_client(url, work)
