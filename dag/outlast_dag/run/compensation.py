"""What a DAG that ends badly undoes: the nodes that have completed, in reverse order, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Effect:
    """What a node has done, and may have to be undone.

    Attributes:
        node: The node.
        undone_by: The node that undoes it.
        output: What that node is given as the output: of a map that did not complete, what its items returned; ``None``
            of another node that has begun and not completed.
    """

    node: str
    undone_by: str
    output: Any


class Compensation:
    """What has been done so far, and how undoing it goes.

    Attributes:
        current: What is being undone.
        done: The nodes that were undone, in the order in which they were.
        failed: Those that could not be undone, likewise.
    """

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self.current: Effect | None = None
        self.done: list[str] = []
        self.failed: list[str] = []

    def note(self, effect: Effect) -> None:
        """Keep what a node has done."""
        self._effects.append(effect)

    def next(self) -> Effect | None:
        """Take the latest effect that is left, to undo it; ``None`` if all were."""
        self.current = self._effects.pop() if self._effects else None
        return self.current

    def end(self, *, good: bool) -> str:
        """Note how undoing the current effect has ended, and return the node that had it.

        Args:
            good: Whether it was undone.
        """
        assert self.current is not None
        node = self.current.node
        (self.done if good else self.failed).append(node)
        self.current = None
        return node
