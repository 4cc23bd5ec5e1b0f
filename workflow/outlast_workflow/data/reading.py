"""Type hints for which an ``isinstance`` is enough; :mod:`outlast_workflow.data.adapters` reads the others."""

from __future__ import annotations

import functools
import types
import typing
from typing import Any, get_args, get_origin

_SIMPLE: dict[Any, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (float, int),
    dict: (dict,),
    list: (list,),
    type(None): (type(None),),
}
UNIONS = (types.UnionType, typing.Union)  # pyright: ignore[reportDeprecated]
NONE = type(None)


def is_untyped(hint: Any) -> bool:
    """Return whether a hint places no demand: plain JSON is passed on as it is."""
    return hint is Any or hint is None or hint is object or hint is NONE


def simple_types(hint: Any) -> tuple[type, ...] | None:
    """Return the classes of which a plain JSON value must be one, if the hint says no more than that."""
    try:
        simple = _SIMPLE.get(hint)
    except TypeError:  # unhashable
        return None
    origin = get_origin(hint) if simple is None else None
    if origin is None:
        return simple
    arguments = get_args(hint)
    if origin in UNIONS:
        classes: list[type] = []
        for argument in arguments:
            found = simple_types(argument)
            if found is None:
                return None
            classes += found
        return tuple(classes)
    if origin is list and arguments == (Any,):
        return (list,)
    if origin is dict and arguments == (str, Any):
        return (dict,)
    return None


@functools.lru_cache(1024)
def plain_classes(hint: Any) -> tuple[type, ...] | None:
    """Return the classes whose plain JSON values are passed on as they are; ``None`` if others read the hint. Cached.

    Raises:
        TypeError: The hint is unhashable; others read it.
    """
    return (object,) if is_untyped(hint) else simple_types(hint)


def hint_name(hint: Any) -> str:
    """Return a hint as messages show it."""
    return (
        hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")
    )
