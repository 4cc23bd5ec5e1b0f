"""The pump: does what is ready in loop callbacks, a few milliseconds a turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from outlast_workflow.environment import Clock

logger = logging.getLogger("outlast.worker")

TURN = 0.005


class ReadyQueue:
    """Runs actions in order, never inside a task, and lets the loop go round after :data:`TURN` seconds of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._monotonic = clock.monotonic
        self._ready: deque[Callable[[], None]] = deque()
        self._scheduled = False

    def enqueue(self, action: Callable[[], None]) -> None:
        """Do it soon."""
        self._ready.append(action)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        ready, monotonic = self._ready, self._monotonic
        end = monotonic() + TURN
        while ready:
            action = ready.popleft()
            try:
                action()
            except Exception:
                logger.exception("a workflow task could not be handed over")
            if monotonic() >= end:
                break
        if ready:
            self._loop.call_soon(self._turn)
        else:
            self._scheduled = False
