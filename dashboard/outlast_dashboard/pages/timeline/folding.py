"""Folding the parts of a big run: many parts of one type become one line, with those that matter below it.

What matters are the parts that failed last, those that are still open (the most retried first), and the slowest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

MOST_LINES: Final = 30
"""How many parts a run may have before they are folded."""
ALONE: Final = 5
"""How many parts of one type are always drawn by themselves."""
MOST_FAILED: Final = 3
MOST_OPEN: Final = 3
MOST_SLOW: Final = 3
MOST_GROUPS: Final = 25

_FAILED: Final = frozenset({"failed", "timed_out", "terminated"})
_OPEN: Final = frozenset({"pending", "running", "open"})


@dataclass(slots=True)
class Part:
    """A part of a run that takes time: an activity, a timer or a child.

    Attributes:
        kind: ``activity``, ``timer`` or ``child``.
        type: What it is one of many of.
        id: Its command id.
        status: How it stands.
        began_at: When the code asked for it.
        closed_at: When it was over; ``None`` while it is open.
        started_at: When its last attempt began; ``None`` before the first.
        attempt: The number of that attempt.
        summary: What the code says of it.
        workflow_id: The child.
        ends: When a timer will fire.
    """

    kind: str
    type: str
    id: int
    status: str
    began_at: int
    closed_at: int | None
    started_at: int | None
    attempt: int
    summary: str = ""
    workflow_id: str = ""
    ends: int | None = None

    @property
    def failed(self) -> bool:
        """Whether it ended badly."""
        return self.status in _FAILED

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.status in _OPEN

    def took(self, now: int) -> int:
        """Return how long its last attempt took, or has taken so far."""
        if self.started_at is None:
            return 0
        return (self.closed_at if self.closed_at is not None else now) - self.started_at


@dataclass(slots=True)
class Group:
    """Parts of one type that share a line, and those of them that have a line of their own, with the reason."""

    kind: str
    type: str
    parts: list[Part]
    notable: list[tuple[Part, str]] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What the line is about."""
        return "timers" if self.kind == "timer" else self.type

    @property
    def state(self) -> str:
        """How many of the parts stand how: ``2,990 completed, 10 failed``."""
        counts = Counter(part.status for part in self.parts)
        return ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in counts.most_common())


@dataclass(slots=True)
class Folded:
    """What is drawn, in order. ``left_out`` is how many parts are outside the time that is shown."""

    items: list[Part | Group]
    left_out: int = 0

    @property
    def shown(self) -> list[Part]:
        """The parts that have a line of their own."""
        found: list[Part] = []
        for item in self.items:
            found += [item] if isinstance(item, Part) else [part for part, _ in item.notable]
        return found

    @property
    def activity_ids(self) -> list[int]:
        """The activities that have a line of their own."""
        return [part.id for part in self.shown if part.kind == "activity"]


def fold(parts: Sequence[Part], now: int, span: tuple[int, int] | None = None) -> Folded:
    """Return what of a run is drawn.

    Args:
        parts: Its parts, in the order in which they began.
        now: The current time.
        span: The time that is shown; parts outside of it are left out.
    """
    if span is not None:
        start, end = span
        within = [part for part in parts if part.began_at <= end and _over(part, now) >= start]
    else:
        within = list(parts)
    left_out = len(parts) - len(within)
    if len(within) <= MOST_LINES:
        return Folded(list(within), left_out)
    groups: dict[tuple[str, str], Group] = {}
    for part in within:
        groups.setdefault((part.kind, part.type), Group(part.kind, part.type, [])).parts.append(part)
    items: list[Part | Group] = []
    for group in _fewest(list(groups.values())):
        if len(group.parts) <= ALONE:
            items += group.parts
        else:
            group.notable = _notable(group.parts, now)
            items.append(group)
    return Folded(items, left_out)


def _fewest(groups: list[Group]) -> list[Group]:
    """Return the groups, the smallest joined by their kind if there are too many to draw."""
    if len(groups) <= MOST_GROUPS:
        return groups
    by_size = sorted(groups, key=lambda group: -len(group.parts))
    kept = {id(group) for group in by_size[:MOST_GROUPS]}
    rest: dict[str, Group] = {}
    for group in by_size[MOST_GROUPS:]:
        joined = rest.setdefault(group.kind, Group(group.kind, f"other {group.kind}", []))
        joined.parts += group.parts
    return [group for group in groups if id(group) in kept] + list(rest.values())


def _notable(parts: Sequence[Part], now: int) -> list[tuple[Part, str]]:
    found: dict[int, tuple[Part, str]] = {}
    failed = sorted((part for part in parts if part.failed), key=lambda part: -(part.closed_at or 0))
    waiting = sorted(
        (part for part in parts if part.is_open), key=lambda part: (-part.attempt, part.began_at)
    )
    slow = sorted((part for part in parts if not part.is_open), key=lambda part: -part.took(now))
    for chosen, most, note in (
        (failed, MOST_FAILED, ""),
        (waiting, MOST_OPEN, ""),
        (slow, MOST_SLOW, "slowest"),
    ):
        for part in chosen[:most]:
            _ = found.setdefault(part.id, (part, note))
    return list(found.values())


def _over(part: Part, now: int) -> int:
    if part.closed_at is not None:
        return part.closed_at
    return max(now, part.ends or 0)
