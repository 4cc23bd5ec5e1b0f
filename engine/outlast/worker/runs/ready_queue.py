"""The ready queue: work for callbacks of the event loop, a few milliseconds of it per iteration."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from outlast_workflow.environment import Clock

logger = logging.getLogger("outlast.worker")

TURN_S: Final = 0.005
"""How long the queue holds the event loop before commits, handlers and other code get their turn."""


class ReadyQueue:
    """Runs actions in order, never inside an asyncio task, and lets the loop go round after :data:`TURN_S`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._monotonic = clock.monotonic
        self._ready: deque[Callable[[], None]] = deque()
        self._scheduled = False

    def enqueue(self, action: Callable[[], None]) -> None:
        """Run an action behind those that wait."""
        self._ready.append(action)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def call_at(self, at: int, action: Callable[[], None]) -> None:
        """Run an action outside the queue at an instant; immediately if that has passed.

        Args:
            at: The instant, in microseconds of the engine's clock.
            action: What to run.
        """
        wait = at - self._clock.now()
        if wait <= 0:
            action()
        else:
            self._loop.call_later(wait / 1_000_000, action)

    def _turn(self) -> None:
        ready, monotonic = self._ready, self._monotonic
        end = monotonic() + TURN_S
        while ready:
            action = ready.popleft()
            try:
                action()
            except Exception:
                logger.exception("a workflow task could not be handed over")
            if ready and monotonic() >= end:
                self._loop.call_soon(self._turn)
                return
        self._scheduled = False
