"""The HTTP binding of CloudEvents: one event in the body, many of them, or one whose attributes are headers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import orjson

from outlast_serverless.events.cloud_events import checked_event
from outlast_workflow.errors import InvalidOptionError

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
MOST_EVENTS: Final = 1_000
_PREFIX: Final = "ce-"


def events_of(headers: Mapping[str, str], body: bytes) -> list[dict[str, Any]]:
    """Return the events of a request.

    Args:
        headers: Its headers, by their names in small letters.
        body: Its body.

    Raises:
        InvalidOptionError: It holds something else.
    """
    content_type = headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    if kind == BATCH:
        found = _json(body)
        if not isinstance(found, list):
            raise _refused("a batch is an array of events")
        if len(found) > MOST_EVENTS:
            raise _refused(f"a batch has {MOST_EVENTS:,} events at most: send {len(found):,} in parts")
        return [checked_event(one) for one in found]
    if kind == STRUCTURED:
        return [checked_event(_json(body))]
    attributes = {name[3:]: _decoded(value) for name, value in headers.items() if name.startswith(_PREFIX)}
    if not attributes:
        raise _refused(
            f"send an event as {STRUCTURED}, an array of them as {BATCH}, or its attributes as headers such as ce-type"
        )
    if "specversion" not in attributes:
        raise _refused("the header ce-specversion is missing: it is 1.0")
    return [checked_event({**attributes, **_data(kind, content_type, body)})]


def _data(kind: str, content_type: str, body: bytes) -> dict[str, Any]:
    """Return the data of an event whose attributes are headers."""
    if not body:
        return {}
    told: dict[str, Any] = {"datacontenttype": content_type} if content_type else {}
    if not kind or kind == "application/json" or kind.endswith("+json"):
        return {**told, "data": _json(body)}
    if kind.startswith("text/") or kind.endswith("xml"):
        try:
            return {**told, "data": body.decode()}
        except UnicodeDecodeError:
            pass
    return {**told, "data_base64": base64.b64encode(body).decode()}


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _refused(f"the body is no JSON: {error}") from None


def _decoded(value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise _refused(f"the header value {value!r:.100} is no UTF-8 in percent encoding") from None


def _refused(why: str) -> InvalidOptionError:
    return InvalidOptionError(f"the request holds no CloudEvent: {why}", field="body")
