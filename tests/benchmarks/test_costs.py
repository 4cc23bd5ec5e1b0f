"""What one timer, signal, update, child and the rest cost: the same on every machine, so a rise is news.

Where one of these fails, something does more than it did. If that is worth it, change the figure here and in
docs/performance.md; if a figure fell, lower it in both, so that it stays low.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.costs import WORK, Cost
from benchmarks.harness.counting import Counter

from outlast import workflow
from outlast.testing import TestEnvironment

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
COSTS = {
    "workflow": Cost(commits=2, statements=13, reads=0, rows=13, bytes=2_894, calls=280),
    "activity": Cost(commits=1, statements=7, reads=0, rows=7, bytes=1_365, calls=122),
    "local activity": Cost(commits=1, statements=7, reads=0, rows=7, bytes=1_383, calls=125),
    "timer": Cost(commits=2, statements=16, reads=4, rows=9, bytes=3_527, calls=221),
    "child": Cost(commits=2, statements=13, reads=0, rows=14, bytes=2_606, calls=283),
    "signal": Cost(commits=1, statements=5, reads=0, rows=4, bytes=471, calls=127),
    "update": Cost(commits=2, statements=12, reads=0, rows=10, bytes=1_298, calls=219),
    "query": Cost(commits=0, statements=1, reads=1, rows=0, bytes=684, calls=64),
    "heartbeat": Cost(commits=1, statements=5, reads=2, rows=1, bytes=2_631, calls=106),
}


@pytest.fixture(scope="module")
def counted() -> Any:
    """The figures, counted in a process of its own: what other tests leave behind is collected elsewhere."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.costs", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("thing", WORK)
def test_it_costs_exactly_this_and_no_more_calls(counted: Any, thing: str) -> None:
    found, known = Cost(**counted["costs"][thing]), COSTS[thing]
    for name in ("commits", "statements", "reads", "rows", "bytes"):
        assert getattr(found, name) == getattr(known, name), name
    assert found.calls <= known.calls


def test_a_lone_workflow_takes_so_many_calls(counted: Any) -> None:
    assert counted["lone"] <= 280


def test_the_cost_model_of_the_page_is_what_is_counted() -> None:
    rows = re.findall(r"^\| one more ([a-z ]+) \| (.*) \|$", PAGE.read_text(), re.M)
    stated = {thing: [float(cell.replace(",", "")) for cell in cells.split(" | ")] for thing, cells in rows}
    assert stated == {
        thing: [cost.commits, cost.statements, cost.reads, cost.rows, cost.bytes, cost.calls]
        for thing, cost in COSTS.items()
    }


@workflow.defn
async def waiting(labelled: bool) -> None:
    for step in range(5):
        if labelled:
            workflow.set_progress(step, 5, "waiting")
        await workflow.sleep(10)


def test_progress_costs_no_statement_and_no_row() -> None:
    async def counted(labelled: bool) -> tuple[int, int, int]:
        with Counter() as counter:
            async with TestEnvironment(workflows=[waiting]) as env:
                await env.client.execute(waiting, labelled, id="first")
                with counter.counting() as counts:
                    await env.client.execute(waiting, labelled, id="second")
        return counts.commits, counts.statements, counts.rows

    without = TestEnvironment.run(counted, False)
    assert without[0] >= 10
    assert TestEnvironment.run(counted, True) == without
