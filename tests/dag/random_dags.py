"""Random DAGs with random outcomes, and a naive oracle that looks at everything again after each step."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from outlast_dag.run.actions import Completed, Failed, Outcome
from outlast_dag.spec.conditions import Compare, Exists, Joined
from outlast_dag.spec.dag import DagSpec, Parameter
from outlast_dag.spec.nodes import ITEM, Approval, Child, Map, Node, Repeat, Sleep, Task, WaitFor
from outlast_dag.spec.values import Array, Bound, Constant, Object, Ref, Value

Key = tuple[str, int | None]

RULES: Any = ("all_succeeded", "all_done", "one_succeeded", "one_failed", "all_failed", "none_failed")


def draw_spec(rng: random.Random) -> DagSpec:
    """A DAG of tasks and maps, with rules, conditions, paths and fallbacks."""
    nodes: list[Node] = []
    names = [f"n{number}" for number in range(rng.randint(1, 9))]
    for place, name in enumerate(names):
        before = names[:place]
        after = tuple(rng.sample(before, min(len(before), rng.choice((0, 0, 1, 1, 2, 3)))))
        common: dict[str, Any] = {"id": name, "after": after, "type": "work"}
        if rng.random() < 0.35:
            common["rule"] = rng.choice(RULES)
        if before and rng.random() < 0.25:
            common["skip_when"] = _condition(rng, before)
        if rng.random() < 0.35:
            args: tuple[Value, ...] = (ITEM,)
            if rng.random() < 0.4:
                item = Ref("bound", "item", ("x",) if rng.random() < 0.3 else ())
                args = (Array((item, _value(rng, before))), Constant(1))
            nodes.append(
                Map(
                    **common,
                    args=args,
                    over=_list(rng, before),
                    max_items=rng.choice((2, 5, 1000)),
                    concurrency=rng.choice((0, 0, 1, 2)),
                    on_item_failure=rng.choice(("fail", "skip", "collect")),
                    collect=rng.random() < 0.8,
                )
            )
        else:
            nodes.append(
                Task(**common, args=tuple(_value(rng, before) for _ in range(rng.choice((0, 1, 1, 2)))))
            )
    rng.shuffle(nodes)
    return DagSpec(
        name="drawn",
        timeout=60,
        nodes=tuple(nodes),
        max_parallel=rng.choice((0, 0, 1, 2, 3)),
        failure=rng.choice(("fail_fast", "finish")),
        params=(Parameter("p"), Parameter("q", False, [1, 2])),
        output=_value(rng, names) if rng.random() < 0.8 else None,
    )


def with_waits(rng: random.Random, spec: DagSpec) -> DagSpec:
    """The same DAG, in which some of the tasks are waits, children and repeated calls."""
    nodes: list[Node] = []
    for node in spec.nodes:
        if not isinstance(node, Task) or rng.random() < 0.4:
            nodes.append(node)
            continue
        common: dict[str, Any] = {
            name: getattr(node, name)
            for name in ("id", "after", "rule", "skip_when", "on_failure", "compensate", "compensate_when")
        }
        known = [ref.name for ref, _ in node.references() if ref.root == "of"]
        kind = rng.choice(("child", "sleep", "wait_for", "approval", "repeat", "repeat"))
        if kind == "child":
            nodes.append(Child(**common, type="other", args=node.args, timeout=5))
        elif kind == "sleep":
            nodes.append(Sleep(**common, seconds=3))
        elif kind == "wait_for":
            match = _asked(rng, "event", known) if rng.random() < 0.6 else None
            value = rng.choice((None, None, Constant({"x": 2}), Constant(None)))
            nodes.append(WaitFor(**common, event="e", timeout=5, match=match, on_timeout=value))
        elif kind == "approval":
            nodes.append(Approval(**common, timeout=5, on_timeout=rng.choice(("reject", "approve", "fail"))))
        else:
            last = Ref("bound", "result", rng.choice(((), ("x",))), rng.choice((Constant(0), *node.args)))
            args = (*node.args, last) if rng.random() < 0.5 else node.args
            nodes.append(
                Repeat(
                    **common,
                    type="work",
                    args=args,
                    until=_asked(rng, "result", known),
                    max_iterations=rng.choice((1, 2, 3)),
                    max_duration=rng.choice((None, 5, 5)),
                    delay=rng.choice((0, 2)),
                )
            )
    return replace(spec, nodes=tuple(nodes))


def _asked(rng: random.Random, name: Bound, known: list[str]) -> Any:
    """A condition of a value that is bound, and perhaps of others."""
    path = rng.choice(((), (), ("x",)))
    right = Constant(rng.choice((1, 2, "a"))) if rng.random() < 0.8 else _ref(rng, known)
    found: Any = Compare(rng.choice(("==", "!=", "==", ">")), Ref("bound", name, path), right)
    if rng.random() < 0.3:
        missing = Exists(Ref("bound", name, ("rows",)))
        found = Joined(rng.choice(("any_of", "all_of")), (missing, found))
    return found


def with_auxiliaries(rng: random.Random, spec: DagSpec) -> DagSpec:
    """The same DAG, with nodes that run if others fail, and that undo them."""
    order = spec.graph.order
    before: dict[str, list[str]] = {}
    for name in order:
        producers = spec.graph.producers[name]
        before[name] = sorted({*producers, *(one for producer in producers for one in before[producer])})
    added: list[Node] = []

    def auxiliary(name: str, known: list[str], *, role: str, depth: int) -> str:
        def value() -> Value:
            if role == "on_failure" and rng.random() < 0.5:
                path = rng.choice(((), ("message",), ("item",), ("nope",)))
                return Ref("bound", "failure", path, rng.choice((None, None, Constant(0))))
            return _value(rng, known)

        common: dict[str, Any] = {"id": name, "type": "work"}
        if depth < 2 and rng.random() < 0.25:
            common["on_failure"] = auxiliary(f"{name}f", known, role="on_failure", depth=depth + 1)
        if role == "on_failure" and rng.random() < 0.3:
            common["compensate"] = auxiliary(f"{name}c", [*known, name], role="compensate", depth=depth + 1)
            common["compensate_when"] = rng.choice(("completed", "started"))
        if rng.random() < 0.25:
            args = (Array((ITEM, value())),) if rng.random() < 0.5 else (ITEM,)
            over = value() if rng.random() < 0.5 else Constant([1, 2])
            added.append(Map(**common, args=args, over=over, concurrency=rng.choice((0, 1))))
        else:
            added.append(Task(**common, args=tuple(value() for _ in range(rng.choice((0, 1, 2))))))
        return name

    nodes: list[Node] = []
    for node in spec.nodes:
        changes: dict[str, Any] = {}
        if rng.random() < 0.35:
            changes["on_failure"] = auxiliary(f"{node.id}f", before[node.id], role="on_failure", depth=0)
        if rng.random() < 0.5:
            known = [*before[node.id], node.id, node.id]
            changes["compensate"] = auxiliary(f"{node.id}c", known, role="compensate", depth=0)
            changes["compensate_when"] = rng.choice(("completed", "completed", "started"))
        nodes.append(replace(node, **changes))
    nodes += added
    rng.shuffle(nodes)
    return replace(spec, nodes=tuple(nodes), compensate_on_cancel=rng.random() < 0.7)


def _ref(rng: random.Random, names: list[str]) -> Value:
    other = rng.choice((None, None, Constant("else"), Ref("param", "q")))
    if not names or rng.random() < 0.2:
        return Ref("param", rng.choice("pq"), rng.choice(((), (0,), ("x",))), other)
    return Ref("of", rng.choice(names), rng.choice(((), (), ("x",), ("rows",), ("rows", 0), (0,))), other)


def _value(rng: random.Random, names: list[str]) -> Value:
    kind = rng.random()
    if kind < 0.2:
        return Constant(rng.choice((1, "a", None, [1], {"x": 2})))
    if kind < 0.3:
        return Object((("a", _ref(rng, names)), ("b", Constant(1))))
    return _ref(rng, names)


def _list(rng: random.Random, names: list[str]) -> Value:
    if names and rng.random() < 0.6:
        return Ref(
            "of", rng.choice(names), rng.choice((("rows",), ("rows",), ())), rng.choice((None, Constant([])))
        )
    return rng.choice(
        (Ref("param", "q"), Constant([]), Constant([{"x": 1}, {"x": 2}, {"y": 3}]), Constant([1, 2, 3]))
    )


def _condition(rng: random.Random, names: list[str], depth: int = 0) -> Any:
    kind = rng.random()
    if kind < 0.25 and depth < 2:
        parts = tuple(_condition(rng, names, depth + 1) for _ in range(rng.randint(0, 3)))
        return Joined(rng.choice(("all_of", "any_of", "none_of")), parts)
    found = _ref(rng, names)
    if kind < 0.4:
        assert isinstance(found, Ref)
        return Exists(found)
    op: Any = rng.choice(("==", "!=", "<", "<=", ">", ">=", "in"))
    right = Constant([1, 2, {"x": 1}]) if op == "in" else Constant(rng.choice((1, 2, "a", True)))
    return Compare(op, found, right)


def draw_outcome(seed: int | str, key: Key) -> Outcome:
    """How a call ends, the same whenever it is asked."""
    rng = random.Random(f"{seed} {key}")
    if rng.random() < 0.2:
        return Failed("Broken", f"{key}", timed_out=rng.random() < 0.3)
    return Completed(
        rng.choice((1, 2, "a", None, {"x": 1}, {"x": 2, "rows": [1, 2, 3]}, {"rows": []}, [1, {"x": 5}]))
    )


# --- the oracle -------------------------------------------------------------------------------------------------------


class Skipped(Exception):
    """A value belongs to a node that was skipped."""


class Lost(Exception):
    """A value belongs to a node that did not succeed."""


class Wrong(Exception):
    """A value is not what it must be."""


class Oracle:
    """Runs a DAG naively: after each step it looks at all nodes again, and counts everything anew."""

    def __init__(self, spec: DagSpec, arguments: list[Any]) -> None:
        self.spec = spec
        self.parameters = {
            one.name: arguments[place] if place < len(arguments) else one.default
            for place, one in enumerate(spec.params)
        }
        self.nodes: dict[str, Any] = {node.id: node for node in spec.nodes}
        self.owners = {
            helper: node for node in spec.nodes for helper in (node.on_failure, node.compensate) if helper
        }
        self.order = [one for name in self._order() for one in self._with_helpers(name)]
        self.state = dict.fromkeys(self.order, "waiting")
        self.value: dict[str, Any] = {}
        self.calls: dict[str, list[tuple[Any, ...] | None]] = {}
        self.asked: dict[Key, str] = {}
        """Each call that began, and how it is: running, or how it ended."""
        self.results: dict[Key, Any] = {}
        self.failures: list[str] = []
        self.halted = self.cancelled = False
        self.begun: list[Key] = []
        self.stopped: list[Key] = []
        self.told: dict[str, Any] = {}
        """What each node is given that runs because of a failure."""
        self.done: list[tuple[str, Any]] = []
        """What was done and can be undone, with the output that is told of it."""
        self.undoing: tuple[str, Any] | None = None
        self.undone: list[str] = []
        self.verdict: tuple[str, Any] | None = None
        self.blamed: list[str] = []
        self.expired = self.timed_out = False
        self.bound: dict[str, Any] = {}
        """What the result or the event is that a condition is asked of, by its name."""
        self.pauses: set[str] = set()
        """The repeated calls that wait for the next one."""
        self.late: set[str] = set()
        """The repeated calls whose time is over."""

    def _with_helpers(self, name: str | None) -> list[str]:
        if name is None:
            return []
        node = self.nodes[name]
        return [name, *self._with_helpers(node.on_failure), *self._with_helpers(node.compensate)]

    def _order(self) -> list[str]:
        left = [node.id for node in self.spec.nodes if node.id not in self.owners]
        done: list[str] = []
        while left:
            name = next(name for name in left if all(one in done for one in self.producers(name)))
            left.remove(name)
            done.append(name)
        return done

    def producers(self, name: str) -> set[str]:
        node = self.nodes[name]
        return {*node.after, *(ref.name for ref, _ in node.references() if ref.root == "of")}

    # values

    def find(self, value: Any, item: Any = None) -> Any:
        if isinstance(value, Constant):
            return value.value
        if isinstance(value, Array):
            return [self.find(one, item) for one in value.items]
        if isinstance(value, Object):
            return {name: self.find(one, item) for name, one in value.members}
        found: Any
        try:
            if value.root == "param":
                found = self.parameters[value.name]
            elif value.root == "bound":
                if value.name in ("event", "result"):
                    if value.name not in self.bound:
                        raise Lost
                    found = self.bound[value.name]
                else:
                    found = item if value.name == "item" else self.told[self.deciding]
            elif self.undoing is not None and value.name == self.undoing[0]:
                found = self.undoing[1]
            elif value.name in self.value:
                found = self.value[value.name]
            else:
                raise Skipped if self.state[value.name] == "skipped" else Lost
            for one in value.path:
                step: Any = one
                is_list, is_object = isinstance(found, list), isinstance(found, dict)
                if (isinstance(step, int) and is_list and step < len(found)) or (
                    isinstance(step, str) and is_object and step in found
                ):
                    found = found[step]
                else:
                    raise Wrong
            return found
        except (Skipped, Lost, Wrong):
            if value.or_else is None:
                raise
            return self.find(value.or_else, item)

    def holds(self, condition: Any) -> bool:
        if isinstance(condition, Joined):
            for part in condition.conditions:
                found = self.holds(part)
                if condition.op == "all_of" and not found:
                    return False
                if condition.op != "all_of" and found:
                    return condition.op == "any_of"
            return condition.op != "any_of"
        if isinstance(condition, Exists):
            try:
                self.find(condition.value)
            except (Skipped, Lost, Wrong):
                return False
            return True
        left, right = self.find(condition.left), self.find(condition.right)

        def tagged(value: Any) -> Any:
            if isinstance(value, list):
                return ["list", *map(tagged, value)]
            if isinstance(value, dict):
                return {key: tagged(one) for key, one in value.items()}
            return (isinstance(value, bool), value)

        if condition.op in ("==", "!="):
            return bool((tagged(left) == tagged(right)) == (condition.op == "=="))
        if condition.op == "in":
            return bool(any(tagged(left) == tagged(one) for one in right))
        for kind in ((int, float), str):
            if isinstance(left, kind) and isinstance(right, kind) and bool not in (type(left), type(right)):
                a: Any
                b: Any
                a, b = (left, right) if condition.op[0] == "<" else (right, left)
                return bool(a < b or (a == b and len(condition.op) == 2))
        raise Wrong

    # steps

    def settle(self) -> None:
        """Do all that can be done without another outcome."""
        while any(self._step(name) for name in self.order) or self._begin() or self._undo():
            pass

    def _step(self, name: str) -> bool:
        """Take a node one step further, if there is one."""
        if self.state[name] == "waiting":
            if name in self.owners or not all(map(self._is_over, self.producers(name))):
                return False
            self._decide(name)
            return True
        return self.state[name] == "running" and self._maybe_end(name)

    def _is_over(self, name: str) -> bool:
        """Whether nothing changes the state of a node any more, but what undoes it."""
        helper = self.nodes[name].on_failure
        replaced = helper in self.told and not self._is_over(helper)
        return self.state[name] not in ("waiting", "running") and not replaced

    def _decide(self, name: str) -> None:
        node = self.nodes[name]
        ends = [self.state[one] for one in self.producers(name)]
        bad = [end for end in ends if end not in ("completed", "skipped", "recovered")]
        tolerant = node.rule in ("all_done", "one_failed", "all_failed")
        if self.cancelled or self.expired or (self.halted and not tolerant):
            self.state[name] = "upstream_failed" if bad else "cancelled"
            return
        met = {
            "all_succeeded": not bad,
            "none_failed": not bad,
            "all_done": True,
            "one_succeeded": len(bad) < len(ends),
            "one_failed": bool(bad),
            "all_failed": len(bad) == len(ends),
        }[node.rule]
        if ends and not met:
            self.state[name] = "skipped" if node.rule in ("one_failed", "all_failed") else "upstream_failed"
            return
        self._take_values(name)

    deciding = ""

    def _take_values(self, name: str) -> None:
        node = self.nodes[name]
        self.deciding = name
        try:
            if node.skip_when is not None and self.holds(node.skip_when):
                self.state[name] = "skipped"
                return
            if isinstance(node, Map):
                over = self.find(node.over)
                if not isinstance(over, list) or len(over) > node.max_items:
                    raise Wrong
                for arg in node.args:
                    self._check(arg)
                self.calls[name] = []
                for item in over:
                    try:
                        self.calls[name].append(tuple(self.find(arg, item) for arg in node.args))
                    except (Skipped, Lost, Wrong):
                        self.calls[name].append(None)
            elif isinstance(node, Repeat):
                for arg in node.args:
                    self._check(arg)
                self._check_condition(node.until)
                self.calls[name] = [self._next_args(node)]
            elif isinstance(node, Sleep | Approval | WaitFor):
                if isinstance(node, WaitFor) and node.match is not None:
                    self._check_condition(node.match)
                self.calls[name] = [()]
            else:
                self.calls[name] = [tuple(self.find(arg) for arg in node.args)]
        except Skipped:
            self._is(name, "skipped")
        except Lost:
            self._is(name, "upstream_failed")
        except Wrong:
            self._fail(name, Failed("DagDataError", ""))
        else:
            self.state[name] = "running"

    def _check(self, arg: Any) -> None:
        """Find what an argument of a map needs besides the item."""
        if isinstance(arg, Array):
            for one in arg.items:
                self._check(one)
        elif isinstance(arg, Object):
            for _, one in arg.members:
                self._check(one)
        elif not (isinstance(arg, Ref) and arg.root == "bound" and arg.name in ("item", "result", "event")):
            self.find(arg)

    def _check_condition(self, condition: Any) -> None:
        """Find what a condition needs besides what is bound."""
        if isinstance(condition, Joined):
            for part in condition.conditions:
                self._check_condition(part)
        elif isinstance(condition, Compare):
            self._check(condition.left)
            self._check(condition.right)

    def _next_args(self, node: Any) -> tuple[Any, ...] | None:
        try:
            return tuple(self.find(arg) for arg in node.args)
        except (Skipped, Lost, Wrong):
            return None

    def accepts(self, name: str, event: Any) -> bool:
        """Whether a wait takes an event."""
        match = self.nodes[name].match
        self.bound["event"] = event
        try:
            return match is None or self.holds(match)
        except (Skipped, Lost, Wrong):
            return False
        finally:
            del self.bound["event"]

    def timers(self) -> set[tuple[str, str]]:
        """The timers of repeated calls that run."""
        found = set()
        for name, node in self.nodes.items():
            if isinstance(node, Repeat) and self.state[name] == "running":
                if name in self.pauses:
                    found.add((name, "delay"))
                if node.max_duration is not None and (name, 0) in self.asked and name not in self.late:
                    found.add((name, "duration"))
        return found

    def elapse(self, name: str, timer: str) -> None:
        if timer == "delay":
            self.pauses.remove(name)
            self.calls[name].append(self._after_last(name))
        else:
            self.late.add(name)
            running = [key for key, how in self.asked.items() if key[0] == name and how == "running"]
            if running and name not in self.stopping:
                self.stopping.add(name)
                self.stopped += running
        self.settle()

    def _after_last(self, name: str) -> tuple[Any, ...] | None:
        """What the next call is given, after the last that ended."""
        self.bound["result"] = self.results[name, len(self.calls[name]) - 1]
        self.deciding = name
        try:
            return self._next_args(self.nodes[name])
        finally:
            del self.bound["result"]

    def _repeat_goes_on(self, name: str, last: str | None) -> bool:
        """Take a repeated call one step further, none of whose calls runs."""
        node, count = self.nodes[name], len(self.calls[name])
        if last == "completed":
            self.bound["result"] = self.results[name, count - 1]
            held: bool | None
            try:
                held = self.holds(node.until)
            except (Skipped, Lost, Wrong):
                held = None
            del self.bound["result"]
            if held is None:
                self._fail(name, Failed("DagDataError", ""))
                return True
            if held:
                self.value[name] = self.results[name, count - 1]
                self._note(name)
                self._is(name, "completed")
                return True
        if name in self.late:
            self._fail(name, Failed("TimeoutError", "", timed_out=True))
        elif name in self.stopping:
            self._note(name)
            self._is(name, "cancelled")
        elif last is None or name in self.pauses:
            return False
        elif count == node.max_iterations:
            self._fail(name, Failed("RepeatExhausted", ""))
        elif node.delay:
            self.pauses.add(name)
        else:
            self.calls[name].append(self._after_last(name))
        return True

    def key(self, name: str, index: int) -> Key:
        return (name, index if isinstance(self.nodes[name], Map | Repeat) else None)

    def _hows(self, name: str) -> list[str | None]:
        return [self.asked.get(self.key(name, index)) for index in range(len(self.calls[name]))]

    def _failing(self, name: str) -> bool:
        node = self.nodes[name]
        tolerant = isinstance(node, Map) and node.on_item_failure != "fail"
        return not tolerant and any(how in ("failed", "timed_out") for how in self._hows(name))

    def _maybe_end(self, name: str) -> bool:
        hows = self._hows(name)
        if "running" in hows:
            return False
        if self._failing(name):
            self._fail(name, self.first_failures[name])
        elif isinstance(self.nodes[name], Repeat):
            return self._repeat_goes_on(name, hows[-1])
        elif name in self.stopping and {"cancelled", None} & set(hows):
            self._note(name)
            self._is(name, "cancelled")
        elif None in hows:
            return False
        else:
            self.value[name] = self._output(name)
            self._note(name)
            self._is(name, "completed")
        return True

    def _output(self, name: str) -> Any:
        """What a node has returned so far."""
        node, hows = self.nodes[name], self._hows(name)
        if isinstance(node, Repeat):
            return self.value.get(name)
        if not isinstance(node, Map):
            return self.results[name, None]
        collected = [
            self.results[name, index]
            for index, how in enumerate(hows)
            if how == "completed" or (node.on_item_failure == "collect" and how in ("failed", "timed_out"))
        ]
        return collected if node.collect else {"count": hows.count("completed")}

    def _note(self, name: str) -> None:
        """Note what a node has done, now that none of its calls runs."""
        node = self.nodes[name]
        if not node.compensate or name not in self.calls:
            return
        hows = self._hows(name)
        begun = any(how is not None for how in hows)
        if name in self.value or ("completed" in hows and not isinstance(node, Repeat)):
            self.done.append((name, self._output(name)))
        elif node.compensate_when == "started" and begun:
            self.done.append((name, self._output(name) if isinstance(node, Map) else None))

    def _is(self, name: str, state: str) -> None:
        """Let a node end; what it runs for ends with it."""
        self.state[name] = state
        owner = self.owners.get(name)
        if owner is None:
            return
        good = state in ("completed", "recovered")
        if self.undoing is not None and name == self.nodes[self.undoing[0]].compensate:
            self.undone.append(self.undoing[0])
            self.state[self.undoing[0]] = "compensated" if good else "compensation_failed"
            self.undoing = None
        elif good:
            self.value[owner.id] = self.value[name]
            self._is(owner.id, "recovered")
        else:
            self._blame(owner.id)
            self._halt(but=owner.id)
            self._is(owner.id, self.state[owner.id])

    def _blame(self, name: str) -> None:
        """Count the failure of a node, after that of what it runs for."""
        owner = self.owners.get(name)
        if owner is not None and name in self.told:
            self._blame(owner.id)
        if name not in self.failures:
            self.failures.append(name)

    def _undo(self) -> bool:
        """Undo the latest thing that was done, if the DAG has ended badly."""
        if self.undoing is not None or "running" in self.state.values():
            return False
        if self.verdict is None:
            self.verdict, self.blamed = self.end(), list(self.failures)
        status = self.verdict[0]
        if status == "completed" or (status == "cancelled" and not self.spec.compensate_on_cancel):
            return False
        if not self.done:
            return False
        self.undoing = self.done.pop()
        self._take_values(self.nodes[self.undoing[0]].compensate)
        return True

    stopping: set[str]
    called_off: set[str]
    first_failures: dict[str, Failed]

    def _begin(self) -> bool:
        """Begin the first call that may begin."""
        most = self.spec.max_parallel
        running = [key for key, how in self.asked.items() if how == "running" and not self._is_wait(key[0])]
        waits = [name for name in self.order if self._is_wait(name)]
        full = most and len(running) >= most
        for name in waits if full else [*waits, *self.order]:
            if self.state[name] != "running" or name in self.stopping or self._failing(name):
                continue
            node, hows = self.nodes[name], self._hows(name)
            if None not in hows:
                continue
            if isinstance(node, Map) and node.concurrency and hows.count("running") >= node.concurrency:
                continue
            index = hows.index(None)
            key = self.key(name, index)
            if self.calls[name][index] is None:
                self._ended(key, Failed("DagDataError", ""))
            else:
                self.asked[key] = "running"
                self.begun.append(key)
            return True
        return False

    def _is_wait(self, name: str) -> bool:
        return isinstance(self.nodes[name], Sleep | WaitFor | Approval)

    def take(self, key: Key, outcome: Outcome) -> None:
        node = self.nodes[key[0]]
        if isinstance(outcome, Failed) and outcome.timed_out:
            if isinstance(node, WaitFor) and node.on_timeout is not None:
                outcome = Completed(node.on_timeout.value)
            elif isinstance(node, Approval) and node.on_timeout != "fail":
                approved = node.on_timeout == "approve"
                outcome = Completed({"approved": approved, "comment": None, "by": None})
        self._ended(key, outcome)
        self.settle()

    def _ended(self, key: Key, outcome: Outcome) -> None:
        name, _ = key
        if isinstance(outcome, Completed):
            self.asked[key] = "completed"
            self.results[key] = outcome.value
        elif isinstance(outcome, Failed):
            how = "timed_out" if outcome.timed_out else "failed"
            self.asked[key] = how
            self.results[key] = {"failure": {"type": outcome.type, "message": outcome.message}}
            if self._failing(name) and name not in self.first_failures:
                item = key[1] if isinstance(self.nodes[name], Map) else None
                self.first_failures[name] = replace(outcome, item=item)
                for index, one in enumerate(self._hows(name)):
                    if one == "running":
                        self.stopped.append(self.key(name, index))
                if not self._is_replaced(name):
                    self._halt(but=name)
        else:
            self.asked[key] = "cancelled"

    def _is_replaced(self, name: str) -> bool:
        return self.nodes[name].on_failure is not None and name not in self.called_off

    def _fail(self, name: str, failure: Failed) -> None:
        state = "timed_out" if failure.timed_out else "failed"
        self._note(name)
        helper = self.nodes[name].on_failure
        if self._is_replaced(name):
            self.state[name] = state
            self.told[helper] = {
                "node": name,
                "type": failure.type,
                "message": failure.message,
                "timed_out": failure.timed_out,
                "item": failure.item,
            }
            self._take_values(helper)
            return
        self._blame(name)
        self.state[name] = state
        self._halt(but=name)
        self._is(name, state)

    def _halt(self, but: str) -> None:
        if self.spec.failure == "fail_fast" and not self.halted:
            self.halted = True
            self._stop(but)

    def _stop(self, but: str | None = None) -> None:
        for name in self.order:
            if self.state[name] != "running" or name == but:
                continue
            self.called_off.add(name)
            if name not in self.first_failures and name not in self.stopping:
                self.stopping.add(name)
                for index, how in enumerate(self._hows(name)):
                    if how == "running":
                        self.stopped.append(self.key(name, index))

    def cancel(self) -> None:
        if self.verdict is None:
            self.cancelled = self.halted = True
            self._stop()
        self.settle()

    def expire(self) -> None:
        if self.verdict is None:
            self.timed_out = self.timed_out or not self.halted
            self.expired = self.halted = True
            self._stop()
        self.settle()

    def end(self) -> tuple[str, Any]:
        """How the DAG has ended."""
        if self.cancelled:
            return "cancelled", None
        if self.timed_out:
            return "timed_out", None
        if self.failures:
            return "failed", None
        if self.spec.output is None:
            return "completed", None
        try:
            return "completed", self.find(self.spec.output)
        except (Skipped, Lost):
            return "completed", None
        except Wrong:
            return "failed", None


def oracle_of(spec: DagSpec, arguments: list[Any]) -> Oracle:
    oracle = Oracle(spec, arguments)
    oracle.stopping = set()
    oracle.called_off = set()
    oracle.first_failures = {}
    return oracle


Outcomes = Mapping[Key, Outcome]
