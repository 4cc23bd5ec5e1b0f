"""Reading JSON by type hint with pydantic: one cached adapter for each list of hints.

pydantic refuses to configure the adapter of a bare dataclass, so the hints are wrapped as ``tuple[hint, …]``. That
takes a configuration, which reaches nested dataclasses, named tuples and containers (bytes are base64 everywhere). A
pydantic model keeps its own.

Only this module imports pydantic, and nothing imports this module before the first data converter is made: code that
merely declares workflows and activities starts without it.
"""

from __future__ import annotations

import collections.abc
import functools
import operator
import sys
import typing
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints

import typing_extensions
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core.core_schema import ErrorType

from outlast_workflow.data.reading import NONE, UNIONS

_STREAMS = (collections.abc.Iterable, collections.abc.Iterator)


CONFIG = ConfigDict(
    ser_json_bytes="base64",
    val_json_bytes="base64",
    hide_input_in_errors=True,
    regex_engine="python-re",
)


# The error types of pydantic whose messages describe only the shape of a value. A validator's own message, and those
# of the types left out here, may quote the value.
_SAFE_WORDS = frozenset(get_args(ErrorType)) - {
    "assertion_error",
    "get_attribute_error",
    "iteration_error",
    "mapping_type",
    "union_tag_invalid",
    "uuid_parsing",
    "value_error",
}


class UnreadableHintError(TypeError):
    """No way is known to read JSON as this type hint."""


_adapters: dict[Any, TypeAdapter[tuple[Any, ...]]] = {}


def adapter(hints: Sequence[Any]) -> TypeAdapter[tuple[Any, ...]]:
    """Return the adapter that reads a JSON array whose items have these hints. Cached.

    Raises:
        UnreadableHintError: One of the hints cannot be read by pydantic.
    """
    key = tuple(hints)
    try:
        found = _adapters.get(key)
    except TypeError:  # an unhashable annotation: not cached here, but with the signature
        return _adapter(key)
    if found is None:
        found = _adapters[key] = _adapter(key)
    return found


def _adapter(hints: tuple[Any, ...]) -> TypeAdapter[tuple[Any, ...]]:
    wrapped: Any = tuple[tuple(_for_pydantic(hint) for hint in hints)] if hints else tuple[()]  # type: ignore[misc]
    try:
        return TypeAdapter(wrapped, config=CONFIG)
    except Exception as error:
        raise UnreadableHintError(str(error).splitlines()[0]) from error


def json_schema(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of what a hint reads.

    Raises:
        UnreadableHintError: The hint cannot be read by pydantic, or what it reads has no schema.
    """
    reader = adapter((hint,))
    try:
        whole = reader.json_schema()
    except Exception as error:
        raise UnreadableHintError(str(error).splitlines()[0]) from error
    found: dict[str, Any] = whole["prefixItems"][0]
    return {**found, "$defs": whole["$defs"]} if "$defs" in whole else found


def _for_pydantic(hint: Any) -> Any:
    """Return the hint in a form that pydantic accepts.

    An ``Iterable`` is read as a list (pydantic would validate it lazily, and once); before Python 3.12 pydantic refuses
    the standard library's TypedDict, so it gets an equal one.
    """
    if hint in _STREAMS or get_origin(hint) in _STREAMS:
        arguments = get_args(hint)
        return list[_for_pydantic(arguments[0])] if arguments else list[Any]  # type: ignore[misc]
    if sys.version_info < (3, 12) and typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        return _typed_dict(hint)
    arguments = get_args(hint)
    if not arguments or get_origin(hint) in (typing.Literal, Annotated):
        return hint
    converted = tuple(_for_pydantic(argument) for argument in arguments)
    if all(new is old for new, old in zip(converted, arguments, strict=True)):
        return hint
    origin = get_origin(hint)
    if origin in UNIONS:
        return functools.reduce(operator.or_, converted)
    return origin[converted] if origin is not None else hint


_typed_dicts: dict[Any, Any] = {}


def _typed_dict(hint: Any) -> Any:
    found = _typed_dicts.get(hint)
    if found is None:
        members: dict[str, Any] = {}
        for name, member in get_type_hints(hint, include_extras=True).items():
            marker: Any = get_origin(member)
            bare = get_args(member)[0] if marker in (Required, NotRequired) else member
            if bare is member:
                marker = Required if name in hint.__required_keys__ else NotRequired
            members[name] = marker[_for_pydantic(bare)]
        make: Any = typing_extensions.TypedDict
        found = _typed_dicts[hint] = make(hint.__name__, members)
        found.__module__ = hint.__module__
    return found


def describe_error(error: ValidationError, hints: Sequence[Any]) -> tuple[int, str]:
    """Return which item of the array is wrong, and how, in words that contain no data."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    location = first["loc"]
    index = location[0] if location and isinstance(location[0], int) else 0
    path = _path(hints[index] if index < len(hints) else Any, location[1:])
    what = first["msg"] if first["type"] in _SAFE_WORDS else f"a validator refuses it ({first['type']})"
    more = error.error_count() - 1
    return index, f"{f'at {path}: ' if path else ''}{what}{f' (and {more} more)' if more else ''}"


def _path(hint: Any, location: Sequence[int | str]) -> str:
    """Return field names and list positions, as far as the hint shows that they are names: dict keys are data."""
    path = ""
    for step in location:
        hint = _without_optional(hint)
        arguments = get_args(hint)
        origin = get_origin(hint) or hint
        if isinstance(step, int):
            path += f"[{step}]"
            hint = arguments[0] if arguments and origin is not tuple else Any
        elif step in (members := _members(origin)):
            path += f".{step}" if path else step
            hint = members[step]
        else:
            return f"{path}…" if path else ""
    return path


def _without_optional(hint: Any) -> Any:
    if get_origin(hint) in UNIONS:
        present = [argument for argument in get_args(hint) if argument is not NONE]
        return present[0] if len(present) == 1 else Any
    return hint


def _members(cls: Any) -> dict[str, Any]:
    if isinstance(cls, type) and issubclass(cls, BaseModel):
        return {name: field.annotation for name, field in cls.model_fields.items()}
    if is_dataclass(cls):
        try:
            hints = get_type_hints(cls)
        except Exception:
            hints = {}
        return {field.name: hints.get(field.name, Any) for field in fields(cls)}
    return {}
