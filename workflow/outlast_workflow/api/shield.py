"""``workflow.shield``: finishing a piece of work even if it is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from outlast_workflow.api.context import current_machine

T = TypeVar("T")


async def shield(work: Coroutine[Any, Any, T]) -> T:
    """Finish a piece of work, even if the workflow (or the task around it) is cancelled meanwhile.

    The cancellation is not lost: it is raised when the work has ended. (``asyncio.shield`` raises it at once and lets
    the work continue by itself; that works too.) A cancellation *inside* the work, by a timeout for example, is not
    held back.

    Args:
        work: A durable call, or a coroutine of your own.

    Returns:
        The result of the work.

    Raises:
        asyncio.CancelledError: The caller was cancelled meanwhile.
        BaseException: The work itself raised; this takes precedence over a cancellation.
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
