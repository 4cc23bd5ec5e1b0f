"""``workflow.shield``: a piece of work that is done to its end, whatever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from outlast_workflow.api.context import current_machine

T = TypeVar("T")


async def shield(work: Coroutine[Any, Any, T]) -> T:
    """Do a piece of work to its end, even if the workflow (or the task around it) is cancelled meanwhile.

    The cancellation is not lost: it is raised when the work has ended. (``asyncio.shield`` raises it at once and lets
    the work go on by itself; that works too.) What is cancelled *inside*, by a timeout for example, is so as ever.

    Args:
        work: A durable call, or a coroutine of your own.

    Returns:
        What the work returned.

    Raises:
        asyncio.CancelledError: A cancellation came meanwhile.
        BaseException: The work itself raised; that goes before a cancellation.
    """
    loop = current_machine().loop
    inner = loop.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not inner.done():
        try:
            await asyncio.wait((inner,))
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    result = inner.result()
    if cancelled is not None:
        raise cancelled
    return result
