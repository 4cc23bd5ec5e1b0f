"""The inbox of a run: events that have reached it, for the listen tasks that are open and for those to come."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from outlast import workflow

_MOST_KEPT: Final = 1_000
"""So many events from the bus that no task has consumed are kept for tasks that look back."""


@dataclass(slots=True, eq=False)
class Arrived:
    """An event that has reached the run.

    Attributes:
        event: The event.
        key: Its key on the bus; ``None`` if it was sent to this run alone.
        consumed: Whether a task has consumed it.
    """

    event: dict[str, Any]
    key: int | None
    consumed: bool = False


class Inbox:
    """Events that have reached a run, in their order."""

    def __init__(self) -> None:
        self._kept: list[Arrived] = []
        self._open: list[deque[Arrived]] = []

    def add(self, signal: dict[str, Any]) -> None:
        """Take what a signal brings."""
        arrived = Arrived(signal["event"], signal.get("key"))
        self._kept.append(arrived)
        for waiting in self._open:
            waiting.append(arrived)
        if len(self._kept) > _MOST_KEPT:
            self._forget()

    def _forget(self) -> None:
        self._kept = [one for one in self._kept if not one.consumed]
        surplus = len(self._kept) - _MOST_KEPT
        oldest = [one for one in self._kept if one.key is not None][: max(surplus, 0)]
        self._kept = [one for one in self._kept if one not in oldest]

    def open(self) -> deque[Arrived]:
        """Return a queue of what no task has consumed yet, and of all that will come."""
        waiting = deque(one for one in self._kept if not one.consumed)
        self._open.append(waiting)
        return waiting

    def close(self, waiting: deque[Arrived]) -> None:
        """Close a queue."""
        self._open = [one for one in self._open if one is not waiting]


async def next_of(waiting: deque[Arrived]) -> Arrived:
    """Wait for the next event of a queue."""
    if not waiting:
        await workflow.wait_condition(lambda: bool(waiting))
    return waiting.popleft()
