"""The pure core: from outcomes to what starts, what is cancelled, and how the DAG ends.

It does no I/O and knows no workflow. The interpreter offers it the outcomes of durable calls in the order of history,
so its decisions are the same in every replay.

**When a node is decided.** Once all nodes that it depends on have ended: by their ends and its rule it begins, is
skipped, or is ``upstream_failed``. Then its condition is asked and its values are taken. A value of a skipped node
makes it skipped, too, one of a node that failed makes it ``upstream_failed``, and a path that is not there fails it.

**When a node fails.** By ``fail_fast`` all that runs is asked to stop, and of what still waits only nodes begin whose
rule looks for failures (``all_done``, ``one_failed``, ``all_failed``). By ``finish`` everything goes on. The DAG ends
as failed in either case, once nothing runs.

**Order.** What may begin does so in topological order, and items in theirs. An outcome costs as much as the node has
consumers; an item of a map costs the same however many there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Final

from outlast_dag.run.actions import (
    GOOD,
    Action,
    Cancel,
    Cancelled,
    Completed,
    Failed,
    Finish,
    NodeState,
    Outcome,
    Start,
)
from outlast_dag.run.items import Items
from outlast_dag.run.values import DATA_ERROR, DataError, MissingError, holds, resolve
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Call, Map, Node
from outlast_dag.spec.values import Ref

FOR_FAILURES: Final = frozenset({"all_done", "one_failed", "all_failed"})
"""The rules of nodes that still begin after a failure that stops the others."""

RUNS: Final = frozenset({"task", "map"})
"""The kinds of nodes that the core can run."""


class Progress:
    """How far one run of a DAG is.

    Args:
        spec: The DAG.
        arguments: The values of its parameters, in order; those left out have their defaults.

    Attributes:
        states: The state of each node, by id, in topological order.
    """

    def __init__(self, spec: DagSpec, arguments: Sequence[Any] = ()) -> None:
        self.spec = spec
        graph = spec.graph
        self.states: dict[str, NodeState] = dict.fromkeys(graph.order, "waiting")
        self._nodes = graph.nodes
        self._producers = graph.producers
        self._consumers = graph.consumers
        self._place = {name: place for place, name in enumerate(graph.order)}
        self._order = graph.order
        self._unmet = {name: len(self._producers[name]) for name in graph.order}
        self._bad = dict.fromkeys(graph.order, 0)
        self._values: dict[str, Any] = {}
        self._parameters = {
            parameter.name: arguments[place] if place < len(arguments) else parameter.default
            for place, parameter in enumerate(spec.params)
        }
        self._ready: list[int] = []
        self._prepared: dict[str, tuple[Any, ...] | Items] = {}
        self._running = 0
        self._failures: list[tuple[str, Failed]] = []
        self._halted = False
        self._cancelled = False
        self._finished = False
        self._due: list[int] = []
        self._stopping: set[str] = set()
        self._actions: list[Action] = []

    # --- what is told -------------------------------------------------------------------------------------------------

    def begin(self) -> list[Action]:
        """Return what to do first."""
        self._due = [place for place, name in enumerate(self._order) if not self._unmet[name]]
        return self._settled()

    def offer(self, node: str, index: int | None, outcome: Outcome) -> list[Action]:
        """Take the outcome of a call that was started, and return what to do next.

        Args:
            node: The node.
            index: The position of the item; ``None`` for a node that has one call.
            outcome: How the call ended.
        """
        self._running -= 1
        prepared = self._prepared[node]
        if isinstance(outcome, Cancelled) and node not in self._stopping:
            outcome = Failed("CancelledError", "the call was cancelled, and the DAG had not asked for that")
        if isinstance(prepared, Items):
            assert index is not None
            self._item_ended(node, prepared, index, outcome)
        elif isinstance(outcome, Completed):
            self._complete(node, outcome.value)
        elif isinstance(outcome, Failed):
            self._fail(node, outcome)
        else:
            self._end(node, "cancelled")
        return self._settled()

    def cancel(self) -> list[Action]:
        """Cancel the DAG: ask all that runs to stop, and begin nothing more."""
        if not self._cancelled:
            self._cancelled = True
            self._stop_all()
        return self._settled()

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _decide(self, name: str) -> None:
        """Decide what becomes of a node on which nothing is left to wait for."""
        node = self._nodes[name]
        if self._cancelled or (self._halted and node.rule not in FOR_FAILURES):
            self._end(name, "cancelled" if not self._bad[name] else "upstream_failed")
            return
        unfit = self._unfit(node)
        if unfit is not None:
            self._end(name, unfit)
            return
        try:
            if node.skip_when is not None and holds(node.skip_when, self._find):
                self._end(name, "skipped")
                return
            prepared = self._prepare(node)
        except MissingError as missing:
            self._end(name, "skipped" if missing.state == "skipped" else "upstream_failed")
            return
        except DataError as error:
            self._fail(name, Failed(DATA_ERROR, str(error)))
            return
        self._prepared[name] = prepared
        self.states[name] = "running"
        if isinstance(prepared, Items) and not prepared.count:
            self._complete(name, prepared.output())
        else:
            heapq.heappush(self._ready, self._place[name])

    def _unfit(self, node: Node) -> NodeState | None:
        """Return how a node ends by its rule without beginning; ``None`` if the rule lets it begin."""
        producers = len(self._producers[node.id])
        bad = self._bad[node.id]
        if not producers or node.rule == "all_done":
            return None
        if node.rule in ("all_succeeded", "none_failed"):
            return "upstream_failed" if bad else None
        if node.rule == "one_succeeded":
            return "upstream_failed" if bad == producers else None
        wanted = 1 if node.rule == "one_failed" else producers
        return None if bad >= wanted else "skipped"

    def _prepare(self, node: Node) -> tuple[Any, ...] | Items:
        assert isinstance(node, Call), f"{node.kind} cannot be run"
        if not isinstance(node, Map):
            return tuple(resolve(arg, self._find) for arg in node.args)
        over = resolve(node.over, self._find)
        if not isinstance(over, list):
            raise DataError("what it maps over is no list")
        if len(over) > node.max_items:
            raise DataError(f"it maps over {len(over)} items, and max_items is {node.max_items}")
        return Items(node, over, self._find)

    def _find(self, ref: Ref) -> Any:
        if ref.root == "param":
            return self._parameters[ref.name]
        if ref.root == "bound":
            raise DataError(f"{ref.name} is not bound here")
        state = self.states[ref.name]
        if state != "completed":
            raise MissingError(ref.name, state)
        return self._values[ref.name]

    # --- ending -------------------------------------------------------------------------------------------------------

    def _item_ended(self, name: str, items: Items, index: int, outcome: Outcome) -> None:
        items.end(index, outcome)
        if items.failure is not None and not items.stopped:
            self._stop_items(name, items)
            self._halt(name)
        if not items.has_ended:
            if items.waits and items.may_begin:
                items.waits = False
                heapq.heappush(self._ready, self._place[name])
        elif items.failure is not None:
            self._fail(name, items.failure)
        elif items.stopped and not items.is_whole:
            self._end(name, "cancelled")
        else:
            self._complete(name, items.output())

    def _stop_items(self, name: str, items: Items) -> None:
        self._stopping.add(name)
        self._actions += [Cancel(name, index) for index in items.stop()]

    def _complete(self, name: str, value: Any) -> None:
        self._values[name] = value
        self._end(name, "completed")

    def _fail(self, name: str, failure: Failed) -> None:
        self._failures.append((name, failure))
        self._halt(name)
        self._end(name, "timed_out" if failure.timed_out else "failed")

    def _halt(self, name: str) -> None:
        if self.spec.failure == "fail_fast" and not self._halted:
            self._halted = True
            self._stop_all(but=name)

    def _stop_all(self, but: str | None = None) -> None:
        """Ask all that runs to stop, and forget what was about to begin."""
        self._ready.clear()
        for name in self._order:
            if name == but or self.states[name] != "running":
                continue
            prepared = self._prepared[name]
            if isinstance(prepared, Items):
                self._stop_items(name, prepared)
                if not prepared.open:
                    self._end(name, "cancelled")
            elif prepared is _BEGUN:
                self._stopping.add(name)
                self._actions.append(Cancel(name, None))
            else:
                self._end(name, "cancelled")

    def _end(self, name: str, state: NodeState) -> None:
        self.states[name] = state
        bad = state not in GOOD
        for consumer in self._consumers[name]:
            self._bad[consumer] += bad
            self._unmet[consumer] -= 1
            if not self._unmet[consumer]:
                heapq.heappush(self._due, self._place[consumer])

    def _settled(self) -> list[Action]:
        """Decide what is due, then begin what may begin, each in order; return what came of it all."""
        while self._due or self._may_begin:
            if self._due:
                self._decide(self._order[heapq.heappop(self._due)])
            else:
                self._begin_next()
        if not self._running and not self._finished:
            self._finished = True
            self._actions.append(self._finish())
        actions, self._actions = self._actions, []
        return actions

    @property
    def _may_begin(self) -> bool:
        most = self.spec.max_parallel
        return bool(self._ready) and (not most or self._running < most)

    def _begin_next(self) -> None:
        """Begin the first node that is ready; of a map, as many items as may begin."""
        name = self._order[heapq.heappop(self._ready)]
        prepared = self._prepared[name]
        if not isinstance(prepared, Items):
            self._prepared[name] = _BEGUN
            self._running += 1
            self._actions.append(Start(name, None, prepared))
            return
        most = self.spec.max_parallel
        while prepared.may_begin and (not most or self._running < most):
            index = prepared.begin()
            try:
                args = prepared.args(index)
            except (MissingError, DataError) as error:
                self._item_ended(name, prepared, index, Failed(DATA_ERROR, str(error)))
                continue
            self._running += 1
            self._actions.append(Start(name, index, args))
        if prepared.may_begin:
            heapq.heappush(self._ready, self._place[name])
        else:
            prepared.waits = True

    def _finish(self) -> Finish:
        if self._cancelled:
            return Finish("cancelled", failures=self._failures)
        if self._failures:
            return Finish("failed", failures=self._failures)
        if self.spec.output is None:
            return Finish("completed")
        try:
            return Finish("completed", resolve(self.spec.output, self._find))
        except MissingError:
            return Finish("completed")
        except DataError as error:
            return Finish("failed", failures=[("", Failed(DATA_ERROR, f"the result: {error}"))])


_BEGUN: Final = ("begun",)
"""Stands for the arguments of a call once they were given away."""
