from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest
from tests.workflow import driver
from tests.workflow.driver import START, Driver, new_machine, started
from tests.workflow.leftovers import left_behind
from tests.workflow.programs import program

from outlast import workflow
from outlast_workflow.api.context import current_machine
from outlast_workflow.api.log import logger
from outlast_workflow.declare.definitions import defn


async def chain(depth: int, event: asyncio.Event) -> None:
    """Tasks that await one another."""
    await (asyncio.create_task(chain(depth - 1, event)) if depth else event.wait())


async def everything() -> None:
    """All that can wait, waiting."""
    lock, queue, event = asyncio.Lock(), asyncio.Queue[int](), asyncio.Event()

    async def hold(seconds: float) -> None:
        async with lock:
            await asyncio.sleep(seconds)

    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
            await queue.get()
        finally:
            await asyncio.sleep(1)

    async def abandoned() -> None:
        async for _ in stream():
            break
        await event.wait()

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(50):
            tasks.create_task(hold(1))
            tasks.create_task(workflow.execute_activity("a"))
            async for _ in stream():
                pass

    waits: list[Any] = [
        hold(10),
        hold(11),
        abandoned(),
        group(),
        chain(300, event),
        asyncio.shield(workflow.execute_activity("b")),
        asyncio.wait_for(event.wait(), 9),
        asyncio.wait([asyncio.create_task(queue.get()), asyncio.gather(workflow.sleep(3), event.wait())]),
        *asyncio.as_completed([hold(12), workflow.execute_activity("c")]),
    ]
    await asyncio.gather(*waits)


@defn(name="everything")
async def waits_for_everything() -> None:
    await everything()


def test_nothing_is_left_to_the_garbage_collector(no_collector: None):
    machine = new_machine(waits_for_everything)
    machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)
    assert len(left_behind()) > 300
    loop = weakref.ref(machine.loop)
    machine.evict()
    driver.made.clear()
    del machine
    assert left_behind() == []
    assert loop() is None


def test_a_run_that_ended_leaves_nothing_suspended(no_collector: None):
    for seed in range(20):
        Driver(
            program, ["race", ["group", ["activity", "a"], ["sleep", 10]], ["activity", "b"]], seed=seed
        ).run()
    driver.made.clear()
    # Exception groups that were split share tracebacks, and so frames, and so tasks: of those that are done.
    assert [thing for thing in left_behind() if not thing.done()] == []


def test_a_run_that_failed_leaves_nothing_either(no_collector: None):
    @defn
    async def order() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    machine = new_machine(order)
    machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)
    loop = weakref.ref(machine.loop)
    machine.evict()
    driver.made.clear()
    del machine
    assert loop() is None


def test_finally_blocks_run_but_ask_for_nothing_and_wait_for_nothing():
    seen: list[Any] = []
    variable: ContextVar[str] = ContextVar("variable")

    @defn
    async def order() -> None:
        token = variable.set("mine")
        try:
            await workflow.execute_activity("a")
        except Exception:
            seen.append("except Exception")
        except asyncio.CancelledError:
            seen.append("except CancelledError")
        finally:
            variable.reset(token)  # only the task's own context can
            seen.append(workflow.in_workflow())
            logger.warning("never said")
            call = workflow.start_activity("undo")
            timer = workflow.sleep(1)
            seen.append("called")
            try:
                await call
            finally:
                seen.append("cut short")
                await timer
                seen.append("never")

    machine = new_machine(order)
    machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)
    machine.evict()
    assert seen == [True, "called", "cut short"]
    assert machine.log.entries == []
    assert machine.terminal is None
    machine.evict()  # once is enough, twice does no harm


def test_code_that_swallows_everything_is_given_up_and_named(caplog: pytest.LogCaptureFixture):
    @defn
    async def order() -> None:
        for _ in range(1000):
            try:
                await asyncio.sleep(1)
            except BaseException:
                pass

    machine = new_machine(order)
    machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)
    with caplog.at_level(logging.ERROR, "outlast.workflow"):
        machine.evict()
    assert "w-1" in caplog.text
    assert "swallows" in caplog.text


def test_tasks_that_never_began_are_ended_too(no_collector: None):
    @defn
    async def order() -> None:
        async def other() -> None:
            raise AssertionError

        task = asyncio.create_task(other())
        current_machine().interrupt(RuntimeError("stop here"))
        await task

    machine = new_machine(order)
    with pytest.raises(RuntimeError):
        machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)
    machine.evict()
    driver.made.clear()
    del machine
    assert left_behind() == []


def test_tasks_made_on_the_way_out_are_ended_too(no_collector: None):
    seen = []

    @defn
    async def order() -> None:
        async def other(n: int) -> None:
            try:
                await asyncio.sleep(1)
            finally:
                seen.append(n)

        try:
            await asyncio.sleep(1)
        finally:
            await asyncio.gather(*(other(n) for n in range(3)))

    machine = new_machine(order)
    machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)
    machine.evict()
    driver.made.clear()
    del machine
    assert seen == []  # they never began
    assert left_behind() == []


def test_an_exception_that_nobody_saw_is_told_when_the_run_has_ended(caplog: pytest.LogCaptureFixture):
    kept: list[Any] = []

    @defn
    async def order() -> None:
        async def background() -> None:
            raise KeyError("lost")

        kept.append(asyncio.create_task(background()))
        await asyncio.sleep(0)

    machine = new_machine(order)
    machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)
    machine.evict()
    assert "was never awaited" in caplog.text


def test_a_machine_that_never_began_can_be_evicted():
    new_machine(waits_for_everything).evict()
