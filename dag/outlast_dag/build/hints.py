"""Type hints of steps, compared as far as JSON goes: a value travels between nodes as JSON, not as an object."""

from __future__ import annotations

import collections.abc
import typing
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Annotated, Any, Literal, NotRequired, Required, get_args, get_origin, get_type_hints
from uuid import UUID

from outlast_dag.spec.values import Path
from outlast_workflow.data.reading import UNIONS, hint_name

_TEXTS = (str, bytes, datetime, date, time, timedelta, Decimal, UUID, PurePath)
_LISTS = (
    *(list, tuple, set, frozenset, collections.abc.Iterable, collections.abc.Iterator),
    *(
        collections.abc.Sequence,
        collections.abc.Collection,
        collections.abc.MutableSequence,
        collections.abc.Set,
    ),
)
_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_READ_FROM_NUMBERS = (datetime, date, time, timedelta, Decimal)


def hint_at(hint: Any, path: Path) -> tuple[Any, str]:
    """Return the hint of what a path leads to, ``Any`` if unknown, and what is wrong with the path.

    Args:
        hint: The hint of what the path begins at.
        path: The path.
    """
    for step in path:
        hint = _plain(hint)
        known = members(hint)
        if isinstance(step, str) and known is not None:
            if step not in known:
                return Any, f"{hint_name(hint)} has no {step!r}: it has {', '.join(known) or 'nothing'}"
            hint = known[step]
        elif isinstance(step, str) and (kinds(hint) or {"object"}).isdisjoint({"object", "null"}):
            return Any, f"{hint_name(hint)} has no {step!r}"
        elif isinstance(step, str):
            arguments = get_args(hint)
            hint = arguments[1] if get_origin(hint) in _OBJECTS and len(arguments) == 2 else Any
        else:
            hint = item_of(hint)
    return hint, ""


def item_of(hint: Any) -> Any:
    """Return the hint of the items of a list; ``Any`` if unknown."""
    hint = _plain(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return arguments[0] if len(arguments) == 2 and arguments[1] is ... else Any
    return arguments[0] if origin in _LISTS and len(arguments) == 1 else Any


def unlike(given: Any, wanted: Any) -> bool:
    """Return whether a value of one hint can never be read as another.

    Args:
        given: The hint of the value.
        wanted: The hint of the parameter.
    """
    given, wanted = _plain(given), _plain(wanted)
    some, others = kinds(given), kinds(wanted, read=True)
    if some is None or others is None:
        return False
    if not some & others:
        return True
    if some == others == {"array"}:
        return unlike(item_of(given), item_of(wanted))
    if some == others == {"object"}:
        had, needed = members(given), _needed(wanted)
        return had is not None and needed is not None and not needed <= had.keys()
    return False


def kinds(hint: Any, *, read: bool = False) -> frozenset[str] | None:
    """Return the kinds of JSON values that a hint stands for; ``None`` if they are not known.

    Args:
        hint: The type hint.
        read: Whether to count what can be read as the hint, beside what is written.
    """
    hint = _plain(hint)
    if hint in (None, type(None)):
        return frozenset({"null"})
    origin = get_origin(hint)
    if origin is Literal:
        return frozenset(kind_of(value) for value in get_args(hint))
    if origin in UNIONS:
        parts = [kinds(part, read=read) for part in get_args(hint)]
        return None if None in parts else frozenset().union(*(part for part in parts if part is not None))
    if hint in _LISTS or origin in _LISTS:
        return frozenset({"array"})
    if hint in _OBJECTS or origin in _OBJECTS or members(hint) is not None:
        return frozenset({"object"})
    if not isinstance(hint, type):
        return None
    if issubclass(hint, Enum):
        return frozenset(kind_of(member.value) for member in hint)
    if hint is bool:
        return frozenset({"boolean"})
    if issubclass(hint, int):
        return frozenset({"integer"})
    if issubclass(hint, float):
        return frozenset({"integer", "number"})
    if issubclass(hint, _TEXTS):
        numbers = {"integer", "number"} if read and issubclass(hint, _READ_FROM_NUMBERS) else set()
        return frozenset({"string", *numbers})
    return None


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value."""
    if value is None:
        return "null"
    for kind, cls in (
        ("boolean", bool),
        ("integer", int),
        ("number", float),
        ("string", str),
        ("array", list),
    ):
        if isinstance(value, cls):
            return kind
    return "object" if isinstance(value, dict) else "string"


def members(hint: Any) -> dict[str, Any] | None:
    """Return the members of a dataclass, a model or a TypedDict with their hints; ``None`` of anything else."""
    cls = get_origin(hint) or hint
    if not isinstance(cls, type):
        return None
    if hasattr(cls, "model_fields"):
        models: dict[str, Any] = cls.model_fields
        return {field.serialization_alias or name: field.annotation for name, field in models.items()}
    if not is_dataclass(cls) and not typing.is_typeddict(cls):
        return None
    try:
        hints = get_type_hints(cls)
    except Exception:
        hints = {}
    names = (
        [field.name for field in fields(cls) if field.init]
        if is_dataclass(cls)
        else list(cls.__annotations__)
    )
    return {name: hints.get(name, Any) for name in names}


def _needed(hint: Any) -> set[str] | None:
    """Return the members without which a value cannot be read as this hint."""
    cls = get_origin(hint) or hint
    if not isinstance(cls, type) or members(hint) is None:
        return None
    if hasattr(cls, "model_fields"):
        models: dict[str, Any] = cls.model_fields
        return {field.alias or name for name, field in models.items() if field.is_required()}
    if is_dataclass(cls):
        return {
            field.name
            for field in fields(cls)
            if field.init and field.default is MISSING and field.default_factory is MISSING
        }
    return set(getattr(cls, "__required_keys__", ()))


def _plain(hint: Any) -> Any:
    """Return a hint without the wrappers that say nothing about its JSON."""
    while True:
        if get_origin(hint) in (Annotated, Required, NotRequired):
            hint = get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif hasattr(hint, "__value__"):
            hint = hint.__value__
        else:
            return hint
