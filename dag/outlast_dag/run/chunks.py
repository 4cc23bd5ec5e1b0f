"""The items of a map that is divided among children: each of them is a DAG of one map, over a part of the list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from outlast_dag.check.durations import children_at_once, limit_of
from outlast_dag.run.actions import Failed, Outcome
from outlast_dag.run.items import Items
from outlast_dag.run.values import Find, bind
from outlast_dag.spec.dag import DagSpec, Parameter, name_within
from outlast_dag.spec.nodes import ITEM, Map
from outlast_dag.spec.values import Constant, Ref
from outlast_workflow.errors.documents import DagFailedError


class Chunks(Items):
    """The children of a map that has begun. To whoever runs them each is an item: a spec, and a part of the list.

    Args:
        spec: The DAG.
        node: The map.
        over: The items.
        find: Finds what references of the arguments begin at.

    Raises:
        MissingError: A node has no value, and there is no ``or_else``.
        DataError: A path is not there, and there is no ``or_else``.
    """

    __slots__ = ("_collect", "_size")

    def __init__(self, spec: DagSpec, node: Map, over: list[Any], find: Find) -> None:
        size = node.chunks_of
        assert size is not None
        self._size = size
        self._collect = node.collect
        document = _part(spec, node, find).document
        # What becomes of a failed item is up to the child.
        each = replace(
            node,
            args=(Constant(document), ITEM),
            concurrency=children_at_once(spec, node),
            on_item_failure="fail",
            collect=True,
        )
        super().__init__(each, [over[begin : begin + size] for begin in range(0, len(over), size)], find)

    def end(self, index: int, outcome: Outcome) -> None:
        """Take the outcome of a child."""
        first = self.failure is None
        super().end(index, outcome)
        if first and self.failure is not None:
            self.failure = replace(self.failure, item=self._item(index, self.failure))

    def _item(self, index: int, failure: Failed) -> int | None:
        """Return which item of the whole list failed; ``None`` if the child failed as a whole."""
        for error in _causes(failure.cause):
            if isinstance(error, DagFailedError) and error.item is not None:
                return index * self._size + error.item
        return None

    def output(self) -> Any:
        """Return the output of the map."""
        parts = super().output()
        if not self._collect:
            return {"count": sum(part["count"] for part in parts)}
        return [result for part in parts for result in part]


def _part(spec: DagSpec, node: Map, find: Find) -> DagSpec:
    """Return the DAG that a child runs."""
    assert node.chunks_of is not None
    most = limit_of(spec, node)
    part = Map(
        id=node.id,
        type=node.type,
        args=tuple(bind(arg, find, "item") for arg in node.args),
        options=node.options,
        over=Ref("param", "items"),
        max_items=node.chunks_of,
        concurrency=most if most < node.chunks_of else 0,
        on_item_failure=node.on_item_failure,
        collect=node.collect,
    )
    return DagSpec(
        name=name_within(spec.name, node.id),
        options=spec.options,
        params=(Parameter("items"),),
        nodes=(part,),
        output=Ref("of", node.id),
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
