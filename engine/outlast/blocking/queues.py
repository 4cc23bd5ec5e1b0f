"""Queues, for code without an event loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from outlast.blocking.thread import Caller
from outlast.queues.descriptions import QueueDescription
from outlast.queues.queues import Queues
from outlast_workflow.options.other_names import explained
from outlast_workflow.options.queues import QueueOptions
from outlast_workflow.options.validation import IfExists


class BlockingQueues:
    """The queues of one database. See ``queues`` of :class:`outlast.Client`, which has the same methods and errors."""

    def __init__(self, queues: Queues, caller: Caller) -> None:
        self._queues = queues
        self._caller = caller

    @explained("define", "queues.define('mails', concurrency=5)")
    def define(
        self, name: str, *, if_exists: IfExists = "error", **limits: Unpack[QueueOptions]
    ) -> QueueDescription:
        """Define a queue; what is not given is not limited. See :meth:`outlast.queues.queues.Queues.define`."""
        return self._caller.call(lambda: self._queues.define(name, if_exists=if_exists, **limits))

    @explained("update", "queues.update('mails', concurrency=5)")
    def update(self, name: str, **limits: Unpack[QueueOptions]) -> QueueDescription:
        """Change the limits that are given. See :meth:`outlast.queues.queues.Queues.update`."""
        return self._caller.call(lambda: self._queues.update(name, **limits))

    @explained("pause", "queues.pause('mails', 'why')")
    def pause(self, name: str, note: str | None = None) -> None:
        """Admit nothing from a queue until it is resumed. See :meth:`outlast.queues.queues.Queues.pause`."""
        self._caller.call(lambda: self._queues.pause(name, note))

    @explained("resume", "queues.resume('mails')")
    def resume(self, name: str) -> None:
        """Admit from a paused queue again."""
        self._caller.call(lambda: self._queues.resume(name))

    def delete(self, name: str) -> None:
        """Delete a queue in which nothing waits and of which nothing holds a slot."""
        self._caller.call(lambda: self._queues.delete(name))

    def describe(self, name: str) -> QueueDescription:
        """Describe a queue: its limits, and what is in it now."""
        return self._caller.call(lambda: self._queues.describe(name))

    @explained("list", "queues.list()")
    def list(self, *, after: str = "", limit: int | None = None) -> Sequence[QueueDescription]:
        """Return the queues, by name.

        Args:
            after: Only those whose names come after this one.
            limit: How many at most; ``None`` for all.
        """
        return self._caller.call(lambda: self._queues.list(after=after, limit=limit))
