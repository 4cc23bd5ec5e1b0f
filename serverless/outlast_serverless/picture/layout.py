"""Where the boxes of a picture lie: a list of tasks is a column, what is inside of a task stands in its box.

Branches of a fork stand side by side. Where a task goes on elsewhere than to the next one is a row of its box; a row
that names a task of the list has an arrow to it, in a lane to the right of the column. Arrows share a lane where they
do not meet, or lead to the same task; a shorter one is further inside, so that few cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from outlast_serverless.picture.flow import kind_of, parts_of, ways_of
from outlast_serverless.plan.model import Plan, Task, TaskList

WIDTH: Final = 210.0
"""The width of a box with nothing inside."""
HEAD: Final = 44.0
"""The height of its name and kind."""
ROW: Final = 18.0
GAP: Final = 26.0
"""The space between two boxes of a column, where the arrow is."""
BESIDE: Final = 16.0
"""The space between two branches."""
PAD: Final = 14.0
"""The space around what stands inside of a box."""
LABEL: Final = 20.0
"""The height of what a list inside of a box is called."""
LANE: Final = 14.0
"""The width of the lane of an arrow."""
DOT: Final = 5.0
MARGIN: Final = 10.0


@dataclass(slots=True)
class Box:
    """A task with its place.

    Attributes:
        name: What stands at its top.
        kind: What stands below.
        pointer: The task.
        rows: Where it goes on, if not to the next one.
        goes_on: Whether it goes on to the next one, and in which cases; ``None`` if it does not.
        columns: What is inside of it.
        x: Its left edge.
        y: Its upper edge.
        width: Its width.
        height: Its height.
    """

    name: str
    kind: str
    pointer: str
    rows: list[str] = field(default_factory=list)
    goes_on: str | None = ""
    columns: list[Column] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = WIDTH
    height: float = HEAD

    def row(self, number: int) -> float:
        """Return the height of the middle of a row."""
        return self.y + HEAD + ROW * number + ROW / 2 - 4


@dataclass(frozen=True, slots=True)
class Jump:
    """An arrow from a row of one box of a column to another box: their positions, and its lane."""

    source: int
    row: int
    target: int
    lane: int


@dataclass(slots=True)
class Column:
    """A list with its place.

    Attributes:
        label: What it is called.
        boxes: Its tasks.
        parallel: Whether they stand side by side.
        jumps: The arrows between them that do not lead to the next one.
        x: Its left edge.
        y: Its upper edge, that of the label.
        width: Its width, with lanes.
        height: Its height.
    """

    label: str
    boxes: list[Box]
    parallel: bool
    jumps: list[Jump] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0

    @property
    def head(self) -> float:
        """The height of what it is called."""
        return LABEL if self.label else 0.0

    @property
    def lanes(self) -> float:
        """The width of its lanes."""
        return LANE * (1 + max((jump.lane for jump in self.jumps), default=-1))

    @property
    def right(self) -> float:
        """Where its lanes begin."""
        return self.x + self.width - self.lanes


@dataclass(frozen=True, slots=True)
class Layout:
    """A plan with coordinates.

    Attributes:
        tasks: Its tasks.
        asides: Its functions and extensions, which others use.
        width: The width of it all.
        height: The height of it all.
        count: How many boxes there are.
    """

    tasks: Column
    asides: list[Box]
    width: float
    height: float
    count: int


def laid_out(plan: Plan) -> Layout:
    """Return where the tasks of a plan lie.

    Args:
        plan: The plan.
    """
    tasks = _column("", plan.tasks, parallel=False)
    asides = _asides(plan)
    _put_column(tasks, MARGIN, MARGIN + 2 * DOT + GAP)
    bottom = tasks.y + tasks.height + GAP + 2 * DOT
    width = tasks.width
    for box in asides:
        bottom += GAP
        _put_box(box, MARGIN, bottom)
        bottom += box.height
        width = max(width, box.width)
    count = _count(tasks) + sum(_count_box(box) for box in asides)
    return Layout(tasks, asides, width + 2 * MARGIN, bottom + MARGIN, count)


def _asides(plan: Plan) -> list[Box]:
    found = [
        _outer(f"function {name}", task.pointer, [("", TaskList(task.pointer, (task,), {task.name: 0}))])
        for name, task in plan.functions.items()
    ]
    seen: set[str] = set()
    for task in plan.tasks.tasks:
        for one in task.extensions:
            if one.pointer not in seen:
                seen.add(one.pointer)
                lists = [("before", one.before), ("after", one.after)]
                inside = [(label, tasks) for label, tasks in lists if tasks is not None]
                found.append(_outer(f"extension {one.name}", one.pointer, inside))
    return found


def _outer(name: str, pointer: str, lists: Sequence[tuple[str, TaskList]]) -> Box:
    box = Box(name, "", pointer, columns=[_column(label, tasks, parallel=False) for label, tasks in lists])
    _measure(box)
    return box


def _box(task: Task) -> Box:
    rows: list[str] = []
    next_cases: list[str] = []
    for directive, label in ways_of(task):
        if directive.kind == "continue":
            next_cases.append(label)
        else:
            to = directive.target if directive.kind == "task" else directive.kind
            rows.append(f"{label} → {to}" if label else f"→ {to}")
    goes_on = None if not next_cases else "" if "" in next_cases else ", ".join(next_cases)
    columns = [_column(part.label, part.tasks, parallel=part.parallel) for part in parts_of(task)]
    box = Box(task.name, kind_of(task), task.pointer, rows, goes_on, columns)
    _measure(box)
    return box


def _measure(box: Box) -> None:
    inside = max((column.width for column in box.columns), default=0.0)
    box.width = max(WIDTH, inside + 2 * PAD) if box.columns else WIDTH
    box.height = HEAD + ROW * len(box.rows)
    if box.columns:
        box.height += sum(column.height for column in box.columns) + PAD


def _column(label: str, tasks: TaskList, *, parallel: bool) -> Column:
    boxes = [_box(task) for task in tasks.tasks]
    column = Column(label, boxes, parallel)
    if parallel:
        column.width = sum(box.width for box in boxes) + BESIDE * (len(boxes) - 1)
        column.height = column.head + max(box.height for box in boxes)
        return column
    column.jumps += _jumps(tasks)
    column.width = max(box.width for box in boxes) + column.lanes
    column.height = column.head + sum(box.height for box in boxes) + GAP * (len(boxes) - 1)
    return column


def _jumps(tasks: TaskList) -> list[Jump]:
    """Return the arrows of a list, each in the innermost lane that is free where it runs."""
    ways: list[tuple[int, int, int]] = []
    for source, task in enumerate(tasks.tasks):
        elsewhere = [directive for directive, _ in ways_of(task) if directive.kind != "continue"]
        ways += [
            (source, row, tasks.positions[directive.target])
            for row, directive in enumerate(elsewhere)
            if directive.kind == "task"
        ]
    lanes: list[list[tuple[int, int, int]]] = []
    placed: dict[tuple[int, int, int], int] = {}
    for way in sorted(ways, key=lambda way: (abs(way[2] - way[0]), way)):
        lane = next((number for number, taken in enumerate(lanes) if not _meets(way, taken)), len(lanes))
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append(way)
        placed[way] = lane
    return [Jump(*way, placed[way]) for way in ways]


def _meets(way: tuple[int, int, int], taken: Sequence[tuple[int, int, int]]) -> bool:
    """Return whether an arrow would run over another of its lane that leads elsewhere."""
    first, last = sorted((way[0], way[2]))
    return any(
        one[2] != way[2] and min(one[0], one[2]) <= last and first <= max(one[0], one[2]) for one in taken
    )


def _put_column(column: Column, x: float, y: float) -> None:
    column.x, column.y = x, y
    if column.parallel:
        for box in column.boxes:
            _put_box(box, x, y + column.head)
            x += box.width + BESIDE
        return
    y += column.head
    room = column.width - column.lanes
    for box in column.boxes:
        _put_box(box, x + (room - box.width) / 2, y)
        y += box.height + GAP


def _put_box(box: Box, x: float, y: float) -> None:
    box.x, box.y = x, y
    top = y + HEAD + ROW * len(box.rows)
    for column in box.columns:
        _put_column(column, x + (box.width - column.width) / 2, top)
        top += column.height


def _count(column: Column) -> int:
    return sum(_count_box(box) for box in column.boxes)


def _count_box(box: Box) -> int:
    return 1 + sum(_count(column) for column in box.columns)
