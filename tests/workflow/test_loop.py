from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.workflow.driver import START, new_machine, started

from outlast import workflow
from outlast_workflow.api.context import current_machine
from outlast_workflow.declare.definitions import defn
from outlast_workflow.errors import DurableCallError
from outlast_workflow.history.events import ActivityCompleted, TimerScheduled, WorkflowCompleted
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.loop.futures import Hashes
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.loop.unsupported import REPLACEMENTS
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.payloads import Payload


def loop_at(now: int = START, started_at: int = START) -> DeterministicLoop:
    loop = DeterministicLoop(CommandLog(StructuralLimits()), 7)  # type: ignore[abstract]
    loop.now, loop.started_at = now, started_at
    return loop


def result_of(workflow_type: Any, *args: Any) -> Any:
    machine = new_machine(workflow_type)
    (end,) = machine.run_workflow_task([started(*args)], START, history_events=1, history_bytes=1)
    assert isinstance(end, WorkflowCompleted), end
    return end.result.value


@pytest.mark.parametrize(
    ("delay", "us"),
    [
        (0.1, 100_000),
        (1.1, 1_100_000),
        (1, 1_000_000),
        (1e-7, 1),
        (0.0000011, 2),
        (3.3, 3_300_000),
        (1e9, 10**15),
    ],
)
def test_delays_are_rounded_up_to_the_microsecond_and_no_further(delay: float, us: int):
    loop = loop_at()
    loop.call_later(delay, print)
    assert loop.log.take() == [TimerScheduled(1, START + us)]


def test_an_instant_made_by_adding_floats_is_the_one_that_is_meant():
    for elapsed in range(0, 10_000_000_000, 1_234_567):
        loop = loop_at(START + elapsed)
        timer = loop.call_at(loop.time() + 0.3, print)
        assert loop.log.take() == [TimerScheduled(1, START + elapsed + 300_000)]
        assert timer.when() == pytest.approx((elapsed + 300_000) / 1e6)


def test_every_way_out_of_the_loop_is_shut_and_says_what_to_do():
    loop = loop_at()
    for name in REPLACEMENTS:
        with pytest.raises(DurableCallError, match=rf"loop\.{name}\(\) cannot be used in a workflow.*: "):
            getattr(loop, name)(None)


def test_the_loop_has_an_answer_to_all_that_a_loop_is_asked():
    inherited = {
        name
        for name, method in inspect.getmembers(asyncio.AbstractEventLoop, inspect.isfunction)
        if not name.startswith("__") and getattr(DeterministicLoop, name) is method
    }
    assert inherited == set()


@pytest.mark.parametrize(
    "call",
    [
        lambda: asyncio.to_thread(print),
        lambda: asyncio.open_connection("localhost", 1),
        lambda: asyncio.create_subprocess_exec("true"),
        lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1),
    ],
)
def test_asyncio_functions_that_leave_the_process_fail_the_task(call: Any):
    @defn
    async def order() -> None:
        await call()

    with pytest.raises(DurableCallError, match="activity"):
        result_of(order)


def test_futures_and_tasks_hash_by_the_seed():
    assert [Hashes(1).next() for _ in range(2)] == [Hashes(1).next()] * 2
    one, two = Hashes(1), Hashes(2)
    values = {one.next() for _ in range(10_000)} | {two.next() for _ in range(10_000)}
    assert len(values) == 20_000

    @defn
    async def order() -> list[int]:
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(asyncio.sleep(0))
        gathered = asyncio.gather(asyncio.sleep(0))
        hashes = [
            hash(loop.create_future()),
            hash(task),
            hash(gathered),
            hash(gathered),
            hash(workflow.sleep(0)),
        ]
        await asyncio.gather(task, gathered)
        return hashes

    assert result_of(order) == result_of(order)


def test_a_durable_call_passes_for_a_coroutine_where_asyncio_takes_one():
    @defn
    async def order() -> list[Any]:
        call: Any = workflow.execute_activity("a")
        task = asyncio.create_task(call, name="mine")
        assert task is call
        assert task.get_name() == "mine"
        other: Any = asyncio.ensure_future(workflow.execute_activity("b"))
        assert other.get_name() == "b#2"
        async with asyncio.TaskGroup() as group:
            third = group.create_task(workflow.execute_activity("c"))
            fourth = group.create_task(workflow.sleep(0), name="nap")
        assert fourth.get_name() == "nap"
        return [await task, third.result(), await call]

    machine = new_machine(order)
    assert len(machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)) == 3
    results = [ActivityCompleted(n, Payload.of(n), 1) for n in (1, 3)]
    (end,) = machine.run_workflow_task(results, START, history_events=1, history_bytes=1)
    assert isinstance(end, WorkflowCompleted), end
    assert end.result.value == [1, 3, 1]


def test_tasks_are_held_while_they_run_and_let_go_when_they_are_done():
    @defn
    async def order() -> int:
        for _ in range(1000):
            await asyncio.create_task(asyncio.sleep(0))
        return len(current_machine().loop.tasks)

    assert result_of(order) < 40


def test_generators_are_let_go_when_they_are_done():
    @defn
    async def order() -> int:
        async def one() -> AsyncIterator[int]:
            yield 1

        for _ in range(1000):
            async for _ in one():
                pass
        return len(current_machine().loop.generators)

    assert result_of(order) < 40


def test_callbacks_run_in_the_order_they_were_queued_and_not_when_cancelled():
    @defn
    async def order() -> list[int]:
        loop, seen = asyncio.get_running_loop(), list[int]()
        handles = [loop.call_soon(seen.append, n) for n in range(4)]
        handles[2].cancel()
        loop.call_later(0, seen.append, 9)
        loop.call_at(loop.time() - 1, seen.append, 10)
        await asyncio.sleep(0)
        assert not loop.get_debug()
        assert loop.is_running()
        assert not loop.is_closed()
        return seen

    assert result_of(order) == [0, 1, 3, 9, 10]
