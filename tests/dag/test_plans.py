"""What a planner has returned is refused with all that is wrong with it, whatever it is."""

from __future__ import annotations

from typing import Any

import pytest

from outlast_dag.run.plans import planned, problems_of_plan
from outlast_dag.spec.nodes import Plan

OPTIONS = {"start_to_close_timeout": 5}
PLANNER = Plan(
    id="planner", type="think", allow=("search", "slowly", "think", "helper"), max_nodes=8, run_timeout=60
)


def task(id: str, word: Any, **more: Any) -> dict[str, Any]:
    arg = word if isinstance(word, dict) else {"is": word}
    return {"id": id, "kind": "task", "type": "search", "args": [arg], "options": OPTIONS, **more}


def loop(number: int) -> dict[str, Any]:
    return task(f"n{number}", "x", after=[f"n{(number + 1) % 3}"])


NESTED = {"kind": "plan", "type": "think", "args": [{"is": "more"}], "options": OPTIONS, "run_timeout": 60}

HOSTILE: list[tuple[Any, set[str]]] = [
    (5, {"bad_document"}),
    ({"steps": []}, {"bad_document"}),
    ({"nodes": "all"}, {"bad_document"}),
    ({"nodes": []}, {"no_nodes"}),
    ({"nodes": [{}] * 30_000}, {"too_large"}),
    ({"nodes": [task(f"n{number}", "x") for number in range(9)]}, {"too_large"}),
    ({"nodes": [loop(0), loop(1), loop(2)]}, {"cycle"}),
    ({"nodes": [{**task("a", "x"), "type": "rm"}]}, {"not_allowed"}),
    ({"nodes": [{"id": "c", "kind": "child", "type": "Payroll", "timeout": 60}]}, {"not_allowed"}),
    ({"nodes": [{**task("a", "x"), "options": {}}]}, {"missing_timeout"}),
    (
        {
            "nodes": [
                {**task("a", "x"), "options": {"heartbeat_timeout": 1, "retry_policy": {"max_attempts": 0}}}
            ]
        },
        {"missing_timeout", "unbounded_retries"},
    ),
    ({"nodes": [task("a", {"of": "secrets"})]}, {"unknown_dependency"}),
    ({"nodes": [task("a", {"param": "x"})], "params": ["x"]}, {"not_allowed"}),
    ({"nodes": [task("a", "x")], "name": "outlast.dag"}, {"bad_option"}),
    # What its own planner may plan counts, and it may call no more.
    ({"nodes": [task("a", "x"), {**NESTED, "id": "p", "allow": ["search"], "max_nodes": 7}]}, {"too_large"}),
    ({"nodes": [{**NESTED, "id": "p", "allow": ["search", "rm"], "max_nodes": 2}]}, {"not_allowed"}),
    (
        {"nodes": [{**NESTED, "id": "p", "allow": ["search"], "max_nodes": 2, "run_timeout": 0}]},
        {"missing_timeout"},
    ),
]


@pytest.mark.parametrize(("plan", "kinds"), HOSTILE, ids=[str(one)[:40] for one, _ in HOSTILE])
def test_all_problems_of_a_plan_are_told(plan: Any, kinds: set[str]) -> None:
    found = problems_of_plan(plan, "agent", PLANNER)
    assert {problem.kind for problem in found} == kinds
    assert all(problem.message and problem.advice for problem in found if problem.kind == "not_allowed")


def test_a_plan_is_named_after_its_planner_and_returns_what_its_last_nodes_do() -> None:
    spec = planned({"nodes": [task("a", "x"), task("b", {"of": "a"}), task("c", "y")]}, "agent", PLANNER)
    assert spec.name == "agent.planner"
    assert spec.document["output"] == {"object": {"b": {"of": "b"}, "c": {"of": "c"}}}
    assert planned(spec.document, "agent", PLANNER).hash == spec.hash
