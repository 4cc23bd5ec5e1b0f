"""Heartbeats of calls and processes: a worker that falls silent is found long before the timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from outlast import activity

_PAUSE_S: Final = 5.0


@asynccontextmanager
async def beating(timeout: float | None) -> AsyncGenerator[None]:
    """Beat the heart of the running activity while what stands inside works; outside of one nothing beats.

    Args:
        timeout: How many seconds the activity may take, if that is limited.
    """
    if not activity.in_activity():
        yield
        return
    pause = _PAUSE_S if timeout is None else min(_PAUSE_S, timeout / 3)

    async def beat() -> None:
        while True:
            await asyncio.sleep(pause)
            activity.heartbeat()

    beats = asyncio.create_task(beat())
    try:
        yield
    finally:
        beats.cancel()
