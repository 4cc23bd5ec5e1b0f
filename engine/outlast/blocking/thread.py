"""The background thread that blocking clients share: one event loop, from the first client to the last."""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from outlast_workflow.errors import ForkedConnectionError, JournalClosedError
from outlast_workflow.errors.context import BlockedLoopError

T = TypeVar("T")


class LoopThread:
    """The process's background event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._main, name="outlast-blocking", daemon=True)
        self._thread.start()
        self._started.wait()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._started.set)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def stop(self) -> None:
        """End the thread. No call may be in progress."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread's loop and wait for it; it is cancelled if the caller is interrupted."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


class Shared:
    """The users of the thread. It is replaced in a forked child, where the parent's thread does not exist."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: LoopThread | None = None
        self.users = 0

    def enter(self) -> LoopThread:
        """Add a user, and return the thread; the first user starts it."""
        with self.lock:
            if self.thread is None:
                self.thread = LoopThread()
            self.users += 1
            return self.thread

    def leave(self) -> None:
        """Remove a user; the last one ends the thread."""
        with self.lock:
            self.users -= 1
            if self.users == 0 and self.thread is not None:
                self.thread.stop()
                self.thread = None


_shared = Shared()


def _in_child() -> None:
    global _shared
    _shared = Shared()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def refuse_on_a_loop() -> None:
    """Raise if the caller is on an event loop.

    Raises:
        BlockedLoopError: It is.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise BlockedLoopError


class Caller(ABC):
    """How a blocking client reaches the event loop that its work is done on."""

    @property
    @abstractmethod
    def forked(self) -> bool:
        """Whether this is not the process that connected."""

    @abstractmethod
    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop and wait for it.

        Args:
            work: Makes the coroutine.

        Raises:
            BlockedLoopError: The caller is on an event loop.
            ForkedConnectionError: The process was forked since the client connected.
            JournalClosedError: The client was closed.
        """

    @abstractmethod
    def leave(self) -> None:
        """Stop using the loop."""

    def each(self, found: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items of an asynchronous iterator; it advances only when the next item is requested."""

        async def following() -> list[T]:
            async for one in found:
                return [one]
            return []

        while some := self.call(following):
            yield some[0]


class ThreadCaller(Caller):
    """One client's access to the background thread."""

    def __init__(self) -> None:
        self._pid: Final = os.getpid()
        self._shared: Final = _shared
        self._thread: LoopThread | None = _shared.enter()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the thread's loop and wait for it."""
        refuse_on_a_loop()
        if self.forked:
            raise ForkedConnectionError
        if self._thread is None:
            raise JournalClosedError
        return self._thread.call(work())

    @property
    def forked(self) -> bool:
        """Whether this is not the process that connected."""
        return os.getpid() != self._pid

    def leave(self) -> None:
        """Stop using the thread."""
        if self._thread is not None:
            self._thread = None
            self._shared.leave()
