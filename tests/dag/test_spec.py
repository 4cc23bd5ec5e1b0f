"""The spec of a DAG: canonical, read as it was written, and with the critical path of all its paths."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import orjson
import pytest

from outlast import ActivityOptions, RetryPolicy
from outlast_dag import DagValidationError
from outlast_dag.check.critical_path import critical_path
from outlast_dag.check.durations import attempts_seconds, duration_of
from outlast_dag.check.report import report
from outlast_dag.spec.conditions import Compare, Condition, Exists, Joined
from outlast_dag.spec.dag import DagSpec, Parameter
from outlast_dag.spec.nodes import (
    KINDS,
    Approval,
    Call,
    Child,
    Map,
    Node,
    Plan,
    Repeat,
    Sleep,
    Task,
    WaitFor,
)
from outlast_dag.spec.reading import read_spec
from outlast_dag.spec.schema import SCHEMA
from outlast_dag.spec.values import Constant, Ref, Value, array, obj

VALIDATOR = jsonschema_rs.validator_for(SCHEMA)

SECONDS: list[float] = [1, 2, 3, 7, 60, 1000, 0.5, 1.25, 30.1]
SEEDS = range(400)


class Maker:
    """Makes specs at random: every kind of node, value and condition."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names: list[str] = []

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def some(self, most: int, make: Any) -> list[Any]:
        return [make() for _ in range(self.random.randint(0, most))]

    def json(self, depth: int = 2) -> Any:
        if depth and self.random.random() < 0.3:
            return self.one(
                self.some(2, lambda: self.json(depth - 1)),
                {key: self.json(depth - 1) for key in self.some(2, lambda: self.one("a", "é", ""))},
            )
        return self.one(None, True, False, 0, -5, 2**53, 0.1, 1e300, "", "text", "\u2028")

    def path(self) -> tuple[str | int, ...]:
        return tuple(self.some(2, lambda: self.one("rows", "ü", 0, 7)))

    def value(self, depth: int = 2) -> Value:
        kinds = ["is", "param", *(["of"] * 3 if self.names else []), *(["array", "object"] if depth else [])]
        kind = self.one(*kinds)
        if kind == "is":
            return Constant(self.json())
        if kind == "array":
            return array(self.some(2, lambda: self.value(depth - 1)))
        if kind == "object":
            return obj({self.one("a", "b", "ß"): self.value(depth - 1) for _ in range(2)}.items())
        other = self.value(depth - 1) if depth and self.random.random() < 0.3 else None
        return Ref(kind, self.one(*self.names) if kind == "of" else "url", self.path(), other)

    def condition(self, depth: int = 1) -> Condition:
        kind = self.one("compare", "exists", *(["joined"] if depth else []))
        if kind == "joined":
            parts = (self.condition(depth - 1), *self.some(1, lambda: self.condition(depth - 1)))
            return Joined(self.one("all_of", "any_of", "none_of"), parts)
        if kind == "exists":
            return Exists(Ref("param", "url", self.path()))
        return Compare(self.one("==", "!=", "<", "<=", ">", ">=", "in"), self.value(), self.value())

    def policy(self) -> RetryPolicy:
        return RetryPolicy(
            initial_interval=self.random.randint(1, 20),
            backoff_coefficient=self.one(1, 1.5, 2, 3),
            max_interval=self.one(None, 20, 100),
            max_attempts=self.random.randint(1, 8),
            jitter=self.one(0, 0.2, 1),
            non_retryable_error_types=self.some(1, lambda: "ValueError"),
        )

    def node(self, name: str) -> Node:
        common: dict[str, Any] = {
            "id": name,
            "after": tuple(dict.fromkeys(self.some(2, lambda: self.one(*self.names)))) if self.names else (),
            "rule": self.one("all_succeeded", "all_done", "none_failed"),
            "skip_when": self.one(None, self.condition()),
        }
        timeout = self.one(*SECONDS)
        options = ActivityOptions(
            start_to_close_timeout=timeout,
            schedule_to_close_timeout=self.one(None, 1001, 5000),
            schedule_to_start_timeout=self.one(None, 1, 60),
            retry_policy=self.one(None, self.policy(), RetryPolicy(max_attempts=2)),
            task_queue=self.one(None, "gpu", "cpu"),
            priority=self.one(None, 0, 9),
        )
        args = tuple(self.some(2, self.value))
        call: dict[str, Any] = {**common, "type": self.one("fetch", "parse"), "options": options}
        kind = self.one(*KINDS)
        if kind == "map":
            return Map(
                **call,
                over=self.value(),
                max_items=self.random.randint(1, 50),
                concurrency=self.random.randint(0, 7),
                on_item_failure=self.one("fail", "skip", "collect"),
                collect=self.one(True, False),
            )
        if kind == "child":
            return Child(**common, type="Order", args=args, timeout=timeout)
        if kind == "sleep":
            return Sleep(**common, seconds=timeout)
        if kind == "wait_for":
            return WaitFor(**common, event="paid", timeout=timeout, on_timeout=self.one(None, Constant(None)))
        if kind == "approval":
            return Approval(**common, timeout=timeout, on_timeout=self.one("reject", "fail"))
        if kind == "repeat":
            until = Compare("==", Ref("bound", "result", ("done",)), Constant(True))
            times = self.random.randint(1, 5)
            return Repeat(**call, args=args, until=until, max_iterations=times, delay=self.one(0, 5))
        if kind == "plan":
            return Plan(**call, args=args, allow=("fetch",), max_nodes=7, run_timeout=timeout)
        return Task(**call, args=args)

    def spec(self) -> DagSpec:
        made: list[Node] = []
        for index in range(self.random.randint(1, 8)):
            name = self.one(f"n{index}", f"load/n{index}")
            made.append(self.node(name))
            self.names.append(name)
        return DagSpec(
            name="flow",
            version=self.one("", "3"),
            timeout=self.one(None, 1, 60, 90.5, 100_000),
            max_parallel=self.random.randint(0, 3),
            failure=self.one("fail_fast", "finish"),
            options=ActivityOptions(
                retry_policy=self.one(self.policy(), RetryPolicy(max_attempts=2)),
                task_queue=self.one(None, "cpu"),
            ),
            params=(Parameter("url"), Parameter("count", False, self.json())),
            nodes=tuple(made),
            output=self.one(None, self.value()),
        )


def specs() -> Iterator[DagSpec]:
    return (Maker(seed).spec() for seed in SEEDS)


def test_a_spec_is_read_as_it_was_written():
    for spec in specs():
        read = read_spec(orjson.loads(spec.json))
        assert read.json == spec.json
        assert read.hash == spec.hash
        assert read.document == spec.document
        for node, other in zip(spec.nodes, read.nodes, strict=True):
            assert type(node) is type(other)
            if isinstance(node, Call) and isinstance(other, Call):
                assert spec.options_of(node) == read.options_of(other)


def test_the_schema_takes_what_is_written():
    for spec in specs():
        assert [error.message for error in VALIDATOR.iter_errors(orjson.loads(spec.json))] == []


def every_path(spec: DagSpec) -> list[list[str]]:
    """All chains from a node without producers to one without consumers."""
    paths: list[list[str]] = []

    def walk(way: list[str]) -> None:
        consumers = [name for name, producers in spec.graph.producers.items() if way[-1] in producers]
        if not consumers:
            paths.append(way)
        for consumer in consumers:
            walk([*way, consumer])

    for name, producers in spec.graph.producers.items():
        if not producers:
            walk([name])
    return paths


def test_the_critical_path_is_the_longest_of_all_paths():
    for spec in specs():
        check_paths(spec)


def check_paths(spec: DagSpec) -> None:
    durations = {node.id: duration_of(spec, node) for node in spec.nodes}
    paths = every_path(spec)
    path = critical_path(spec)
    assert path.seconds == pytest.approx(max(sum(durations[name].once for name in way) for way in paths))
    assert path.worst_seconds == pytest.approx(
        max(sum(durations[name].worst for name in way) for way in paths)
    )
    assert list(path.nodes) in paths
    assert list(path.worst_nodes) in paths
    assert sum(durations[name].once for name in path.nodes) == pytest.approx(path.seconds)
    assert sum(durations[name].worst for name in path.worst_nodes) == pytest.approx(path.worst_seconds)


def test_the_order_has_each_node_after_what_it_depends_on():
    for spec in specs():
        place = {name: index for index, name in enumerate(spec.graph.order)}
        assert len(place) == len(spec.nodes)
        for name, producers in spec.graph.producers.items():
            assert all(place[producer] < place[name] for producer in producers)
        assert spec.graph.cycles == ()


def test_the_worst_case_of_attempts_is_their_sum():
    for seed in SEEDS:
        maker = Maker(seed)
        policy, seconds = maker.policy(), maker.one(*SECONDS)
        attempts = policy.max_attempts
        waits = sum(policy.delay_us(number, 1.0) for number in range(1, attempts)) / 1e6
        assert attempts_seconds(policy, seconds, attempts) == pytest.approx(attempts * seconds + waits)


@pytest.mark.parametrize(
    ("concurrency", "max_parallel", "waves"),
    [(0, 0, 1), (4, 0, 25), (0, 10, 10), (4, 10, 25), (20, 10, 10), (3, 0, 34)],
)
def test_a_map_takes_as_many_waves_as_its_limits_make(concurrency: int, max_parallel: int, waves: int):
    node = Map(
        id="m",
        type="t",
        over=Constant([]),
        max_items=100,
        concurrency=concurrency,
        options=ActivityOptions(start_to_close_timeout=5, retry_policy=RetryPolicy(max_attempts=1)),
    )
    spec = DagSpec(name="flow", nodes=(node,), max_parallel=max_parallel)
    assert duration_of(spec, node) == (5 * waves, 5 * waves)


def test_the_worst_case_of_a_billion_attempts_is_computed_at_once():
    steep = RetryPolicy(max_attempts=10**9)
    flat = RetryPolicy(max_attempts=10**9, backoff_coefficient=1 + 1e-9)
    assert attempts_seconds(steep, 1, 10**9) == pytest.approx(101e9, rel=1e-3)
    assert attempts_seconds(flat, 1, 10**9) <= 101e9


def test_the_order_of_keys_and_members_does_not_change_the_hash():
    spec = DagSpec(
        name="flow",
        nodes=(Task(id="a", type="t", args=(obj([("b", Ref("param", "url")), ("a", Constant(1))]),)),),
        params=(Parameter("url"),),
    )
    document = orjson.loads(spec.json)
    random.Random(1).shuffle(keys := list(document))
    assert read_spec({key: document[key] for key in keys}).hash == spec.hash
    args = document["nodes"][0]["args"][0]["object"]
    document["nodes"][0]["args"][0]["object"] = dict(reversed(args.items()))
    assert read_spec(document).hash == spec.hash
    assert read_spec(document).nodes == read_spec(orjson.loads(spec.json)).nodes == spec.nodes


def test_a_default_that_is_written_out_is_left_out_again():
    document: dict[str, Any] = {
        "name": "flow",
        "failure": "fail_fast",
        "reserve": 0,
        "options": {"retry_policy": {"max_attempts": 3}},
        "nodes": [
            {
                "id": "a",
                "kind": "task",
                "type": "t",
                "after": [],
                "args": [{"array": [{"is": 1}, {"is": 2}]}],
                "rule": "all_succeeded",
                "options": {"start_to_close_timeout": 5.0, "retry_policy": {"initial_interval": 1}},
            }
        ],
    }
    assert orjson.loads(read_spec(document).json) == {
        "interpreter": 1,
        "name": "flow",
        "nodes": [
            {
                "id": "a",
                "kind": "task",
                "type": "t",
                "args": [{"is": [1, 2]}],
                "options": {"start_to_close_timeout": 5},
            }
        ],
    }


def test_the_canonical_form_never_changes():
    spec = DagSpec(
        name="nightly",
        timeout=1800,
        params=(Parameter("url"), Parameter("limit", False, 10)),
        nodes=(
            Task(
                id="fetch",
                type="fetch",
                args=(Ref("param", "url"),),
                options=ActivityOptions(
                    start_to_close_timeout=30, retry_policy=RetryPolicy(max_attempts=5, initial_interval=0.5)
                ),
            ),
            Map(
                id="parse",
                type="parse",
                over=Ref("of", "fetch", ("rows",)),
                concurrency=20,
                options=ActivityOptions(start_to_close_timeout=5),
                skip_when=Compare("==", Ref("of", "fetch", ("count",)), Constant(0)),
            ),
        ),
        output=Ref("of", "parse", (), Constant([])),
    )
    assert spec.json == (
        b'{"interpreter":1,"name":"nightly","nodes":[{"args":[{"param":"url"}],"id":"fetch","kind":"task",'
        b'"options":{"retry_policy":{"initial_interval":0.5,"max_attempts":5},"start_to_close_timeout":30},'
        b'"type":"fetch"},{"concurrency":20,"id":"parse","kind":"map","options":{"start_to_close_timeout":5},'
        b'"over":{"of":"fetch","path":["rows"]},"skip_when":{"left":{"of":"fetch","path":["count"]},"op":"==",'
        b'"right":{"is":0}},"type":"parse"}],"output":{"of":"parse","or_else":{"is":[]}},'
        b'"params":["url",{"default":10,"name":"limit"}],"timeout":1800}'
    )


def refused(document: Any) -> dict[str, str]:
    with pytest.raises(DagValidationError) as error:
        read_spec(document)
    return {problem.source: problem.kind for problem in error.value.problems}


def test_a_document_of_the_wrong_form_is_refused_with_all_places():
    assert refused(
        {
            "name": 3,
            "timeuot": 5,
            "failure": "sometimes",
            "nodes": [
                {"id": "a", "kind": "taks"},
                {"id": "b", "kind": "task", "type": "t", "timeout": 3},
                {"id": "c", "kind": "task"},
                {"id": "d", "kind": "task", "type": "t", "args": [{"is": 1, "of": "a"}, 5]},
                {"id": "e", "kind": "map", "type": "t", "over": {"of": "a", "path": [True]}},
                {"id": "f", "kind": "task", "type": "t", "skip_when": {"op": "~", "left": 1}},
                {"id": "g", "kind": "task", "type": "t", "options": {"start_to_close_timeout": -1}},
                {"id": "h", "kind": "task", "type": "t", "options": {"retry_policy": {"attempts": 3}}},
                {"id": "i", "kind": "sleep", "seconds": float("inf")},
                {"id": "j", "kind": "task", "type": "t", "args": [{"bound": "nothing"}]},
                "k",
            ],
        }
    ) == {
        "name": "bad_document",
        "timeuot": "bad_document",
        "failure": "bad_document",
        "nodes[0].kind": "bad_document",
        "nodes[1].timeout": "bad_document",
        "nodes[2].type": "bad_document",
        "nodes[3].args[0]": "bad_document",
        "nodes[4].over.path": "bad_document",
        "nodes[5].skip_when.op": "bad_document",
        "nodes[6].options": "timeout_out_of_range",
        "nodes[7].options.retry_policy": "bad_document",
        "nodes[8].seconds": "timeout_out_of_range",
        "nodes[9].args[0].bound": "bad_document",
        "nodes[10]": "bad_document",
    }


@pytest.mark.parametrize("document", [None, 5, [], "x", {}, {"name": "x"}, {"name": "x", "nodes": {}}])
def test_what_is_no_document_of_a_dag_is_refused(document: Any):
    assert refused(document)


def test_a_document_of_another_interpreter_asks_for_an_upgrade():
    with pytest.raises(DagValidationError, match="knows only interpreter 1: upgrade it"):
        read_spec({"name": "x", "interpreter": 2, "nodes": []})


def test_deep_nesting_is_refused_and_not_followed():
    value: Any = {"is": 1}
    condition: Any = {"op": "exists", "value": {"param": "x"}}
    for _ in range(300):
        value = {"array": [value]}
        condition = {"op": "none_of", "of": [condition]}
    document = {
        "name": "deep",
        "nodes": [{"id": "a", "kind": "task", "type": "t", "args": [value], "skip_when": condition}],
    }
    with pytest.raises(DagValidationError) as error:
        read_spec(document)
    assert [problem.message for problem in error.value.problems] == ["is nested deeper than 100 levels"] * 2


@pytest.mark.parametrize(
    ("node", "takes"),
    [
        ({"id": "a", "kind": "task", "type": "t"}, False),
        ({"id": "a", "kind": "task", "type": "t", "options": {"start_to_close_timeout": 5}}, True),
        ({"id": "a", "kind": "task", "type": "t", "options": {"priority": 5}}, False),
        ({"id": "a", "kind": "sleep"}, False),
        ({"id": "a", "kind": "sleep", "seconds": 5}, True),
        ({"id": "a", "kind": "approval"}, False),
        ({"id": "a", "kind": "approval", "timeout": 5}, True),
        ({"id": "a b", "kind": "approval", "timeout": 5}, False),
    ],
)
def test_the_schema_requires_timeouts(node: dict[str, Any], takes: bool):
    assert VALIDATOR.is_valid({"name": "x", "nodes": [node]}) is takes


@pytest.mark.parametrize("kind", [["task"], {}, None, 5])
def test_a_kind_that_is_no_text_is_refused(kind: Any):
    with pytest.raises(DagValidationError, match="kind"):
        read_spec({"name": "odd", "nodes": [{"id": "a", "kind": kind, "type": "t"}]})


@pytest.mark.parametrize("levels", [200, 300, 1000])
def test_a_spec_that_no_run_could_record_is_refused(levels: int):
    value: Any = 1
    for _ in range(levels):
        value = [value]
    node = {"id": "a", "kind": "task", "type": "t", "args": [{"is": value}]}
    spec = read_spec({"name": "deep", "options": {"start_to_close_timeout": 5}, "nodes": [node]})
    assert [problem.kind for problem in report(spec).errors] == ["too_large"]


@pytest.mark.parametrize(("seconds", "kinds"), [(0, True), (0.5, True), (1, False)])
def test_a_timeout_that_no_run_could_have_is_refused(seconds: float, kinds: bool):
    node = {"id": "a", "kind": "task", "type": "t", "options": {"start_to_close_timeout": 0.1}}
    spec = read_spec({"name": "short", "timeout": seconds, "nodes": [node]})
    assert ["timeout_out_of_range" in {problem.kind for problem in report(spec).errors}] == [kinds]
