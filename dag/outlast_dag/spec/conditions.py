"""Conditions: what ``skip_when``, ``repeat`` and ``wait_for`` ask. They are data, so that a run can record them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from outlast_dag.spec.values import Ref, Value, references

Comparison = Literal["==", "!=", "<", "<=", ">", ">=", "in"]
"""``in``: the left side equals an item of the right side, which is a list."""

Junction = Literal["all_of", "any_of", "none_of"]


@dataclass(frozen=True, slots=True)
class Compare:
    """``{"op": "==", "left": …, "right": …}``."""

    op: Comparison
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Exists:
    """``{"op": "exists", "value": …}``: the node has a value, and the path is there; ``null`` is a value."""

    value: Ref


@dataclass(frozen=True, slots=True)
class Joined:
    """``{"op": "all_of", "of": […]}``."""

    op: Junction
    conditions: tuple[Condition, ...]


Condition = Compare | Exists | Joined


def condition_references(condition: Condition) -> Iterator[tuple[Ref, bool]]:
    """Yield each reference in a condition, and whether its node may be without a value."""
    if isinstance(condition, Compare):
        yield from references(condition.left)
        yield from references(condition.right)
    elif isinstance(condition, Exists):
        for reference, _ in references(condition.value):
            yield reference, True
    else:
        for part in condition.conditions:
            yield from condition_references(part)
