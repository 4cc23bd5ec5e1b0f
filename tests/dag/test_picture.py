"""Pictures of DAGs: no edge runs through a box, no two boxes touch, and drawing costs what the graph has."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dag.test_counts import calls_of

from outlast.visibility.dags import DagDescription, DagNode, NodeWait
from outlast.visibility.views import FailureCause
from outlast_dag import DagBuilder
from outlast_dag.picture.layout import GAP, HEIGHT, WIDTH, Layout, laid_out
from outlast_dag.picture.svg import MOST_BOXES, Edge, Figure, folded, svg_of_run, svg_of_spec
from outlast_workflow.primitives.enums import FailureCategory, RunStatus

Graph = tuple[list[str], list[tuple[str, str]]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    names = [f"n{number}" for number in range(draw(st.integers(1, 25)))]
    edges = [
        (names[place], name)
        for number, name in enumerate(names)
        if number
        for place in draw(st.lists(st.integers(0, number - 1), max_size=4))
    ]
    return names, edges


def curve(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """Points of the curve between two columns."""
    bend = start[0] + GAP / 2
    found = []
    for step in range(21):
        t = step / 20
        x = (1 - t) ** 3 * start[0] + 3 * (1 - t) * t * bend + t**3 * end[0]
        y = (1 - t) ** 3 * start[1] + 3 * (1 - t) ** 2 * t * start[1] + 3 * (1 - t) * t**2 * end[1]
        found.append((x, y + t**3 * end[1]))
    return found


def inside(layout: Layout, x: float, y: float) -> bool:
    return any(box.x < x < box.x + WIDTH and box.y < y < box.y + HEIGHT for box in layout.boxes.values())


@given(graphs())
def test_no_edge_runs_through_a_box_and_no_two_boxes_touch(graph: Graph) -> None:
    names, edges = graph
    layout = laid_out(names, edges)
    assert layout.boxes.keys() == set(names)
    assert [(line.source, line.target) for line in layout.lines] == list(dict.fromkeys(edges))
    for line in layout.lines:
        points = line.points
        assert points[0] == (layout.boxes[line.source].x + WIDTH, layout.boxes[line.source].y + HEIGHT / 2)
        assert points[-1] == (layout.boxes[line.target].x, layout.boxes[line.target].y + HEIGHT / 2)
        for number in range(len(points) - 1):
            start, end = points[number], points[number + 1]
            if number % 2:
                assert start[1] == end[1]
                along = [(start[0] + step * WIDTH / 20, start[1]) for step in range(21)]
            else:
                assert end[0] - start[0] == GAP
                along = curve(start, end)
            assert not any(inside(layout, x, y) for x, y in along)
    boxes = list(layout.boxes.values())
    for number, one in enumerate(boxes):
        assert one.x >= 0
        assert one.y >= 0
        assert one.x + WIDTH <= layout.width
        assert one.y + HEIGHT <= layout.height
        for other in boxes[:number]:
            assert one.x != other.x or abs(one.y - other.y) > HEIGHT


def wide(nodes: int) -> DagBuilder:
    rng = random.Random(1)
    flow = DagBuilder("wide", timeout=10**9)
    before: list[object] = []
    for number in range(nodes):
        chosen = rng.sample(before[-20:], min(len(before), rng.choice((0, 1, 1, 2, 3))))
        before.append(flow.task(f"n{number}", "x", *[getattr(one, "rows") for one in chosen], timeout=5))  # noqa: B009
    return flow


def test_drawing_costs_what_the_graph_has() -> None:
    small, large = (wide(nodes).build().spec for nodes in (100, 200))
    for spec in (small, large):
        # What is computed once for a spec is not the picture's.
        _ = spec.graph.whole_order
    few, many = (calls_of(partial(svg_of_spec, spec)) for spec in (small, large))
    assert many < 3 * few
    assert many / 200 < 500


def test_the_text_of_a_picture_is_escaped_and_its_chain_is_thick() -> None:
    flow = DagBuilder("a <b>", timeout=100)
    first = flow.task("fetch", "<script>", timeout=30)
    side = flow.task("side", "x", first.rows, timeout=1)
    long = flow.task("long", "x", first.rows, timeout=20)
    flow.task("end", "x", first.rows, side.x, long.x, timeout=5)
    text = flow.build().svg()
    assert "<script>" not in text
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    looks = [box.attrib["class"] for box in root.iter(f"{space}g")]
    assert sorted(looks) == ["node", *["node critical"] * 3]
    paths = {path.attrib["class"]: path.attrib["d"] for path in root.iter(f"{space}path")}
    # fetch -> long -> end; not fetch -> end, although both lie on the chain.
    assert len(re.findall("M", paths["critical"])) == 2
    assert not any(element.tag.endswith("script") for element in root.iter())


@pytest.mark.parametrize("nodes", [MOST_BOXES, MOST_BOXES + 1])
def test_what_is_too_large_has_its_groups_folded(nodes: int) -> None:
    flow = DagBuilder("large", timeout=10**9)
    begin = flow.task("begin", "x", timeout=1)
    with flow.group("load"):
        for number in range(nodes - 1):
            flow.task(f"n{number}", "x", timeout=1).after(begin)
    text = flow.build().svg()
    assert text.count("<rect") == (nodes if nodes <= MOST_BOXES else 2)
    if nodes > MOST_BOXES:
        assert f"{nodes - 1} nodes" in text


def test_what_cannot_be_folded_is_not_drawn() -> None:
    flow = DagBuilder("large", timeout=10**9)
    for number in range(MOST_BOXES + 1):
        flow.task(f"n{number}", "x", timeout=1)
    assert flow.build().svg() == ""


def test_groups_that_wait_for_each_other_are_not_drawn_as_boxes() -> None:
    figures = [Figure(name, "") for name in ("a/1", "b/1", "a/2")]
    boxes, edges = folded(figures, [Edge("a/1", "b/1"), Edge("b/1", "a/2")])
    assert [box.id for box in boxes] == ["a", "b"]
    assert {(edge.source, edge.target) for edge in edges} == {("a", "b"), ("b", "a")}


def node(name: str, **more: object) -> DagNode:
    given = {
        "id": name,
        "kind": "task",
        "type": "x",
        "depends_on": (),
        "rule": "all_succeeded",
        "conditional": False,
        "on_failure": None,
        "compensate": None,
        "critical": False,
        "state": "waiting",
    }
    return DagNode.model_validate({**given, **more})


def run_of(*nodes: DagNode) -> DagDescription:
    return DagDescription(
        workflow_id="w",
        run_id="r",
        status=RunStatus.RUNNING,
        name="etl",
        version="",
        hash="0" * 64,
        nodes=nodes,
        deadline_at=None,
        left_seconds=None,
        slack_seconds=None,
        at_risk=False,
        described_at=datetime.now(UTC),
    )


def test_a_run_is_drawn_with_its_states() -> None:
    nodes = (
        node("fetch", state="completed", on_failure="instead", critical=True),
        node("instead", state="skipped"),
        node(
            "parse",
            depends_on=("fetch",),
            critical=True,
            state="running",
            items={"total": 10, "completed": 4, "failed": 1, "running": 2, "left": 3},
        ),
        node("retry", depends_on=("fetch",), state="backing_off", attempt=2, max_attempts=5),
    )
    text = svg_of_run(run_of(*nodes))
    ElementTree.fromstring(text)
    assert "<style" not in text
    assert 'class="node completed critical"' in text
    assert "parse: running, 4 of 10 items, 1 failed" in text
    assert "backing off, attempt 2" in text
    assert 'path class="aside"' in text
    assert 'class="track bad"' in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("W" * 12, "W" * 12),
        ("W" * 13, "W" * 11 + "…"),
        ("n" * 22, "n" * 22),
        ("n" * 23, "n" * 21 + "…"),
        ("界" * 64, "界" * 10 + "…"),
        ("a-long-group/" + "n" * 20, "n" * 20),
    ],
)
def test_a_name_is_shortened_to_what_its_box_has_room_for(name: str, shown: str) -> None:
    text = svg_of_run(run_of(node(name)))
    assert f">{shown}</text>" in text
    assert f"<title>{name}: waiting</title>" in text
    # Whatever the font is, an inner picture cuts what is still too long.
    space = "{http://www.w3.org/2000/svg}"
    inner = ElementTree.fromstring(text).find(f"{space}g/{space}svg")
    assert inner is not None
    assert int(inner.attrib["width"]) <= WIDTH


def test_a_box_says_what_it_waits_for_and_why_it_failed() -> None:
    failure = FailureCause(
        category=FailureCategory.APPLICATION, exception_class="Declined", message="<no> funds"
    )
    found = run_of(
        node(
            "charge",
            state="backing_off",
            last_failure=failure,
            attempt=2,
            max_attempts=3,
            compensate="refund",
        ),
        node("refund", waits_for=(NodeWait(kind="undoing", name="charge"),)),
        node("letter", waits_for=(NodeWait(kind="failure", name="charge"),)),
    )
    text = svg_of_run(found)
    assert "charge: backing off, attempt 2 of 3\nDeclined: &lt;no&gt; funds</title>" in text
    assert "refund: waiting\nwaits for charge to be undone</title>" in text
    assert ">undoes charge</text>" in text
    assert ">if charge fails</text>" in text
