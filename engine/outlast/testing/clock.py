"""Virtual time: an event loop that never waits, and the clock that reads it.

When nothing is ready, the loop does not sleep until its next timer: it says that the time has come. So code that waits
for 30 days takes as long as what it does when it wakes up, and always does it in the same order.
"""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.times import from_datetime, to_datetime

MICROSECOND: Final = 1e-6
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Where a virtual clock starts if nobody says otherwise."""

_START_S: Final = 1000
_THREADS_PATIENCE_S: Final = 5.0


class VirtualTimeError(RuntimeError):
    """Virtual time can't go on: everything waits for something that nothing will bring."""


class _Selector(selectors.BaseSelector):
    """The real selector, asked without waiting; where the loop would wait, its time moves instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._real = selectors.DefaultSelector()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            ready = self._real.select(_THREADS_PATIENCE_S) if self._loop.uses_threads else []
            if not ready:
                raise VirtualTimeError(
                    "everything waits for something that nothing will bring: no callback is ready, no timer is set"
                )
            return ready
        self._loop.jump(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.get_key(fileobj)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose ``time()`` is virtual: when nothing is ready, it jumps to the next timer.

    Pass it wherever a loop is made: ``asyncio.Runner(loop_factory=VirtualLoop)``, or as the ``loop_factory`` option of
    anyio's asyncio backend. Time does not wait for threads or for the network: what a timer guards fires first.

    Args:
        horizon: How far time may go: a test that waits for nothing fails then, instead of running for ever.
    """

    def __init__(self, *, horizon: timedelta = timedelta(days=3653)) -> None:
        self._elapsed_us = _START_S * 1_000_000
        self._horizon_us = self._elapsed_us + horizon // timedelta(microseconds=1)
        super().__init__(_Selector(self))
        self._clock_resolution = MICROSECOND

    def time(self) -> float:
        """Virtual seconds."""
        return self._elapsed_us / 1_000_000

    @property
    def elapsed_us(self) -> int:
        """The same in whole microseconds."""
        return self._elapsed_us

    @property
    def uses_threads(self) -> bool:
        """Whether ``run_in_executor`` has been used: then somebody may call from a thread."""
        return getattr(self, "_default_executor", None) is not None

    def jump(self, seconds: float) -> None:
        """Let so much time pass at once. Timers that become due run in their order, all at the new time."""
        self._elapsed_us += max(1, round(seconds * 1_000_000))
        if self._elapsed_us > self._horizon_us:
            raise VirtualTimeError(
                "virtual time has reached its horizon: something waits for what never comes, while timers go on"
            )


class VirtualClock:
    """The engine's clock on a :class:`VirtualLoop`: its monotonic reading is the loop's time, and UTC moves with it.

    Args:
        loop: Whose time it reads; the running loop if not given.
        start_at: What time it is now (aware).
    """

    __slots__ = ("_loop", "_offset_us")

    def __init__(self, loop: VirtualLoop | None = None, *, start_at: datetime = EPOCH) -> None:
        if loop is None:
            running = asyncio.get_running_loop()
            if not isinstance(running, VirtualLoop):
                raise InvalidOptionError(
                    "a virtual clock needs a virtual loop: run the test with TestEnvironment.run(…), or with "
                    "asyncio.Runner(loop_factory=VirtualLoop)"
                )
            loop = running
        self._loop = loop
        self._offset_us = 0
        self.set(start_at)

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        return self._loop.elapsed_us + self._offset_us

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._loop.time()

    @property
    def utc(self) -> datetime:
        """The time as an aware datetime."""
        return to_datetime(self.now())

    def set(self, instant: datetime) -> None:
        """Set the wall clock; the monotonic one goes on as if nothing had happened, and no timer moves."""
        self._offset_us = from_datetime(instant) - self._loop.elapsed_us

    def jump(self, by: float | timedelta) -> None:
        """Move the wall clock alone, forward or back: what a correction by NTP or a leap of a virtual machine does."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        self._offset_us += round(seconds * 1_000_000)
