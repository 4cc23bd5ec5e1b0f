"""Calls from a context in which they cannot be made."""

from __future__ import annotations

from outlast_workflow.errors.root import OutlastError


class BlockedLoopError(OutlastError, RuntimeError):
    """The blocking client was called on an event loop, which it would block."""

    def __init__(self) -> None:
        super().__init__(
            "the blocking client was called on an event loop, which it would block: use `await` with outlast.Client "
            "there, or call it in a thread (asyncio.to_thread)"
        )


class NotInActivityError(OutlastError, RuntimeError):
    """A function for activity code was called outside an activity."""
