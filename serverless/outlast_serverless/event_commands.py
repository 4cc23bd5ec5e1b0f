"""``outlast serverless publish``: events from the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from outlast import Client
from outlast.cli.common.connection import with_client
from outlast.cli.common.exit_codes import CommandFailedError
from outlast.cli.common.options import AsJson, Url
from outlast.cli.common.output import document, show
from outlast.text.parsing import json_value
from outlast_serverless.events.cloud_events import checked_event
from outlast_serverless.runtime.runtime import Runtime
from outlast_workflow.errors import InvalidOptionError

_SOURCE = "/outlast/cli"


def publish(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="An event, or an array of events, as JSON; - reads standard input.",
            show_default=False,
        ),
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", help="The type of an event that is made here.", show_default=False)
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="JSON", help="Its data.", show_default=False)
    ] = None,
    source: Annotated[str, typer.Option("--source", help="Its source.")] = _SOURCE,
    id: Annotated[
        str | None, typer.Option("--id", help="Its id; by default a new UUID.", show_default=False)
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="WORKFLOW_ID",
            help="Send it to this run alone, which keeps it until it listens.",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Publish events (CloudEvents) for the runs of documents that listen."""
    if (file is None) == (type is None):
        raise InvalidOptionError("give either a FILE or --type", field="type")
    if file is not None:
        found = json_value("FILE", _read(file))
        given = found if isinstance(found, list) else [found]
    else:
        given = [{"source": source, "type": type}]
        if id is not None:
            given[0]["id"] = id
        if data is not None:
            given[0]["data"] = json_value("--data", data)
    events = [checked_event(_with_id(one, "new")) for one in given]

    async def work(client: Client) -> None:
        runtime = Runtime(client)
        for one, checked in zip(given, events, strict=True):
            event = checked if "id" in one else {**checked, "id": client.runtime.environment.ids.next()}
            new: bool | None = None
            if to is not None:
                await runtime.run(to).publish(event)
            else:
                new = await runtime.publish(event)
            if json:
                document({"id": event["id"], "source": event["source"], "type": event["type"], "new": new})
            else:
                show(f"{'known already' if new is False else 'published'}: {event['type']} {event['id']}")
        if to is None:
            await runtime.route()

    with_client(url, work)


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except OSError as error:
        raise CommandFailedError(f"{file} cannot be read: {error.strerror or error}") from None


def _with_id(event: Any, id: str) -> Any:
    return {"id": id, **event} if isinstance(event, dict) else event
