"""Looking without touching: how queries, validators and ``wait_condition`` predicates are kept from changing a run.

While a :class:`Looking` is open, the queue of the loop and the list of commands refuse whatever is added, so nothing
can be scheduled, woken or asked for, by whatever way; and the functions of ``outlast.workflow`` say so before they
try. What was tried is noted even if the code swallows the exception: a machine in which it happened is not to be
trusted any more (:attr:`Looking.violated`). Attributes that user code sets on its own objects can't be guarded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NoReturn, Self

from outlast_workflow.errors.task import ReadOnlyContextError
from outlast_workflow.history.events import Event
from outlast_workflow.loop.command_log import CommandLog


class _RefusingQueue(deque[asyncio.Handle]):
    looking: Looking

    def append(self, handle: asyncio.Handle, /) -> NoReturn:
        self.looking.refuse("wake a task or schedule a callback")


class _RefusingList(list[Event | None]):
    looking: Looking

    def append(self, command: Event | None, /) -> NoReturn:
        self.looking.refuse("make a durable call")

    def __setitem__(self, index: Any, value: Any, /) -> NoReturn:
        self.looking.refuse("take back a durable call")


class Looking:
    """A stretch of code of a run that may only look.

    Args:
        loop: The run's loop, at rest.
        what: What it is, as messages call it: ``query 'status'``.
    """

    __slots__ = ("_entries", "_hash_count", "_last_id", "_log", "_loop", "_ready", "violated", "what")

    def __init__(self, loop: Any, what: str) -> None:
        self._loop = loop
        self._log: CommandLog = loop.log
        self.what = what
        self.violated: ReadOnlyContextError | None = None

    def __enter__(self) -> Self:
        loop, log = self._loop, self._log
        self._ready, self._entries = loop.ready, log.entries
        self._last_id, self._hash_count = log.last_id, loop.hashes.count
        queue, entries = _RefusingQueue(), _RefusingList()
        queue.looking = entries.looking = self
        loop.ready, log.entries, log.looking = queue, entries, self
        return self

    def __exit__(self, *exc_info: object) -> None:
        loop, log = self._loop, self._log
        loop.ready, log.entries, log.looking = self._ready, self._entries, None
        log.last_id, loop.hashes.count = self._last_id, self._hash_count

    def refuse(self, act: str) -> NoReturn:
        """Say no, and remember that it was tried."""
        error = ReadOnlyContextError(
            f"{self.what} tried to {act}: it may only look; do it in the run method, a signal or an update"
        )
        if self.violated is None:
            self.violated = error
        raise error
