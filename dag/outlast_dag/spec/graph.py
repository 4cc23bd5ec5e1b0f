"""Who depends on whom in a DAG."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import cached_property

from outlast_dag.spec.nodes import Node


class DagGraph:
    """The edges between nodes: what each one waits for, and what waits for it.

    Names of nodes that are not there are left out; so are auxiliary nodes, which wait for nothing: they run when the
    node that names them fails, or is undone.

    Attributes:
        nodes: The nodes by id, in the order of declaration.
        auxiliary: The ids of auxiliary nodes, each with the id of the node that names it.
        producers: What each node waits for, by id: the nodes that it comes ``after``, then those it has data from.
        consumers: What waits for each node, by id, in the order of declaration.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: dict[str, Node] = {}
        self.auxiliary: dict[str, str] = {}
        for node in nodes:
            self.nodes.setdefault(node.id, node)
            for named in (node.on_failure, node.compensate):
                if named is not None:
                    self.auxiliary.setdefault(named, node.id)
        self.producers: dict[str, tuple[str, ...]] = {}
        self.consumers: dict[str, list[str]] = {}
        for node in self.nodes.values():
            if node.id in self.auxiliary:
                continue
            found = dict.fromkeys(node.after)
            found.update(dict.fromkeys(ref.name for ref, _ in node.references() if ref.root == "of"))
            self.producers[node.id] = tuple(
                name for name in found if name in self.nodes and name not in self.auxiliary
            )
            self.consumers[node.id] = []
        for name, producers in self.producers.items():
            for producer in producers:
                self.consumers[producer].append(name)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The ids in topological order: of those that could come next, the one declared first.

        What lies on a cycle, or behind one, is not in it.
        """
        place = {name: index for index, name in enumerate(self.nodes)}
        names = list(self.nodes)
        unmet = {name: len(producers) for name, producers in self.producers.items()}
        ready = [place[name] for name, count in unmet.items() if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            name = names[heapq.heappop(ready)]
            order.append(name)
            for consumer in self.consumers[name]:
                unmet[consumer] -= 1
                if not unmet[consumer]:
                    heapq.heappush(ready, place[consumer])
        return tuple(order)

    @cached_property
    def whole_order(self) -> tuple[str, ...]:
        """The ids in topological order, each auxiliary node behind the one that names it."""
        if not self.auxiliary:
            return self.order
        found: dict[str, None] = {}
        left = list(reversed(self.order))
        while left:
            name = left.pop()
            if name not in found:
                found[name] = None
                node = self.nodes[name]
                left += [one for one in (node.compensate, node.on_failure) if one in self.nodes]
        return tuple(found)

    @cached_property
    def cycles(self) -> tuple[tuple[str, ...], ...]:
        """Ways round, each as the ids on it; no two share a node, and without them all would be in order."""
        left = set(self.producers) - set(self.order)
        found: list[tuple[str, ...]] = []
        done: set[str] = set()
        for start in self.producers:
            trail: dict[str, None] = {}
            name: str | None = start if start in left else None
            # Each node that is left waits for one that is left too, so walking back meets itself, or what was seen.
            while name is not None and name not in done and name not in trail:
                trail[name] = None
                name = next(producer for producer in self.producers[name] if producer in left)
            if name is not None and name in trail:
                way = list(trail)
                found.append(tuple(reversed(way[way.index(name) :])))
            done.update(trail)
        return tuple(found)
