"""The loop of the kit: virtual time that waits for what is outside, and processes in it that may die.

Time passes at once, but not while a call or a process that an activity waits for is under way: that takes real time. A
server that hangs says so, and time passes again.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar, copy_context
from datetime import timedelta
from typing import Any, Final
from weakref import WeakSet

from outlast.testing import VirtualLoop, VirtualTimeError

PATIENCE_S: Final = 60.0
"""How long what is outside may take, in real seconds, before the kit gives up."""


class Crashed(BaseException):
    """The process that runs this is gone."""


class Life:
    """The life of a process: its tasks, and whether it is over."""

    def __init__(self) -> None:
        self.dead = False
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()

    def context(self) -> Context:
        """Return a context whose tasks, and theirs, belong to this life."""
        context = copy_context()
        context.run(_LIFE.set, self)
        return context


_LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


class KitLoop(VirtualLoop):
    """See the module.

    Attributes:
        hanging: How many of those outside say that they hang.
    """

    def __init__(self) -> None:
        super().__init__(horizon=timedelta(days=365 * 900))
        self._waited_for = 0
        self.hanging = 0
        self._selector: Any = _Patient(self._selector, self)
        made: Any = _made
        self.set_task_factory(made)

    @property
    def waits(self) -> bool:
        """Whether time stands still until something outside has happened."""
        return self._waited_for > self.hanging

    @asynccontextmanager
    async def outside(self) -> AsyncGenerator[None]:
        """Let no time pass while what stands inside is under way."""
        self._waited_for += 1
        try:
            yield
        finally:
            self._waited_for -= 1
            while self.hanging > self._waited_for:  # noqa: ASYNC110  # another thread says so
                # Who hung is about to see that nobody waits any more.
                await asyncio.sleep(0)

    def hang(self, by: int) -> None:
        """Count one more, or one less, of those outside that hang. Any thread may call it."""
        with _HANGING:
            self.hanging += by
        if not self.is_closed():
            self.call_soon_threadsafe(lambda: None)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """As ever, but for what the dead leave."""
        if not isinstance(context.get("exception"), Crashed):
            super().call_exception_handler(context)


_HANGING = threading.Lock()


def _made(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **more: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **more)
    context: Context | None = more.get("context")
    life = _LIFE.get() if context is None else context.get(_LIFE)
    if life is not None:
        life.tasks.add(task)
        if life.dead:
            task.cancel()
    return task


class _Patient:
    """A selector that waits for real while the loop waits for something outside."""

    def __init__(self, virtual: Any, loop: KitLoop) -> None:
        self._virtual = virtual
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._virtual, name)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0 or not self._loop.waits:
            found: list[tuple[selectors.SelectorKey, int]] = self._virtual.select(timeout)
            return found
        ready: list[tuple[selectors.SelectorKey, int]] = self._virtual._real.select(PATIENCE_S)
        if not ready:
            raise VirtualTimeError(f"what is outside has not answered within {PATIENCE_S:g} s")
        return ready
