"""Building DAGs: step by step, and by tracing a function."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outlast import InvalidOptionError, RetryPolicy, activity
from outlast_dag import (
    DagBuilder,
    DagDefinition,
    DagValidationError,
    all_of,
    any_of,
    dag,
    each,
    exists,
    group,
    is_in,
    none_of,
    or_else,
    step,
)
from outlast_dag.spec.nodes import Call
from outlast_workflow.declare.definitions import definition_of


@dataclass
class Page:
    url: str
    rows: list[int]
    count: int


@activity.defn(start_to_close_timeout=30)
async def fetch(url: str) -> Page:
    return Page(url, [1, 2], 2)


@activity.defn(start_to_close_timeout=5)
async def parse(row: int) -> str:
    return str(row)


@activity.defn(start_to_close_timeout=5)
async def clean(url: str) -> None: ...


@activity.defn(start_to_close_timeout=10)
async def report(rows: list[str], title: str = "rows", url: str = "") -> int:
    return len(rows)


@activity.defn(start_to_close_timeout=10)
async def tick() -> int:
    return 1


@dag(version="3", timeout=1800, max_parallel=50)
def nightly(url: str, limit: int = 10) -> int:
    """Fetch, parse and report."""
    page = step(fetch)(url)
    rows = each(parse, concurrency=20, max_items=1000)(page.rows)
    step(clean, skip_when=any_of(page.count == 0, page.count > limit))(page.url)
    return step(report, id="tell", retry=RetryPolicy(max_attempts=5))(rows, url=page.url)


def line_of(code: str) -> int:
    """The first line of this file that has this code."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if code in line)


def nodes_of(definition: DagDefinition[..., Any]) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for node in definition.spec.document["nodes"]}


def test_a_traced_function_is_a_spec():
    assert nightly.spec.document == {
        "interpreter": 1,
        "name": "nightly",
        "version": "3",
        "timeout": 1800,
        "max_parallel": 50,
        "params": ["url", {"name": "limit", "default": 10}],
        "nodes": [
            {
                "id": "fetch",
                "kind": "task",
                "type": "fetch",
                "args": [{"param": "url"}],
                "options": {"start_to_close_timeout": 30},
            },
            {
                "id": "parse",
                "kind": "map",
                "type": "parse",
                "over": {"of": "fetch", "path": ["rows"]},
                "concurrency": 20,
                "options": {"start_to_close_timeout": 5},
            },
            {
                "id": "clean",
                "kind": "task",
                "type": "clean",
                "args": [{"of": "fetch", "path": ["url"]}],
                "options": {"start_to_close_timeout": 5},
                "skip_when": {
                    "op": "any_of",
                    "of": [
                        {"op": "==", "left": {"of": "fetch", "path": ["count"]}, "right": {"is": 0}},
                        {"op": ">", "left": {"of": "fetch", "path": ["count"]}, "right": {"param": "limit"}},
                    ],
                },
            },
            {
                "id": "tell",
                "kind": "task",
                "type": "report",
                "args": [{"of": "parse"}, {"is": "rows"}, {"of": "fetch", "path": ["url"]}],
                "options": {"start_to_close_timeout": 10, "retry_policy": {"max_attempts": 5}},
            },
        ],
        "output": {"of": "tell"},
    }


def test_a_traced_function_is_a_workflow():
    definition = definition_of(nightly)
    assert definition.name == "nightly"
    assert definition.signature.names == ("url", "limit")
    assert definition.signature.result_hint is int
    assert definition.timeouts == {"run_timeout": 1800}
    assert definition.source == f"tests/dag/test_building.py:{line_of('@dag(version=')}"
    assert nightly.__module__ == __name__
    assert nightly.__doc__ == "Fetch, parse and report."
    assert repr(nightly).startswith(f"<DAG nightly {nightly.hash[:12]} at ")


def test_each_node_knows_the_line_that_it_was_written_on():
    first = line_of("page = step(fetch)(url)")
    assert list(nightly.sources) == ["fetch", "parse", "clean", "tell"]
    assert list(nightly.sources.values()) == [f"tests/dag/test_building.py:{first + n}" for n in range(4)]


def test_tracing_again_gives_the_same_hash():
    def flow(url: str) -> int:
        return step(report)([step(fetch)(url).url])

    assert dag(flow).hash == dag(flow).hash
    assert dag(name="flow", version="2")(flow).hash != dag(flow).hash


def test_a_step_is_named_after_its_activity_with_a_number_where_that_is_taken():
    @dag
    def flow() -> list[int]:
        return [
            step(tick)(),
            step(tick)(),
            step("http.get", result=int, timeout=1)(),
            step(tick, id="tick_4")(),
        ]

    assert list(nodes_of(flow)) == ["tick", "tick_2", "http_get", "tick_4"]
    assert flow.spec.document["output"] == {
        "array": [{"of": "tick"}, {"of": "tick_2"}, {"of": "http_get"}, {"of": "tick_4"}]
    }


def test_groups_are_part_of_the_id():
    @dag
    def flow() -> int:
        with group("load"):
            first = step(tick)()
            with group("deep"):
                step(tick, after=[first])()
        return step(tick)()

    assert list(nodes_of(flow)) == ["load/tick", "load/deep/tick", "tick"]
    built = DagBuilder("flow")
    with built.group("load"):
        built.task("a", tick)
    assert list(nodes_of(built.build())) == ["load/a"]


def test_a_step_that_is_not_given_arguments_takes_what_comes_before_it():
    flow = DagBuilder("flow")
    a = flow.task("a", "x", timeout=1)
    b = flow.task("b", "x", timeout=1)
    flow.task("one", "x", timeout=1).after(a)
    flow.task("two", "x", timeout=1).after(a, b)
    flow.task("none", "x", timeout=1).after(a).with_args()
    flow.task("tick", tick).after(a)
    flow.task("part", "x", timeout=1).after("a").with_args(a.rows[0]["name"], flow.input.user)
    nodes = nodes_of(flow.build())
    assert nodes["a"]["args"] == [{"param": "input"}]
    assert nodes["one"]["args"] == [{"of": "a"}]
    assert nodes["two"]["args"] == [{"object": {"a": {"of": "a"}, "b": {"of": "b"}}}]
    assert "args" not in nodes["none"]
    assert "args" not in nodes["tick"]
    assert nodes["part"]["args"] == [
        {"of": "a", "path": ["rows", 0, "name"]},
        {"param": "input", "path": ["user"]},
    ]
    assert nodes["part"]["after"] == ["a"]


def test_the_result_is_what_the_last_steps_return_unless_it_is_said():
    flow = DagBuilder("flow")
    a = flow.task("a", tick)
    assert flow.build().spec.document["output"] == {"of": "a"}
    flow.task("b", tick).after(a)
    flow.task("c", tick).after(a)
    assert flow.build().spec.document["output"] == {"object": {"b": {"of": "b"}, "c": {"of": "c"}}}
    assert flow.output({"sum": a}).build().spec.document["output"] == {"object": {"sum": {"of": "a"}}}


def test_a_run_is_started_with_an_input_only_where_a_step_takes_it():
    flow = DagBuilder("flow")
    flow.task("a", tick)
    assert definition_of(flow.build()).signature.names == ()
    flow.output(flow.input)
    assert definition_of(flow.build()).signature.names == ("input",)
    assert flow.build().spec.document["params"] == [{"name": "input", "default": None}]


def test_the_step_wins_over_the_declaration_and_that_over_the_dag():
    @activity.defn(start_to_close_timeout=7, task_queue="gpu", retry_policy=RetryPolicy(max_attempts=9))
    async def heavy() -> None: ...

    flow = DagBuilder("flow", retry=4, task_queue="cpu", priority=2)
    flow.task("declared", heavy)
    flow.task("own", heavy).with_timeout(8).with_retry(2).with_task_queue("fpga").with_priority(1)
    flow.task("plain", tick)
    spec = flow.build().spec
    assert spec.document["options"] == {
        "retry_policy": {"max_attempts": 4},
        "task_queue": "cpu",
        "priority": 2,
    }
    options = {node["id"]: node["options"] for node in spec.document["nodes"]}
    assert options == {
        "declared": {
            "start_to_close_timeout": 7,
            "task_queue": "gpu",
            "retry_policy": {"max_attempts": 9},
        },
        "own": {
            "start_to_close_timeout": 8,
            "task_queue": "fpga",
            "retry_policy": {"max_attempts": 2},
            "priority": 1,
        },
        "plain": {"start_to_close_timeout": 10},
    }


def test_a_step_is_tried_three_times_if_nothing_else_is_said():
    flow = DagBuilder("flow")
    flow.task("a", tick)
    spec = flow.build().spec
    (node,) = spec.nodes
    assert isinstance(node, Call)
    assert spec.options_of(node).policy.max_attempts == 3


def test_all_options_of_a_step_can_be_set_by_method_and_by_keyword():
    chained = DagBuilder("flow", timeout=100)
    first = chained.task("first", tick)
    chained.task("a", tick).after(first).with_timeout(3).with_retry(2).with_heartbeat_timeout(
        1
    ).with_schedule_to_close_timeout(50).with_schedule_to_start_timeout(4).with_task_queue("q").with_queue(
        "emails", "tenant"
    ).with_priority(3).skip_when(first == 1).run_when(first > 0).trigger("none_failed")
    keyed = DagBuilder("flow", timeout=100)
    first = keyed.task("first", tick)
    keyed.task(
        "a",
        tick,
        after=[first],
        timeout=3,
        retry=2,
        heartbeat_timeout=1,
        schedule_to_close_timeout=50,
        schedule_to_start_timeout=4,
        task_queue="q",
        queue="emails",
        partition_key="tenant",
        priority=3,
        skip_when=first == 1,
        run_when=first > 0,
        trigger="none_failed",
    )
    assert chained.build().spec.json == keyed.build().spec.json
    assert nodes_of(chained.build())["a"] == {
        "id": "a",
        "kind": "task",
        "type": "tick",
        "after": ["first"],
        "rule": "none_failed",
        "skip_when": {
            "op": "any_of",
            "of": [
                {"op": "==", "left": {"of": "first"}, "right": {"is": 1}},
                {"op": "none_of", "of": [{"op": ">", "left": {"of": "first"}, "right": {"is": 0}}]},
            ],
        },
        "options": {
            "start_to_close_timeout": 3,
            "heartbeat_timeout": 1,
            "schedule_to_close_timeout": 50,
            "schedule_to_start_timeout": 4,
            "task_queue": "q",
            "queue": "emails",
            "partition_key": "tenant",
            "priority": 3,
            "retry_policy": {"max_attempts": 2},
        },
    }


def test_conditions_compare_values_parts_and_constants():
    flow = DagBuilder("flow")
    a = flow.task("a", "x", timeout=1)
    flow.task("b", tick).skip_when(
        all_of(a.n != 1, a.n >= 1, none_of(exists(a.m), is_in(a.kind, ["x", flow.input.kind])))
    )
    of = {"of": "a", "path": ["n"]}
    assert nodes_of(flow.build())["b"]["skip_when"] == {
        "op": "all_of",
        "of": [
            {"op": "!=", "left": of, "right": {"is": 1}},
            {"op": ">=", "left": of, "right": {"is": 1}},
            {
                "op": "none_of",
                "of": [
                    {"op": "exists", "value": {"of": "a", "path": ["m"]}},
                    {
                        "op": "in",
                        "left": {"of": "a", "path": ["kind"]},
                        "right": {"array": [{"is": "x"}, {"param": "input", "path": ["kind"]}]},
                    },
                ],
            },
        ],
    }


def test_or_else_joins_branches_in_order():
    flow = DagBuilder("flow")
    a = flow.task("a", "x", timeout=1)
    b = flow.task("b", "x", timeout=1)
    flow.task("c", "x", or_else(or_else(a.n, b), 5), timeout=1)
    flow.task("d", "x", a.or_else([]), timeout=1)
    flow.task("e", "x", or_else(a, b.or_else(6)), timeout=1)
    nodes = nodes_of(flow.build())
    assert nodes["c"]["args"] == [{"of": "a", "path": ["n"], "or_else": {"of": "b", "or_else": {"is": 5}}}]
    assert nodes["d"]["args"] == [{"of": "a", "or_else": {"is": []}}]
    assert nodes["e"]["args"] == [{"of": "a", "or_else": {"of": "b", "or_else": {"is": 6}}}]


@pytest.mark.parametrize("rule", ["all_done", "one_succeeded", "one_failed", "all_failed"])
def test_data_that_may_be_missing_needs_a_replacement(rule: Any):
    flow = DagBuilder("flow")
    a = flow.task("a", tick)
    flow.task("b", report, [a], trigger=rule)
    with pytest.raises(DagValidationError, match="data_may_be_missing"):
        flow.build()
    sound = DagBuilder("flow")
    a = sound.task("a", tick)
    sound.task("b", report, [a.or_else(0)], trigger=rule)
    sound.build()


def test_constants_are_written_as_activities_are_given_them():
    flow = DagBuilder("flow")
    flow.task("a", "x", Page("u", [], 0), ("t", 1.5), {"k": None}, timeout=1)
    assert nodes_of(flow.build())["a"]["args"] == [
        {"is": {"url": "u", "rows": [], "count": 0}},
        {"is": ["t", 1.5]},
        {"is": {"k": None}},
    ]


def test_a_result_that_nothing_takes_is_told(caplog: pytest.LogCaptureFixture):
    def flow() -> int:
        step(clean)("u")
        step(tick)()
        return step(tick)()

    with caplog.at_level(logging.WARNING, "outlast.dag"):
        (warning,) = dag(flow).warnings
    assert (warning.kind, warning.node) == ("unused_result", "tick")
    assert "DAG flow: " in caplog.text
    with pytest.raises(DagValidationError, match="unused_result"):
        dag(strict=True)(flow)


def test_a_function_that_returns_nothing_has_no_result():
    @dag
    def flow() -> None:
        step(clean)("u")

    assert "output" not in flow.spec.document
    with pytest.raises(DagValidationError, match="no_output"):

        @dag
        def other() -> int | None:
            step(clean)("u")
            return None


def test_one_step_can_be_called_often():
    get = step(fetch, retry=5)

    @dag
    def flow(first: str, second: str) -> list[str]:
        return [get(first).url, get(second).url]

    assert list(nodes_of(flow)) == ["fetch", "fetch_2"]


def test_a_function_that_calls_steps_is_inlined():
    def load(url: str) -> list[str]:
        return each(parse)(step(fetch)(url).rows)

    @dag
    def flow() -> list[list[str]]:
        return [load("a"), load("b")]

    assert list(nodes_of(flow)) == ["fetch", "parse", "fetch_2", "parse_2"]


@pytest.mark.parametrize("name", ["outlast", "outlast.dag"])
def test_a_name_of_the_engine_is_refused(name: str):
    flow = DagBuilder(name)
    flow.task("a", tick)
    with pytest.raises(DagValidationError, match="reserved for the engine"):
        flow.build()


def test_what_cannot_be_traced_is_refused():
    async def flow() -> None: ...

    def several(*urls: str) -> None: ...

    def keyed(*, url: str) -> None: ...

    targets: list[tuple[Any, str]] = [
        (flow, "async"),
        (several, "name its parameters"),
        (keyed, "keyword-only"),
        (5, "function"),
    ]
    for target, why in targets:
        with pytest.raises(InvalidOptionError, match=why):
            dag(target)


def test_a_method_of_a_class_is_an_activity_too():
    class Shop:
        @activity.defn(start_to_close_timeout=5)
        async def charge(self, amount: int) -> str:
            return "paid"

    @dag
    def flow() -> str:
        return step(Shop.charge)(5)

    assert nodes_of(flow)["charge"]["args"] == [{"is": 5}]
