"""The items of one map: which run, which are to come, and what they returned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from outlast_dag.run.actions import Cancelled, Completed, Failed, Outcome
from outlast_dag.run.values import Find, bind, resolve
from outlast_dag.spec.nodes import ITEM, Map
from outlast_dag.spec.values import Ref

_LEFT_OUT = object()


class Items:
    """The items of a map that has begun.

    Args:
        node: The map.
        over: The items.
        find: Finds what references of the arguments begin at.

    Attributes:
        count: How many there are.
        completed: How many have returned.
        failed: How many have failed.
        open: The positions of those that run, in the order in which they began.
        failure: The first failure, if one fails the map.
        stopped: Whether no further item begins.
        cancelled: Whether an item was cancelled.
        waits: Whether the map waits for one of its own items to end, not for room in the DAG.
    """

    __slots__ = (
        "_args",
        "_find",
        "_node",
        "_over",
        "_results",
        "cancelled",
        "completed",
        "count",
        "failed",
        "failure",
        "next",
        "open",
        "stopped",
        "waits",
    )

    def __init__(self, node: Map, over: list[Any], find: Find) -> None:
        self._node = node
        self._over = over
        self._find = find
        self.count = len(over)
        self.next = 0
        self.open: dict[int, None] = {}
        self.completed = self.failed = 0
        self.failure: Failed | None = None
        self.stopped = self.cancelled = False
        self.waits = False
        self._results: list[Any] = [_LEFT_OUT] * self.count if node.collect else []
        # What all items have in common is found once, when the map begins.
        self._args = None if node.args == (ITEM,) else tuple(bind(arg, find, "item") for arg in node.args)

    @property
    def may_begin(self) -> bool:
        """Whether another item may begin now, as far as the map is concerned."""
        most = self._node.concurrency
        return not self.stopped and self.next < self.count and (not most or len(self.open) < most)

    def begin(self) -> int:
        """Begin the next item, and return its position."""
        index = self.next
        self.next += 1
        self.open[index] = None
        return index

    def args(self, index: int) -> tuple[Any, ...]:
        """Return the arguments of an item's call.

        Raises:
            MissingError: An ``or_else`` that the item needs has no value.
            DataError: A path is not there.
        """
        item = self._over[index]
        if self._args is None:
            return (item,)

        def find(ref: Ref) -> Any:
            return item if (ref.root, ref.name) == ("bound", "item") else self._find(ref)

        return tuple(resolve(arg, find) for arg in self._args)

    def end(self, index: int, outcome: Outcome) -> None:
        """Take the outcome of an item."""
        del self.open[index]
        if isinstance(outcome, Completed):
            self.completed += 1
            if self._results:
                self._results[index] = outcome.value
        elif isinstance(outcome, Cancelled):
            self.cancelled = True
        else:
            self.failed += 1
            how = self._node.on_item_failure
            if how == "fail":
                self.failure = self.failure or replace(outcome, item=index)
            elif how == "collect" and self._results:
                self._results[index] = {"failure": {"type": outcome.type, "message": outcome.message}}

    @property
    def is_whole(self) -> bool:
        """Whether all items have begun, and none was cancelled: then stopping the map came too late."""
        return self.next == self.count and not self.cancelled

    @property
    def has_ended(self) -> bool:
        """Whether no item runs, and none will."""
        return not self.open and (self.stopped or self.next == self.count)

    def stop(self) -> list[int]:
        """Begin no further item, and return those that run."""
        if self.stopped:
            return []
        self.stopped = True
        return list(self.open)

    def output(self) -> Any:
        """Return the output of the map."""
        if not self._node.collect:
            return {"count": self.completed}
        return [result for result in self._results if result is not _LEFT_OUT]
