"""Compiling values: which texts are expressions, how long durations are, what happens to data."""

from __future__ import annotations

from typing import Any

import orjson

from outlast_serverless.plan.durations import microseconds
from outlast_serverless.plan.model import (
    Constant,
    DataFlow,
    Duration,
    Expression,
    Length,
    Schema,
    Template,
    Value,
)
from outlast_serverless.plan.templates import bare, texts, wrapped


def expression(text: str, pointer: str) -> Expression:
    """Return the expression of a property that always holds one.

    Args:
        text: As it is written, with or without ``${ }``.
        pointer: Where it stands.
    """
    return Expression(bare(text), pointer)


def optional(text: str | None, pointer: str) -> Expression | None:
    """Return the expression of a property that may be absent.

    Args:
        text: As it is written.
        pointer: Where it stands.
    """
    return None if text is None else expression(text, pointer)


def template(value: Any, pointer: str, loose: bool = False) -> Value:
    """Return a value with the expressions that are in it.

    Args:
        value: The value.
        pointer: Where it stands.
        loose: Whether any text may be an expression; the runtime then keeps those that do not compile as text.
    """
    found = tuple(
        Expression(inner, place, text if loose and wrapped(text) is None else None)
        for place, text in texts(value, pointer)
        for inner in [bare(text) if loose else wrapped(text)]
        if inner
    )
    if not found:
        return Constant(value)
    return found[0] if isinstance(value, str) else Template(value, found, pointer)


def length(duration: Any, pointer: str) -> Length:
    """Return a duration, or the expression that gives one.

    Args:
        duration: As it is written.
        pointer: Where it stands.
    """
    inner = wrapped(duration) if isinstance(duration, str) else None
    if inner is not None:
        return Expression(inner, pointer)
    known = microseconds(duration)
    assert known is not None
    return Duration(known, duration if isinstance(duration, str) else orjson.dumps(duration).decode())


def data_flow(value: dict[str, Any], pointer: str, loose: bool = False) -> DataFlow:
    """Return what happens to the data of a workflow, a task or an iterator.

    Args:
        value: What has ``input``, ``output`` and ``export``.
        pointer: Where it stands.
        loose: Whether any text may be an expression.
    """
    parts: dict[str, Any] = {name: value.get(name) or {} for name in ("input", "output", "export")}
    if not any(parts.values()):
        return _PLAIN

    def made(name: str, key: str) -> Value | None:
        inner = parts[name].get(key)
        place = f"{pointer}/{name}/{key}"
        if inner is None:
            return None
        return expression(inner, place) if isinstance(inner, str) else template(inner, place, loose)

    def schema(name: str) -> Schema | None:
        inner = parts[name].get("schema")
        place = f"{pointer}/{name}/schema"
        if inner is None:
            return None
        resource = inner.get("resource")
        return Schema(
            inner.get("document"),
            None if resource is None else template(resource, f"{place}/resource", loose),
            place,
            inner.get("format", "json"),
        )

    return DataFlow(
        schema("input"),
        made("input", "from"),
        made("output", "as"),
        schema("output"),
        made("export", "as"),
        schema("export"),
    )


_PLAIN = DataFlow()
