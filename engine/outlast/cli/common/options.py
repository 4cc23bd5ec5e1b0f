"""The options that commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from outlast.text.parsing import json_value
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.errors import InvalidOptionError

Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="OUTLAST_URL", help="The database, such as sqlite:///orders.db.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
WorkflowId = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.", show_default=False)]
RunId = Annotated[
    str | None, typer.Option("--run-id", help="This run instead of the latest.", show_default=False)
]
Codec = Annotated[
    str | None,
    typer.Option(
        "--codec",
        envvar="OUTLAST_CODEC",
        metavar="MODULE:NAME",
        help="The PayloadCodec or DataConverter that reads and writes payloads.",
        show_default=False,
    ),
]
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout", metavar="TIME", help="The longest time to wait; then exit with 5.", show_default=False
    ),
]
Reason = Annotated[
    str | None, typer.Option("--reason", help="The reason, for the history.", show_default=False)
]

Input = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="JSON", help="An argument in JSON; repeatable.", show_default=False),
]

Point = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="POINT",
        help="The number of the last event to keep, first-workflow-task, last-workflow-task, last-successful or "
        "before-cancel.",
    ),
]


def point_of(to: str) -> int | str:
    """Return the point of a reset or a fork: the number of an event, or a name."""
    return int(to) if to.isascii() and to.isdigit() else to


def input_values(input: list[str] | None) -> list[Any]:
    """Return the arguments that were given as JSON."""
    return [json_value(f"input {place}", text) for place, text in enumerate(input or (), 1)]


def database_url(url: str | None) -> str:
    """Return the URL that was given.

    Raises:
        InvalidOptionError: None was given, or it names no file: the database would end with the command.
        InvalidUrlError: It is no URL of a database.
    """
    if not url:
        raise InvalidOptionError(
            "no database: give --url or set OUTLAST_URL, for example --url sqlite:///orders.db", field="url"
        )
    if DatabaseUrl.parse(url).memory:
        raise InvalidOptionError(
            f"{url} names no file: it is a database in memory, which no other process sees and which ends with this "
            "command; name a file, for example sqlite:///orders.db",
            field="url",
        )
    return url


def arguments_of(context: typer.Context, *without: str) -> list[str]:
    """Return the arguments of a command, defaults included, so that another process can be started with them.

    Args:
        context: The context of the command.
        *without: The parameters to leave out.
    """
    arguments: list[str] = []
    names: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in without or value is None or value is False:
            continue
        values = [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]
        if parameter.param_type_name == "argument":
            names += values
        elif value is True:
            arguments.append(parameter.opts[0])
        else:
            arguments += [f"{parameter.opts[0]}={one}" for one in values]
    return [*arguments, "--", *names]
