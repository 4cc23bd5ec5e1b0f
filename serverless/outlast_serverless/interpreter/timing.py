"""Deadlines of tasks: durable timers that interrupt what is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from outlast import workflow
from outlast_serverless.interpreter.faults import Fault


@asynccontextmanager
async def limited(seconds: float, label: str, fault: Callable[[], Fault]) -> AsyncGenerator[None]:
    """Interrupt what stands inside when its time is up, and raise an error instead.

    What is interrupted sees a cancellation, so no ``catch`` inside sees the error. Of two deadlines that pass at once,
    the outer one counts.

    Args:
        seconds: How long it may take. Zero or less is up at once.
        label: What the timer is called.
        fault: Makes the error.
    """
    task = asyncio.current_task()
    assert task is not None
    if seconds <= 0:
        raise fault()
    expired = False

    def expire(timer: asyncio.Future[Any]) -> None:
        nonlocal expired
        if not timer.cancelled():
            expired = True
            task.cancel()

    cancelling = task.cancelling()
    timer = asyncio.ensure_future(workflow.sleep(seconds, summary=label))
    timer.add_done_callback(expire)
    try:
        yield
    except asyncio.CancelledError:
        if expired and task.uncancel() <= cancelling:
            raise fault() from None
        raise
    finally:
        timer.remove_done_callback(expire)
        timer.cancel()
    if expired and task.uncancel() <= cancelling:
        # The cancellation was on its way when the last task ended.
        raise fault()
