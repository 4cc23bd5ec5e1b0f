"""The loop of a simulation: several processes take turns in one thread, and a seed decides whose turn it is.

Every callback belongs to a *strand*: a thread of a simulated process (its loop, its ticker, its executor's threads).
Which one is said by a context variable, which tasks and callbacks inherit as they inherit every other. Within a strand
callbacks run in the order that asyncio promises; between strands the order is the seed's. A strand can be frozen (its
callbacks wait) and ended (they never run again).
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import Context, ContextVar, copy_context
from typing import Any, NoReturn, Protocol, TypeVar, TypeVarTuple

from outlast.testing import VirtualLoop, VirtualTimeError
from outlast_store.database.ticker import LoopDriver

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Crashed(BaseException):
    """The process that runs this is gone: nothing of it may go on."""


class Livelock(BaseException):
    """It goes on and on, and comes to no end."""


MOST_STEPS = 300_000
"""Callbacks and statements of one simulation; the busiest of a thousand seeds has 40,000."""


class Steps(Protocol):
    """A process, as its strands see it."""

    dead: bool

    @property
    def loop_strand(self) -> Strand:
        """Where what other threads ask for is done."""
        ...

    @property
    def pulse_strand(self) -> Strand:
        """Where leases are renewed."""
        ...

    def step(self) -> None:
        """One more thing is about to be done; the process may crash instead."""
        ...


class Strand:
    """A thread of a process: what is ready to run in it, in order."""

    __slots__ = ("context", "frozen", "listed", "process", "ready")

    def __init__(self, process: Steps | None) -> None:
        self.process = process
        self.ready: deque[asyncio.Handle] = deque()
        self.listed = False
        self.frozen = False
        self.context = Context()
        self.context.run(STRAND.set, self)


STRAND: ContextVar[Strand] = ContextVar("strand")


class StrandHandle(asyncio.Handle):
    """A callback, made without a look at debug mode: they are what a simulation consists of."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: Any, loop: asyncio.AbstractEventLoop, context: Context
    ) -> None:
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class StrandTimer(asyncio.TimerHandle):
    """A timer that knows whose it is."""

    __slots__ = ("strand",)
    strand: Strand

    def __init__(
        self, when: float, callback: Callable[..., object], args: Any, loop: SimulationLoop, context: Context
    ) -> None:
        handle: Any = self
        StrandHandle.__init__(handle, callback, args, loop, context)
        self._when = when
        self._scheduled = False


class SimulationLoop(VirtualLoop):
    """See the module.

    Args:
        rng: Whose turn it is, and how long things take.
        tick_us: The longest time that a callback takes, in microseconds.
    """

    def __init__(self, rng: random.Random, *, tick_us: int) -> None:
        super().__init__()
        self.world = Strand(None)
        self.callbacks = 0
        self.steps = 0
        self.spins: str | None = None
        """Where a callback was found that comes to no end."""
        self._random = rng.random
        self._tick_us = tick_us
        self._runnable: list[Strand] = []
        self._timers: list[tuple[float, int, StrandTimer]] = []
        self._made = 0
        self.graveyard: list[Any] = []
        """What dead processes leave stays until the end: freeing it would run its ``finally`` blocks."""

    # --- taking callbacks -------------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run it in the strand of its context."""
        if context is None:
            context = copy_context()
        handle = StrandHandle(callback, args, self, context)
        self._add(context.get(STRAND, self.world), handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run it on the process's loop, whichever of its threads asks."""
        strand = copy_context().get(STRAND, self.world)
        if strand.process is not None:
            strand = strand.process.loop_strand
        handle = StrandHandle(callback, args, self, context or strand.context.copy())
        self._add(strand, handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run it in the strand of its context, or in the ticker's if it is a beat."""
        if context is None:
            context = copy_context()
        strand = context.get(STRAND, self.world)
        if strand.process is not None and getattr(callback, "__func__", None) is LoopDriver._turn:
            strand = strand.process.pulse_strand
            context = strand.context.copy()
        timer = StrandTimer(when, callback, args, self, context)
        timer.strand = strand
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, timer))
        return timer

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run it after some seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def _add(self, strand: Strand, handle: asyncio.Handle) -> None:
        process = strand.process
        if process is not None and process.dead:
            self.graveyard.append(handle)
            return
        strand.ready.append(handle)
        if not strand.listed and not strand.frozen:
            strand.listed = True
            self._runnable.append(strand)

    # --- running ----------------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        timers, runnable = self._timers, self._runnable
        while True:
            now = self.time()
            while timers and timers[0][0] <= now:
                timer = heapq.heappop(timers)[2]
                if not timer._cancelled:
                    self._add(timer.strand, timer)
            if runnable:
                break
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)
            if not timers:
                raise VirtualTimeError("everything waits, and nothing can happen any more")
            self.jump(timers[0][0] - self.time())
        place = int(self._random() * len(runnable)) if len(runnable) > 1 else 0
        strand = runnable[place]
        handle = strand.ready.popleft()
        if not strand.ready:
            self._unlist(strand, place)
        if handle._cancelled:
            return
        self.callbacks += 1
        self.step()
        process = strand.process
        if process is not None:
            try:
                process.step()
            except Crashed:
                self.graveyard.append(handle)
                return
        handle._run()
        if self._tick_us:
            self.pass_time(int(self._random() * self._tick_us))

    def step(self) -> None:
        """One more callback, or statement within one; too many are a livelock, and end the simulation."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Livelock(self.spins or f"it goes on after {MOST_STEPS} callbacks and statements")

    def stop_spinning(self, where: str) -> NoReturn:
        """Come between a callback that takes no steps and comes to no end."""
        self.spins = where
        self.steps = MOST_STEPS + 1
        raise Livelock(where)

    def pass_time(self, microseconds: int) -> None:
        """Something takes so long, and nothing else happens meanwhile."""
        self._elapsed_us += microseconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As ever, with one hop less for simulated threads."""
        assert isinstance(executor, SimulatedExecutor)
        answer: asyncio.Future[T] = self.create_future()
        self.call_later(
            executor.delay(), executor.answer, answer, func, args, context=executor.strand.context.copy()
        )
        return answer

    def _unlist(self, strand: Strand, place: int) -> None:
        strand.listed = False
        last = self._runnable.pop()
        if last is not strand:
            self._runnable[place] = last

    # --- strands ----------------------------------------------------------------------------------------------------

    def freeze(self, strand: Strand) -> None:
        """Run nothing of it until it is thawed."""
        strand.frozen = True
        if strand.listed:
            self._unlist(strand, self._runnable.index(strand))

    def thaw(self, strand: Strand) -> None:
        """Go on where it was frozen."""
        strand.frozen = False
        if strand.ready and not strand.listed:
            strand.listed = True
            self._runnable.append(strand)

    def end(self, strand: Strand) -> None:
        """Run nothing of it any more."""
        self.freeze(strand)
        self.graveyard.append(strand.ready)
        strand.ready = deque()


class SimulatedExecutor(Executor):
    """Threads of a process, simulated: what is handed to it happens some time later, and is told later still.

    Args:
        loop: The loop.
        strand: Theirs.
        delay: Draws how long to wait, in seconds.
    """

    def __init__(self, loop: SimulationLoop, strand: Strand, delay: Callable[[], float]) -> None:
        self._loop = loop
        self.strand = strand
        self.delay = delay

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do it some time."""
        future: Future[Any] = Future()
        self._loop.call_later(
            self.delay(), self._run, future, fn, args, kwargs, context=self.strand.context.copy()
        )
        return future

    def _run(self, future: Future[Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            value = fn(*args, **kwargs)
        except Crashed:
            return
        except BaseException as error:
            self._loop.call_later(self.delay(), future.set_exception, error)
        else:
            self._loop.call_later(self.delay(), future.set_result, value)

    def answer(self, future: asyncio.Future[Any], fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Do it now, and say later what came of it."""
        process = self.strand.process
        assert process is not None
        context = process.loop_strand.context.copy()
        try:
            value = fn(*args)
        except Crashed:
            return
        except Exception as error:
            self._loop.call_later(
                self.delay(), _unless_done, future, future.set_exception, error, context=context
            )
        else:
            self._loop.call_later(
                self.delay(), _unless_done, future, future.set_result, value, context=context
            )


def _unless_done(future: asyncio.Future[Any], tell: Callable[[Any], None], what: Any) -> None:
    if not future.done():
        tell(what)
