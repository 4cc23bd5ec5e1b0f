"""``outlast stream``: what a workflow and its activities publish."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, RunId, Url, WorkflowId
from outlast.cli.common.output import document, show
from outlast.client.client import Client
from outlast.client.workflows.streams import StreamItem
from outlast.text.wording import clock, label
from outlast_workflow.options.validation import integer


def stream(
    workflow_id: WorkflowId,
    name: Annotated[str, typer.Argument(help="The stream's name; `outlast describe` lists them.")],
    run_id: RunId = None,
    start: Annotated[
        int, typer.Option("--from", metavar="N", help="Only the items from this offset on.")
    ] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print items as they come, until the stream ends.")
    ] = False,
    codec: Codec = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Print the items of a workflow's stream, in order."""
    integer("from", start, 0)

    async def work(client: Client) -> None:
        items = client.handle(workflow_id, run_id=run_id).stream(name, start=start)
        while page := await (items.page() if follow else items.ready()):
            for item in page:
                if json:
                    document(_document(item))
                else:
                    show(_line(item))
        if items.offset == start and not json:
            show(f"no items from {start} on in stream {label(name)} of {label(workflow_id)}")

    with_client(url, work, codec=codec)


def _document(item: StreamItem[Any]) -> dict[str, Any]:
    found = {
        "offset": item.offset,
        "value": item.value,
        "written_at": item.written_at.isoformat(),
        "run_id": item.run_id,
        "activity_id": item.activity_id,
        "attempt": item.attempt,
    }
    return {name: value for name, value in found.items() if value is not None or name == "value"}


def _line(item: StreamItem[Any]) -> str:
    return f"{item.offset}  {clock(item.written_at)}  {label(orjson.dumps(item.value).decode())}"
