"""What a node is given: constants, and references to what other nodes return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Path = tuple[str | int, ...]
"""The way into a JSON value: keys of objects and positions in arrays."""

Root = Literal["of", "param", "bound"]
"""What a reference begins at: a node's output, a parameter of the DAG, or a name that its place binds."""

Bound = Literal["item", "result", "event", "failure"]
"""Names that a place binds: a map's item, the last result of ``repeat``, an event of ``wait_for``, a node's failure."""


@dataclass(frozen=True, slots=True)
class Constant:
    """``{"is": 5}``: a JSON value that is known when the DAG is built."""

    value: Any


@dataclass(frozen=True, slots=True)
class Ref:
    """``{"of": "fetch", "path": ["rows"]}``: what a node returns, or a part of it.

    Without ``or_else``, a reference to a skipped node makes the node that has it skipped too, and a path that is not
    there fails it. With one, that value takes the place in both cases.
    """

    root: Root
    name: str
    path: Path = ()
    or_else: Value | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """``{"array": […]}``: a list, some items of which are references."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Object:
    """``{"object": {…}}``: a JSON object, some members of which are references; sorted by key."""

    members: tuple[tuple[str, Value], ...]


Value = Constant | Ref | Array | Object


def array(items: Iterable[Value]) -> Constant | Array:
    """Return a list of values in canonical form: a constant if all are constants."""
    values = tuple(items)
    if all(isinstance(value, Constant) for value in values):
        return Constant([value.value for value in values if isinstance(value, Constant)])
    return Array(values)


def obj(members: Iterable[tuple[str, Value]]) -> Constant | Object:
    """Return an object of values in canonical form: a constant if all are constants."""
    pairs = tuple(sorted(members, key=lambda member: member[0]))
    if all(isinstance(value, Constant) for _, value in pairs):
        return Constant({name: value.value for name, value in pairs if isinstance(value, Constant)})
    return Object(pairs)


def references(value: Value) -> Iterator[tuple[Ref, bool]]:
    """Yield each reference in a value, those of ``or_else`` after the one they stand in for.

    With each comes whether its node may be without a value: it has an ``or_else``.
    """
    if isinstance(value, Ref):
        yield value, value.or_else is not None
        if value.or_else is not None:
            yield from references(value.or_else)
    elif isinstance(value, Array):
        for item in value.items:
            yield from references(item)
    elif isinstance(value, Object):
        for _, member in value.members:
            yield from references(member)
