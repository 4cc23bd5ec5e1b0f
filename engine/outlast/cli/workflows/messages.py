"""``outlast signal``, ``query`` and ``update``: messages to a workflow."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, Input, RunId, Timeout, Url, WorkflowId, input_values
from outlast.cli.common.output import document, show
from outlast.cli.common.waiting import tell_lacks
from outlast.client.client import Client
from outlast.client.workflows.query_routing import DEFAULT_TIMEOUT_S
from outlast.client.workflows.update_handle import WaitFor
from outlast.text.parsing import waiting_time
from outlast.text.wording import pretty

Name = Annotated[str, typer.Argument(metavar="NAME", help="The handler's name.", show_default=False)]


def signal(
    workflow_id: WorkflowId,
    name: Name,
    input: Input = None,
    request_id: Annotated[
        str | None,
        typer.Option(
            "--request-id", help="A key: signals with the same key arrive once.", show_default=False
        ),
    ] = None,
    run_id: RunId = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Send a signal to a workflow."""
    arguments = input_values(input)

    async def work(client: Client) -> None:
        await client.signal(workflow_id, name, *arguments, run_id=run_id, request_id=request_id)
        if json:
            document({"workflow_id": workflow_id, "signal": name, "delivered": True})
        else:
            show(f"sent {name} to {workflow_id}")
        await tell_lacks(client, workflow_id, run_id)

    with_client(url, work, codec=codec)


def query(
    workflow_id: WorkflowId,
    name: Name,
    input: Input = None,
    run_id: RunId = None,
    timeout: Timeout = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Send a query to an open or closed workflow and print its result."""
    arguments = input_values(input)
    longest = waiting_time(timeout) or DEFAULT_TIMEOUT_S

    async def work(client: Client) -> None:
        answer = await client.handle(workflow_id, run_id=run_id).query(name, *arguments, timeout=longest)
        if json:
            document({"workflow_id": workflow_id, "query": name, "result": answer})
        else:
            # What the engine itself answers is text for people.
            plain = isinstance(answer, str) and name.startswith("__")
            show(answer if plain else pretty(answer))

    with_client(url, work, codec=codec)


def stack(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    timeout: Timeout = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Show where the code of a workflow waits."""
    longest = waiting_time(timeout) or DEFAULT_TIMEOUT_S

    async def work(client: Client) -> None:
        handle = client.handle(workflow_id, run_id=run_id)
        found = await handle.query("__stack_trace", timeout=longest, result_type=str)
        if json:
            document({"workflow_id": workflow_id, "stack": found})
        else:
            show(found or f"no task of {workflow_id} waits")

    with_client(url, work)


class Stage(StrEnum):
    """The stage of an update that the command waits for."""

    ACCEPTED = "accepted"
    COMPLETED = "completed"


def update(
    workflow_id: WorkflowId,
    name: Name,
    input: Input = None,
    update_id: Annotated[
        str | None,
        typer.Option("--id", help="A key: an update with the same key happens once.", show_default=False),
    ] = None,
    wait: Annotated[
        Stage, typer.Option("--wait", help="Wait until it is accepted, or until it is completed.")
    ] = Stage.COMPLETED,
    run_id: RunId = None,
    timeout: Timeout = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Send an update to a workflow and print its result."""
    arguments = input_values(input)
    longest = waiting_time(timeout)

    async def work(client: Client) -> None:
        handle = client.handle(workflow_id, run_id=run_id)
        stage: WaitFor = "accepted" if wait is Stage.ACCEPTED else "completed"
        await tell_lacks(client, workflow_id, run_id)
        made = await handle.start_update(name, *arguments, id=update_id, wait_for=stage, timeout=longest)
        known = {"workflow_id": workflow_id, "update": name, "update_id": made.id}
        if wait is Stage.COMPLETED:
            answer = await made.result()
            if json:
                document({**known, "result": answer})
            else:
                show(pretty(answer))
        elif json:
            document({**known, "accepted": True})
        else:
            command = shlex.join(["outlast", "update", workflow_id, name, "--id", made.id])
            show(f"{workflow_id} accepted {name}; `{command}` waits for it")

    with_client(url, work, codec=codec)
