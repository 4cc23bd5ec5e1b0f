"""Periodic work: call a function at an interval, on the event loop.

There are two implementations. In a real process APScheduler does it: calls are coalesced, never overlap, and are not
dropped for being late. Its due times are wall-clock datetimes that it reads itself, so it cannot run on a virtual
clock, nor does it notice when the wall clock is set back. Where all time comes through the environment
(``threads=False``: tests, simulation), the same calls are plain timers of the loop. No other module knows which is in
use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC
from typing import Any, Final, Protocol

from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from outlast_workflow.environment import Environment

EXECUTOR: Final = "outlast"
"""APScheduler names an executor's logger after it, so this one is none that an application configures."""


def _quiet(name: str) -> logging.Logger:
    """Return a logger that only we use, which passes on warnings and worse unless somebody has set its level."""
    logger = logging.getLogger(name)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    return logger


_scheduler_logger: Final = _quiet("outlast.scheduler")
_quiet(f"apscheduler.executors.{EXECUTOR}")


class Periodic(Protocol):
    """Calls functions periodically, on the loop it was started on."""

    def add(self, name: str, interval_s: float, function: Callable[[], None]) -> None:
        """Call ``function`` every ``interval_s`` seconds, the first time after one interval."""
        ...

    def start(self) -> None:
        """Begin, on the running loop."""
        ...

    def stop(self) -> None:
        """Call nothing more."""
        ...


def periodic(environment: Environment) -> Periodic:
    """Return the implementation that suits an environment."""
    return ScheduledPeriodic() if environment.threads else LoopPeriodic()


class ScheduledPeriodic:
    """Periodic calls by APScheduler."""

    def __init__(self) -> None:
        self._jobs: list[tuple[str, float, Callable[[], None]]] = []
        self._scheduler: Any = None

    def add(self, name: str, interval_s: float, function: Callable[[], None]) -> None:
        """See :class:`Periodic`."""
        self._jobs.append((name, interval_s, function))
        if self._scheduler is not None:
            self._schedule(name, interval_s, function)

    def start(self) -> None:
        """See :class:`Periodic`."""
        self._scheduler = AsyncIOScheduler(
            event_loop=asyncio.get_running_loop(),
            timezone=UTC,
            logger=_scheduler_logger,
            executors={EXECUTOR: AsyncIOExecutor()},
        )
        for job in self._jobs:
            self._schedule(*job)
        self._scheduler.start()

    def stop(self) -> None:
        """See :class:`Periodic`."""
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            # It shuts down in the loop's next turn. A call that it began until then would be cancelled, which it logs
            # as an error with a traceback.
            scheduler.remove_all_jobs()
            scheduler.shutdown(wait=False)

    def _schedule(self, name: str, interval_s: float, function: Callable[[], None]) -> None:
        # A coroutine function runs on the loop; a plain one would get a thread.
        async def call() -> None:
            function()

        self._scheduler.add_job(
            call,
            "interval",
            seconds=interval_s,
            id=name,
            name=name,
            executor=EXECUTOR,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
        )


class LoopPeriodic:
    """Periodic calls by the loop's own timers."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[float, Callable[[], None]]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, name: str, interval_s: float, function: Callable[[], None]) -> None:
        """See :class:`Periodic`."""
        self._jobs[name] = (interval_s, function)
        if self._loop is not None:
            self._plan(name)

    def start(self) -> None:
        """See :class:`Periodic`."""
        self._loop = asyncio.get_running_loop()
        for name in self._jobs:
            self._plan(name)

    def stop(self) -> None:
        """See :class:`Periodic`."""
        self._loop = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _plan(self, name: str) -> None:
        assert self._loop is not None
        self._timers[name] = self._loop.call_later(self._jobs[name][0], self._call, name)

    def _call(self, name: str) -> None:
        if self._loop is not None:
            self._plan(name)
            self._jobs[name][1]()
