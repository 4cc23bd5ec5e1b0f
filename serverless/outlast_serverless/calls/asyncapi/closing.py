"""Closing connections: it is done to its end also where whoever closes is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

_LONGEST_S: Final = 5.0


async def closed(closing: Coroutine[Any, Any, None], longest: float = _LONGEST_S) -> None:
    """Close something, or give up after a few seconds. A cancellation that comes meanwhile is raised after that.

    A worker that shuts down cancels an activity that was cancelled already; a half-closed connection would be left.

    Args:
        closing: Closes it.
        longest: How many seconds it may take.
    """
    task = asyncio.create_task(closing)
    loop = asyncio.get_running_loop()
    until, cancelled = loop.time() + longest, False
    while not task.done() and loop.time() < until:
        try:
            await asyncio.wait((task,), timeout=until - loop.time())
        except asyncio.CancelledError:
            cancelled = True
    if not task.done():
        # A library may wait for the end of what was never begun.
        task.cancel()
    elif not task.cancelled():
        # What goes wrong at the end changes nothing.
        task.exception()
    if cancelled:
        raise asyncio.CancelledError
