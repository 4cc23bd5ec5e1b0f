"""The write lock of a SQLite file within one process: the journal and the guests have it in turn.

SQLite has one writer. A guest (:mod:`outlast_store.database.guests`) writes on a thread, as long as user code takes.
Meanwhile the journal, which commits on the event loop, must not wait for the file, because the loop would stand still.
So whoever writes in this process has this lock first. Those who wait get it in the order in which they came, on the
loop, which goes on meanwhile. The file's own lock keeps other processes apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class WriteLock:
    """A lock that is asked for and released on one event loop; nobody blocks on it."""

    __slots__ = ("_waiting", "held")

    def __init__(self) -> None:
        self.held = False
        """Whether somebody has it. The journal's batches, which run within one callback, need it only then."""
        self._waiting: deque[Callable[[], None]] = deque()

    def acquire(self, granted: Callable[[], None]) -> None:
        """Call ``granted`` once the lock is the caller's: now, or when those before have released it."""
        if self.held:
            self._waiting.append(granted)
        else:
            self.held = True
            granted()

    def release(self) -> None:
        """Give the lock to the one who has waited longest."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self.held = False
