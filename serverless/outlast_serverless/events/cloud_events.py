"""CloudEvents 1.0 in their structured form: JSON objects with attributes and data."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime
from typing import Any, Final

import orjson

from outlast_workflow.data.writing import is_deep
from outlast_workflow.errors import InvalidOptionError

_REQUIRED: Final = ("id", "source", "type")
_NAME: Final = re.compile(r"[a-z0-9]+")
_DATA: Final = ("data", "data_base64")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
MOST_LEVELS: Final = 100
"""A run puts events into other values, and those must not become too deep to be recorded."""
LONGEST: Final = 1_000
"""So many bytes may be in an id, a source or a type: they are keys of indexes."""


def checked_event(event: Any) -> dict[str, Any]:
    """Return an event whose attributes are those of a CloudEvent.

    Args:
        event: The event. ``specversion`` may be missing; attributes that are null are left out.

    Raises:
        InvalidOptionError: It is none.
    """
    if not isinstance(event, dict):
        raise _refused("an event is an object with id, source and type")
    whole: dict[str, Any] = {"specversion": "1.0"}
    whole |= {name: value for name, value in event.items() if value is not None or name == "data"}
    for name in _REQUIRED:
        value = whole.get(name)
        if value is None:
            raise _refused(f"it has no `{name}`: an event needs id, source and type")
        if not isinstance(value, str) or not value or len(value.encode("utf-8", "replace")) > LONGEST:
            raise _refused(f"its `{name}` must be a text of 1 to {LONGEST:,} bytes")
    if whole["specversion"] != "1.0":
        raise _refused("its `specversion` must be 1.0")
    if all(name in whole for name in _DATA):
        raise _refused("it has both `data` and `data_base64`: keep one")
    if "data_base64" in whole and not _is_base64(whole["data_base64"]):
        raise _refused("its `data_base64` must be a text in Base64")
    if "time" in whole and not _is_time(whole["time"]):
        raise _refused("its `time` must be an instant of RFC 3339, such as 2026-01-31T12:00:00Z")
    for name, value in whole.items():
        if name in _DATA:
            continue
        if not _NAME.fullmatch(name):
            raise _refused(f"{name!r:.100} is no name of an attribute: small letters and digits make one")
        if not isinstance(value, str | bool | int):
            raise _refused(f"its attribute `{name}` must be a text, a number or a truth value")
        if isinstance(value, str) and _CONTROL.search(value):
            raise _refused(f"its attribute `{name}` has a control character, or half of a surrogate pair")
    return whole


def check_depth(text: bytes) -> None:
    """Refuse an event that is nested too deeply.

    Args:
        text: A list with the event, as JSON text.

    Raises:
        InvalidOptionError: It is.
    """
    if is_deep(text, MOST_LEVELS + 1):
        raise InvalidOptionError(
            f"the event is nested more than {MOST_LEVELS} levels deep: make its data flatter, or pass text",
            field="event",
        )


def identity(event: dict[str, Any]) -> str:
    """Return what is the same for two events exactly where their ``source`` and ``id`` are."""
    text = orjson.dumps([event["source"], event["id"]])
    return f"event:{hashlib.sha256(text).hexdigest()[:40]}"


def read_as(event: dict[str, Any], form: str) -> Any:
    """Return an event as a ``listen`` task reads it.

    Args:
        event: The event.
        form: ``data``; ``envelope``, the whole event; or ``raw``, the data as text.
    """
    if form == "envelope":
        return event
    data = event.get("data", event.get("data_base64"))
    if form == "raw" and not isinstance(data, str):
        return orjson.dumps(data).decode()
    return data


def _is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
    except ValueError:
        return False


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _refused(why: str) -> InvalidOptionError:
    return InvalidOptionError(f"this is no CloudEvent: {why}", field="event")
