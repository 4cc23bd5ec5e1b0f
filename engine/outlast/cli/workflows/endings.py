"""``outlast result``, ``cancel`` and ``terminate``: the end of a workflow."""

from __future__ import annotations

from typing import Any

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, Reason, RunId, Timeout, Url, WorkflowId
from outlast.cli.common.output import document, show
from outlast.client.client import Client
from outlast.client.handle import WorkflowHandle
from outlast.errors import WorkflowResultError
from outlast.text.error_reports import error_document
from outlast.text.parsing import waiting_time
from outlast.text.wording import pretty


def result(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    timeout: Timeout = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Wait for a workflow's result and print it."""
    longest = waiting_time(timeout)

    async def work(client: Client) -> None:
        await print_result(client.handle(workflow_id, run_id=run_id), longest, json=json)

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
            show(f"requested cancellation of {workflow_id}; `outlast result {workflow_id}` waits for its end")

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


async def print_result(handle: WorkflowHandle[Any], timeout: float | None, *, json: bool) -> None:
    """Wait for a workflow's result and print it.

    Args:
        handle: The workflow's handle.
        timeout: The longest time to wait, in seconds.
        json: Whether to print for programs.

    Raises:
        StillRunningError: The workflow did not end in time.
        WorkflowResultError: The workflow ended without a result. With ``json``, the end is printed first.
    """
    try:
        value = await handle.result(timeout)
    except WorkflowResultError as error:
        if json:
            await _print_end(handle, {"error": error_document(error)})
        raise
    if json:
        await _print_end(handle, {"result": value})
    else:
        show(pretty(value))


async def _print_end(handle: WorkflowHandle[Any], outcome: dict[str, Any]) -> None:
    run = (await handle.describe()).run
    document({"workflow_id": handle.workflow_id, "run_id": run.run_id, "status": run.status.value, **outcome})
