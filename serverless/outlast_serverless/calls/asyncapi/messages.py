"""Messages: how a payload is written and read, where a correlation id is, and how an address is filled in."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import orjson

from outlast_serverless.calls.asyncapi.channel import InboundMessage, OutboundMessage
from outlast_serverless.calls.asyncapi.description import ChannelOperation, family
from outlast_serverless.calls.described import DescriptionError
from outlast_serverless.plan.pointers import keys

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_LOCATION: Final = re.compile(r"\$message\.(header|payload)(?:#(/.*)?)?", re.DOTALL)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_JSON: Final = "application/json"
_IN_URLS: Final = ("http", "ws")
_WILD: Final = re.compile(r"[\s\x00-\x1f\x7f*>#+]")


def outbound(operation: ChannelOperation, message: Any) -> OutboundMessage:
    """Return a message as it is published.

    Args:
        operation: What publishes it.
        message: The message of the task: its payload and headers.

    Raises:
        DescriptionError: It cannot be sent so.
    """
    kind = operation.content_type or _JSON
    if not _is_json(kind):
        raise DescriptionError(
            f"{operation.name} takes messages of the type {kind:.100}: only JSON can be sent"
        )
    given = message if isinstance(message, dict) else {}
    headers: dict[str, str] = {}
    for name, value in (given.get("headers") or {}).items():
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        if _NAME.fullmatch(name) is None or any(char in text for char in "\r\n\0"):
            raise DescriptionError(
                f"the header {name!r:.100} cannot be sent: no header has such a name or value"
            )
        if value is not None:
            headers[name] = text
    return OutboundMessage(orjson.dumps(given.get("payload")), kind, headers)


def inbound(operation: ChannelOperation, message: InboundMessage) -> dict[str, Any]:
    """Return a message as expressions and tasks see it: its payload, headers and correlation id."""
    read = {"payload": _read(message, operation.content_type), "headers": dict(message.headers)}
    for location in operation.correlations:
        found = _at(location, read)
        if found is not None:
            return {
                **read,
                "correlationId": found if isinstance(found, str) else orjson.dumps(found).decode(),
            }
    return read


def address_of(
    operation: ChannelOperation, protocol: str, values: Mapping[str, Any], message: Mapping[str, Any] | None
) -> str:
    """Return the address of a channel with its parameters filled in.

    Args:
        operation: The operation on the channel.
        protocol: The protocol; in URLs, values are quoted.
        values: The values that the task gives.
        message: What is published: a parameter may be taken from it.

    Raises:
        DescriptionError: One has no value, or one that cannot be part of an address.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        parameter = operation.parameters.get(name, {})
        schema = parameter.get("schema")
        given = values.get(name)
        if given is None and message is not None and isinstance(parameter.get("location"), str):
            given = _at(parameter["location"], message)
        if given is None:
            given = parameter.get("default", schema.get("default") if isinstance(schema, dict) else None)
        if given is None:
            raise DescriptionError(
                f"the address of {operation.name} needs the parameter {name!r:.100}: give it under server.variables"
            )
        text = given if isinstance(given, str) else orjson.dumps(given).decode()
        if family(protocol) in _IN_URLS:
            return quote(text, safe="")
        if not text or _WILD.search(text):
            raise DescriptionError(f"the parameter {name!r:.100} has a value that no address may have")
        return text

    return _BRACES.sub(value, operation.address)


def _at(location: str, message: Mapping[str, Any]) -> Any:
    """Return what is at a location of a message, if that is there; names of headers have no case."""
    place = _LOCATION.fullmatch(location)
    if place is None:
        return None
    found: Any = message.get("headers" if place[1] == "header" else "payload")
    steps = keys(place[2]) if place[2] else []
    if place[1] == "header" and isinstance(found, dict) and steps:
        named = {str(name).lower(): value for name, value in found.items()}
        found, steps = named.get(steps[0].lower()), steps[1:]
    for step in steps:
        if isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found


def _read(message: InboundMessage, described: str | None) -> Any:
    """Return a payload: JSON unless it is told to be something else or is none, text, or Base64 of what is neither."""
    kind = message.content_type or described
    data = message.data
    if kind is None or not kind.lower().startswith("text/"):
        try:
            return orjson.loads(data) if data else None
        except orjson.JSONDecodeError:
            pass
    if isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _is_json(kind: str) -> bool:
    plain = kind.partition(";")[0].strip().lower()
    return plain in (_JSON, "*/*") or plain.endswith("+json")
