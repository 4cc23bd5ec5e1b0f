"""The pure core: from outcomes to what starts, what is cancelled, and how the DAG ends.

It does no I/O and knows no workflow. The interpreter offers it the outcomes of durable calls in the order of history,
so its decisions are the same in every replay.

**When a node is decided.** Once all nodes that it depends on have ended: by their ends and its rule it begins, is
skipped, or is ``upstream_failed``. Then its condition is asked and its values are taken. A value of a skipped node
makes it skipped, too, one of a node that failed makes it ``upstream_failed``, and a path that is not there fails it.

**When a node fails.** The node that it names for that case begins in its place, unless it had been asked to stop: if
that one completes, the node is ``recovered``, with its output. Otherwise the failure counts. By ``fail_fast`` all that
runs is asked to stop, and of what still waits only nodes begin whose rule looks for failures (``all_done``,
``one_failed``, ``all_failed``). By ``finish`` everything goes on. The DAG ends as failed in either case, once nothing
runs.

**When the DAG ends badly.** Once nothing runs, how it ends is decided, and nothing changes that any more. Then what has
completed is undone, the latest first, one after the other (:mod:`~outlast_dag.run.compensation`).

**Order.** Waits begin first, since they take no place among the ``max_parallel`` that run; then calls, each in
topological order, and items in theirs. An outcome costs as much as the node has consumers; an item of a map costs the
same however many there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final

from outlast_dag.run.actions import (
    GOOD,
    Action,
    Cancel,
    Cancelled,
    Completed,
    Failed,
    Finish,
    NodeFailure,
    NodeState,
    Outcome,
    Start,
    Timer,
)
from outlast_dag.run.chunks import Chunks
from outlast_dag.run.compensation import Compensation, Effect
from outlast_dag.run.items import Items
from outlast_dag.run.iterations import Iterations
from outlast_dag.run.values import DATA_ERROR, DataError, Find, MissingError, holds, resolve
from outlast_dag.run.waits import start_of_wait, wait_ended
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Approval, Call, Child, Map, Node, Repeat, Sleep, WaitFor
from outlast_dag.spec.values import Ref

FOR_FAILURES: Final = frozenset({"all_done", "one_failed", "all_failed"})
"""The rules of nodes that still begin after a failure that stops the others."""

_WAITS: Final = (Sleep, WaitFor, Approval)
"""Kinds that take no place among those that run at once."""


class Progress:
    """How far one run of a DAG is.

    Args:
        spec: The DAG.
        arguments: The values of its parameters, in order; those left out have their defaults.

    Attributes:
        states: The state of each node, by id, in topological order, auxiliary nodes behind those that name them.
        compensation: What has been done so far, and how undoing it goes.
    """

    def __init__(self, spec: DagSpec, arguments: Sequence[Any] = ()) -> None:
        self.spec = spec
        graph = spec.graph
        self._order = graph.whole_order
        self.states: dict[str, NodeState] = dict.fromkeys(self._order, "waiting")
        self.compensation = Compensation()
        self._nodes = graph.nodes
        self._owners = graph.auxiliary
        self._producers = graph.producers
        self._consumers = graph.consumers
        self._place = {name: place for place, name in enumerate(self._order)}
        self._unmet = {name: len(self._producers[name]) for name in graph.order}
        self._bad = dict.fromkeys(graph.order, 0)
        self._values: dict[str, Any] = {}
        self._parameters = {
            parameter.name: arguments[place] if place < len(arguments) else parameter.default
            for place, parameter in enumerate(spec.params)
        }
        self._ready: list[int] = []
        self._waits: list[int] = []
        self._prepared: dict[str, Start | Items | Iterations] = {}
        self._begun: set[str] = set()
        self._running = 0
        self._open = 0
        self._failures: list[tuple[str, Failed]] = []
        self._pending: dict[str, tuple[str, Failed]] = {}
        self._replaced: dict[str, dict[str, Any]] = {}
        self._halted = False
        self._cancelled = False
        self._expired = False
        self._timed_out = False
        self._verdict: Finish | None = None
        self._finished = False
        self._due: list[int] = []
        self._stopping: set[str] = set()
        self._called_off: set[str] = set()
        self._stopped: list[str] = []
        self._actions: list[Action] = []

    @property
    def failures(self) -> Sequence[tuple[str, Failed]]:
        """The nodes that have failed for good so far, in that order, each with its failure."""
        return self._failures

    def items_of(self, name: str) -> Items | None:
        """Return the items of a map that has begun."""
        found = self._prepared.get(name)
        return found if isinstance(found, Items) else None

    def iterations_of(self, name: str) -> int | None:
        """Return how many calls of a node that repeats have begun."""
        found = self._prepared.get(name)
        return found.begun if isinstance(found, Iterations) else None

    # --- what is told -------------------------------------------------------------------------------------------------

    def begin(self, *, late: bool = False) -> list[Action]:
        """Return what to do first.

        Args:
            late: Whether the reserve before the deadline has begun already: then nothing begins.
        """
        self._expired = self._halted = self._timed_out = late
        self._due = [self._place[name] for name, unmet in self._unmet.items() if not unmet]
        return self._settled()

    def offer(self, node: str, index: int | None, outcome: Outcome) -> list[Action]:
        """Take the outcome of a call that was started, and return what to do next.

        Args:
            node: The node.
            index: The position of the item; ``None`` for a node that has one call.
            outcome: How the call ended.
        """
        self._running -= not isinstance(self._nodes[node], _WAITS)
        prepared = self._prepared[node]
        if isinstance(outcome, Cancelled) and node not in self._stopping:
            outcome = Failed("CancelledError", "the call was cancelled, and the DAG had not asked for that")
        if isinstance(prepared, Items):
            assert index is not None
            self._item_ended(node, prepared, index, outcome)
        elif isinstance(prepared, Iterations):
            self._iteration_ended(node, prepared, outcome)
        else:
            self._ended(node, wait_ended(self._nodes[node], outcome))
        return self._settled()

    def elapsed(self, node: str, timer: Timer) -> list[Action]:
        """Take note that a timer has fired, and return what to do next.

        Args:
            node: The node.
            timer: Which of its timers.
        """
        calls = self._prepared[node]
        assert isinstance(calls, Iterations)
        del calls.timers[timer]
        if timer == "delay":
            heapq.heappush(self._ready, self._place[node])
        else:
            calls.expired = True
            if calls.running:
                self._stop_call(node)
            else:
                self._ended(node, calls.too_long())
        return self._settled()

    def cancel(self) -> list[Action]:
        """Cancel the DAG: ask all that runs to stop, and begin nothing more but what undoes.

        How a DAG ends that undoes already does not change.
        """
        if not self._cancelled and self._verdict is None:
            self._cancelled = self._halted = True
            self._stop_all()
        return self._settled()

    def expire(self) -> list[Action]:
        """End the DAG because the reserve before its deadline has begun, as :meth:`cancel` does.

        One that is ending already, because it was cancelled or a node has failed, ends as it would have.
        """
        if not self._expired and self._verdict is None:
            self._expired = True
            if not self._halted:
                self._halted = self._timed_out = True
                self._stopped = [name for name in self._order if self.states[name] == "running"]
            self._stop_all()
        return self._settled()

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _decide(self, name: str) -> None:
        """Decide what becomes of a node on which nothing is left to wait for."""
        node = self._nodes[name]
        if self._cancelled or self._expired or (self._halted and node.rule not in FOR_FAILURES):
            self._end(name, "cancelled" if not self._bad[name] else "upstream_failed")
            return
        unfit = self._unfit(node)
        if unfit is not None:
            self._end(name, unfit)
            return
        self._make_ready(name)

    def _make_ready(self, name: str) -> None:
        """Take the values of a node that may begin, or end it for want of them."""
        node = self._nodes[name]
        find = self._find if name not in self._owners else partial(self._find_for, name)
        try:
            if node.skip_when is not None and holds(node.skip_when, find):
                self._end(name, "skipped")
                return
            prepared = self._prepare(node, find)
        except MissingError as missing:
            self._end(name, "skipped" if missing.state == "skipped" else "upstream_failed")
            return
        except DataError as error:
            self._fail(name, Failed(DATA_ERROR, str(error)))
            return
        self._prepared[name] = prepared
        self.states[name] = "running"
        self._open += 1
        if isinstance(prepared, Items) and not prepared.count:
            self._complete(name, prepared.output())
        else:
            heapq.heappush(self._waits if isinstance(node, _WAITS) else self._ready, self._place[name])

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

    def _prepare(self, node: Node, find: Find) -> Start | Items | Iterations:
        if isinstance(node, Repeat):
            return Iterations(node, find)
        if isinstance(node, _WAITS):
            return start_of_wait(node, find)
        assert isinstance(node, Call | Child), f"{node.kind} cannot be run"
        if not isinstance(node, Map):
            return Start(node.id, None, tuple(resolve(arg, find) for arg in node.args))
        over = resolve(node.over, find)
        if not isinstance(over, list):
            raise DataError("what it maps over is no list")
        if len(over) > node.max_items:
            raise DataError(f"it maps over {len(over)} items, and max_items is {node.max_items}")
        return Chunks(self.spec, node, over, find) if node.chunks_of else Items(node, over, find)

    def _find(self, ref: Ref) -> Any:
        if ref.root == "param":
            return self._parameters[ref.name]
        if ref.root == "bound":
            raise DataError(f"{ref.name} is not bound here")
        if ref.name not in self._values:
            raise MissingError(ref.name, self.states[ref.name])
        return self._values[ref.name]

    def _find_for(self, name: str, ref: Ref) -> Any:
        """Find what an auxiliary node is given: also the failure that it is there for, or the output that it undoes."""
        if ref.root == "bound" and ref.name == "failure" and name in self._replaced:
            return self._replaced[name]
        undone = self.compensation.current
        if undone is not None and (ref.root, ref.name) == ("of", undone.node):
            return undone.output
        return self._find(ref)

    # --- ending -------------------------------------------------------------------------------------------------------

    def _ended(self, name: str, outcome: Outcome) -> None:
        if isinstance(outcome, Completed):
            self._complete(name, outcome.value)
        elif isinstance(outcome, Failed):
            self._fail(name, outcome)
        else:
            self._cancel(name)

    def _iteration_ended(self, name: str, calls: Iterations, outcome: Outcome) -> None:
        ended = calls.end(outcome, stopping=name in self._stopping)
        if ended is not None:
            self._ended(name, ended)
            return
        pause = calls.wait()
        if pause is not None:
            self._actions.append(pause)
        else:
            heapq.heappush(self._ready, self._place[name])

    def _item_ended(self, name: str, items: Items, index: int, outcome: Outcome) -> None:
        items.end(index, outcome)
        if items.failure is not None and not items.stopped:
            self._stop_items(name, items)
            if not self._is_replaceable(name):
                self._halt(name)
        if not items.has_ended:
            if items.waits and items.may_begin:
                items.waits = False
                heapq.heappush(self._ready, self._place[name])
        elif items.failure is not None:
            self._fail(name, items.failure)
        elif items.stopped and not items.is_whole:
            self._cancel(name)
        else:
            self._complete(name, items.output())

    def _stop_items(self, name: str, items: Items) -> None:
        self._stopping.add(name)
        self._actions += [Cancel(name, index) for index in items.stop()]

    def _complete(self, name: str, value: Any) -> None:
        self._values[name] = value
        undone_by = self._nodes[name].compensate
        if undone_by is not None:
            self.compensation.note(Effect(name, undone_by, value))
        self._end(name, "completed")

    def _cancel(self, name: str) -> None:
        self._note_part(name)
        self._end(name, "cancelled")

    def _fail(self, name: str, failure: Failed) -> None:
        self._note_part(name)
        state: NodeState = "timed_out" if failure.timed_out else "failed"
        handler = self._nodes[name].on_failure
        if handler is not None and self._is_replaceable(name):
            self._leave(name, state)
            self._pending[handler] = (name, failure)
            told = NodeFailure(name, failure.type, failure.message, failure.timed_out, failure.item)
            self._replaced[handler] = asdict(told)
            self._make_ready(handler)
            return
        self._give_up_on(name)
        self._failures.append((name, failure))
        self._halt(name)
        self._end(name, state)

    def _is_replaceable(self, name: str) -> bool:
        """Return whether a node that fails now has another one in its place: it was not asked to stop before."""
        return self._nodes[name].on_failure is not None and name not in self._called_off

    def _give_up_on(self, handler: str) -> None:
        """Let the failure count that a node should have stood in for."""
        if handler in self._pending:
            name, failure = self._pending.pop(handler)
            self._give_up_on(name)
            self._failures.append((name, failure))

    def _note_part(self, name: str) -> None:
        """Keep what a node that did not complete has done all the same, as far as it is to be undone."""
        node = self._nodes[name]
        prepared = self._prepared.get(name)
        if node.compensate is None or prepared is None:
            return
        if isinstance(prepared, Items):
            if prepared.completed or (node.compensate_when == "started" and prepared.next):
                self.compensation.note(Effect(name, node.compensate, prepared.output()))
        elif node.compensate_when == "started" and self._has_begun(name):
            self.compensation.note(Effect(name, node.compensate, None))

    def _has_begun(self, name: str) -> bool:
        prepared = self._prepared[name]
        return bool(prepared.begun) if isinstance(prepared, Iterations) else name in self._begun

    def _halt(self, name: str) -> None:
        if self.spec.failure == "fail_fast" and not self._halted:
            self._halted = True
            self._stop_all(but=name)

    def _stop_all(self, but: str | None = None) -> None:
        """Ask all that runs to stop, and forget what was about to begin."""
        self._ready.clear()
        self._waits.clear()
        for name in self._order:
            if name == but or self.states[name] != "running" or name in self._called_off:
                continue
            self._called_off.add(name)
            prepared = self._prepared[name]
            if isinstance(prepared, Items):
                self._stop_items(name, prepared)
                if not prepared.open:
                    self._cancel(name)
            elif prepared.running if isinstance(prepared, Iterations) else name in self._begun:
                self._stop_call(name)
            else:
                self._cancel(name)

    def _stop_call(self, name: str) -> None:
        """Ask the call of a node to stop, or its wait, unless it was asked before."""
        if name not in self._stopping:
            self._stopping.add(name)
            prepared = self._prepared[name]
            index = prepared.begun - 1 if isinstance(prepared, Iterations) else None
            self._actions.append(Cancel(name, index))

    def _end(self, name: str, state: NodeState) -> None:
        self._leave(name, state)
        if name in self._owners:
            self._auxiliary_ended(name, good=state in ("completed", "recovered"))
            return
        bad = state not in GOOD
        for consumer in self._consumers[name]:
            self._bad[consumer] += bad
            self._unmet[consumer] -= 1
            if not self._unmet[consumer]:
                heapq.heappush(self._due, self._place[consumer])

    def _leave(self, name: str, state: NodeState) -> None:
        """Let a node be in another state; if it was running, it no longer is."""
        if self.states[name] == "running":
            self._open -= 1
            prepared = self._prepared[name]
            if isinstance(prepared, Iterations):
                self._actions += prepared.clear()
        self.states[name] = state

    def _auxiliary_ended(self, name: str, *, good: bool) -> None:
        """Take the end of a node that stood in for another one, or has undone it."""
        owner = self._owners[name]
        undone = self.compensation.current
        if undone is not None and undone.undone_by == name:
            self.compensation.end(good=good)
            self.states[owner] = "compensated" if good else "compensation_failed"
        elif good:
            self._pending.pop(name, None)
            self._values[owner] = self._values[name]
            self._end(owner, "recovered")
        else:
            self._give_up_on(name)
            self._halt(owner)
            self._end(owner, self.states[owner])

    def _settled(self) -> list[Action]:
        """Decide what is due, then begin what may begin, each in order; return what came of it all."""
        while True:
            while self._due or self._may_begin:
                if self._due:
                    self._decide(self._order[heapq.heappop(self._due)])
                else:
                    self._begin_next()
            if self._open or self._finished:
                break
            if self._verdict is None:
                self._verdict = self._decided()
            if not self._undo_next(self._verdict):
                self._finish(self._verdict)
        actions, self._actions = self._actions, []
        return actions

    def _undo_next(self, verdict: Finish) -> bool:
        """Begin to undo what was done last; return whether there is something to undo."""
        kept = verdict.status == "completed" or (
            verdict.status == "cancelled" and not self.spec.compensate_on_cancel
        )
        effect = None if kept else self.compensation.next()
        if effect is None:
            return False
        self._make_ready(effect.undone_by)
        return True

    def _finish(self, verdict: Finish) -> None:
        self._finished = True
        for name in self._owners:
            if self.states[name] == "waiting":
                self.states[name] = "skipped"
        compensation = self.compensation
        self._actions.append(
            replace(verdict, compensated=compensation.done, uncompensated=compensation.failed)
        )

    @property
    def _may_begin(self) -> bool:
        most = self.spec.max_parallel
        return bool(self._waits) or (bool(self._ready) and (not most or self._running < most))

    def _begin_next(self) -> None:
        """Begin the first wait that is ready, or else the first call; of a map, as many items as may begin."""
        name = self._order[heapq.heappop(self._waits or self._ready)]
        prepared = self._prepared[name]
        if isinstance(prepared, Iterations):
            self._begin_iteration(name, prepared)
            return
        if isinstance(prepared, Start):
            self._begun.add(name)
            self._running += not isinstance(self._nodes[name], _WAITS)
            self._actions.append(prepared)
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

    def _begin_iteration(self, name: str, calls: Iterations) -> None:
        if self.states[name] != "running":
            # Its time was over while it waited for room.
            return
        try:
            args = calls.args()
        except (MissingError, DataError) as error:
            self._fail(name, Failed(DATA_ERROR, str(error)))
            return
        self._actions += calls.begin()
        self._running += 1
        self._actions.append(Start(name, calls.begun - 1, args))

    def _decided(self) -> Finish:
        """Return how the DAG ends, now that nothing runs and what it does for its result is done."""
        failures = tuple(self._failures)
        if self._cancelled:
            return Finish("cancelled", failures=failures)
        if self._timed_out:
            return Finish("timed_out", failures=failures, stopped=self._stopped)
        if failures:
            return Finish("failed", failures=failures)
        if self.spec.output is None:
            return Finish("completed")
        try:
            return Finish("completed", resolve(self.spec.output, self._find))
        except MissingError:
            return Finish("completed")
        except DataError as error:
            return Finish("failed", failures=[("", Failed(DATA_ERROR, f"the result: {error}"))])
