"""Messages: received in order and once, by code that is evicted, replayed, cancelled and continued."""

from __future__ import annotations

from typing import Any

from tests.engine.conftest import MakeEnvironment

from outlast import workflow
from outlast.workflow import blocking


@workflow.defn
async def reader(most: int, read: list[Any]) -> list[Any]:
    """Reads until somebody says stop, and continues as new after each few messages."""
    for _ in range(most):
        message: Any = await workflow.receive("letter", timeout=60, default="quiet")
        if message == "stop":
            return read
        read.append(message)
    workflow.continue_as_new(most, read)


@workflow.defn
def plain_reader() -> list[Any]:
    return [blocking.receive("letter"), blocking.receive("letter", timeout=60, default="quiet")]


@workflow.defn
async def dashing() -> list[Any]:
    """Reads one message after each pause."""
    read: list[Any] = []
    while not read or read[-1] != "stop":
        await workflow.sleep(10)
        read.append(await workflow.receive("letter"))
    return read


WORKFLOWS = [reader, plain_reader, dashing]


async def test_messages_are_received_in_order_along_a_chain(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.start(reader, 3, [], id="r")
        for message in (1, None, [2], {"three": 3}, "four"):
            await handle.signal("letter", message)
        await env.sleep(70)
        await handle.signal("letter", "stop")
        assert await handle.result() == [1, None, [2], {"three": 3}, "four", "quiet"]


async def test_messages_wait_for_the_code_that_will_receive_them(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.start(dashing, id="d")
        for message in ("a", "b", "stop"):
            await handle.signal("letter", message, request_id=message)
        await handle.signal("letter", "a", request_id="a")
        await env.sleep(1)
        found = await handle.describe()
        assert [(one.name, one.count) for one in found.pending_signals] == [("letter", 3)]
        assert found.receiving == ()
        assert await handle.result() == ["a", "b", "stop"]


async def test_what_a_run_waits_to_receive_is_described(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.start(reader, 3, [], id="r")
        await env.sleep(1)
        found = await handle.describe()
        assert found.receiving == ("letter",)
        assert [timer.summary for timer in found.pending_timers] == ["receive letter"]
        await handle.signal("letter", "stop")
        assert await handle.result() == []
        assert (await handle.describe()).receiving == ()


async def test_plain_code_receives(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.start(plain_reader, id="p")
        await env.sleep(1)
        await handle.signal("letter", "a", "b")
        assert await handle.result() == [["a", "b"], "quiet"]


async def test_a_message_comes_with_the_start_and_from_another_workflow(engine: MakeEnvironment) -> None:
    async with engine(workflows=[*WORKFLOWS, sender]) as env:
        handle = await env.client.signal_with_start(dashing, signal="letter", signal_args=["first"], id="d")
        await env.client.execute(sender, "d", "stop")
        assert await handle.result() == ["first", "stop"]


@workflow.defn
async def sender(whom: str, message: str) -> None:
    await workflow.external(whom).signal("letter", message)
