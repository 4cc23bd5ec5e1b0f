"""The inbox of a run: events that have reached it, for the listen tasks that are open and for those to come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

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
    """Events that have reached a run, in their order.

    Args:
        carried: Those that reached the runs before it: what :meth:`carry` returned.

    Attributes:
        running: Whether the run has taken up what was carried. Until then nothing is forgotten.
    """

    def __init__(self, carried: Iterable[list[Any]] = ()) -> None:
        self._kept = [Arrived(*one) for one in carried]
        self._carried = len(self._kept)
        self._open: list[deque[Arrived]] = []
        self.running = False

    def add(self, signal: dict[str, Any]) -> None:
        """Take what a signal brings."""
        arrived = Arrived(signal["event"], signal.get("key"))
        self._kept.append(arrived)
        for waiting in self._open:
            waiting.append(arrived)
        if self.running and len(self._kept) > _MOST_KEPT:
            self._forget()

    def _forget(self) -> None:
        self._kept = [one for one in self._kept if not one.consumed]
        surplus = len(self._kept) - _MOST_KEPT
        oldest = [one for one in self._kept if one.key is not None][: max(surplus, 0)]
        self._kept = [one for one in self._kept if one not in oldest]

    def open(self, places: list[int] | None = None) -> deque[Arrived]:
        """Return a queue of what no task has consumed yet, and of all that will come.

        Args:
            places: Of a listen that goes on, what of that which was carried it has not looked at.
        """
        if places is None:
            waiting = deque(one for one in self._kept if not one.consumed)
        else:
            waiting = deque([*(self._kept[one] for one in places), *self._kept[self._carried :]])
        self._open.append(waiting)
        return waiting

    def close(self, waiting: deque[Arrived]) -> None:
        """Close a queue."""
        self._open = [one for one in self._open if one is not waiting]

    def pack(self, *, looks_back: bool) -> None:
        """Drop what the next run has no use for. Places are counted from then on.

        Args:
            looks_back: Whether a task may look at events of the bus from before it began.
        """
        queued = {id(one) for waiting in self._open for one in waiting}
        self._kept = [
            one
            for one in self._kept
            if id(one) in queued or (not one.consumed and (looks_back or one.key is None))
        ]
        known = {id(one) for one in self._kept}
        # What was forgotten here may still wait in a queue.
        self._kept = [
            *{id(one): one for waiting in self._open for one in waiting if id(one) not in known}.values(),
            *self._kept,
        ]
        self._carried = len(self._kept)

    def places(self, waiting: deque[Arrived]) -> list[int]:
        """Return the places of what waits in a queue, among what is carried."""
        known = {id(one): place for place, one in enumerate(self._kept)}
        return [known[id(one)] for one in waiting]

    def carry(self) -> list[list[Any]]:
        """Return what the next run needs, as JSON."""
        return [[one.event, one.key, one.consumed] for one in self._kept]
