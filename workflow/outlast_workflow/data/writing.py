"""Writing Python values as JSON by their class: one pass of orjson, with a hook for classes that it does not know.

Dataclasses become objects of their fields, models what pydantic serialises them to, bytes base64 text, sets, tuples and
deques arrays, enums their values, decimals text, timedeltas ISO 8601 durations. A second, slower path handles dicts
whose keys are not text.

What is lost: the subclass of a str, list or dict; which member of a union it was, if two have the same JSON form
(``bytes | str``); an enum whose value is a tuple; the name of a time zone (its offset does).
"""

from __future__ import annotations

import dataclasses
import math
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import orjson

from outlast_workflow.primitives.payloads import Payload

# Dataclasses pass through the hook because orjson skips fields that begin with an underscore; instants, because it
# rounds offsets to the minute, and some historical offsets have seconds (Amsterdam in 1890).
_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_NO_BRACKETS = bytes(sorted({*range(256)} - {*b"[]{}"}))
_ALIKE = bytes.maketrans(b"{}", b"[]")
_MINUTE = timedelta(minutes=1)
_MIN_INTEGER = -(2**63)
_MAX_INTEGER = 2**64 - 1


MOST_LEVELS = 200
"""How deep lists and objects may be nested in a value. orjson and pydantic write 254 levels, and what records or shows
a value puts it into others: causes of failures, events, pages."""

_MOST_READ = 1024  # by orjson
_LITTLE = 2 * MOST_LEVELS
_TOO_DEEP = (
    f"it is nested more than {MOST_LEVELS} levels deep, or holds itself: make it flatter, or pass a part "
    "of it as text"
)


class UnwritableError(TypeError):
    """A value has no JSON form. The message says why and what to do, and contains no data."""


def dump(value: Any) -> bytes:
    """Return a value as JSON text.

    Raises:
        UnwritableError: There is no JSON form that could be read back.
    """
    try:
        data = orjson.dumps(value, _known, _OPTIONS)
    except UnwritableError:
        raise
    except TypeError as error:
        if isinstance(error.__cause__, UnwritableError):
            raise error.__cause__ from None
        data = _dump_slowly(value)
    data = b"%b" % data  # a copy: orjson leaves at least 4 KiB behind its text, as long as that is kept
    # So few bytes cannot be too deep. Sliced and not measured, because most values are small: a slice is no call.
    if data[_LITTLE:] and is_deep(data):
        raise UnwritableError(_TOO_DEEP)
    if b"null" in data:  # orjson writes NaN and infinities as null, without a word
        _refuse_non_finite(value)
    return data


def is_deep(data: bytes, most: int = MOST_LEVELS) -> bool:
    """Return whether JSON text is nested more deeply than a number of levels.

    Args:
        data: JSON text.
        most: The number of levels.
    """
    bare = data.translate(_ALIKE, _NO_BRACKETS)
    for _ in range(most):
        # Each round removes the innermost pairs.
        less = bare.replace(b"[]", b"")
        if not less:
            return False
        if len(less) == len(bare):
            break
        bare = less
    # It is deep, or its texts hold brackets. Parsing it is slow, but sure: orjson has a limit of its own.
    more = _MOST_READ - most
    try:
        _ = orjson.loads(b"[" * more + data + b"]" * more)
    except orjson.JSONDecodeError:
        return True
    return False


def _dump_slowly(value: Any) -> bytes:
    try:
        return orjson.dumps(_plain(value), _known, _OPTIONS)
    except UnwritableError:
        raise
    except RecursionError:
        raise UnwritableError(_TOO_DEEP) from None
    except TypeError as error:
        if isinstance(error.__cause__, UnwritableError):
            raise error.__cause__ from None
        raise UnwritableError(_reason(str(error))) from None


def _reason(message: str) -> str:
    if "surrogates" in message:
        return "it holds text with a lone surrogate: decode bytes with errors='replace', or pass bytes"
    if "64-bit" in message:
        return "it holds an integer beyond 64 bits: pass it as text or Decimal"
    if "ecursion" in message:
        return _TOO_DEEP
    return message[:1].lower() + message[1:]


_encoders: dict[type, Callable[[Any], Any]] = {}


def _known(value: Any) -> Any:
    """The hook of orjson: return what a value of a class that it does not know is written as."""
    cls = value.__class__
    encoder = _encoders.get(cls)
    if encoder is None:
        encoder = _encoders[cls] = _encoder(cls)
    return encoder(value)


def _encoder(cls: type) -> Callable[[Any], Any]:
    if issubclass(cls, Payload):
        return _embed
    # A model or a dataclass of pydantic, recognised without importing pydantic.
    if hasattr(cls, "__pydantic_serializer__"):
        return _model_encoder(cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass_encoder(cls)
    for base, encoder in _BASES:
        if issubclass(cls, base):
            return encoder
    return _other


def _model_encoder(cls: Any) -> Callable[[Any], Any]:
    def encode(value: Any) -> Any:
        serializer = cls.__pydantic_serializer__
        try:
            return serializer.to_python(value, mode="json", by_alias=True, round_trip=True, warnings="error")
        except Exception as error:
            raise UnwritableError(
                f"the model {cls.__name__} cannot be serialised ({type(error).__name__}): "
                "check that its fields hold what they declare; for binary data set "
                "model_config = ConfigDict(ser_json_bytes='base64', val_json_bytes='base64')"
            ) from None

    return encode


def _dataclass_encoder(cls: Any) -> Callable[[Any], Any]:
    names = tuple(field.name for field in dataclasses.fields(cls) if field.init)

    def encode(value: Any) -> Any:
        return {name: getattr(value, name) for name in names}

    return encode


def _embed(payload: Payload) -> Any:
    return orjson.Fragment(payload.json)


def _other(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(value, bytes_mode="base64", by_alias=True, round_trip=True)
    except Exception:
        raise UnwritableError(
            f"it holds a {type(value).__name__}, which has no JSON form: pass plain data, a dataclass or a pydantic "
            "model, and make the object where it is used"
        ) from None


def _timedelta(value: timedelta) -> str:
    sign = ""
    if value < timedelta():
        sign, value = "-", -value
    fraction = f".{value.microseconds:06}" if value.microseconds else ""
    return f"{sign}P{value.days}DT{value.seconds}{fraction}S"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise UnwritableError(
            "it holds a Decimal that is NaN or infinite, which cannot be read back: pass None or text"
        )
    return str(value)


def _datetime(value: datetime) -> str:
    offset = value.utcoffset()
    if offset is not None and offset % _MINUTE:
        value = value.astimezone(UTC)
    return value.isoformat()


_BASES: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((bytes, bytearray, memoryview), lambda value: urlsafe_b64encode(value).decode()),
    (Decimal, _decimal),
    (timedelta, _timedelta),
    (Enum, lambda value: value.value),
    (str, lambda value: str.__str__(value)),
    (Mapping, dict),
    ((set, frozenset, tuple, deque), list),
    (UUID, str),
    (datetime, _datetime),
    ((date, time), lambda value: value.isoformat()),
)


def _plain(value: Any) -> Any:
    """Return the same value made of plain lists, dicts with text keys, and leaves."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, int):
        if not _MIN_INTEGER <= value <= _MAX_INTEGER:
            raise UnwritableError("it holds an integer beyond 64 bits: pass it as text or Decimal")
        return value
    if isinstance(value, str | Payload):
        return value
    if isinstance(value, Mapping):
        plain = {_key(key): _plain(item) for key, item in value.items()}
        if len(plain) != len(value):
            raise UnwritableError("it holds a dict with two keys that are the same as text")
        return plain
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [_plain(item) for item in value]
    known = _known(value)
    return known if isinstance(known, str | orjson.Fragment) else _plain(known)


def _key(key: Any) -> str:
    """Return a dict key as text that pydantic can read back by its hint."""
    if isinstance(key, Enum):
        return _key(key.value)
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    if isinstance(key, float):
        return repr(key)
    if isinstance(key, bytes | Decimal | UUID | timedelta | datetime | date | time):
        return str(_plain(key))
    raise UnwritableError(
        f"it holds a dict with a key of type {type(key).__name__}: JSON keys are text; use a list of pairs"
    )


def _refuse_non_finite(value: Any) -> None:
    """Raise UnwritableError if a value holds a float that JSON does not have."""
    todo: list[Any] = [value]
    seen: set[int] = set()
    while todo:
        item = todo.pop()
        if item is None or item.__class__ in (str, int, bool):
            continue
        if isinstance(item, float):
            if not math.isfinite(item):
                raise UnwritableError(
                    "it holds a float that is NaN or infinite, which JSON does not have: pass None or text instead"
                )
            continue
        children = _children(item)
        if children and id(item) not in seen:
            seen.add(id(item))
            todo.extend(children)


def _children(item: Any) -> Iterable[Any]:
    if isinstance(item, Mapping):
        return item.values()
    if isinstance(item, list | tuple | set | frozenset | deque):
        return item
    if isinstance(item, Enum):
        return (item.value,)
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return [getattr(item, field.name) for field in dataclasses.fields(item)]
    if hasattr(type(item), "__pydantic_serializer__"):
        return list(vars(item).values())
    return ()
