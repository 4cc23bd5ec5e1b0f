"""Virtual time for code without an event loop: views of Flask and Django, and scripts, with a blocking client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

from outlast.blocking.client import Client
from outlast.blocking.thread import Caller, refuse_on_a_loop
from outlast.testing.clock import VirtualLoop
from outlast.testing.environment import TestEnvironment

T = TypeVar("T")


class _InPlace(Caller):
    """Does a client's work on a virtual loop, in the thread that calls. One call is made after the other."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._turn = threading.Lock()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the virtual loop, and with it whatever is due meanwhile."""
        refuse_on_a_loop()
        with self._turn:
            return self._runner.run(work())

    @property
    def forked(self) -> bool:
        """A test's environment is left where it was entered."""
        return False

    def leave(self) -> None:
        """The environment closes the loop."""


class BlockingTestEnvironment:
    """A :class:`TestEnvironment` for tests and code without an event loop.

    ::

        def test_an_order_takes_three_days() -> None:
            with BlockingTestEnvironment(workflows=[Order], activities=[charge]) as env:
                place(env.client, "o-1")
                env.sleep(days=3)
                assert env.client.describe("order-o-1").run.status == "completed"

    Something happens, and time passes, only during the calls of the client and of the environment: each lasts until it
    has its answer, and takes no real time to wait.

    Args:
        **options: As for :class:`TestEnvironment`.

    Attributes:
        client: The client, an :class:`outlast.blocking.Client`.
    """

    client: Client

    def __init__(self, **options: Any) -> None:
        self._environment = TestEnvironment(**options)

    def __enter__(self) -> Self:
        refuse_on_a_loop()
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self._caller = _InPlace(self._runner)
        try:
            self._caller.call(self._environment.__aenter__)
        except BaseException:
            self._runner.close()
            raise
        self.client = Client(self._environment.client, self._caller)
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._caller.call(lambda: self._environment.__aexit__(*exc_info))
        finally:
            self._runner.close()

    def now(self) -> datetime:
        """Return the current time (aware, UTC)."""
        return self._environment.now()

    def sleep(
        self,
        seconds: float | timedelta = 0,
        *,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
        weeks: float = 0,
    ) -> None:
        """Let time pass. Everything that becomes due meanwhile happens in order, at its time.

        Args:
            seconds: How many seconds, or a timedelta; the other units are added.
            minutes: How many minutes.
            hours: How many hours.
            days: How many days.
            weeks: How many weeks.
        """
        env = self._environment
        self._caller.call(lambda: env.sleep(seconds, minutes=minutes, hours=hours, days=days, weeks=weeks))

    def sleep_until(self, instant: datetime) -> None:
        """Let time pass until an instant of the wall clock (aware)."""
        self._caller.call(lambda: self._environment.sleep_until(instant))

    def settle(self) -> None:
        """Wait until nothing is left to do at the current time."""
        self._caller.call(self._environment.settle)
