"""What building and checking a DAG costs, in calls of functions: that grows with the DAG, and no faster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from outlast_dag import DagBuilder
from outlast_dag.check.report import report
from outlast_dag.spec.dag import DagSpec

MOST_CALLS_PER_NODE = 400


def flow(nodes: int) -> DagBuilder:
    """A DAG each step of which takes something from the three before it."""
    made = DagBuilder("wide", timeout=10**9)
    before: list[Any] = []
    for number in range(nodes):
        outputs = [one.rows for one in before[-3:]]
        before.append(made.task(f"n{number}", "x", *outputs, timeout=5))
    return made


def calls_of(run: Callable[[], Any]) -> int:
    """How many functions of Python are called."""
    count = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def fresh(spec: DagSpec) -> DagSpec:
    return DagSpec(
        name=spec.name, timeout=spec.timeout, params=spec.params, nodes=spec.nodes, output=spec.output
    )


def test_building_and_checking_grow_with_the_dag_and_no_faster():
    small, large = flow(500), flow(1000)
    assert calls_of(large.build) < 2.2 * calls_of(small.build)
    few, many = (calls_of(partial(report, fresh(one.build().spec))) for one in (small, large))
    assert many < 2.2 * few
    assert many / 1000 < MOST_CALLS_PER_NODE
