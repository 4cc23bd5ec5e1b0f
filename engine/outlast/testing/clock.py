"""Virtual time: an event loop that never waits, and the clock that reads it.

When nothing is ready, the loop does not sleep until its next timer but jumps there. Code that waits for 30 days
therefore takes only as long as its own work, and always runs in the same order.
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
"""The time at which a virtual clock starts by default."""

_START_S: Final = 1000
_THREADS_PATIENCE_S: Final = 5.0


class VirtualTimeError(RuntimeError):
    """Virtual time cannot continue: everything waits, and nothing can happen any more."""


class _Selector(selectors.BaseSelector):
    """The real selector, polled without waiting. Where the loop would wait, its time jumps instead."""

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
                    "everything waits, and nothing can happen any more: no callback is ready, and no timer is set"
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

    Pass it where a loop is created: ``asyncio.Runner(loop_factory=VirtualLoop)``, or as the ``loop_factory`` option of
    anyio's asyncio backend. Time does not wait for threads or for the network: a timer that guards them fires first.

    Args:
        horizon: How far time may go. A test that waits in vain fails then, instead of running forever.
    """

    def __init__(self, *, horizon: timedelta = timedelta(days=3653)) -> None:
        self._elapsed_us = _START_S * 1_000_000
        self._horizon_us = self._elapsed_us + horizon // timedelta(microseconds=1)
        super().__init__(_Selector(self))
        self._clock_resolution = MICROSECOND

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._elapsed_us / 1_000_000

    @property
    def elapsed_us(self) -> int:
        """The virtual time in whole microseconds."""
        return self._elapsed_us

    @property
    def uses_threads(self) -> bool:
        """Whether ``run_in_executor`` has been used, so that a thread may call back."""
        return getattr(self, "_default_executor", None) is not None

    def jump(self, seconds: float) -> None:
        """Let time pass at once. Timers that become due run in their order, all at the new time."""
        self._elapsed_us += max(1, round(seconds * 1_000_000))
        if self._elapsed_us > self._horizon_us:
            raise VirtualTimeError(
                "virtual time has reached its horizon: something waits in vain while timers continue"
            )


class VirtualClock:
    """The engine's clock on a :class:`VirtualLoop`: its monotonic reading is the loop's time, and UTC moves with it.

    Args:
        loop: The loop whose time it reads; by default the running one.
        start_at: The current time (aware).
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
        """Return the microseconds since the epoch, UTC."""
        return self._loop._elapsed_us + self._offset_us

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self._loop._elapsed_us / 1_000_000

    @property
    def utc(self) -> datetime:
        """The time as an aware datetime."""
        return to_datetime(self.now())

    def set(self, instant: datetime) -> None:
        """Set the wall clock. The monotonic clock continues, and no timer moves."""
        self._offset_us = from_datetime(instant) - self._loop.elapsed_us

    def jump(self, by: float | timedelta) -> None:
        """Move the wall clock alone, forward or back, as a correction by NTP or a resumed virtual machine does."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        self._offset_us += round(seconds * 1_000_000)
