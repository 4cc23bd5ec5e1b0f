"""The picture of a document: each task is a box, nothing overlaps, arrows lead where the flow goes, looks are told."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.serverless.cases import HERE, whole

from outlast_serverless import Document
from outlast_serverless.picture.layout import LANE, Box, Column, laid_out
from outlast_serverless.picture.svg import MOST_BOXES, Look, svg
from outlast_serverless.plan.model import Plan
from outlast_serverless.plan.walking import tasks_of

EXAMPLES = sorted((HERE / "examples").glob("*.yaml"))


def plan_of(text: str) -> Plan:
    return Document.parse(whole(text)).plan


def boxes_of(columns: list[Column]) -> list[Box]:
    found: list[Box] = []
    for column in columns:
        for box in column.boxes:
            found += [box, *boxes_of(box.columns)]
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_task_of_an_example_has_a_box_of_its_own(path: Path) -> None:
    plan = Document.load(path).plan
    layout = laid_out(plan)
    boxes = [
        *boxes_of([layout.tasks]),
        *boxes_of([column for box in layout.asides for column in box.columns]),
    ]
    assert {task.pointer for task in tasks_of(plan)} == {box.pointer for box in boxes}
    for box in [*boxes, *layout.asides]:
        assert box.x >= 0
        assert box.x + box.width <= layout.width
        assert box.y + box.height <= layout.height
        inner = [one for column in box.columns for one in column.boxes]
        for one in inner:
            assert box.x < one.x
            assert one.x + one.width < box.x + box.width
            assert box.y < one.y
            assert one.y + one.height < box.y + box.height
        for number, one in enumerate(inner):
            for other in inner[number + 1 :]:
                assert one.x + one.width <= other.x or one.y + one.height <= other.y
    drawn = svg(plan, path.stem)
    ElementTree.fromstring(drawn)
    assert drawn == svg(plan, path.stem)


FLOW = """
do:
- choose: {switch: [{big: {when: .v > 1, then: last}}, {over: {when: .v < 0, then: end}}, {else: {then: exit}}]}
- again: {if: .v, set: {v: 1}, then: choose}
- last: {raise: {error: {type: 'https://e.x/e', status: 500, title: t}}}
"""


def test_rows_say_where_a_task_goes_on_and_arrows_lead_there() -> None:
    layout = laid_out(plan_of(FLOW))
    choose, again, last = layout.tasks.boxes
    assert choose.rows == ["big → last", "over → end", "else → exit"]
    assert (choose.goes_on, again.rows, again.goes_on, last.goes_on) == (None, ["→ choose"], "skipped", None)
    assert [(jump.source, jump.row, jump.target) for jump in layout.tasks.jumps] == [(0, 0, 2), (1, 0, 0)]
    drawn = svg(plan_of(FLOW), "n/a")
    assert "skipped" in drawn
    assert drawn.count('class="tip"') == 4, "into the first task, two jumps, and where `again` is skipped"


MANY = """
do:
- choose: {switch: [{far: {when: .v > 1, then: join}}, {near: {then: a}}]}
- a: {set: {v: 1}, then: b}
- b: {set: {v: 1}, then: join}
- c: {set: {v: 1}}
- join: {set: {v: 1}, then: end}
"""


def test_arrows_share_a_lane_where_none_runs_over_one_that_leads_elsewhere() -> None:
    column = laid_out(plan_of(MANY)).tasks
    placed = {(jump.source, jump.target): jump.lane for jump in column.jumps}
    assert placed == {(0, 4): 2, (0, 1): 0, (1, 2): 1, (2, 4): 0}
    assert column.lanes == 3 * LANE
    boxes = [box.x + box.width for box in column.boxes]
    assert max(boxes) <= column.right


def test_what_a_list_is_called_is_told_once() -> None:
    drawn = svg(plan_of("do: [{a: {do: [{b: {set: {v: 1}}}]}}]"), "n/a")
    assert drawn.count(">do<") == 1


def test_a_look_is_a_class_and_words() -> None:
    looks = {"/do/1/again": Look("running", "waits, iteration 3"), "/nowhere": Look("failed", "")}
    drawn = svg(plan_of(FLOW), "n/a", looks)
    assert '<g class="node running"><title>again\nset\nwaits, iteration 3\n→ choose</title>' in drawn
    assert drawn.count("node running") == 1
    assert "failed" not in drawn


def test_names_are_text_and_are_cut() -> None:
    drawn = svg(plan_of('do:\n- "<script>alert(1)</script> & more of the same": {set: {v: 1}}'), "<b>")
    assert "<script>" not in drawn
    assert "<b>" not in drawn
    shown = [one.text or "" for one in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert any(re.fullmatch(r"<script>alert\(1\).*…", one) for one in shown)


def test_functions_and_extensions_stand_aside() -> None:
    text = (
        "use: {functions: {f: {set: {v: 1}}}, extensions: [{log: {extend: all, before: [{b: {set: {v: 2}}}]}}]}\n"
        "do: [{c: {call: f}}]"
    )
    assert [box.name for box in laid_out(plan_of(text)).asides] == ["function f", "extension log"]


def test_what_is_too_large_is_not_drawn() -> None:
    many = "do:\n" + "".join(f"- t{number}: {{set: {{v: 1}}}}\n" for number in range(MOST_BOXES + 1))
    assert svg(Document.parse(whole(many)).plan, "n/a") == ""
