"""The bus in virtual time: what is published reaches who listens, once, and only them."""

from __future__ import annotations

import asyncio

import pytest
from tests.serverless.events.cases import LISTENS, event, make, signals, subscriptions, waiting

from outlast.errors import InvalidOptionError, WorkflowClosedError
from outlast.testing import TestEnvironment
from outlast_serverless import Runtime


async def test_an_event_is_kept_once(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        assert await runtime.publish(event(1))
        assert not await runtime.publish(event(1, "other"))
        with pytest.raises(InvalidOptionError, match="`id`"):
            await runtime.publish({"type": "t"})
        await runtime.route()
        assert await waiting(env.client) == 0


async def test_a_listen_is_described_and_closed(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        async with env.new_worker(workflows=runtime.workflows, activities=runtime.activities):
            run = await runtime.start(make(LISTENS + "\ntimeout: {after: PT1H}"))
            await asyncio.sleep(1)
        state = await run.describe()
        assert (state.phase, [(one.kind, one.pointer) for one in state.open]) == (
            "waiting",
            [("listen", "/do/0/l")],
        )
        assert state.open[0].since is not None
        async with env.new_worker(workflows=runtime.workflows, activities=runtime.activities):
            for number in range(3):
                await runtime.publish(event(number))
            assert await run.result() == [0, 1, 2]
            assert (await run.describe()).open == ()
            with pytest.raises(WorkflowClosedError):
                await run.publish(event(9))
            await asyncio.sleep(130)
            assert await subscriptions(env.client) == 0


@pytest.mark.parametrize("ending", ["cancel", "terminate", "timeout"])
async def test_who_ended_listens_no_more(ending: str, database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        async with env.new_worker(workflows=runtime.workflows, activities=runtime.activities):
            limit = "\ntimeout: {after: PT10S}" if ending == "timeout" else ""
            run = await runtime.start(make(LISTENS + limit))
            await asyncio.sleep(1)
            assert await subscriptions(env.client) == 1
            if ending == "cancel":
                await run.cancel()
            elif ending == "terminate":
                await run.handle.terminate("enough")
            await asyncio.sleep(10)
            await runtime.publish(event(1))
            await asyncio.sleep(2)
            assert await subscriptions(env.client) == 0
            assert await waiting(env.client) == 0


async def test_an_event_wakes_only_who_waits_for_it(database_url: str) -> None:
    document = make(
        "do: [{l: {listen: {to: {one: {with: {type: t},\n"
        "  correlate: {order: {from: .data.order, expect: '${ .id }'}}}}}}}]"
    )
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        runs = [await runtime.start(document, {"id": number}) for number in range(20)]
        await asyncio.sleep(5)
        await runtime.publish(event(1, {"order": 7}))
        assert await runs[7].result() == [{"order": 7}]
        await asyncio.sleep(5)
        assert [await signals(run) for run in runs] == [int(number == 7) for number in range(20)]


async def test_what_a_correlation_has_seen_narrows_it(database_url: str) -> None:
    document = make(
        "do: [{l: {listen: {to: {any: [{with: {type: t}, correlate: {room: {from: .data.room}}}],\n"
        "  until: length == 2}}}}]"
    )
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(document)
        await asyncio.sleep(1)
        await runtime.publish(event(0, {"room": 1}))
        await asyncio.sleep(2)
        for number in range(1, 20):
            await runtime.publish(event(number, {"room": 2}))
        await asyncio.sleep(2)
        assert await signals(run) == 1
        await runtime.publish(event(20, {"room": 1}))
        assert await run.result() == [{"room": 1}, {"room": 1}]


async def test_what_was_sent_but_not_noted_is_sent_once(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(make(LISTENS), id="a")
        await asyncio.sleep(1)
        for number in range(2):
            # A process that dies after this.
            await run.publish(event(number))
            await runtime.publish(event(number))
        await asyncio.sleep(2)
        assert await signals(run) == 2
        await runtime.publish(event(2))
        assert await run.result() == [0, 1, 2]


async def test_old_events_are_forgotten(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client, events_kept=30) as runtime:
        assert await runtime.publish(event(1))
        await asyncio.sleep(20)
        assert not await runtime.publish(event(1))
        await asyncio.sleep(200)
        assert await runtime.publish(event(1))


async def test_a_run_that_listens_no_more_is_not_woken(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(make(LISTENS.replace("3", "1")[:-1] + ", {w: {wait: PT10S}}]"))
        await asyncio.sleep(1)
        await runtime.publish(event(0))
        await asyncio.sleep(2)
        assert await subscriptions(env.client) == 0
        await runtime.publish(event(1))
        assert await run.result() == [0]
        assert await signals(run) == 1


async def test_what_waited_when_a_listen_began_is_not_sent(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        async with env.new_worker(workflows=runtime.workflows, activities=runtime.activities):
            await asyncio.sleep(1)
            # A runtime that was not entered does not route.
            await Runtime(env.client).publish(event(0))
            run = await runtime.start(make(LISTENS))
            await asyncio.sleep(2)
            assert await waiting(env.client) == 0
            assert await signals(run) == 0


async def test_whoever_publishes_may_leave_at_once(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env:
        async with asyncio.timeout(3_600):
            for number in range(30):
                async with Runtime(env.client) as runtime:
                    for _ in range(number % 4):
                        await asyncio.sleep(0)
                    await runtime.publish(event(number))
