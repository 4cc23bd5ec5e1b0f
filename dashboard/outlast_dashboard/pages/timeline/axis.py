"""The axis of a timeline: where an instant is drawn, the marks along it, and what lies beyond a break.

An instant that is so far ahead that it would squeeze the past is drawn behind a break at the right, in order but not to
scale. Times are microseconds; a drawing is :data:`WIDTH` units wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

WIDTH: Final = 1000.0
LEAST_SPAN_US: Final = 1_000
MOST_TICKS: Final = 6
MOST_FAR: Final = 3
"""How many instants behind the break have a place of their own."""
BREAK: Final = 20.0
FAR: Final = 100.0
"""The width of the place of an instant behind the break."""
AHEAD: Final = 2
"""How many times longer than the past the future may be before the axis is broken."""

_SECOND: Final = 1_000_000
_STEPS: Final = tuple(
    [unit * number for unit in (1_000, 10_000, 100_000) for number in (1, 2, 5)]
    + [_SECOND * number for number in (1, 2, 5, 10, 15, 30)]
    + [_SECOND * 60 * number for number in (1, 2, 5, 10, 15, 30)]
    + [_SECOND * 3600 * number for number in (1, 2, 3, 6, 12)]
    + [_SECOND * 86400 * number for number in (1, 2, 5, 10, 30, 100, 365, 1000, 3650, 36500)]
)
"""The possible distances between marks of the axis, in microseconds."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the axis: its place, and its distance from the run's creation in seconds."""

    x: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch between two marks, which can be shown alone: ``zoom`` is its choice."""

    x: float
    width: float
    zoom: str
    seconds: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from ``start`` to ``end``, and instants behind the break after it.

    Attributes:
        origin: When the run was created.
        start: The first instant that is drawn.
        end: The last instant before the break.
        now: The present; for a closed run, its end.
        far: The instants behind the break, in order.
        zoomed: Whether only a part of the run is shown.
    """

    origin: int
    start: int
    end: int
    now: int
    far: tuple[int, ...] = ()
    zoomed: bool = False

    @classmethod
    def of(cls, origin: int, last: int, ahead: Sequence[int], span: tuple[int, int] | None = None) -> Self:
        """Return the axis of a run.

        Args:
            origin: When it was created.
            last: The end of the past: the present, or when the run ended.
            ahead: What is planned.
            span: The part that is shown, in microseconds since the origin; all if ``None``.
        """
        if span is not None:
            return cls(origin, origin + span[0], origin + span[1], last, zoomed=True)
        end = max(last, origin + LEAST_SPAN_US)
        horizon = end + AHEAD * (end - origin)
        near = [at for at in ahead if at <= horizon]
        far = tuple(sorted({at for at in ahead if at > horizon}))
        if near:
            end = max(end, *near)
            # Room for the mark at the end.
            end += (end - origin) // 50
        elif far:
            end += (end - origin) // 20
        return cls(origin, origin, end, last, far)

    @property
    def width(self) -> float:
        """The width of what is to scale."""
        places = min(len(self.far), MOST_FAR)
        return WIDTH - (BREAK + FAR * places if places else 0.0)

    def x(self, at: int) -> float:
        """Return where an instant is drawn. Instants outside the drawing are at its edge."""
        if at > self.end and self.far:
            place = min(sum(1 for far in self.far if far < at), MOST_FAR - 1)
            return round(self.width + BREAK + FAR * (place + 0.5), 2)
        share = (at - self.start) / (self.end - self.start)
        return round(min(max(share, 0.0), 1.0) * self.width, 2)

    def shows(self, at: int) -> bool:
        """Return whether an instant is drawn."""
        return at >= self.start and (at <= self.end or bool(self.far))

    @property
    def ticks(self) -> list[Tick]:
        """The marks of the axis."""
        span = self.end - self.start
        step = next((step for step in _STEPS if span // step <= MOST_TICKS), _STEPS[-1])
        first = (self.start - self.origin) // step + 1
        # The last mark needs room for its label.
        last = (self.end - span // 25 - self.origin) // step
        return [
            Tick(self.x(self.origin + number * step), number * step / _SECOND)
            for number in range(first, min(last, first + MOST_TICKS + 1) + 1)
        ]

    @property
    def stretches(self) -> list[Stretch]:
        """The stretches between the marks, so far as they are past; none if they are too short to look into."""
        bounds = [self.start, *(self.origin + round(tick.seconds * _SECOND) for tick in self.ticks)]
        bounds.append(min(self.end, max(self.now, self.start)))
        found: list[Stretch] = []
        for begin, until in pairwise(bounds):
            end = min(until, self.now)
            zoom = zoom_of(begin - self.origin, end - self.origin)
            if end > begin and zoom is not None:
                left = self.x(begin)
                found.append(
                    Stretch(
                        left,
                        round(max(self.x(end) - left, 0.0), 2),
                        zoom,
                        ((begin - self.origin) / _SECOND, (end - self.origin) / _SECOND),
                    )
                )
        return found

    @property
    def far_labels(self) -> list[tuple[float, str]]:
        """The places behind the break, and in words how far ahead of the present each is."""
        return [(self.x(at), roughly((at - self.now) / _SECOND)) for at in self.far[:MOST_FAR]]

    @property
    def earlier(self) -> str | None:
        """The zoom to the part before this one."""
        length = self.end - self.start
        begin = max(self.start - length, self.origin)
        return (
            zoom_of(begin - self.origin, begin - self.origin + length) if self.start > self.origin else None
        )

    @property
    def later(self) -> str | None:
        """The zoom to the part after this one."""
        length = self.end - self.start
        return (
            zoom_of(self.end - self.origin, self.end - self.origin + length) if self.end < self.now else None
        )

    @property
    def wider(self) -> str | None:
        """The zoom to three times as much; ``None`` if that is all."""
        length = self.end - self.start
        begin, end = max(self.start - length, self.origin), self.end + length
        if begin <= self.origin and end >= self.now:
            return None
        return zoom_of(begin - self.origin, end - self.origin)


def zoom_of(start: int, end: int) -> str | None:
    """Return a part of a run as a choice; ``None`` if it is shorter than a few milliseconds."""
    first, last = start // 1000, -(-end // 1000)
    return f"{first}-{last}" if last - first >= 2 else None


def roughly(seconds: float) -> str:
    """Return a duration in its largest unit: ``30 d``."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit * 0.99:
            return f"{round(seconds / unit)} {name}"
    return f"{round(seconds)} s"
