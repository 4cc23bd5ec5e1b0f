"""A payload: one JSON value on its way between user code and history.

It is JSON text when just encoded, and a plain Python value when just decoded. The missing form is made at first use, so
a value is written once and parsed once however often it is passed on.
"""

from __future__ import annotations

from typing import Any

import orjson

_UNSET: Any = object()


class Payload:
    """One JSON value; immutable by convention.

    Attributes:
        json: The value as JSON text in UTF-8.
    """

    __slots__ = ("_value", "json")

    json: bytes

    def __init__(self, json: bytes, value: Any = _UNSET) -> None:
        self.json = json
        self._value = value

    @classmethod
    def of(cls, value: Any) -> Payload:
        """Return the payload of a plain JSON value (``None``, booleans, numbers, text, lists, dicts with text keys)."""
        payload = cls.__new__(cls)
        payload._value = value
        return payload

    # Called for an attribute that is not there, so that text which is there costs no call.
    def __getattr__(self, name: str) -> bytes:
        """Make the JSON text at its first use."""
        if name != "json":
            raise AttributeError(f"a payload has no attribute {name!r}")
        self.json = json = orjson.dumps(self._value)
        return json

    @property
    def value(self) -> Any:
        """Return the value as plain Python, which the caller must not change."""
        if self._value is _UNSET:
            self._value = orjson.loads(self.json)
        return self._value

    def take(self) -> Any:
        """Return the value as plain Python that the caller owns and may change."""
        if self._value is _UNSET:
            return orjson.loads(self.json)
        if isinstance(self._value, dict | list):
            return orjson.loads(self.json)
        return self._value

    def is_object_with(self, key: str) -> bool:
        """Return whether the value is a JSON object with this (plain ASCII) key."""
        if self._value is _UNSET and (self.json[:1] != b"{" or f'"{key}"'.encode() not in self.json):
            return False
        value = self.value
        return isinstance(value, dict) and key in value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Payload) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        return "Payload(…)"  # payloads never appear in messages or logs


NOT_NEEDED = Payload(b"null", None)
"""The placeholder payload of commands that are created only to be compared."""


def embed(value: Any) -> Any:
    """``default=`` for :func:`orjson.dumps`: a payload inside a document is embedded as its JSON text."""
    if isinstance(value, Payload):
        return orjson.Fragment(value.json)
    raise TypeError(f"a history event cannot hold a {type(value).__name__}")


def dumps(document: dict[str, Any]) -> bytes:
    """Return a document that may hold payloads as JSON text."""
    return orjson.dumps(document, default=embed)
