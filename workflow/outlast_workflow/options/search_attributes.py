"""Search attributes: typed values by which runs are found.

A value is text, a whole number, a float, a boolean, an instant or a list of texts; its type is that of the value, and
needs no declaration. In events, rows and options they form a *document*: a JSON object in which an instant is
``{"datetime": "…"}``, to distinguish it from text, and in which ``null`` removes an attribute.

Payload codecs do not apply to them: what the database searches by must be readable there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import RESERVED_PREFIX, is_reserved, refuse_reserved
from outlast_workflow.primitives.times import from_datetime

SearchValue = str | int | float | bool | datetime | list[str]
"""The types that an attribute may have."""

Document = dict[str, Any]
"""Attributes as plain JSON values."""

SCHEDULE_ATTRIBUTE: Final = "outlast_schedule"
"""The attribute by which the workflows of a schedule are found. The engine writes it."""
FORK_ATTRIBUTE: Final = "outlast_forked_from"
"""The attribute by which the forks of a workflow are found, likewise."""
OUTCOME_ATTRIBUTE: Final = "outlast_dag_outcome"
"""The attribute by which runs of DAGs are found that were compensated, or could not be; their own code writes it."""

MOST_NAME_BYTES: Final = 200
MOST_TEXT_BYTES: Final = 2_000
"""Name, value and run id together are an index key, and one of PostgreSQL holds at most 2,704 bytes."""
MOST_ITEMS: Final = 100
LEAST_INTEGER: Final = -(2**63)
MOST_INTEGER: Final = 2**63 - 1


def schedule_of(text: str) -> str | None:
    """Return the schedule that attributes name, given as JSON text, or ``None`` if they name none."""
    # Most workflows with attributes are no schedule's, and need not be parsed.
    return orjson.loads(text).get(SCHEDULE_ATTRIBUTE) if SCHEDULE_ATTRIBUTE in text else None


def with_reserved(given: Document | None, before: str | None) -> Document | None:
    """Return the attributes of a chain's next run: those given, with those that the engine has written to the chain.

    Args:
        given: What the code gives the next run; ``None`` keeps what there is.
        before: The attributes of the run before it, as JSON text.
    """
    if given is None or before is None or RESERVED_PREFIX not in before:
        return given
    return {**given, **{name: value for name, value in orjson.loads(before).items() if is_reserved(name)}}


def checked_attributes(given: Any, *, removals: bool = False, reserved: bool = False) -> dict[str, Any]:
    """Return attributes, validated, in their normal form: instants in UTC, lists of plain text without repeats.

    Args:
        given: Names and values.
        removals: Whether ``None`` (or an empty list, which is the same) marks an attribute to remove; such a value is
            left out otherwise.
        reserved: Whether names that are reserved for the engine are allowed, as in what the engine wrote.

    Raises:
        InvalidOptionError: A name or a value is not allowed; the message contains no value.
    """
    if not isinstance(given, Mapping):
        raise _bad(f"search attributes must be a dict of names and values, not {type(given).__name__}")
    checked: dict[str, Any] = {}
    for name, value in given.items():
        key = checked_name(name)
        if not reserved:
            refuse_reserved("search attribute", key, field="search_attributes")
        if value is None or (isinstance(value, list | tuple) and not value):
            if removals:
                checked[key] = None
        else:
            checked[key] = checked_value(key, value)
    return checked


def checked_name(name: Any) -> str:
    """Return an attribute's name: printable text of at most 200 bytes."""
    if not isinstance(name, str):
        raise _bad(f"a search attribute's name must be text, not {type(name).__name__}")
    if not name.strip() or any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in name):
        raise _bad("a search attribute's name must not be empty or hold control characters")
    if name != name.strip() or any(sign in name for sign in "=<>"):
        raise _bad(
            f"a search attribute's name must not hold =, < or >, or spaces around it: no filter could name {name!r:.60}"
        )
    if len(_utf8("a search attribute's name", name)) > MOST_NAME_BYTES:
        raise _bad(f"a search attribute's name must be at most {MOST_NAME_BYTES} bytes of UTF-8: {name:.40}…")
    return str.__str__(name)


def checked_value(name: str, value: Any) -> SearchValue:
    """Return one value in its normal form."""
    what = f"search attribute {name!r}"
    if isinstance(value, list | tuple):
        items = [_text(f"each item of {what}", item) for item in value]
        if len(items) > MOST_ITEMS:
            raise _bad(f"{what} must have at most {MOST_ITEMS} items, not {len(items)}")
        return list(dict.fromkeys(items))
    return checked_scalar(what, value)


def checked_scalar(what: str, value: Any) -> str | int | float | bool | datetime:
    """Return one value that is not a list, in its normal form."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not LEAST_INTEGER <= value <= MOST_INTEGER:
            raise _bad(f"{what} must be a whole number of at most 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _bad(f"{what} must be finite")
        return float(value)
    if isinstance(value, datetime):
        try:
            from_datetime(value)
            return value.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise _bad(f"{what}: {error}") from None
    if isinstance(value, str):
        return _text(what, value)
    raise _bad(
        f"{what} must be text, a number, a boolean, a datetime or a list of texts, not {type(value).__name__}"
    )


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _bad(f"{what} must be text, not {type(value).__name__}")
    if "\x00" in value:
        raise _bad(f"{what} must not hold NUL (U+0000), which PostgreSQL does not accept")
    size = len(_utf8(what, value))
    if size > MOST_TEXT_BYTES:
        raise _bad(f"{what} must be at most {MOST_TEXT_BYTES:,} bytes of UTF-8, not {size:,}: it is a key")
    return str.__str__(value)


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _bad(f"{what} must be valid Unicode text (it has a lone surrogate)") from None


def _bad(message: str) -> InvalidOptionError:
    return InvalidOptionError(message, field="search_attributes")


# --- documents ------------------------------------------------------------------------------------------------------


def to_document(attributes: Mapping[str, Any]) -> Document:
    """Return validated attributes as plain JSON values."""
    return {
        name: {"datetime": value.isoformat()} if isinstance(value, datetime) else value
        for name, value in attributes.items()
    }


def from_document(document: Mapping[str, Any] | None) -> dict[str, SearchValue]:
    """Return the attributes of a document, without those that it removes."""
    return {
        name: datetime.fromisoformat(value["datetime"]) if isinstance(value, dict) else value
        for name, value in (document or {}).items()
        if value is not None
    }


def merged(before: Mapping[str, Any] | None, given: Mapping[str, Any]) -> Document:
    """Return a document overridden by another one."""
    return {name: value for name, value in {**(before or {}), **given}.items() if value is not None}


def size_of(document: Mapping[str, Any]) -> int:
    """Return the size of a document in bytes of JSON, as the limit counts it: without what the engine has written."""
    if any(is_reserved(name) for name in document):
        document = {name: value for name, value in document.items() if not is_reserved(name)}
    return len(orjson.dumps(document))
