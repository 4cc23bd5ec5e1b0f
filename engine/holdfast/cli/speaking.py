"""``holdfast signal``: what a workflow is told from the command line."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.connecting import with_client
from holdfast.cli.options import AsJson, Codec, RunId, Url, WorkflowId, json_value
from holdfast.cli.output import document, show
from holdfast.client import Client

Name = Annotated[str, typer.Argument(metavar="NAME", help="The handler's name.", show_default=False)]
Input = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="JSON", help="An argument; once for each.", show_default=False),
]


def arguments_of(input: list[str] | None) -> list[Any]:
    """The arguments that were given as JSON."""
    return [json_value(f"input {place}", text) for place, text in enumerate(input or (), 1)]


def signal(
    workflow_id: WorkflowId,
    name: Name,
    input: Input = None,
    request_id: Annotated[
        str | None,
        typer.Option("--request-id", help="A key: the same key arrives once.", show_default=False),
    ] = None,
    run_id: RunId = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Send a signal to a workflow."""
    arguments = arguments_of(input)

    async def work(client: Client) -> None:
        await client.signal(workflow_id, name, *arguments, run_id=run_id, request_id=request_id)
        if json:
            document({"workflow_id": workflow_id, "signal": name, "delivered": True})
        else:
            show(f"sent {name} to {workflow_id}")

    with_client(url, work, codec=codec)
