"""Whose turn it is: what a queue admits next, as a pure function of what waits and of the room there is.

Partitions take turns, one admission each, from the partition after the one that was served last; no priority lets a
partition go before another. In a partition the order is by priority, then by when the runs joined the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

UNBOUNDED = 1 << 62
"""The room of what has no limit."""


@dataclass(slots=True)
class Dealt(Generic[T]):
    """What was chosen, in the order of the turns.

    Attributes:
        chosen: ``(partition, item)`` of each.
        cursor: The partition that was served last; ``None`` where none was.
        left: Whether something is left that only lacks room in the queue.
    """

    chosen: list[tuple[str, T]] = field(default_factory=list)
    cursor: str | None = None
    left: bool = False


def deal(lines: Mapping[str, Sequence[T]], rooms: Mapping[str, int], room: int) -> Dealt[T]:
    """Choose what is admitted.

    Args:
        lines: What waits in each partition, in order; the partitions in the order of their turns.
        rooms: How many each partition may have at most; one that is not there has no limit of its own.
        room: How many may be admitted in all.
    """
    dealt: Dealt[T] = Dealt()
    waiting = [(partition, line) for partition, line in lines.items() if line]
    place = 0
    while waiting:
        still: list[tuple[str, Sequence[T]]] = []
        for partition, line in waiting:
            if place >= min(len(line), rooms.get(partition, UNBOUNDED)):
                continue
            if len(dealt.chosen) >= room:
                dealt.left = True
                return dealt
            dealt.chosen.append((partition, line[place]))
            dealt.cursor = partition
            still.append((partition, line))
        waiting = still
        place += 1
    return dealt
