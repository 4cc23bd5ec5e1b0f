"""Headers: text by name that travels with a call, for interceptors: a trace, a tenant, the caller's identity.

They are not payloads: no codec applies to them, and history stores them as they are. A run keeps those that it was
started with, through continue-as-new and retries. A call has those that interceptors set, so none without interceptors.
If there are none, nothing is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import orjson

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.payloads import Payload, dumps

Headers = Mapping[str, str]

MOST_HEADER_BYTES = 64 * 1024
"""All headers of one call, names and values."""

RUN_HEADERS: ContextVar[Mapping[str, str] | None] = ContextVar("outlast_run_headers", default=None)
"""The headers of the run whose code this is."""

_HEADERS = "$headers"


def checked_headers(headers: Mapping[str, str]) -> dict[str, Any] | None:
    """Return headers as an event stores them; ``None`` if there are none.

    Raises:
        InvalidOptionError: A name or a value is not text, or they are too large.
    """
    if not headers:
        return None
    size = 0
    for name, value in headers.items():
        given: object = value
        key: object = name
        if not isinstance(key, str) or not key:
            raise InvalidOptionError(
                f"header names must be text that is not empty, not {name!r:.40}", field="headers"
            )
        if not isinstance(given, str):
            raise InvalidOptionError(
                f"header {name!r} must be text, not {type(given).__name__}", field="headers"
            )
        size += len(name) + len(value.encode(errors="replace"))
    if size > MOST_HEADER_BYTES:
        raise InvalidOptionError(
            f"the headers have {size:,} bytes, more than the limit of {MOST_HEADER_BYTES:,}: keep data in arguments",
            field="headers",
        )
    return dict(headers)


def stored(input: Payload, headers: dict[str, Any] | None) -> str:
    """Return what the row of a request stores: the input and, if there are any, the headers."""
    if headers is None:
        return input.json.decode()
    return dumps({_HEADERS: headers, "input": input}).decode()


def taken_apart(text: str) -> tuple[Payload, dict[str, Any] | None]:
    """Return the input and the headers of a request's row.

    Raises:
        ValueError: It is not JSON; a ``KeyError`` or ``TypeError`` if it is no such JSON.
    """
    document = orjson.loads(text)
    # Without headers it is the input itself: an array of arguments, or what a codec made of one.
    if type(document) is dict and _HEADERS in document:
        return Payload.of(document["input"]), document[_HEADERS]
    return Payload(text.encode(), document), None
