"""A document, or one run of it, as SVG. Its styles are the page's; the look of a task is a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Final, NamedTuple

from outlast.text.letters import cut
from outlast_serverless.picture.layout import DOT, GAP, HEAD, LANE, ROW, Box, Column, Layout, laid_out
from outlast_serverless.plan.model import Plan

MOST_BOXES: Final = 300
"""A document with more tasks is not drawn."""
LETTERS: Final = 25
SMALL: Final = 30
"""How many letters of middle width a box has room for, as its name and below that."""
_TIP: Final = 4.0


class Look(NamedTuple):
    """How a task stands.

    Attributes:
        state: A class: ``running``, ``around`` (something inside of it is), ``failed`` …
        words: The same in words.
    """

    state: str
    words: str


def svg(plan: Plan, name: str, looks: Mapping[str, Look] | None = None) -> str:
    """Return a plan as SVG without styles; empty if it is too large to be drawn.

    Args:
        plan: The plan.
        name: What it is called.
        looks: How tasks stand, by pointer; those that are not there have nothing to tell.
    """
    layout = laid_out(plan)
    if layout.count > MOST_BOXES:
        return ""
    return "\n".join(_drawn(layout, name, looks or {})) + "\n"


def _drawn(layout: Layout, name: str, looks: Mapping[str, Look]) -> Iterator[str]:
    size = f'width="{layout.width:g}" height="{layout.height:g}"'
    view = f'viewBox="0 0 {layout.width:g} {layout.height:g}"'
    words = f"{escape(name)}: {layout.count} boxes"
    yield f'<svg class="dag flow" xmlns="http://www.w3.org/2000/svg" {size} {view} role="img" aria-label="{words}">'
    tasks = layout.tasks
    first, last = tasks.boxes[0], tasks.boxes[-1]
    middle = first.x + first.width / 2
    yield f'<circle class="dot" cx="{middle:g}" cy="{first.y - GAP - DOT:g}" r="{DOT:g}"></circle>'
    yield from _arrow(middle, first.y - GAP, first.y)
    bottom = last.y + last.height
    if last.goes_on is not None:
        yield from _arrow(middle, bottom, bottom + GAP, last.goes_on)
    yield f'<circle class="dot end" cx="{middle:g}" cy="{bottom + GAP + DOT:g}" r="{DOT:g}"></circle>'
    yield from _column(tasks, looks)
    for box in layout.asides:
        yield from _box(box, looks)
    yield "</svg>"


def _column(column: Column, looks: Mapping[str, Look]) -> Iterator[str]:
    if column.label:
        x, y = column.x, column.y + 13
        yield f'<text class="note" x="{x:g}" y="{y:g}">{escape(cut(column.label, SMALL))}</text>'
    for number, box in enumerate(column.boxes):
        if not column.parallel and number + 1 < len(column.boxes) and box.goes_on is not None:
            bottom = box.y + box.height
            yield from _arrow(box.x + box.width / 2, bottom, bottom + GAP, box.goes_on)
        yield from _box(box, looks)
    for jump in column.jumps:
        source, target = column.boxes[jump.source], column.boxes[jump.target]
        lane = column.right + LANE * (jump.lane + 0.5)
        from_x, from_y = source.x + source.width, source.row(jump.row)
        to_x, to_y = target.x + target.width, target.y + HEAD / 2 - 6
        yield f'<path class="edge" d="M{from_x:g} {from_y:g}H{lane:g}V{to_y:g}H{to_x + 2:g}"></path>'
        tip = f"M{to_x + 8:g} {to_y - _TIP:g}L{to_x:g} {to_y:g}L{to_x + 8:g} {to_y + _TIP:g}Z"
        yield f'<path class="tip" d="{tip}"></path>'


def _arrow(x: float, top: float, bottom: float, label: str = "") -> Iterator[str]:
    yield f'<path class="edge" d="M{x:g} {top:g}V{bottom - 2:g}"></path>'
    yield f'<path class="tip" d="M{x - _TIP:g} {bottom - 8:g}L{x:g} {bottom:g}L{x + _TIP:g} {bottom - 8:g}Z"></path>'
    if label:
        yield f'<text class="note" x="{x + 8:g}" y="{top + 15:g}">{escape(cut(label, SMALL / 2))}</text>'


def _box(box: Box, looks: Mapping[str, Look]) -> Iterator[str]:
    look = looks.get(box.pointer)
    state = f"node {look.state}" if look is not None else "node"
    said = "\n".join(filter(None, (box.name, box.kind, look.words if look is not None else "", *box.rows)))
    yield f'<g class="{state}{" outer" if box.columns else ""}"><title>{escape(said)}</title>'
    size = f'x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}"'
    yield f'<rect class="box" {size} rx="6"></rect>'
    # It cuts what a broad font makes too long.
    yield f'<svg x="{box.x:g}" y="{box.y:g}" width="{box.width - 4:g}" height="{HEAD + ROW * len(box.rows):g}">'
    letters = LETTERS * (box.width / 210)
    yield f'<text x="12" y="19">{escape(cut(box.name, letters))}</text>'
    note = look.words if look is not None and look.words else box.kind
    yield f'<text class="note" x="12" y="35">{escape(cut(note, letters * SMALL / LETTERS))}</text>'
    for number, row in enumerate(box.rows):
        y = HEAD + ROW * number + ROW / 2
        yield f'<text class="note row" x="12" y="{y:g}">{escape(cut(row, letters * SMALL / LETTERS))}</text>'
    yield "</svg></g>"
    for column in box.columns:
        yield from _column(column, looks)
