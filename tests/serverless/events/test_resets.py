"""Resets, resumes and forks into the middle of a listen."""

from __future__ import annotations

import asyncio

import pytest
from tests.serverless.events.cases import event, listens, make, subscriptions

from outlast.errors import WorkflowCancelledError
from outlast.testing import TestEnvironment
from outlast_serverless import Runtime

TWO = """do: [{l: {listen: {to: {any: [{with: {type: t}}], until: length == 2}},
                   foreach: {do: [{s: {set: '${ . }'}}, {w: {wait: PT1S}}, {o: {set: '${ $item }'}}]}}}]"""


async def test_a_run_that_was_cancelled_while_it_listened_is_resumed_and_hears(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url, replay=True) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(make(TWO), id="a")
        await listens(run)
        await runtime.publish(event(1))
        await asyncio.sleep(9)
        await run.cancel()
        with pytest.raises(WorkflowCancelledError):
            await run.result()
        await asyncio.sleep(90)
        assert await subscriptions(env.client) == 0
        # Nobody listened when it came, but the task had begun to.
        await runtime.publish(event(2))
        await asyncio.sleep(9)
        resumed = await run.handle.resume()
        assert await resumed.result() == [1, 2]


async def test_a_reset_into_the_middle_of_a_listen_hears_what_comes(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url, replay=True) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(make(TWO), id="a")
        await listens(run)
        await runtime.publish(event(1))
        await asyncio.sleep(9)
        seq = max([one.seq async for one in run.handle.history()])
        await runtime.publish(event(2))
        assert await run.result() == [1, 2]
        again = await run.handle.reset(seq, signals=False)
        await asyncio.sleep(9)
        assert [one.kind for one in (await runtime.run("a").describe()).open] == ["listen"]
        # What was left behind stays behind.
        await runtime.publish(event(2))
        await runtime.publish(event(3))
        assert await again.result() == [1, 3]


async def test_a_fork_from_the_middle_of_a_listen_hears_what_comes(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url, replay=True) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(make(TWO), id="a")
        await listens(run)
        await runtime.publish(event(1))
        await asyncio.sleep(1.5)
        # The task for the first event is under way.
        other = await run.handle.fork(max([one.seq async for one in run.handle.history()]), id="b")
        await asyncio.sleep(9)
        await runtime.publish(event(2))
        assert [await one.result() for one in (run.handle, other)] == [[1, 2], [1, 2]]
