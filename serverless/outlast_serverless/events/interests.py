"""Interests: what of a filter the router can look up. What it cannot is decided by the run.

An interest is a type of events, and values that paths into them must have. Subscriptions are found by both, so ten
thousand runs that wait for the payments of their own orders cost an event one read of an index.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from outlast_serverless.events.cloud_events import LONGEST
from outlast_serverless.jq.paths import Path, PathError, path

ANY: Final = "*"
"""The type of an interest in events of all types."""
_PATTERN: Final = re.compile(r"[\\^$*+?()\[\]{}|]")


class Interest(NamedTuple):
    """Which events a filter may take.

    Attributes:
        event_type: Their type, or ``*``.
        paths: Paths into the event, as a JSON array; empty if there are none.
        key_hash: The hash of the values that they must have; empty if there are none.
    """

    event_type: str
    paths: str
    key_hash: str


def interest(event_type: str | None, known: Mapping[str, Any]) -> Interest:
    """Return an interest.

    Args:
        event_type: The type of the events; ``None`` for all.
        known: By path, the values that they must have.
    """
    # No event has a longer type, and what has the beginning of one is for the filter to refuse.
    looked_up = (event_type or ANY).encode()[:LONGEST].decode(errors="ignore")
    names = sorted(known)
    paths = orjson.dumps(names).decode() if names else ""
    if not names or len(paths.encode()) > LONGEST:
        return Interest(looked_up, "", "")
    return Interest(looked_up, paths, _hash([known[name] for name in names]))


def key_hash(event: Mapping[str, Any], paths: str) -> str | None:
    """Return the hash of the values at some paths of an event; ``None`` if one has no value there.

    Args:
        event: The event.
        paths: The paths of an interest.
    """
    values: list[Any] = []
    for text in orjson.loads(paths):
        found = lookup_path(text)
        try:
            value = None if found is None else found.of(event, {})
        except PathError:
            return None
        if value is None:
            return None
        values.append(value)
    return _hash(values)


def lookup_path(text: str) -> Path | None:
    """Return the path that an expression on an event is; ``None`` if it is more than a path into the event."""
    found = path(text)
    return None if found is None or found.variable is not None else found


def is_pattern(text: str) -> bool:
    """Return whether a text in a filter is a regular expression, and not only a text with dots."""
    return _PATTERN.search(text) is not None


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; numbers are equal by value, and no number is a truth value."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _hash(values: list[Any]) -> str:
    text = orjson.dumps([_plain(value) for value in values], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:40]


def _plain(value: Any) -> Any:
    """Return a value whose equal numbers are written alike."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    whole = isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**64
    return int(value) if whole else value
