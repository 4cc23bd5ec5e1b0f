"""What one timer, signal, update, child and the rest cost: the same on every machine, so a rise is news.

Where one of these fails, something does more than it did. If that is worth it, change the figure here and in
docs/performance.md; if a figure fell, lower it in both, so that it stays low.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.costs import WORK, Cost, cost_of

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
COSTS = {
    "workflow": Cost(commits=2, statements=13, reads=0, rows=13, bytes=2_884, calls=422),
    "activity": Cost(commits=1, statements=7, reads=0, rows=7, bytes=1_348, calls=209),
    "local activity": Cost(commits=1, statements=7, reads=0, rows=7, bytes=1_366, calls=211),
    "timer": Cost(commits=2, statements=16, reads=4, rows=9, bytes=2_768, calls=277),
    "child": Cost(commits=2, statements=13, reads=0, rows=14, bytes=2_596, calls=406),
    "signal": Cost(commits=1, statements=5, reads=0, rows=4, bytes=454, calls=175),
    "update": Cost(commits=2, statements=16, reads=4, rows=10, bytes=2_498, calls=351),
    "query": Cost(commits=0, statements=2, reads=2, rows=0, bytes=1_186, calls=86),
    "heartbeat": Cost(commits=1, statements=5, reads=2, rows=1, bytes=2_033, calls=124),
}


@pytest.mark.parametrize("thing", WORK)
def test_it_costs_exactly_this_and_no_more_calls(thing: str) -> None:
    found, known = cost_of(thing), COSTS[thing]
    for name in ("commits", "statements", "reads", "rows", "bytes"):
        assert getattr(found, name) == getattr(known, name), name
    if found.calls > known.calls:  # garbage of other tests may have been collected meanwhile, which only adds
        found = cost_of(thing)
    assert found.calls <= known.calls


def test_the_cost_model_of_the_page_is_what_is_counted() -> None:
    rows = re.findall(r"^\| one more ([a-z ]+) \| (.*) \|$", PAGE.read_text(), re.M)
    stated = {thing: [float(cell.replace(",", "")) for cell in cells.split(" | ")] for thing, cells in rows}
    assert stated == {
        thing: [cost.commits, cost.statements, cost.reads, cost.rows, cost.bytes, cost.calls]
        for thing, cost in COSTS.items()
    }
