"""Whose turn it is: what a queue admits next, as a pure function of what waits and of the room there is.

Partitions take turns, one admission each, from the partition after the one that was served last; no priority lets a
partition go before another. In a partition the order is by priority, then by when they joined the line.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

UNBOUNDED = 1 << 62
"""The room of what has no limit."""


_NONE: Final[Mapping[Any, int]] = MappingProxyType({})


@dataclass(slots=True)
class Dealt(Generic[T]):
    """What was chosen, in the order of the turns.

    Attributes:
        chosen: ``(partition, item)`` of each.
        cursor: The partition that was served last; ``None`` where none was.
        left: Whether something is left that only lacks room in the queue, or of the worker for things of its kind.
    """

    chosen: list[tuple[str, T]] = field(default_factory=list)
    cursor: str | None = None
    left: bool = False


def deal(
    lines: Mapping[str, Sequence[T]],
    rooms: Mapping[str, int],
    room: int,
    *,
    kind: Callable[[T], Hashable] = lambda item: None,
    quotas: Mapping[Any, int] = _NONE,
) -> Dealt[T]:
    """Choose what is admitted.

    Args:
        lines: What waits in each partition, in order; the partitions in the order of their turns.
        rooms: How many each partition may have at most; one that is not there has no limit of its own.
        room: How many may be admitted in all.
        kind: Returns the kind of an item.
        quotas: How many of a kind may be admitted; a kind that is not there has no limit of its own. Where there may be
            no more, those that come behind go first.
    """
    dealt: Dealt[T] = Dealt()
    waiting = [(partition, iter(line)) for partition, line in lines.items()]
    quotas = dict(quotas)
    place = 0
    while waiting:
        still: list[tuple[str, Iterator[T]]] = []
        for partition, line in waiting:
            if place >= rooms.get(partition, UNBOUNDED):
                continue
            for item in line:
                if quotas.get(kind(item), UNBOUNDED) > 0:
                    break
                dealt.left = True
            else:
                continue
            if len(dealt.chosen) >= room:
                dealt.left = True
                return dealt
            if quotas:
                quotas[kind(item)] = quotas.get(kind(item), UNBOUNDED) - 1
            dealt.chosen.append((partition, item))
            dealt.cursor = partition
            still.append((partition, line))
        waiting = still
        place += 1
    return dealt
