"""The base of history events, and the registry of their types."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import orjson

from outlast_workflow.primitives.payloads import Payload, dumps, embed

Failure = dict[str, Any]
"""A failure as JSON: see :mod:`outlast_workflow.data.failures`."""


class Event:
    """The base of all events: a type name, and a payload that is written as and read from JSON."""

    __slots__ = ()

    type: ClassVar[str]
    inbound: ClassVar[bool] = False
    command: ClassVar[bool] = False
    terminal: ClassVar[bool] = False
    names: ClassVar[tuple[str, ...]] = ()
    payload_names: ClassVar[frozenset[str]] = frozenset()
    compared: ClassVar[tuple[str, ...]] = ()
    aside: ClassVar[frozenset[str]] = frozenset()
    """The fields that are stored elsewhere, not in the payload."""

    def document(self) -> dict[str, Any]:
        """Return the payload as a dict, without fields that are ``None``; :class:`Payload` fields stay payloads."""
        document: dict[str, Any] = {}
        for name in self.names:
            value = getattr(self, name)
            if value is not None:
                document[name] = value
        return document

    def to_json(self) -> bytes:
        """Return the payload as it is stored: JSON text in UTF-8."""
        return dumps(self.document())

    def signature(self) -> tuple[Any, ...]:
        """Return what replay compares: the kind and the fields in ``compared``, never inputs or durations."""
        return (self.type, *[getattr(self, name) for name in self.compared])

    @classmethod
    def recorded_signature(cls, document: dict[str, Any]) -> tuple[Any, ...]:
        """Return the same for a stored payload."""
        return (cls.type, *[document.get(name) for name in cls.compared])

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Return the event of a stored payload. Fields of later versions are ignored."""
        values = {name: document[name] for name in cls.names if name in document}
        for name in cls.payload_names:
            if name in values:
                values[name] = Payload.of(values[name])
        return cls(**values)


REGISTRY: dict[str, type[Event]] = {}


def _writer(cls: Any) -> Any:
    """Return a ``to_json`` written out for one class, as dataclasses does for ``__init__``: twice as fast as a loop."""
    needed = {field.name for field in fields(cls) if field.default is MISSING}

    def form(name: str, value: str) -> str:
        return f"fragment({value}.json)" if name in cls.payload_names else value

    always = [name for name in cls.names if name in needed]
    lines = [
        "def to_json(self):",
        "  document = {" + ", ".join(f"{name!r}: {form(name, 'self.' + name)}" for name in always) + "}",
    ]
    for name in cls.names:
        if name not in needed:
            lines.append(
                f"  if (value := self.{name}) is not None: document[{name!r}] = {form(name, 'value')}"
            )
    lines.append("  return dumps(document, embed)")
    scope: dict[str, Any] = {"fragment": orjson.Fragment, "dumps": orjson.dumps, "embed": embed}
    exec("\n".join(lines), scope)
    return scope["to_json"]


E = TypeVar("E", bound=Event)


@dataclass_transform()
def record(cls: type[E]) -> type[E]:
    """Turn a class of annotated fields into an event: slotted, constructed by field, and in the registry."""
    made: Any = dataclass(slots=True)(cls)
    made.type = made.__name__
    stored = [field for field in fields(made) if field.name not in made.aside]
    made.names = tuple(field.name for field in stored)
    made.payload_names = frozenset(field.name for field in stored if "Payload" in str(field.type))
    if not made.compared and "command_id" in made.names:
        made.compared = ("command_id",)
    made.to_json = _writer(made)
    REGISTRY[made.type] = made
    return made  # type: ignore[no-any-return]
