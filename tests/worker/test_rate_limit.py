"""The rate limit of a worker: no second has more than its rate and its burst, and nothing of the rate is lost."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import InvalidOptionError, Worker, activity, workflow
from outlast.testing import TestEnvironment
from outlast.worker.activities.rate_limit import BURST_S, RateLimit
from outlast_workflow.environment import Clock

started: list[float] = []


class Ticks(Clock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = 5.0

    def now(self) -> int:
        return int(self.at * 1_000_000)

    def monotonic(self) -> float:
        return self.at


@given(
    rate=st.floats(0.01, 5000),
    steps=st.lists(st.tuples(st.floats(0, 3), st.integers(1, 40)), min_size=1, max_size=60),
)
def test_any_window_holds_its_rate(rate: float, steps: list[tuple[float, int]]) -> None:
    clock = Ticks()
    limit = RateLimit(rate, clock)
    capacity = max(1.0, rate * BURST_S)
    taken: list[tuple[float, int]] = []
    for pause, wanted in steps:
        clock.at += pause
        free = limit.free
        assert 0 <= free <= capacity + 1e-6
        assert not limit.take(free + 1)
        n = min(free, wanted)
        if n:
            assert limit.take(n)
            taken.append((clock.at, n))
    for first in range(len(taken)):
        count = 0
        for at, n in taken[first:]:
            count += n
            assert count <= (at - taken[first][0]) * rate + capacity + 1e-3


@given(rate=st.floats(0.01, 5000))
def test_the_wait_is_as_long_as_needed_and_no_longer(rate: float) -> None:
    clock = Ticks()
    limit = RateLimit(rate, clock)
    assert limit.take(limit.free)
    begun = clock.at
    for number in range(1, 50):
        clock.at += limit.wait_s
        assert limit.take()
        assert clock.at - begun <= number / rate * 1.000001 + 1e-6


def test_what_is_given_back_is_there_again_but_never_more_than_the_burst() -> None:
    limit = RateLimit(100, Ticks())
    assert limit.free == 10
    assert limit.take(10)
    assert not limit.take()
    limit.give_back(4)
    assert limit.free == 4
    limit.give_back(100)
    assert limit.free == 10


@activity.defn(start_to_close_timeout=60)
async def call() -> None:
    started.append(activity.info().started_at.timestamp())


@activity.defn(start_to_close_timeout=60)
async def call_locally() -> None:
    started.append(activity.info().started_at.timestamp())


@workflow.defn
class Calls:
    @workflow.run
    async def run(self, count: int, local: bool) -> None:
        handles = [
            workflow.start_local_activity(call_locally) if local else workflow.start_activity(call)
            for _ in range(count)
        ]
        for handle in handles:
            await handle


def environment(rate: float | None) -> TestEnvironment:
    started.clear()
    return TestEnvironment(workflows=[Calls], activities=[call, call_locally], max_activities_per_second=rate)


async def test_activities_start_at_the_rate_one_after_the_other() -> None:
    async with environment(5) as env:
        await env.client.execute(Calls.run, 20, False)
    assert len(started) == 20
    assert [later - sooner for sooner, later in pairwise(sorted(started))] == pytest.approx(
        [0.2] * 19, abs=0.01
    )


async def test_local_ones_are_no_calls_of_the_queue() -> None:
    async with environment(0.001) as env:
        await env.client.execute(Calls.run, 20, True)
    assert max(started) - min(started) < 1


async def test_the_worker_runs_other_workflows_while_its_activities_wait() -> None:
    async with environment(0.01) as env:
        waiting = await env.client.start(Calls.run, 5, False)
        await env.client.execute(Calls.run, 3, True)
        assert await waiting.is_open()


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 2_000_000, "5", True])
async def test_a_rate_is_a_number_that_makes_sense(rate: Any) -> None:
    async with environment(None) as env:
        with pytest.raises(InvalidOptionError, match="max activities per second must be a number"):
            Worker(env.client, activities=[call], max_activities_per_second=rate)
