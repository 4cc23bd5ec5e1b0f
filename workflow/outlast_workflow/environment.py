"""The one source of time, ids, randomness and threads.

Code that is not a pure function of the database uses the :class:`Environment` that it was given, never the standard
library. A test or a simulation passes another one, and the whole engine runs on a virtual clock, with seeded ids, in
one thread.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that can jump (UTC) and one that cannot."""

    def now(self) -> int:
        """Return the microseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; comparable only within this process."""
        ...


class SystemClock:
    """The machine's own clocks or, once it follows a database, the database's clock advanced by the monotonic one.

    Setting the machine's clock then has no effect: between two measurements only the monotonic clock counts.
    """

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset: int | None = None

    def follow(self, offset: int) -> None:
        """From now on, run ahead of the monotonic clock by this many microseconds."""
        self._offset = offset

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        offset = self._offset
        return time.time_ns() // 1000 if offset is None else time.monotonic_ns() // 1000 + offset

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


class Ids:
    """Time-ordered UUIDv7 (RFC 9562), strictly rising within the process.

    Rising ids make every insert an append at the right-hand edge of its index; random ones touch a page each.
    The 74 bits below the millisecond are a 32-bit counter, seeded at random each millisecond, and 42 random bits.
    """

    __slots__ = ("_clock", "_counter", "_head", "_head_of", "_millisecond", "_random")

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._random = rng
        self._millisecond = 0
        self._counter = 0
        self._head_of = (0, 0)
        self._head = ""

    def next(self) -> str:
        """Return the next id, as canonical text."""
        millisecond = self._clock.now() // 1000
        if millisecond > self._millisecond:
            self._millisecond = millisecond
            self._counter = self._random.getrandbits(31)
        else:
            self._counter += 1
            if self._counter >> 32:
                self._millisecond += 1
                self._counter = self._random.getrandbits(31)
        counter = self._counter
        # The head usually changes once a millisecond: it is built once for all ids that share it.
        head_of = (self._millisecond, counter >> 20)
        if head_of != self._head_of:
            self._head_of = head_of
            text = f"{(self._millisecond & 0xFFFFFFFFFFFF) << 16 | 0x7000 | counter >> 20:016x}"
            self._head = f"{text[:8]}-{text[8:12]}-{text[12:]}"
        tail = f"{0b10 << 62 | (counter & 0xFFFFF) << 42 | self._random.getrandbits(42):016x}"
        return f"{self._head}-{tail[:4]}-{tail[4:]}"


class Environment:
    """What the engine takes from outside: a clock, ids, randomness, and whether it may start threads.

    ``threads=False`` promises that everything runs on the caller's event loop: lease renewal becomes a timer, the
    journal commits inline, synchronous activities run in place. With an ``executor`` as well, commits, reads and
    synchronous activities are passed to that instead, as to threads if there were any; it may call back on the loop's
    thread at any time. ``pause`` is how the journal blocks where it has no other way to wait.
    """

    __slots__ = ("clock", "executor", "ids", "pause", "pid", "random", "threads")

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        rng: random.Random | None = None,
        threads: bool = True,
        executor: Executor | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.random = rng if rng is not None else random.Random(os.urandom(16))
        self.ids = Ids(self.clock, self.random)
        self.threads = threads
        self.executor = executor
        self.pause = pause
        self.pid = os.getpid()
