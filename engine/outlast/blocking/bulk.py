"""What a blocking client does to many workflows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

from outlast.blocking.thread import Caller
from outlast.client.bulk import Bulk, BulkOutcome
from outlast.histories.reset import ResetOptions


class BlockingBulk:
    """What may be done to all workflows that match; each method is an iterator of outcomes.

    See :class:`outlast.client.bulk.Bulk`.
    """

    def __init__(self, bulk: Bulk, caller: Caller) -> None:
        self._bulk = bulk
        self._caller = caller

    def cancel(self, reason: str | None = None) -> Iterator[BulkOutcome]:
        """Ask each to cancel; its code decides."""
        return self._caller.each(self._bulk.cancel(reason))

    def terminate(self, reason: str | None = None) -> Iterator[BulkOutcome]:
        """End each at once, without its code."""
        return self._caller.each(self._bulk.terminate(reason))

    def signal(self, signal: Any, *args: Any, request_id: str | None = None) -> Iterator[BulkOutcome]:
        """Send each a signal; with a ``request_id`` it arrives once, though the walk be made again."""
        return self._caller.each(self._bulk.signal(signal, *args, request_id=request_id))

    def reset(
        self, to: str | int = "last-workflow-task", **options: Unpack[ResetOptions]
    ) -> Iterator[BulkOutcome]:
        """Take each one's history up again at a point."""
        return self._caller.each(self._bulk.reset(to, **options))

    def delete(self) -> Iterator[BulkOutcome]:
        """Delete each chain whose last run matches and is closed."""
        return self._caller.each(self._bulk.delete())
