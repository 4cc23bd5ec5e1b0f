"""``workflow.sleep``: a durable wait that is numbered when it is requested."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast_workflow.loop.futures import DurableFuture
from outlast_workflow.loop.loop import DeterministicLoop


class SleepFuture(DurableFuture[None]):
    """A durable sleep under way."""

    __slots__ = ("timer",)

    def __init__(self, loop: DeterministicLoop, seconds: float, summary: str | None = None) -> None:
        super().__init__(loop.hashes, loop)
        self.timer: asyncio.TimerHandle | None = loop.call_later(seconds, self.wake, summary=summary)

    def wake(self) -> None:
        """End the sleep: its timer has fired."""
        # The timer holds this method, and so this future.
        self.timer = None
        if not self.done():
            self.set_result(None)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the sleep and its timer."""
        if self.done():
            return False
        if self.timer is not None:
            self.timer.cancel()
        return super().cancel(msg)

    def default_name(self) -> str:
        """Return ``sleep``."""
        return "sleep"
