"""Futures and tasks whose hashes come from the run's seed, not from memory addresses.

``asyncio`` keeps tasks in sets (``asyncio.wait``, ``TaskGroup``) and iterates them. With hashes made of addresses the
order differs between processes, and so would the commands. Here the n-th future of a run has the n-th hash of
its seed. The seed matters: ``asyncio`` also keeps the tasks of all runs of a process in one set, where equal hashes
collide.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator, Mapping
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger("outlast.workflow")

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0x0FFFFFFFFFFFFFFF


class Hashes:
    """The series of hashes of one run."""

    __slots__ = ("count", "salt")

    def __init__(self, seed: int) -> None:
        # The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): similar seeds give different salts.
        seed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        seed = (seed ^ seed >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        self.salt = seed ^ seed >> 31
        self.count = 0

    def next(self) -> int:
        """Return the next hash: spread by Fibonacci hashing, salted with the seed."""
        self.count += 1
        return (self.count * _GOLDEN ^ self.salt) & _MASK


class DeterministicFuture(asyncio.Future[T]):
    """A future of a workflow's loop."""

    __slots__ = ("_hash",)

    def __init__(self, hashes: Hashes, loop: asyncio.AbstractEventLoop) -> None:
        # As `Hashes.next`, without the call.
        hashes.count = count = hashes.count + 1
        self._hash = (count * _GOLDEN ^ hashes.salt) & _MASK
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._hash


class DeterministicTask(asyncio.Task[T]):
    """A task of a workflow's loop. It keeps the context that its coroutine runs in, for eviction."""

    __slots__ = ("_hash", "context")

    def __init__(
        self,
        hashes: Hashes,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        loop: asyncio.AbstractEventLoop,
        name: str | None,
        context: Context,
    ) -> None:
        # As `Hashes.next`, without the call.
        hashes.count = count = hashes.count + 1
        self._hash = (count * _GOLDEN ^ hashes.salt) & _MASK
        self.context = context
        super().__init__(
            coro, loop=loop, name=f"task-{count}" if name is None else str(name), context=context
        )
        # Their loop holds tasks, so one is destroyed unfinished only when its process ends; that needs no log line.
        self._log_destroy_pending = False

    def __hash__(self) -> int:
        return self._hash


class DurableFuture(DeterministicFuture[T]):
    """What a durable call returns: a future that also acts as the coroutine it is declared to be.

    A loop's ``create_task`` (and so ``TaskGroup``) returns it as it is: the call is already under way, and a task
    around it would only add cost. The few methods of tasks that it therefore needs are here.
    """

    __slots__ = ("_name",)

    def get_name(self) -> str:
        """Return the name given to ``create_task``, or the default name."""
        name: str | None = getattr(self, "_name", None)
        return name if name is not None else self.default_name()

    def set_name(self, value: object) -> None:
        """Set the name, as of a task."""
        self._name = str(value)

    def default_name(self) -> str:
        """Return what the call is, in a word or two."""
        return type(self).__name__

    def close(self) -> None:
        """Cancel the call, as closing a coroutine that was never awaited does."""
        self.cancel()


def log_unawaited(context: Mapping[str, Any], workflow_id: str, run_id: str) -> None:
    """Log the exception of a future that was never awaited. Those of durable calls are in history already."""
    if not isinstance(context.get("future"), DurableFuture):
        logger.error(
            "workflow %s: %s",
            workflow_id,
            context.get("message"),
            exc_info=context.get("exception"),
            extra={"workflow_id": workflow_id, "run_id": run_id},
        )
