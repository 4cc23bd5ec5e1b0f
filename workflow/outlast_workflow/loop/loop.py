"""The event loop that workflow code runs on: a queue of ready callbacks, and nothing else.

There is no selector and no clock. The machine sets the time, queues what has happened (a result resolves a future, a
fired timer is a callback) and runs the queue until it is empty. Everything happens in the order of the queue.
A delay becomes a durable timer: a ``TimerScheduled`` command when it is requested, and ``TimerCancelled`` if it is
cancelled in a later workflow task. Cancelled in the same workflow task, it leaves no command at all.

``time()`` counts seconds from the run's first workflow task, so that a float stays exact to the microsecond for
centuries.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Protocol, TypeVar, TypeVarTuple, cast

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.history.events import TimerCancelled, TimerScheduled
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.loop.futures import DeterministicFuture, DeterministicTask, DurableFuture, Hashes
from outlast_workflow.loop.unsupported import RestrictedLoop
from outlast_workflow.primitives.times import microseconds

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_FLOAT_NOISE_US = 0.05
"""In µs. A sum of floats may exceed the intended microsecond by this much; beyond it, instants are rounded up."""

_FOREVER_US = 253_402_300_800_000_000
"""The year 10000. A delay until then, or until infinity, never fires and has no timer."""
_FOREVER_S = _FOREVER_US // 1_000_000
_MOST_STEPS = 1_000_000
"""How many callbacks run when a loop is closed: a callback that requeues itself must end at some point."""
_PRUNE_AT_LEAST = 16
"""Tasks and generators are held in a list. From this length on, finished ones are pruned whenever it has doubled."""


class Waiting(Protocol):
    """A wait for a condition."""

    def check(self) -> bool:
        """Return whether the wait is over, in which case its waiter is ready."""
        ...

    def cancel(self) -> bool:
        """Stop waiting."""
        ...


class DurableTimer(asyncio.TimerHandle):
    """A callback that waits for its timer."""

    __slots__ = ("command_id", "index", "workflow_task")

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: DeterministicLoop,
        context: Context | None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        # 0 if there is no timer: it never fires.
        self.command_id = 0
        self.workflow_task = 0
        self.index = 0

    def __hash__(self) -> int:
        return hash(self.command_id)

    def __eq__(self, other: object) -> bool:
        return self is other


class DeterministicLoop(RestrictedLoop):
    """One run's loop."""

    def __init__(self, log: CommandLog, seed: int) -> None:
        self.log = log
        # The seed of the run's randomness; a reset changes it.
        self.seed = seed
        self.hashes = Hashes(seed)
        self.started_at = 0
        self.now = 0
        self.timers: dict[int, DurableTimer] = {}
        self.tasks: list[DeterministicTask[Any]] = []
        self.generators: list[AsyncGenerator[Any, Any]] = []
        self._prune_tasks_at = self._prune_generators_at = _PRUNE_AT_LEAST
        self.closing = False
        self.ready: deque[asyncio.Handle] = deque()
        self.conditions: list[Waiting] = []
        # The names of the messages that its code waits to receive, in the order of the calls.
        self.receiving: list[str] = []
        self._closed = False

    # --- what runs ------------------------------------------------------------------------------------------------

    def run_ready(self, *, conditions: bool = True) -> None:
        """Run ready callbacks, and those that they make ready, until none is left or the run must stop.

        Without ``conditions`` no predicate is evaluated, for callers that may have to leave no trace.
        """
        ready, log = self.ready, self.log
        while True:
            while ready and log.refusal is None:
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            if not self.conditions or not conditions or log.refusal is not None or not self._condition_met():
                return

    def _condition_met(self) -> bool:
        """Release the first waiter whose condition holds, in the order of registration."""
        return any(waiting.check() for waiting in tuple(self.conditions))

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Queue a callback."""
        # Filled here, because no call is more frequent, and because debug mode has no meaning here.
        handle: Any = asyncio.Handle.__new__(asyncio.Handle)
        handle._context = context if context is not None else copy_context()
        handle._loop = self
        handle._callback = callback
        handle._args = args
        handle._cancelled = False
        handle._repr = None
        handle._source_traceback = None
        if not self._closed:
            self.ready.append(handle)
        return cast(asyncio.Handle, handle)

    def create_future(self) -> DeterministicFuture[Any]:
        """Return a future with the run's next hash."""
        return DeterministicFuture(self.hashes, self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: Any,
    ) -> asyncio.Task[T]:
        """Return a task of this run, held strongly. A durable call is returned as it is: it is already under way."""
        if isinstance(coro, DurableFuture):
            if name is not None:
                coro.set_name(name)
            return cast("asyncio.Task[T]", coro)
        task = DeterministicTask(
            self.hashes,
            coro,
            self,
            name,
            context if context is not None else copy_context(),
        )
        self.tasks.append(task)
        if len(self.tasks) > self._prune_tasks_at and not self.closing:
            self.tasks = [task for task in self.tasks if not task.done()]
            self._prune_tasks_at = max(_PRUNE_AT_LEAST, 2 * len(self.tasks))
        return task

    # --- time -----------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the seconds since the run's first workflow task."""
        return (self.now - self.started_at) / 1e6

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
        summary: str | None = None,
    ) -> asyncio.TimerHandle:
        """Call back after a durable delay: at once, without a timer, if zero or less; never if infinite.

        Args:
            delay: Seconds.
            callback: What to call.
            *args: Its arguments.
            context: The context to call it in; a copy of the current one if ``None``.
            summary: What the timer is for.

        Raises:
            InvalidOptionError: The delay is not a number, or minus infinity; fails the task, not the run.
        """
        if -_FOREVER_S < delay < _FOREVER_S:
            at: float = self.now + microseconds(delay)
        else:
            at = self._far(delay)
        return self._call_when(at, callback, args, context, summary)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a :meth:`time`, as :meth:`call_later` does."""
        if -_FOREVER_S < when < _FOREVER_S:
            at: float = self.started_at + math.ceil(when * 1e6 - _FLOAT_NOISE_US)
        else:
            at = self._far(when)
        return self._call_when(at, callback, args, context)

    def _far(self, seconds: float) -> float:
        """Return the instant that is so far ahead or back: never, or now."""
        if math.isnan(seconds) or seconds == -math.inf:
            raise self.log.refuse(
                InvalidOptionError(
                    f"a delay or timeout must be a number of seconds, not {seconds}", field="delay"
                )
            )
        return math.inf if seconds > 0 else self.now

    def _call_when(
        self,
        at: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        summary: str | None = None,
    ) -> DurableTimer:
        timer = DurableTimer((at - self.started_at) / 1e6, callback, args, self, context)
        if at <= self.now:
            if not self._closed:
                self.ready.append(timer)
        elif at < _FOREVER_US:
            self._schedule(timer, cast(int, at), summary)
        return timer

    def _schedule(self, timer: DurableTimer, fire_at: int, summary: str | None) -> None:
        log = self.log
        timer.command_id = command_id = log.next_id()
        timer.workflow_task = log.workflow_task
        timer.index = log.add(TimerScheduled(command_id, fire_at, summary))
        self.timers[command_id] = timer
        if not log.replaying and len(self.timers) >= log.near["pending_timers"]:
            log.check("pending_timers", len(self.timers))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        timer = cast(DurableTimer, handle)
        if self.timers.pop(timer.command_id, None) is None:
            return
        log = self.log
        if timer.workflow_task == log.workflow_task:
            log.withdraw(timer.index)
        else:
            log.add(TimerCancelled(timer.command_id))

    def fire(self, command_id: int) -> None:
        """Queue the callback of a timer that has fired; a cancelled timer is ignored."""
        timer = self.timers.pop(command_id, None)
        if timer is not None:
            self.ready.append(timer)

    # --- errors ---------------------------------------------------------------------------------------------------

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Fail the workflow task for a callback that raised; report an exception that was never retrieved."""
        if self.closing:
            return
        if "handle" in context:
            self.log.refuse(context["exception"])
        else:
            self.report(context)

    def report(self, context: dict[str, Any]) -> None:
        """Report an exception that was never retrieved, found by the garbage collector: it must not affect the run."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """As :meth:`call_exception_handler`."""
        self.call_exception_handler(context)

    def report_unseen(self) -> None:
        """Report the exceptions of tasks that can no longer be retrieved."""
        for task in self.tasks:
            if task.done() and task._log_traceback:
                self.call_exception_handler(
                    {
                        "message": f"{task!r} failed and was never awaited",
                        "exception": task.exception(),
                        "future": task,
                    }
                )

    # --- small things asyncio asks --------------------------------------------------------------------------------

    get_debug: Callable[[], bool] = staticmethod(bool)  # pyright: ignore[reportIncompatibleMethodOverride]
    """Never, which is what ``bool()`` says: debug mode reads clocks and stacks. Each new future asks."""

    def set_debug(self, enabled: bool) -> None:
        """Ignored."""

    def get_task_factory(self) -> None:
        """None: tasks are the loop's own."""

    def get_exception_handler(self) -> None:
        """None: the loop's own."""

    def is_running(self) -> bool:
        """Return whether this loop is the running one."""
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        """Return whether the run was evicted."""
        return self._closed

    # --- leaving memory -------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Step the tasks whose coroutines are closed to their end."""
        ready = self.ready
        for _ in range(_MOST_STEPS):
            if not ready:
                return
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def shut(self) -> None:
        """Drop all references and close the loop."""
        self._closed = True
        self.tasks, self.generators, self.conditions = [], [], []
        for timer in list(self.timers.values()):
            timer.cancel()  # which lets go of its callback
        self.ready.clear()

    # --- asynchronous generators ----------------------------------------------------------------------------------

    def hold_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Hold a generator that has started: the run's code or its eviction closes it, never the garbage collector."""
        self.generators.append(generator)
        if len(self.generators) > self._prune_generators_at and not self.closing:
            self.generators = [one for one in self.generators if getattr(one, "ag_frame", None) is not None]
            self._prune_generators_at = max(_PRUNE_AT_LEAST, 2 * len(self.generators))
