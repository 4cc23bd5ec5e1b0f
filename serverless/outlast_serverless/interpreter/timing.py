"""Deadlines of tasks: durable timers that interrupt what is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self

from outlast import workflow
from outlast_serverless.interpreter.faults import Fault
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND, from_datetime, later, microseconds


class Deadline(NamedTuple):
    """When the time of something is up. It is an instant, so it holds in the next run of the chain, too.

    Attributes:
        at_us: When, in microseconds since the epoch.
        seconds: How long it was given.
    """

    at_us: int
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Return the deadline of something that begins now.

        Args:
            seconds: How long it may take. Zero or less is up at once.
        """
        return cls(later(from_datetime(workflow.now()), microseconds(seconds)), seconds)

    @property
    def left(self) -> float:
        """How many seconds are left."""
        return (self.at_us - from_datetime(workflow.now())) / MICROSECONDS_PER_SECOND


@asynccontextmanager
async def limited(deadline: Deadline, label: str, fault: Callable[[], Fault]) -> AsyncGenerator[None]:
    """Interrupt what stands inside when its time is up, and raise an error instead.

    What is interrupted sees a cancellation, so no ``catch`` inside sees the error. Of two deadlines that pass at once,
    the outer one counts.

    Args:
        deadline: When its time is up. One that has passed is up at once.
        label: What the timer is called.
        fault: Makes the error.
    """
    task = asyncio.current_task()
    assert task is not None
    left = deadline.left
    if left <= 0:
        raise fault()
    expired = False

    def expire(timer: asyncio.Future[Any]) -> None:
        nonlocal expired
        if not timer.cancelled():
            expired = True
            task.cancel()

    cancelling = task.cancelling()
    timer = asyncio.ensure_future(workflow.sleep(left, summary=label))
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
