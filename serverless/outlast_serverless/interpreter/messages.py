"""Messages of subscriptions: they reach the run as signals, each for the execution of a task that subscribes."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

MESSAGE: Final = "serverless.message"
"""The signal that brings a message."""
TAKEN: Final = "serverless.taken"
"""The query that tells how many messages an execution has begun with."""


class Mailbox:
    """The messages of one execution, in their order.

    Attributes:
        waiting: Those that it has not begun with.
        taken: How many it has begun with.
    """

    __slots__ = ("taken", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Any] = deque()
        self.taken = 0

    def take(self) -> Any:
        """Return the next message that waits."""
        self.taken += 1
        return self.waiting.popleft()


class Mailboxes:
    """The mailboxes of a run, by execution. What comes for one that is not there is dropped: its task has ended."""

    def __init__(self) -> None:
        self._open: dict[str, Mailbox] = {}

    def open(self, execution: str) -> Mailbox:
        """Return a new mailbox."""
        self._open[execution] = Mailbox()
        return self._open[execution]

    def close(self, execution: str) -> None:
        """Close a mailbox."""
        self._open.pop(execution, None)

    def add(self, arrived: dict[str, Any]) -> None:
        """Take what a signal brings."""
        found = self._open.get(str(arrived["execution"]))
        if found is not None:
            found.waiting.append(arrived["message"])

    def taken(self, execution: str) -> int:
        """Return how many messages an execution has begun with."""
        found = self._open.get(execution)
        return 0 if found is None else found.taken
