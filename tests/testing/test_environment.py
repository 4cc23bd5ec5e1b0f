"""Virtual time, and the engine in it."""

from __future__ import annotations

import asyncio
import datetime
import signal
import subprocess
import sys

import pytest

from outlast import activity, workflow
from outlast.testing import StuckWorkflowError, TestEnvironment, VirtualClock, VirtualLoop, VirtualTimeError
from outlast_workflow.errors import InvalidOptionError

UTC = datetime.UTC
mails: list[str] = []


@activity.defn(start_to_close_timeout=10)
def send_mail(to: str) -> None:
    mails.append(to)


@workflow.defn
class Trial:
    @workflow.run
    async def run(self, name: str) -> None:
        await asyncio.sleep(30 * 86_400)
        await send_mail(name)


async def test_time_does_not_pass_by_itself() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(100):
            await asyncio.sleep(0)
        assert loop.time() == began
        await asyncio.sleep(86_400 * 365)
        assert loop.time() == began + 86_400 * 365

    await asyncio.to_thread(TestEnvironment.run, body)


def test_timers_run_in_order_each_at_its_time() -> None:
    async def body() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        seen: list[tuple[float, str]] = []

        def see(name: str) -> None:
            seen.append((loop.time() - began, name))

        for delay, name in ((3, "c"), (1, "a"), (2, "b"), (1, "a2")):
            loop.call_later(delay, see, name)
        await asyncio.sleep(10)
        return seen

    assert TestEnvironment.run(body) == [(1, "a"), (1, "a2"), (2, "b"), (3, "c")]


def test_waiting_for_nothing_fails_at_once() -> None:
    async def body() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(VirtualTimeError, match="nothing can happen any more"):
        TestEnvironment.run(body)


def test_waiting_while_timers_go_on_fails_at_the_horizon() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()

        def tick() -> None:
            loop.call_later(100_000, tick)

        tick()
        await loop.create_future()

    with pytest.raises(VirtualTimeError, match="horizon"):
        TestEnvironment.run(body)


def test_threads_are_waited_for() -> None:
    async def body() -> int:
        return await asyncio.to_thread(lambda: 42)

    assert TestEnvironment.run(body) == 42


def test_the_clock_reads_the_loop_and_may_jump() -> None:
    async def body() -> None:
        start = datetime.datetime(2030, 5, 6, tzinfo=UTC)
        clock = VirtualClock(start_at=start)
        assert clock.utc == start
        monotonic = clock.monotonic()
        await asyncio.sleep(1.5)
        assert clock.utc == start + datetime.timedelta(seconds=1.5)
        assert clock.monotonic() == monotonic + 1.5
        clock.jump(datetime.timedelta(hours=-1))
        assert clock.utc == start + datetime.timedelta(seconds=1.5, hours=-1)
        assert clock.monotonic() == monotonic + 1.5
        clock.set(start)
        assert clock.utc == start

    TestEnvironment.run(body)


async def test_a_virtual_clock_needs_a_virtual_loop() -> None:
    with pytest.raises(InvalidOptionError, match=r"TestEnvironment\.run"):
        VirtualClock()
    with pytest.raises(InvalidOptionError, match=r"TestEnvironment\.run"):
        async with TestEnvironment():
            pass


def test_a_month_takes_no_time() -> None:
    mails.clear()

    async def body() -> None:
        async with TestEnvironment(workflows=[Trial], activities=[send_mail]) as env:
            handle = await env.client.start(Trial.run, "ada", id="trial-1")
            await env.sleep(days=29)
            assert mails == []
            await env.sleep(days=1)
            await handle.result()
            assert mails == ["ada"]
            assert env.now() == datetime.datetime(2026, 1, 31, tzinfo=UTC)

    TestEnvironment.run(body)


def test_starting_at_an_instant_and_sleeping_until_another() -> None:
    async def body() -> None:
        noon = datetime.datetime(2031, 1, 1, 12, tzinfo=UTC)
        async with TestEnvironment(start_at=noon) as env:
            assert env.now() == noon
            await env.sleep_until(noon + datetime.timedelta(hours=5))
            assert env.now().hour == 17

    TestEnvironment.run(body)


def test_a_test_returns_and_takes_arguments() -> None:
    async def body(a: int, *, b: int) -> int:
        return a + b

    assert TestEnvironment.run(body, 1, b=2) == 3


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_wall_clock_that_jumps_is_no_reason_to_miss_a_timer(hours: int) -> None:
    """Timers are instants of the wall clock: set back, it comes to them later, and never early."""

    async def body() -> None:
        async with TestEnvironment(workflows=[Trial], activities=[send_mail]) as env:
            due = env.now() + datetime.timedelta(days=30)
            handle = await env.client.start(Trial.run, "ada", id="w")
            await env.sleep(days=1)
            env.clock.jump(datetime.timedelta(hours=hours))
            await handle.result()
            assert due <= env.now() <= due + datetime.timedelta(hours=5, seconds=1)

    TestEnvironment.run(body)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> object:
    if "in_virtual_time" in request.node.name:
        return "asyncio", {"loop_factory": VirtualLoop}
    return "asyncio"


async def test_anyio_runs_tests_in_virtual_time() -> None:
    mails.clear()
    async with TestEnvironment(workflows=[Trial], activities=[send_mail]) as env:
        await env.client.execute(Trial.run, "bob")
        assert mails == ["bob"]


@workflow.defn
class Broken:
    @workflow.run
    async def run(self) -> str:
        raise NameError("not written yet")

    @workflow.update
    async def change(self) -> None:
        pass


@workflow.defn
class Parent:
    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_child(Broken.run, id="child")


def test_a_wait_for_a_run_whose_task_keeps_failing_fails() -> None:
    async def body() -> None:
        async with TestEnvironment(workflows=[Broken], workflow_task_failure_types=(NameError,)) as env:
            began = env.now()
            handle = await env.client.start(Broken.run, id="b")
            with pytest.raises(
                StuckWorkflowError, match=r"'b' cannot continue: .* 3 times in a row"
            ) as caught:
                await handle.result()
            assert "not written yet" in str(caught.value.__cause__)
            assert (caught.value.workflow_id, caught.value.task_failures) == ("b", 3)
            assert env.now() - began < datetime.timedelta(minutes=1)
            with pytest.raises(StuckWorkflowError, match="4 times"):
                await handle.execute_update(Broken.change)

    TestEnvironment.run(body)


def test_a_wait_for_the_parent_of_such_a_run_fails_too() -> None:
    async def body() -> None:
        async with TestEnvironment(
            workflows=[Broken, Parent], max_task_failures=5, workflow_task_failure_types=(NameError,)
        ) as env:
            handle = await env.client.start(Parent.run, id="p")
            with pytest.raises(StuckWorkflowError, match=r"'child' cannot continue: .* 5 times"):
                await handle.result()

    TestEnvironment.run(body)


def test_a_wait_without_a_limit_lasts_until_the_code_is_replaced() -> None:
    @workflow.defn(name="Broken")
    async def mended() -> str:
        return "mended"

    async def body() -> None:
        async with TestEnvironment(
            workflows=[Broken], max_task_failures=0, workflow_task_failure_types=(NameError,)
        ) as env:
            handle = await env.client.start(Broken.run, id="b")
            waiting = asyncio.ensure_future(handle.result())
            await env.sleep(hours=1)
            assert not waiting.done()
            await env.worker.stop()
            async with env.new_worker(workflows=[mended]):
                assert await waiting == "mended"

    TestEnvironment.run(body)


def test_a_run_that_was_stuck_before_somebody_waits_gets_another_try() -> None:
    @workflow.defn(name="Broken")
    async def mended() -> str:
        return "mended"

    async def body() -> None:
        async with TestEnvironment(workflows=[Broken], workflow_task_failure_types=(NameError,)) as env:
            handle = await env.client.start(Broken.run, id="b")
            await env.sleep(hours=1)
            await env.worker.stop()
            async with env.new_worker(workflows=[mended]):
                assert await handle.result() == "mended"

    TestEnvironment.run(body)


def test_a_second_environment_continues_where_the_first_one_ended(shared_url: str) -> None:
    mails.clear()

    async def first() -> datetime.datetime:
        async with TestEnvironment(workflows=[Trial], activities=[send_mail], url=shared_url) as env:
            await env.client.start(Trial.run, "ada", id="one")
            await env.sleep(days=1)
            return env.now()

    async def second() -> datetime.datetime:
        async with TestEnvironment(workflows=[Trial], activities=[send_mail], url=shared_url) as env:
            begin = env.now()
            await env.client.execute(Trial.run, "bob", id="two")
            await env.client.handle("one").result()
            return begin

    ended = TestEnvironment.run(first)
    assert datetime.timedelta() < ended - TestEnvironment.run(second) < datetime.timedelta(days=1)
    assert mails == ["ada", "bob"]

    async def earlier() -> None:
        async with TestEnvironment(url=shared_url, start_at=ended):
            pass

    with pytest.raises(InvalidOptionError, match="start_at"):
        TestEnvironment.run(earlier)


_KILLED = """
import os, signal, sys
from tests.testing.test_environment import TestEnvironment, Trial, send_mail

async def body():
    async with TestEnvironment(workflows=[Trial], activities=[send_mail], url=sys.argv[1]) as env:
        await env.client.start(Trial.run, "ada", id="one")
        await env.sleep(days=1)
        os.kill(os.getpid(), signal.SIGKILL)

TestEnvironment.run(body)
"""


def test_an_environment_that_was_killed_leaves_its_runs_to_the_next(shared_url: str) -> None:
    mails.clear()

    async def second() -> None:
        async with TestEnvironment(workflows=[Trial], activities=[send_mail], url=shared_url) as env:
            await env.client.handle("one").result()

    killed = subprocess.run([sys.executable, "-c", _KILLED, shared_url], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    TestEnvironment.run(second)
    assert mails == ["ada"]


def test_time_on_a_file_passes_as_fast_as_in_memory(shared_url: str) -> None:
    """A month must not be walked through in steps of a poll: the loop jumps about as often as in memory."""

    async def month(url: str) -> int:
        jumps = 0
        async with TestEnvironment(workflows=[Trial], activities=[send_mail], url=url) as env:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            jump = loop.jump

            def counted(seconds: float) -> None:
                nonlocal jumps
                jumps += 1
                jump(seconds)

            loop.jump = counted  # type: ignore[method-assign]
            await env.client.execute(Trial.run, "ada")
        return jumps

    in_memory = TestEnvironment.run(month, "sqlite://")
    assert TestEnvironment.run(month, shared_url) <= in_memory + 5
