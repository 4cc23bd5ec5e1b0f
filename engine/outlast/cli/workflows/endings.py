"""``outlast result``, ``cancel`` and ``terminate``: the end of a workflow."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, Reason, RunId, Timeout, Url, WorkflowId
from outlast.cli.common.output import document, show
from outlast.cli.common.stderr import tell
from outlast.cli.common.waiting import tell_lacks
from outlast.client.client import Client
from outlast.client.workflows.handle import WorkflowHandle
from outlast.errors import StillRunningError, WorkflowResultError
from outlast.text.error_reports import error_document
from outlast.text.parsing import waiting_time
from outlast.text.wording import pretty
from outlast.visibility.views import WorkflowDescription
from outlast_workflow.primitives.enums import Attention


def result(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    timeout: Timeout = None,
    no_follow: Annotated[
        bool, typer.Option("--no-follow", help="Wait for this run alone, not for those that follow it.")
    ] = False,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Wait for a workflow's result and print it."""
    longest = waiting_time(timeout)

    async def work(client: Client) -> None:
        handle = client.handle(workflow_id, run_id=run_id)
        await tell_lacks(client, workflow_id, run_id)
        await print_result(client, handle, longest, json=json, follow_runs=False if no_follow else None)

    with_client(url, work, codec=codec)


def cancel(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    reason: Reason = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Request cancellation of a workflow; its code may clean up."""

    async def work(client: Client) -> None:
        await client.handle(workflow_id, run_id=run_id).cancel(reason)
        if json:
            document({"workflow_id": workflow_id, "cancel_requested": True})
        else:
            command = shlex.join(["outlast", "result", workflow_id])
            show(f"requested cancellation of {workflow_id}; `{command}` waits for its end")

    with_client(url, work)


def terminate(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    reason: Reason = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """End a workflow at once, without its code."""

    async def work(client: Client) -> None:
        await client.handle(workflow_id, run_id=run_id).terminate(reason)
        if json:
            document({"workflow_id": workflow_id, "terminated": True})
        else:
            show(f"terminated {workflow_id}")

    with_client(url, work)


async def print_result(
    client: Client,
    handle: WorkflowHandle[Any],
    timeout: float | None,
    *,
    json: bool,
    follow_runs: bool | None = None,
) -> None:
    """Wait for a workflow's result and print it.

    Args:
        client: The client.
        handle: The workflow's handle.
        timeout: The longest time to wait, in seconds.
        json: Whether to print for programs.
        follow_runs: As for :meth:`outlast.WorkflowHandle.result`.

    Raises:
        StillRunningError: The workflow did not end in time.
        WorkflowResultError: The workflow ended without a result. With ``json``, the end is printed first.
    """
    try:
        value = await handle.result(timeout, follow_runs=follow_runs)
    except StillRunningError:
        for reason in (await handle.describe()).attention_reasons:
            # A lack of workers was told before the wait.
            if reason.kind not in (Attention.NO_POLLER, Attention.UNKNOWN_TYPE):
                tell(f"warning: {reason.cause}: {reason.remedy}")
        raise
    except WorkflowResultError as error:
        if json:
            ended = await client.describe(error.workflow_id, error.run_id)
            _print_end(ended, {"error": error_document(error)})
        raise
    if json:
        _print_end(await handle.describe(follow_runs=True), {"result": value})
    else:
        show(pretty(value))


def _print_end(workflow: WorkflowDescription, outcome: dict[str, Any]) -> None:
    run = workflow.run
    document(
        {"workflow_id": workflow.workflow_id, "run_id": run.run_id, "status": run.status.value, **outcome}
    )
