"""Closing a run's loop so that nothing is left for the garbage collector.

The collector would close suspended coroutines at any time, on any thread, and run their ``finally`` blocks there. So
each coroutine is ended here, in its own context and with its own loop running: :class:`RunEvicted` is raised at its
``await``, which runs ``finally`` blocks and ``async with`` exits but no ``except Exception`` and no handler of
cancellation. If the code awaits on its way out, the exception is raised again; a durable call there does nothing.
(``coroutine.close()`` would not do: it closes each coroutine of a chain of awaits by itself, and leaves one that awaits
on its way out suspended.)

Then the tasks, whose coroutines have ended, are cancelled and stepped to their end, so that no task, future or callback
keeps another alive.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio import events
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from operator import methodcaller
from typing import Any

from outlast_workflow.loop.futures import DeterministicTask, DurableFuture
from outlast_workflow.loop.loop import DeterministicLoop

logger = logging.getLogger("outlast.workflow")

_DONE = methodcaller("done")
_MOST_THROWS = 100
"""How many times a coroutine may await on its way out before eviction gives up on it."""


class RunEvicted(BaseException):
    """Raised where a run's code waits when the run is evicted. A ``BaseException``, because code must not catch it."""


def close_loop(loop: DeterministicLoop, calls: Iterable[asyncio.Future[Any]], whose: str) -> None:
    """End everything that runs on a loop, then the loop.

    Args:
        loop: The loop.
        calls: The durable calls that are under way.
        whose: The workflow id, for the log.
    """
    calls = tuple(calls)
    pending: object = calls or loop.ready or loop.timers or loop.conditions or loop.generators
    # A run that has finished by itself has nothing to end.
    if not pending and all(map(_DONE, loop.tasks)):
        _forget_tracebacks(loop.tasks)
        loop.shut()
        return
    outer_loop = events._get_running_loop()
    outer_hooks = sys.get_asyncgen_hooks()
    events._set_running_loop(loop)
    loop.closing = True
    suspended = bool(loop.generators)
    for task in loop.tasks:
        suspended = suspended or not task.done()
    # Audit hooks are notified of each change of these hooks, which a run that has ended can skip.
    if suspended:
        sys.set_asyncgen_hooks(loop.hold_generator, None)
    try:
        # The list may grow on the way.
        for task in loop.tasks:
            coroutine: Any = task.get_coro()
            if not task.done() and not _ended(partial(task.context.run, coroutine.throw)):
                logger.error(
                    "workflow %s: %r does not end when it is evicted: it swallows BaseException", whose, task
                )
        for generator in loop.generators:
            _end_generator(generator)
        for future in [*calls, *_sleeps(loop)]:
            future.cancel()
        for waiting in tuple(loop.conditions):
            waiting.cancel()
        # A task was created before those that it awaits, so in this order each cancellation has only one step to go.
        for task in reversed(loop.tasks):
            task.cancel()
        loop.drain()
        _forget_tracebacks(loop.tasks)
    finally:
        if suspended:
            sys.set_asyncgen_hooks(*outer_hooks)
        events._set_running_loop(outer_loop)
        loop.shut()


def _sleeps(loop: DeterministicLoop) -> list[asyncio.Future[Any]]:
    """Return the durable calls that timers would resolve."""
    owners = [getattr(getattr(timer, "_callback", None), "__self__", None) for timer in loop.timers.values()]
    return [owner for owner in owners if isinstance(owner, DurableFuture)]


def _forget_tracebacks(tasks: Iterable[DeterministicTask[Any]]) -> None:
    """Drop the frames of exceptions: their locals may hold the task that failed."""
    errors: list[BaseException | None] = [
        task.exception() for task in tasks if task.done() and not task.cancelled()
    ]
    while errors:
        error = errors.pop()
        if error is not None and error.__traceback__ is not None:
            error.__traceback__ = None
            errors += [error.__cause__, error.__context__]
            if isinstance(error, BaseExceptionGroup):
                errors += error.exceptions


def _ended(throw: Callable[[BaseException], object]) -> bool:
    """Raise at each await in turn until the coroutine ends; return False if it never does."""
    for _ in range(_MOST_THROWS):
        try:
            throw(RunEvicted())
        # What the code raises on its way out does not matter: the run is not ending, only leaving memory.
        except BaseException:
            return True
    return False


def _end_generator(generator: AsyncGenerator[Any, Any]) -> None:
    """End an asynchronous generator that is no longer iterated."""

    async def end() -> None:
        await generator.athrow(RunEvicted())

    coroutine = end()
    try:
        coroutine.send(None)
    except BaseException:
        return
    _ended(coroutine.throw)
