"""The deadlines of a run drawn to scale: a bar for the workflow and for each open task, from beginning to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from outlast_serverless.runtime.run import DocumentState, OpenTask

MOST_BARS: Final = 24
_MOST_TICKS: Final = 5
_LEAST: Final = 0.5
"""The width of a bar that would be too short to be seen, in percent."""
_STEPS: Final = tuple(
    [0.1, 0.2, 0.5]
    + [float(number) for number in (1, 2, 5, 10, 15, 30)]
    + [60.0 * number for number in (1, 2, 5, 10, 15, 30)]
    + [3_600.0 * number for number in (1, 2, 3, 6, 12)]
    + [86_400.0 * number for number in (1, 2, 5, 10, 30, 100, 365, 1_000, 3_650, 36_500)]
)
"""The possible distances between marks, in seconds."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A line of the drawing. Places are percent of its width.

    Attributes:
        task: The open task; ``None`` for the workflow.
        since: Since when.
        until: Until when; ``None`` if it has no end.
        x: Where it begins.
        width: How wide it is.
    """

    task: OpenTask | None
    since: datetime | None
    until: datetime | None
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Scale:
    """A drawing.

    Attributes:
        start: Its left edge.
        end: Its right edge.
        bars: Its lines.
        ticks: Where marks are, and how many seconds after the start.
        more: How many tasks are left out.
    """

    start: datetime
    end: datetime
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, float], ...]
    more: int

    def x(self, at: datetime) -> float:
        """Return where an instant is, in percent."""
        share = (at - self.start) / (self.end - self.start)
        return round(100 * min(max(share, 0.0), 1.0), 2)


def scale_of(state: DocumentState, started: datetime, now: datetime, timeout: float | None) -> Scale | None:
    """Return the drawing of a run; ``None`` if nothing of it has a deadline or is open.

    Args:
        state: Where it stands.
        started: When it was created.
        now: The current time.
        timeout: The execution timeout in seconds, from the beginning of its chain.
    """
    tasks = state.open[:MOST_BARS]
    if state.deadline_at is None and not tasks:
        return None
    whole = state.deadline_at
    began = started if whole is None or timeout is None else whole - timedelta(seconds=timeout)
    start = min([began, *(one.since for one in tasks if one.since is not None)])
    ends = [one.deadline_at for one in tasks if one.deadline_at is not None]
    end = max([whole or start, *ends])
    if end <= start:
        # Nothing has an end: the past has the larger part.
        end = now + max((now - start) / 4, timedelta(seconds=1))
    empty = Scale(start, end, (), (), 0)
    bars = [_bar(empty, None, began, whole)] if whole is not None else []
    bars += [_bar(empty, one, one.since, one.deadline_at) for one in tasks]
    return Scale(start, end, tuple(bars), _ticks(start, end), len(state.open) - len(tasks))


def _bar(scale: Scale, task: OpenTask | None, since: datetime | None, until: datetime | None) -> Bar:
    left = scale.x(since or scale.start)
    right = scale.x(until or scale.end)
    width = max(right - left, _LEAST)
    return Bar(task, since, until, min(left, 100 - width), round(width, 2))


def _ticks(start: datetime, end: datetime) -> tuple[tuple[float, float], ...]:
    span = (end - start).total_seconds()
    step = next((one for one in _STEPS if span / one <= _MOST_TICKS), _STEPS[-1])
    marks: Sequence[float] = [number * step for number in range(1, int(span / step) + 1)]
    return tuple((round(100 * mark / span, 2), mark) for mark in marks)
