"""Read-only sections: how queries, validators and ``wait_condition`` predicates are kept from changing a run.

While a :class:`ReadOnlySection` is open, the loop's queue and the list of commands refuse every addition, so nothing
can be scheduled, woken or requested in any way. The functions of ``outlast.workflow`` refuse before they try. An
attempt is noted even if the code swallows the exception, because the machine can no longer be trusted
(:attr:`ReadOnlySection.violated`). Attributes that user code sets on its own objects cannot be guarded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NoReturn, Self

from outlast_workflow.errors.task import ReadOnlyContextError
from outlast_workflow.history.events import Event
from outlast_workflow.loop.command_log import CommandLog


class _RefusingQueue(deque[asyncio.Handle]):
    section: ReadOnlySection

    def append(self, handle: asyncio.Handle, /) -> NoReturn:
        self.section.refuse("wake a task or schedule a callback")


class _RefusingList(list[Event | None]):
    section: ReadOnlySection

    def append(self, command: Event | None, /) -> NoReturn:
        self.section.refuse("make a durable call")

    def __setitem__(self, index: Any, value: Any, /) -> NoReturn:
        self.section.refuse("take back a durable call")


class ReadOnlySection:
    """A section of a run's code that must not change the run.

    Args:
        loop: The run's loop, at rest.
        what: Its name in messages, such as ``query 'status'``.
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
        queue.section = entries.section = self
        loop.ready, log.entries, log.read_only = queue, entries, self
        return self

    def __exit__(self, *exc_info: object) -> None:
        loop, log = self._loop, self._log
        loop.ready, log.entries, log.read_only = self._ready, self._entries, None
        log.last_id, loop.hashes.count = self._last_id, self._hash_count

    def refuse(self, act: str) -> NoReturn:
        """Raise ReadOnlyContextError, and note the attempt."""
        error = ReadOnlyContextError(
            f"{self.what} tried to {act}: it is read-only; do it in the run method, a signal or an update"
        )
        if self.violated is None:
            self.violated = error
        raise error
