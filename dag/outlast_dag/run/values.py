"""Values and conditions of a spec, computed from what nodes returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from outlast_dag.spec.conditions import Compare, Condition, Exists, Joined
from outlast_dag.spec.values import Array, Bound, Constant, Object, Path, Ref, Value, array, obj

DATA_ERROR = "DagDataError"
"""The type of the failure of a node whose data is not there, or not what it must be."""


class MissingError(Exception):
    """A node has no value. ``state`` is the state that it ended in."""

    def __init__(self, node: str, state: str) -> None:
        super().__init__(f"{node} has no value: it is {state}")
        self.node = node
        self.state = state


class DataError(Exception):
    """A path is not there, or a value is not what it must be. The message shows no values."""


Find = Callable[[Ref], Any]
"""Return what the root of a reference stands for, or raise :class:`MissingError`."""


def resolve(value: Value, find: Find) -> Any:
    """Return a value.

    Args:
        value: The value in the spec.
        find: Finds what references begin at.

    Raises:
        MissingError: A node has none, and there is no ``or_else``.
        DataError: A path is not there, and there is no ``or_else``.
    """
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Array):
        return [resolve(item, find) for item in value.items]
    if isinstance(value, Object):
        return {name: resolve(member, find) for name, member in value.members}
    try:
        return _along(find(value), value.path, value)
    except (MissingError, DataError):
        if value.or_else is None:
            raise
        return resolve(value.or_else, find)


def bind(value: Value, find: Find, left: Bound) -> Value:
    """Return a value in which only references to one name are left that its place binds, such as a map's item.

    Args:
        value: The value in the spec.
        find: Finds what other references begin at.
        left: The name.

    Raises:
        MissingError: A node has no value, and there is no ``or_else``.
        DataError: A path is not there, and there is no ``or_else``.
    """
    if isinstance(value, Array):
        return array(bind(item, find, left) for item in value.items)
    if isinstance(value, Object):
        return obj((name, bind(member, find, left)) for name, member in value.members)
    if not isinstance(value, Ref) or (value.root == "bound" and value.name == left):
        return value
    try:
        return Constant(_along(find(value), value.path, value))
    except (MissingError, DataError):
        if value.or_else is None:
            raise
        return bind(value.or_else, find, left)


def bind_condition(condition: Condition, find: Find, left: Bound) -> Condition:
    """Return a condition in which only references to one name are left that its place binds, such as an event.

    Args:
        condition: The condition in the spec.
        find: Finds what other references begin at.
        left: The name.

    Raises:
        MissingError: A node that it needs has no value.
        DataError: A path is not there.
    """
    if isinstance(condition, Compare):
        return Compare(condition.op, bind(condition.left, find, left), bind(condition.right, find, left))
    if isinstance(condition, Joined):
        return Joined(condition.op, tuple(bind_condition(part, find, left) for part in condition.conditions))
    if (condition.value.root, condition.value.name) == ("bound", left):
        return condition
    # Of nothing, all hold and none does.
    return Joined("all_of" if holds(condition, find) else "any_of", ())


def matches(condition: Condition | None, event: Any) -> bool:
    """Return whether an event is one that a wait is for. One that has another form is not.

    Args:
        condition: The condition, of the bound ``event`` and nothing else; ``None`` for every event.
        event: The event.
    """
    try:
        return condition is None or holds(condition, lambda ref: event)
    except (MissingError, DataError):
        return False


def _along(found: Any, path: Path, ref: Ref) -> Any:
    for depth, step in enumerate(path):
        inside = isinstance(found, Mapping) if isinstance(step, str) else isinstance(found, list)
        try:
            if not inside:
                raise KeyError(step)
            found = found[step]
        except (KeyError, IndexError):
            raise DataError(f"{text_of(ref.name, path[: depth + 1])} is not there") from None
    return found


def text_of(name: str, path: Path) -> str:
    """Return a path as people write it: ``fetch.rows[0]``."""
    return name + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def holds(condition: Condition, find: Find) -> bool:
    """Return whether a condition holds.

    Args:
        condition: The condition.
        find: Finds what references begin at.

    Raises:
        MissingError: A node that it needs has no value.
        DataError: A path is not there, or the two sides cannot be compared.
    """
    if isinstance(condition, Exists):
        try:
            resolve(condition.value, find)
        except (MissingError, DataError):
            return False
        return True
    if isinstance(condition, Compare):
        return _compared(condition, resolve(condition.left, find), resolve(condition.right, find))
    if condition.op == "all_of":
        return all(holds(part, find) for part in condition.conditions)
    found = any(holds(part, find) for part in condition.conditions)
    return found if condition.op == "any_of" else not found


def _compared(condition: Compare, left: Any, right: Any) -> bool:
    op = condition.op
    if op == "==":
        return _same(left, right)
    if op == "!=":
        return not _same(left, right)
    if op == "in":
        if not isinstance(right, list):
            raise DataError(f"what {_side(condition.right)} is asked to contain something is no list")
        return any(_same(left, item) for item in right)
    ordered = (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))
    if not ordered:
        raise DataError(
            f"{_side(condition.left)} {op} {_side(condition.right)} needs two numbers or two texts, not "
            f"{_kind(left)} and {_kind(right)}"
        )
    if op == "<":
        return bool(left < right)
    if op == "<=":
        return bool(left <= right)
    return bool(left > right) if op == ">" else bool(left >= right)


def _same(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: to JSON, true is no number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    return bool(left == right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _side(value: Value) -> str:
    return text_of(value.name, value.path) if isinstance(value, Ref) else "a constant"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return kinds.get(type(value), "an object")
