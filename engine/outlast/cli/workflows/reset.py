"""``outlast reset`` and ``outlast resume``."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Point, Reason, RunId, Url, WorkflowId, point_of
from outlast.cli.common.output import document, show
from outlast.client.client import Client
from outlast.text.parsing import duration
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.enums import KEEP, Keep

NewTimeout = Annotated[
    str | None,
    typer.Option(
        "--execution-timeout",
        metavar="TIME",
        help="A new execution timeout, from now.",
        show_default=False,
    ),
]
CarrySignals = Annotated[
    bool, typer.Option("--signals/--no-signals", help="Carry over the signals after the point, or drop them.")
]


def reset(
    workflow_id: WorkflowId,
    to: Point = "last-workflow-task",
    run_id: RunId = None,
    reason: Reason = None,
    execution_timeout: NewTimeout = None,
    signals: CarrySignals = True,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Start a new run of a workflow from a point of its history."""
    point = point_of(to)
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


def resume(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    reason: Reason = None,
    execution_timeout: NewTimeout = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", help="Join the line of this queue instead of its own.", show_default=False),
    ] = None,
    no_queue: Annotated[bool, typer.Option("--no-queue", help="Take it out of its queue.")] = False,
    signals: CarrySignals = True,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Take up a workflow that was cancelled or terminated, that timed out or failed."""
    timeout = duration("execution timeout", execution_timeout)
    chosen = queue_option(queue, no_queue)

    async def work(client: Client) -> None:
        handle = await client.resume(
            workflow_id,
            run_id=run_id,
            reason=reason,
            execution_timeout=timeout,
            queue=chosen,
            signals=signals,
        )
        if json:
            document({"workflow_id": workflow_id, "run_id": handle.run_id})
        else:
            show(f"resumed {workflow_id}: it continues as run {handle.run_id}")

    with_client(url, work)


def queue_option(queue: str | None, no_queue: bool) -> str | Keep | None:
    """Return the queue that the options name, ``None`` for none.

    Args:
        queue: The queue that was given.
        no_queue: Whether none is asked for.

    Raises:
        InvalidOptionError: Both were given.
    """
    if queue is not None and no_queue:
        raise InvalidOptionError("--queue and --no-queue exclude each other", field="queue")
    return None if no_queue else KEEP if queue is None else queue
