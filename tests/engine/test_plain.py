"""Synchronous workflows in the engine: their histories are those of their asynchronous twins, on each store."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine import plain, programs
from tests.engine.conftest import MakeEnvironment
from tests.rows import latest_row

from outlast.testing import Replayer, TestEnvironment
from outlast_workflow.errors import WorkflowCancelledError

if TYPE_CHECKING:
    from typing import assert_type

    from outlast.client.client import Client

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Told = list[tuple[str, str, str, str]]
Drive = Callable[[TestEnvironment], Awaitable[Any]]


async def approved(env: TestEnvironment) -> Any:
    handle = await env.client.start("Order", 4, id="order")
    await env.sleep(10)
    await handle.signal("approve", "ada")
    await handle.signal("mark", "bob")
    result = await handle.result()
    assert result[:3] == [16, 24, 9]
    return result


async def left_alone(env: TestEnvironment) -> Any:
    result = await env.client.execute("Order", 1, id="order")
    assert result[3] == ["nobody", "ApplicationError"]
    return result


async def cancelled(env: TestEnvironment) -> Any:
    handle = await env.client.start("careful", id="careful")
    await env.sleep(3)
    await handle.cancel(reason="enough")
    with pytest.raises(WorkflowCancelledError):
        await handle.result()
    assert programs.calls["tidied"] == 1


async def continued(env: TestEnvironment) -> Any:
    await env.client.start("Order", 4, id="listener")
    result = await env.client.execute("rounds", 1, id="rounds")
    assert await env.client.handle("listener").result()
    return result


async def updated(env: TestEnvironment) -> Any:
    handle = await env.client.start("Basket", id="basket")
    answers = [await handle.execute_update("add", number, id=f"u-{number}") for number in (1, 2)]
    assert await handle.query("contents") == [2, 3]
    await handle.signal("finish")
    assert answers == [1, 2]
    return await handle.result()


async def told(env: TestEnvironment) -> Told:
    """All events of all runs, with their ids (which differ from run to run) taken out."""
    events: Told = []
    async for run in env.client.list():
        async for event in env.client.handle(run.workflow_id, run_id=run.run_id).history():
            payload = UUID.sub("an-id", str(event.payload))
            events.append((run.workflow_type, event.type, event.recorded_at.isoformat(), payload))
    return sorted(events)


@pytest.mark.usefixtures("one_worker")
@pytest.mark.parametrize("drive", [approved, left_alone, cancelled, continued, updated])
async def test_the_history_is_that_of_the_asynchronous_twin(
    engine: MakeEnvironment, in_memory: MakeEnvironment, drive: Drive
) -> None:
    async with in_memory(workflows=plain.COROUTINES) as env:
        expected = (await drive(env), await told(env))
    programs.calls.clear()
    async with engine(workflows=plain.PLAIN) as env:
        assert (await drive(env), await told(env)) == expected


async def test_a_run_of_coroutines_goes_on_as_plain_code(engine: MakeEnvironment) -> None:
    """A deploy that rewrites a workflow as plain code, or the other way round, changes nothing for runs under way."""
    async with engine(workflows=plain.COROUTINES) as env:
        handle = await env.client.start("Order", 4, id="order")
        await env.sleep(10)
        await env.worker.stop()
        async with env.new_worker(workflows=plain.PLAIN, activities=programs.ACTIVITIES):
            await handle.signal("approve", "ada")
            await env.sleep(10)
        async with env.new_worker(workflows=plain.COROUTINES, activities=programs.ACTIVITIES):
            await handle.signal("mark", "bob")
            assert (await handle.result())[3] == ["ada", "bob", "ApplicationError"]
            row = await latest_row(handle)
            assert row.task_failures == 0


async def test_the_replayer_takes_either_twin_for_the_other(in_memory: MakeEnvironment) -> None:
    for recorded, now in ((plain.COROUTINES, plain.PLAIN), (plain.PLAIN, plain.COROUTINES)):
        async with in_memory(workflows=recorded) as env:
            await updated(env)
            await approved(env)
            histories = [
                [event async for event in env.client.handle(run.workflow_id).history()]
                async for run in env.client.list()
            ]
        for history in histories:
            assert Replayer(workflows=now).replay(history).ok


async def test_a_blocking_call_in_a_coroutine_shows_in_describe(in_memory: MakeEnvironment) -> None:
    from outlast import workflow

    @workflow.defn
    async def mixed() -> None:
        workflow.blocking.sleep(1)

    async with in_memory(workflows=[mixed]) as env:
        handle = await env.client.start(mixed, id="mixed")
        await env.sleep(0.5)
        (failure, *_) = (await handle.describe()).failures
        assert failure.exception_class == "DurableCallError"
        assert "use `await workflow.sleep(…)`" in failure.message
        await handle.terminate()


if TYPE_CHECKING:

    async def starting(client: Client) -> None:
        handle = await client.start(plain.PlainOrder.run, 4, id="x")
        assert_type(await handle.result(), list[Any])
        assert_type(await client.execute(plain.plain_child, 5), int)
        await client.start(plain.plain_child, "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
