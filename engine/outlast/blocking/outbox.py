"""The outbox, for code without an event loop."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.blocking.thread import Caller
from outlast.outbox.outbox import Outbox, OutboxEntry, OutboxState, OutboxSummary


class BlockingOutbox:
    """The outbox of one database. See ``outbox`` of :class:`outlast.Client`, which has the same methods and errors."""

    def __init__(self, outbox: Outbox, caller: Caller) -> None:
        self._outbox = outbox
        self._caller = caller

    def list(
        self, *, state: OutboxState | None = None, after: int = 0, limit: int = 100
    ) -> Sequence[OutboxEntry]:
        """Return a page of rows, in their order. See :meth:`outlast.outbox.outbox.Outbox.list`.

        Args:
            state: Only rows that are ``waiting``, or only ``refused`` ones.
            after: The number of the row to begin after.
            limit: Rows at most.
        """
        return self._caller.call(lambda: self._outbox.list(state=state, after=after, limit=limit))

    def summary(self) -> OutboxSummary:
        """Return how much is in the outbox."""
        return self._caller.call(self._outbox.summary)

    def retry(self, outbox_id: int) -> None:
        """Let a refused row wait again, and apply it."""
        self._caller.call(lambda: self._outbox.retry(outbox_id))

    def delete(self, outbox_id: int) -> None:
        """Delete a row: what it asks for never happens."""
        self._caller.call(lambda: self._outbox.delete(outbox_id))

    def drain(self) -> int:
        """Apply what waits now, and return how many rows were applied."""
        return self._caller.call(self._outbox.drain)
