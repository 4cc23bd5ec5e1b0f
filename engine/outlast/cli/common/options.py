"""The options that commands share, and how their texts are read."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import orjson
import typer

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.options import RetryPolicy, timeout_seconds

Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="OUTLAST_URL", help="The database, such as sqlite:///orders.db.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
WorkflowId = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.", show_default=False)]
RunId = Annotated[
    str | None, typer.Option("--run-id", help="A certain run instead of the latest.", show_default=False)
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
        "--timeout", metavar="TIME", help="Wait at most so long; then exit with 5.", show_default=False
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", help="Why, for the history.", show_default=False)]

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def database_url(url: str | None) -> str:
    """The URL that was given, or a clear word on how to give one."""
    if not url:
        raise InvalidOptionError(
            "no database: give --url or set OUTLAST_URL, for example --url sqlite:///orders.db", field="url"
        )
    return url


def arguments_of(context: typer.Context, *without: str) -> list[str]:
    """The arguments that a command was given (or has by default), for another process to be given them too."""
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


def duration(field: str, text: str | None) -> float | None:
    """A duration: seconds, or a number with a unit (``90s``, ``5m``, ``2h``). Its range is checked elsewhere."""
    if text is None:
        return None
    stripped = text.strip()
    number = stripped.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = stripped[len(number) :] if number else "s"
    try:
        # Words such as inf and nan are numbers to float(), and refused by the range.
        value = float(number) if number else float(stripped)
        seconds = value * _UNITS[unit or "s"]
    except (KeyError, ValueError):
        raise InvalidOptionError(
            f"{field} must be a number of seconds, or like 90s, 5m, 2h or 1d, not {text!r:.40}",
            field=field.replace(" ", "_"),
        ) from None
    return int(seconds) if math.isfinite(seconds) and seconds == int(seconds) else seconds


def waiting_time(text: str | None) -> float | None:
    """How long to wait at the most; checked before anything is done."""
    seconds = duration("timeout", text)
    return None if seconds is None else timeout_seconds("timeout", seconds)


def moment(field: str, text: str | None, now: datetime, *, ahead: bool = False) -> datetime | None:
    """An instant: ISO 8601 with an offset, or a duration, which means that long ago (or ``ahead``)."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            distance = timedelta(seconds=duration(field, text) or 0)
            return now + distance if ahead else now - distance
        except (InvalidOptionError, OverflowError, ValueError):
            raise InvalidOptionError(
                f"{field} must be a time like 2026-01-31T12:00:00+00:00, or a distance from now like 2h, "
                f"not {text!r:.40}",
                field=field.replace(" ", "_"),
            ) from None
    if found.tzinfo is None:
        raise InvalidOptionError(
            f"{field} {text!r:.40} has no offset and names no instant: give it one, as in 2026-01-31T12:00:00+00:00",
            field=field.replace(" ", "_"),
        )
    return found.astimezone(UTC)


def json_value(what: str, text: str, *, hint: str = "text needs its own quotes, as in '\"o-1\"'") -> Any:
    """A value given as JSON."""
    try:
        return orjson.loads(text)
    except ValueError:
        raise InvalidOptionError(
            f"{what} is not JSON: {text!r:.60}; {hint}", field=what.partition(" ")[0]
        ) from None


def retry_policy_of(text: str | None) -> RetryPolicy | None:
    """A retry policy as a JSON object, its intervals in seconds."""
    document = json_object("retry policy", text, '{"max_attempts": 3}')
    if document is None:
        return None
    for name in document.keys() - set(RetryPolicy.fields):
        raise InvalidOptionError(
            f"retry policy has no {name!r}: it has {', '.join(RetryPolicy.fields)}", field="retry_policy"
        )
    return RetryPolicy(**document)


def json_object(what: str, text: str | None, example: str = '{"customer": "c-7"}') -> dict[str, Any] | None:
    """A JSON object."""
    if text is None:
        return None
    hint = f"must be a JSON object, as in '{example}'"
    value = json_value(what, text, hint=f"it {hint}")
    if not isinstance(value, dict):
        raise InvalidOptionError(f"{what} {hint}", field=what)
    return value
