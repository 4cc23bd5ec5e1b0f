"""Closing a run's loop so that nothing is left to the garbage collector.

A collector would close suspended coroutines at any time, on any thread, and run their ``finally`` blocks there. So each
coroutine is closed here, in its own context and with its own loop running: ``GeneratorExit`` at its ``await``, which
runs ``finally`` blocks and ``async with`` exits but no ``except Exception`` and no handler of cancellation. Code that
awaits on its way out is closed again there. The log of commands is closed before, so no durable call can be made.

Then the tasks, now around closed coroutines, are cancelled and stepped to their end, so that no task, future or
callback keeps another alive.
"""

from __future__ import annotations

import logging
import sys
from asyncio import events
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any

from holdfast_workflow.loop import DeterministicLoop

logger = logging.getLogger("holdfast.workflow")

_MAX_CLOSES = 100
"""How many awaits on its way out a coroutine may make before it is given up."""


def close_loop(loop: DeterministicLoop, whose: str) -> None:
    """Close everything that runs on a loop, then the loop."""
    outer_loop = events._get_running_loop()
    outer_hooks = sys.get_asyncgen_hooks()
    events._set_running_loop(loop)
    sys.set_asyncgen_hooks(loop.hold_generator, None)
    loop.closing = True
    try:
        tasks = [task for task in loop.tasks if not task.done()]
        for task in tasks:
            coroutine: Any = task.get_coro()
            if not _closed(partial(task.context.run, coroutine.close)):
                logger.error(
                    "workflow %s: %r does not end when it is evicted: it swallows GeneratorExit", whose, task
                )
        for generator in loop.generators:
            _close_generator(generator)
        for task in reversed(
            tasks
        ):  # whoever awaits a task was made before it: no cancellation has far to go
            task.cancel()
        loop.drain()
    finally:
        sys.set_asyncgen_hooks(*outer_hooks)
        events._set_running_loop(outer_loop)
        loop.shut()


def _closed(close: Callable[[], object]) -> bool:
    """Close until there is nothing left to close; false if it never ends."""
    for _ in range(_MAX_CLOSES):
        try:
            close()
        except RuntimeError as error:
            if "ignored GeneratorExit" in str(error):
                continue
        except (
            BaseException
        ):  # what its way out raises concerns nobody: the run is not ending, it is leaving memory
            pass
        return True
    return False


def _close_generator(generator: AsyncGenerator[Any, Any]) -> None:
    """Close an asynchronous generator that nobody iterates any more."""

    async def close() -> None:
        await generator.aclose()

    coroutine = close()
    try:
        coroutine.send(None)
    except BaseException:
        return
    _closed(coroutine.close)
