"""Cancelling and terminating, at every moment of a run's life."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment
from tests.engine.histories import types_of
from tests.engine.programs import Careful, Sleeper, Sum
from tests.rows import latest_row

from outlast import workflow
from outlast_workflow.errors import WorkflowCancelledError, WorkflowClosedError, WorkflowTerminatedError
from outlast_workflow.options.options import StartOptions


async def test_a_cancel_before_the_first_workflow_task(engine: MakeEnvironment) -> None:
    async with engine(workflows=(), activities=()) as env:
        handle = await env.client.start(Careful.run, 10, id="w")
        await handle.cancel("never mind")
        async with env.new_worker(workflows=programs.WORKFLOWS, activities=programs.ACTIVITIES):
            with pytest.raises(WorkflowCancelledError) as caught:
                await handle.result()
            assert caught.value.reason == "never mind"
        assert programs.calls["wait_long"] == 0


async def test_a_cancel_ends_a_start_delay(engine: MakeEnvironment) -> None:
    async with engine() as env:
        began = env.now()
        handle = await env.client.start(Sleeper.run, 10, id="w", options=StartOptions(start_delay=3600))
        await env.sleep(1)
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        assert env.now() - began < timedelta(seconds=5)


async def test_a_cancel_during_an_activity_lets_the_cleanup_run(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(Careful.run, 1000, id="w")
        await env.sleep(5)
        assert programs.calls["wait_long"] == 1
        await handle.cancel("stop")
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        await env.settle()
        assert programs.calls["wait_long cancelled"] == 1
        assert programs.calls["cleaned up"] == 1
        assert programs.calls["finally"] == 1
        types = await types_of(env.client, "w")
        assert types.count("WorkflowCancelRequested") == 1
        assert "ActivityCancelRequested" in types
        assert types[-1] == "WorkflowCancelled"


async def test_a_cancel_during_a_sleep_cancels_the_timer(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(Sleeper.run, 1000, id="w")
        await env.sleep(5)
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        assert "TimerCancelled" in await types_of(env.client, "w")


async def test_code_may_refuse_to_give_way(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(programs.stubborn, id="w")
        await env.sleep(1)
        await handle.cancel()
        assert await handle.result() == "stayed"


async def test_a_second_cancel_adds_no_event(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(programs.stubborn, id="w")
        await env.sleep(1)
        await handle.cancel("one")
        await handle.cancel("two")
        assert await handle.result() == "stayed"
        assert (await types_of(env.client, "w")).count("WorkflowCancelRequested") == 1


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_a_cancel_and_a_result_at_the_same_time(engine: MakeEnvironment, cancel_first: bool) -> None:
    """In one batch the order of arrival decides; either way the run ends once and returns what it did."""
    async with engine() as env:
        release = asyncio.Event()

        async def held() -> str:
            await release.wait()
            return "came"

        async def waits() -> str:
            return await workflow.execute_activity("held", start_to_close_timeout=60, result_type=str)

        from outlast import activity

        worker = env.new_worker(
            workflows=[workflow.defn(waits)], activities=[activity.defn(held)], task_queue="held"
        )
        async with worker:
            handle = await env.client.start("waits", id="w", task_queue="held", result_type=str)
            await env.settle()
            if cancel_first:
                cancelling = asyncio.ensure_future(handle.cancel())
                await asyncio.sleep(0)
                release.set()
            else:
                release.set()
                await asyncio.sleep(0)
                cancelling = asyncio.ensure_future(handle.cancel())
            outcomes = await asyncio.gather(cancelling, handle.result(), return_exceptions=True)
            types = await types_of(env.client, "w")
            if types[-1] == "WorkflowCompleted":
                assert outcomes[1] == "came"
            else:
                assert types[-1] == "WorkflowCancelled"
                assert isinstance(outcomes[1], WorkflowCancelledError)
                assert outcomes[0] is None


async def test_terminate_ends_everything_at_once(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(Careful.run, 1000, id="w")
        await env.sleep(5)
        await handle.terminate("enough")
        with pytest.raises(WorkflowTerminatedError) as caught:
            await handle.result()
        assert caught.value.reason == "enough"
        await env.settle()
        assert programs.calls["cleaned up"] == 0, "no code of it runs any more"
        assert programs.calls["wait_long cancelled"] == 1
        types = await types_of(env.client, "w")
        assert types[-2:] == ["ActivityCancelled", "WorkflowTerminated"]


async def test_terminate_before_the_first_workflow_task(engine: MakeEnvironment) -> None:
    async with engine(workflows=(), activities=()) as env:
        handle = await env.client.start(Sum.run, [1], id="w")
        await handle.terminate()
        assert await types_of(env.client, "w") == ["WorkflowStarted", "WorkflowTerminated"]


async def test_what_is_closed_can_be_neither_cancelled_nor_terminated(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(Sum.run, [1], id="w")
        await handle.result()
        for ask in (handle.cancel, handle.terminate):
            with pytest.raises(WorkflowClosedError) as caught:
                await ask()
            assert caught.value.status == "completed"


async def test_a_cancel_finds_the_newest_run_of_the_chain(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(programs.waiting_countdown, 5, id="w")
        await env.sleep(250)
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        assert (await latest_row(handle)).run_number == 3
