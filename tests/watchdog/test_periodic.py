"""Periodic calls, by APScheduler and by the loop's own timers: the same face."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from functools import partial

import pytest

from outlast.testing.clock import VirtualClock, VirtualLoop
from outlast_watchdog.periodic import LoopPeriodic, Periodic, ScheduledPeriodic, periodic
from outlast_workflow.environment import Environment


@pytest.fixture(params=[ScheduledPeriodic, LoopPeriodic])
def work(request: pytest.FixtureRequest) -> Periodic:
    made: Periodic = request.param()
    return made


async def test_it_calls_again_and_again_on_the_loop(work: Periodic) -> None:
    loop = asyncio.get_running_loop()
    enough = asyncio.Event()
    calls: list[asyncio.AbstractEventLoop] = []

    def call() -> None:
        calls.append(asyncio.get_running_loop())
        if len(calls) == 3:
            enough.set()

    work.add("count", 0.01, call)
    work.start()
    await asyncio.wait_for(enough.wait(), 20)
    work.stop()
    assert calls == [loop] * 3


async def test_what_is_added_later_is_called_too_and_nothing_after_stop(work: Periodic) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    work.start()
    work.add("first", 0.01, first.set)
    await asyncio.wait_for(first.wait(), 20)
    work.stop()
    await asyncio.sleep(0)
    first.clear()
    work.add("second", 0.01, second.set)
    asyncio.get_running_loop().call_later(0.05, second.set)
    await second.wait()
    assert not first.is_set()
    work.stop()


async def test_one_that_raises_is_called_again(work: Periodic) -> None:
    again = asyncio.Event()
    calls = 0
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)

    def call() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            again.set()
        raise ValueError("not this time")

    work.add("flaky", 0.01, call)
    work.start()
    await asyncio.wait_for(again.wait(), 20)
    work.stop()


async def test_a_stop_just_before_a_call_is_due_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A signal ends a process with an exit code of 0, and then nothing on its stderr may look like an error."""
    calls: list[str] = []
    work = ScheduledPeriodic()
    work.add("tick", 1000, partial(calls.append, "tick"))
    work.start()
    [job] = work._scheduler.get_jobs()
    # The scheduler looks for due calls in the next turn of the loop; it shuts down in the same one, after that.
    job.modify(next_run_time=datetime.now(UTC))
    work.stop()
    for _ in range(10):
        await asyncio.sleep(0)
    assert (calls, caplog.messages) == ([], [])


def test_on_a_virtual_clock_it_is_the_loop_that_calls() -> None:
    async def scenario() -> list[float]:
        clock = VirtualClock()
        loop = asyncio.get_running_loop()
        work = periodic(Environment(clock, rng=random.Random(1), threads=False))
        begins, calls = loop.time(), list[float]()
        work.add("hourly", 3600, lambda: calls.append(loop.time() - begins))
        work.start()
        await asyncio.sleep(3 * 3600 + 1)
        work.stop()
        await asyncio.sleep(3600)
        return calls

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(scenario()) == pytest.approx([3600, 7200, 10800])


def test_in_a_real_process_it_is_apscheduler() -> None:
    assert isinstance(periodic(Environment()), ScheduledPeriodic)
