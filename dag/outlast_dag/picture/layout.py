"""Where the boxes and edges of a graph lie, from left to right.

Each box stands in the column that its longest path from the left gives it. Edges that pass columns have a place in
each, which those of one node share, so that none runs through a box: they are straight inside columns and bend only
between them. Sweeps by barycentres order the places of each column so that few edges cross; then places move towards
their neighbours as far as their column lets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

WIDTH: Final = 176
HEIGHT: Final = 46
GAP: Final = 52
"""The width of the space between two columns, where edges bend."""
ROW: Final = 14
"""The space between two boxes of a column."""
LANE: Final = 18
"""The height of the place of an edge that passes a column."""
MARGIN: Final = 8
SWEEPS: Final = 4


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node lies: its upper left corner."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Line:
    """An edge: the points at which it enters and leaves columns, in pairs of one height; curves lead between them."""

    source: str
    target: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A graph with coordinates.

    Attributes:
        boxes: The boxes by id; each is ``WIDTH`` by ``HEIGHT``.
        lines: The edges, in the order in which they were given.
        width: The width of it all.
        height: The height of it all.
    """

    boxes: dict[str, Box]
    lines: tuple[Line, ...]
    width: float
    height: float


def laid_out(names: Sequence[str], edges: Iterable[tuple[str, str]]) -> Layout:
    """Return where the nodes and edges of a graph lie.

    Args:
        names: The nodes, in topological order.
        edges: Pairs of nodes, the earlier one first.
    """
    pairs = list(dict.fromkeys(edges))
    column = _columns(names, pairs)
    grid = _Grid(names, pairs, column)
    for sweep in range(SWEEPS):
        grid.sweep(rightwards=sweep % 2 == 0)
    tops = grid.heights()
    lowest = min(tops.values(), default=0.0)
    y = {place: top - lowest + MARGIN for place, top in tops.items()}
    left = [MARGIN + number * (WIDTH + GAP) for number in range(len(grid.columns))]
    boxes = {name: Box(left[column[name]], y[name]) for name in names}
    lines = []
    for source, target in pairs:
        points = [(boxes[source].x + WIDTH, y[source] + HEIGHT / 2)]
        for place in grid.ways[source, target]:
            x, middle = left[place[1]], y[place] + LANE / 2
            points += [(x, middle), (x + WIDTH, middle)]
        points.append((boxes[target].x, y[target] + HEIGHT / 2))
        lines.append(Line(source, target, tuple(points)))
    bottom = max((y[place] + grid.height(place) for place in y), default=0.0)
    width = (left[-1] + WIDTH if left else 0) + MARGIN
    return Layout(boxes, tuple(lines), width, bottom + MARGIN)


def _columns(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the length of the longest path to each node."""
    before: dict[str, list[str]] = {name: [] for name in names}
    for source, target in pairs:
        before[target].append(source)
    column: dict[str, int] = {}
    for name in names:
        column[name] = max((column[one] + 1 for one in before[name]), default=0)
    return column


_Place = str | tuple[str, int]
"""A node, or where the edges from a node pass a column."""


class _Grid:
    """The places of all columns, in order."""

    def __init__(
        self, names: Sequence[str], pairs: Sequence[tuple[str, str]], column: Mapping[str, int]
    ) -> None:
        self.columns: list[list[_Place]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
        self.left: dict[_Place, list[_Place]] = {name: [] for name in names}
        self.right: dict[_Place, list[_Place]] = {name: [] for name in names}
        self.ways: dict[tuple[str, str], list[tuple[str, int]]] = {}
        for name in names:
            self.columns[column[name]].append(name)
        hops: dict[tuple[_Place, _Place], None] = {}
        for source, target in pairs:
            way = self.ways[source, target] = [
                (source, number) for number in range(column[source] + 1, column[target])
            ]
            for one in way:
                if one not in self.left:
                    self.columns[one[1]].append(one)
                    self.left[one], self.right[one] = [], []
            chain: list[_Place] = [source, *way, target]
            hops.update(dict.fromkeys(pairwise(chain)))
        for before, after in hops:
            self.right[before].append(after)
            self.left[after].append(before)

    def height(self, place: _Place) -> float:
        return HEIGHT if isinstance(place, str) else LANE

    def sweep(self, *, rightwards: bool) -> None:
        """Order each column by the mean position of its neighbours on one side."""
        beside = self.left if rightwards else self.right
        columns = self.columns if rightwards else self.columns[::-1]
        position: dict[_Place, float] = {}
        for places in columns:
            here = {place: float(number) for number, place in enumerate(places)}

            def mean(place: _Place, here: dict[_Place, float] = here) -> float:
                known = [position[one] for one in beside[place]]
                return sum(known) / len(known) if known else here[place]

            places.sort(key=mean)
            position.update({place: float(number) for number, place in enumerate(places)})

    def heights(self) -> dict[_Place, float]:
        """Return the upper edge of each place: near the middle of its neighbours, below the place before it."""
        y: dict[_Place, float] = {}
        for places in self.columns:
            self._stack(y, places, dict.fromkeys(places, 0.0))
        for beside, columns in (
            (self.left, self.columns),
            (self.right, self.columns[::-1]),
            (self.left, self.columns),
        ):
            for places in columns:
                wanted = {}
                for place in places:
                    middles = [y[one] + self.height(one) / 2 for one in beside[place]] or [
                        y[place] + self.height(place) / 2
                    ]
                    wanted[place] = sum(middles) / len(middles) - self.height(place) / 2
                self._stack(y, places, wanted)
        return y

    def _stack(
        self, y: dict[_Place, float], places: Sequence[_Place], wanted: Mapping[_Place, float]
    ) -> None:
        """Put each place where it is wanted, or lower if those before it need the room, and all as high as is fair."""
        at = float("-inf")
        off = 0.0
        for place in places:
            y[place] = max(wanted[place], at)
            off += y[place] - wanted[place]
            at = y[place] + self.height(place) + ROW
        for place in places:
            y[place] -= off / len(places)
