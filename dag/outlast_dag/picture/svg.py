"""A DAG, or one run of it, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from outlast.text.dag_words import SEVEREST, state_words, waits_words
from outlast.text.letters import cut, width_of
from outlast.visibility.dags import DagDescription, DagNode, ItemCounts, WaitKind
from outlast_dag.check.critical_path import critical_path
from outlast_dag.picture.layout import GAP, HEIGHT, WIDTH, Box, Layout, laid_out
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Map

MOST_BOXES: Final = 300
"""A DAG with more nodes is drawn with its groups folded; one that is still larger is not drawn."""

MOST_EDGES: Final = 2_000

LETTERS: Final = 22
"""How many letters of middle width a box has room for."""

AWAITED: Final[dict[WaitKind, str]] = {
    "approval": "approval",
    "event": "a signal",
    "child": "its child",
    "queue": "its queue",
    "worker": "a worker",
}
"""What a box says that a node waits for, although it has begun."""

STYLE: Final = """
.dag { font: 13px system-ui, sans-serif; }
.dag rect.box { fill: #fff; stroke: #8a94a0; }
.dag .critical > rect.box { stroke-width: 2.5; }
.dag path { fill: none; stroke: #8a94a0; }
.dag path.critical { stroke-width: 2.5; stroke: #4a5460; }
.dag path.aside { stroke-dasharray: 4 3; }
.dag path.tip { fill: #8a94a0; stroke: none; }
.dag path.tip.critical { fill: #4a5460; }
.dag text { fill: #1d242b; }
.dag text.note { fill: #56606b; font-size: 11px; }
.dag rect.track { fill: #dfe6e6; }
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """What one box shows.

    Attributes:
        id: The node, or the group.
        note: What stands below its name.
        state: How it stands; empty without a run.
        words: What it says to those who point at it.
        critical: Whether it lies on the chain that takes longest.
        items: How far it is, if it has a bar.
    """

    id: str
    note: str
    state: str = ""
    words: str = ""
    critical: bool = False
    items: ItemCounts | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow; one ``aside`` leads to a node that only a failure needs."""

    source: str
    target: str
    critical: bool = False
    aside: bool = False


def svg_of_spec(spec: DagSpec) -> str:
    """Return a DAG as an SVG document.

    Args:
        spec: The DAG.
    """
    chain = critical_path(spec).nodes
    steps = set(pairwise(chain))
    figures = [
        Figure(
            name,
            (getattr(node, "type", "") or node.kind) + (" × items" if isinstance(node, Map) else ""),
            critical=name in chain,
        )
        for name in spec.graph.whole_order
        for node in (spec.graph.nodes[name],)
    ]
    edges = [
        Edge(one, name, critical=(one, name) in steps)
        for name, producers in spec.graph.producers.items()
        for one in producers
    ]
    edges += [
        Edge(node.id, one, aside=True)
        for node in spec.nodes
        for one in (node.on_failure, node.compensate)
        if one is not None and one in spec.graph.nodes
    ]
    return _drawn(spec.name, figures, edges, STYLE)


def svg_of_run(found: DagDescription) -> str:
    """Return a run of a DAG as SVG without styles; empty if it is too large to be drawn.

    Args:
        found: The run.
    """
    known = {node.id for node in found.nodes}
    steps = set(pairwise(node.id for node in found.nodes if node.critical))
    figures = [
        Figure(node.id, _note(node), node.state, _words(node), node.critical, node.items)
        for node in found.nodes
    ]
    edges = [
        Edge(one, node.id, critical=(one, node.id) in steps)
        for node in found.nodes
        for one in node.depends_on
        if one in known
    ]
    edges += [
        Edge(node.id, one, aside=True)
        for node in found.nodes
        for one in (node.on_failure, node.compensate)
        if one is not None and one in known
    ]
    return _drawn(found.name, figures, edges)


def _words(node: DagNode) -> str:
    """Return what those who point at a node are told: how it stands, what it waits for, why it failed."""
    said = [state_words(node)]
    if node.waits_for:
        said.append(f"waits for {waits_words(node)}")
    failure = node.last_failure
    if failure is not None:
        said.append(f"{failure.exception_class}: {failure.message}")
    return "\n".join(said)


def _note(node: DagNode) -> str:
    if node.items is not None and node.state in ("running", "backing_off"):
        return f"{node.items.completed:,} of {node.items.total:,}"
    if node.attempt is not None and node.attempt > 1:
        return f"{node.state.replace('_', ' ')}, attempt {node.attempt}"
    for wait in node.waits_for:
        if wait.kind == "failure":
            return f"if {wait.name} fails"
        if wait.kind == "undoing":
            return f"undoes {wait.name}"
    awaited = next((said for wait in node.waits_for if (said := AWAITED.get(wait.kind))), "")
    if node.state == "running" and awaited:
        return f"waits for {awaited}"
    return node.state.replace("_", " ")


# --- folding ----------------------------------------------------------------------------------------------------------


def folded(figures: Sequence[Figure], edges: Sequence[Edge]) -> tuple[list[Figure], list[Edge]]:
    """Return a graph in which each group is one box.

    Args:
        figures: The boxes.
        edges: The arrows.
    """
    group = {one.id: one.id.partition("/")[0] for one in figures}
    members: dict[str, list[Figure]] = {}
    for one in figures:
        members.setdefault(group[one.id], []).append(one)
    boxes = [
        inside[0] if len(inside) == 1 and inside[0].id == name else _group(name, inside)
        for name, inside in members.items()
    ]
    between: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        source, target = group[edge.source], group[edge.target]
        known = between.get((source, target))
        if source != target and (known is None or (edge.critical and not known.critical)):
            between[source, target] = Edge(source, target, edge.critical, edge.aside)
    return boxes, list(between.values())


def _group(name: str, inside: Sequence[Figure]) -> Figure:
    state = min((one.state for one in inside if one.state), key=SEVEREST.index, default="")
    note = f"{len(inside):,} nodes" + (f", {state.replace('_', ' ')}" if state else "")
    counts = ItemCounts(
        total=len(inside),
        completed=sum(one.state in ("completed", "skipped", "recovered") for one in inside),
        failed=sum(one.state in ("failed", "timed_out", "upstream_failed") for one in inside),
        running=0,
        left=0,
    )
    return Figure(name, note, state, note, any(one.critical for one in inside), counts if state else None)


def _in_order(figures: Sequence[Figure], edges: Sequence[Edge]) -> list[str] | None:
    """Return the boxes in topological order; ``None`` if groups wait for each other."""
    unmet = {one.id: 0 for one in figures}
    after: dict[str, list[str]] = {one.id: [] for one in figures}
    for edge in edges:
        unmet[edge.target] += 1
        after[edge.source].append(edge.target)
    found = [name for name, count in unmet.items() if not count]
    for name in found:
        for one in after[name]:
            unmet[one] -= 1
            if not unmet[one]:
                found.append(one)
    return found if len(found) == len(unmet) else None


# --- drawing ----------------------------------------------------------------------------------------------------------


def _drawn(name: str, figures: list[Figure], edges: list[Edge], style: str = "") -> str:
    if len(figures) > MOST_BOXES:
        figures, edges = folded(figures, edges)
    order = _in_order(figures, edges)
    if order is None or len(figures) > MOST_BOXES or len(edges) > MOST_EDGES:
        return ""
    layout = laid_out(order, [(edge.source, edge.target) for edge in edges])
    size = f'width="{layout.width:g}" height="{layout.height:g}"'
    words = f"{escape(name)}: {len(figures)} boxes, {len(edges)} arrows"
    view = f'viewBox="0 0 {layout.width:g} {layout.height:g}"'
    lines = [
        f'<svg class="dag" xmlns="http://www.w3.org/2000/svg" {size} {view} role="img" aria-label="{words}">'
    ]
    if style:
        lines.append(f"<style>{style}</style>")
    lines += _paths(layout, edges)
    for figure in figures:
        lines += _box(figure, layout.boxes[figure.id])
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def _paths(layout: Layout, edges: Sequence[Edge]) -> Iterator[str]:
    """Yield the pieces of all edges, each once: edges of one node share the way that they have in common."""
    looks = {(edge.source, edge.target): edge for edge in edges}
    pieces: dict[str, str] = {}
    for line in layout.lines:
        edge = looks[line.source, line.target]
        look = "aside" if edge.aside else "critical" if edge.critical else ""
        for piece in pieces_of(line.points):
            if pieces.get(piece, "") == "" or look == "critical":
                pieces[piece] = look
    for look in ("", "aside", "critical"):
        found = [piece for piece, one in pieces.items() if one == look]
        if found:
            yield f'<path class="{look or "edge"}" d="{" ".join(found)}"></path>'
    tips: dict[tuple[float, float], bool] = {}
    for line in layout.lines:
        tip = line.points[-1]
        tips[tip] = tips.get(tip, False) or looks[line.source, line.target].critical
    for (x, y), critical in sorted(tips.items()):
        look = "tip critical" if critical else "tip"
        yield f'<path class="{look}" d="M{x - 8:g} {y - 4:g}L{x:g} {y:g}L{x - 8:g} {y + 4:g}Z"></path>'


def pieces_of(points: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Yield an edge in pieces: a curve between two columns, a straight line through each that it passes.

    Args:
        points: Where it leaves and enters columns.
    """
    for number, ((x, y), (to_x, to_y)) in enumerate(pairwise(points)):
        if number % 2:
            yield f"M{x:g} {y:g}H{to_x:g}"
        else:
            bend = x + GAP / 2
            yield f"M{x:g} {y:g}C{bend:g} {y:g} {bend:g} {to_y:g} {to_x:g} {to_y:g}"


def _box(figure: Figure, box: Box) -> Iterator[str]:
    look = " ".join(filter(None, ("node", figure.state, "critical" if figure.critical else "")))
    words = f"{figure.id}: {figure.words or figure.note}"
    yield f'<g class="{look}" transform="translate({box.x:g} {box.y:g})"><title>{escape(words)}</title>'
    yield f'<rect class="box" width="{WIDTH}" height="{HEIGHT}" rx="6"></rect>'
    # It cuts what a broad font makes too long.
    yield f'<svg width="{WIDTH - 4}" height="{HEIGHT}">'
    yield f'<text x="12" y="20">{escape(_short(figure.id))}</text>'
    yield f'<text class="note" x="12" y="36">{escape(_short(figure.note))}</text></svg>'
    items = figure.items
    if items is not None and items.total:
        whole = WIDTH - 24
        done = whole * items.completed / items.total
        bad = whole * items.failed / items.total
        yield f'<rect class="track" x="12" y="40" width="{whole}" height="3"></rect>'
        yield f'<rect class="track done" x="12" y="40" width="{done:.1f}" height="3"></rect>'
        if bad:
            yield f'<rect class="track bad" x="{12 + done:.1f}" y="40" width="{bad:.1f}" height="3"></rect>'
    yield "</g>"


def _short(name: str) -> str:
    """Return a name as a box has room for it: of one in groups, the end."""
    if width_of(name) <= LETTERS:
        return name
    return cut(name.rpartition("/")[2], LETTERS)
