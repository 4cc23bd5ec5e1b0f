"""Messages that are received: with and without a timeout, in time, late, cancelled, and moved to the next run."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast import WorkflowClosedError, workflow
from outlast.testing import TestEnvironment
from outlast.workflow import blocking


@workflow.defn
class Inbox:
    """Collects messages until one says to stop; continues as new after five."""

    def __init__(self) -> None:
        self.asides: list[str] = []

    @workflow.run
    async def run(self, read: list[Any]) -> list[Any]:
        while True:
            if len(read) % 6 == 5:
                workflow.continue_as_new([*read, "next"])
            message: Any = await workflow.receive("letter", timeout=60, default="quiet")
            read.append(message)
            if message == "stop":
                return [*read, *self.asides]

    @workflow.signal
    async def listen(self) -> None:
        self.asides.append(await workflow.receive("aside", result_type=str))


@workflow.defn
async def torn() -> list[Any]:
    async def listen(name: str) -> Any:
        return await workflow.receive(name)

    listeners = [asyncio.create_task(listen(name)) for name in ("left", "left", "right")]
    await workflow.sleep(5)
    listeners[0].cancel()
    done, _ = await asyncio.wait(listeners[1:], return_when=asyncio.FIRST_COMPLETED)
    found = [task.result() for task in done]
    try:
        async with asyncio.timeout(10):
            await workflow.receive("never")
    except TimeoutError:
        found.append(await workflow.receive("left", timeout=0, default=None))
    return found


@workflow.defn
def plainly() -> list[Any]:
    found = [blocking.receive("letter")]
    try:
        blocking.receive("letter", timeout=5)
    except TimeoutError:
        found.append(blocking.receive("letter"))
    return found


WORKFLOWS = [Inbox, torn, plainly]
ACTIVITIES: list[Any] = []


async def live(env: TestEnvironment) -> None:
    """Run all of them."""
    client = env.client
    inbox = await client.start(Inbox.run, [], id="inbox")
    for number in range(4):
        await inbox.signal("letter", number)
    await inbox.signal(Inbox.listen)
    await env.sleep(100)
    await inbox.signal("aside", "between us")
    for message in (None, "six", "seven"):
        await inbox.signal("letter", message)
    await inbox.signal("letter", "stop")
    await inbox.result()

    apart = await client.start(torn, id="torn")
    await env.sleep(7)
    await apart.signal("left", 1)
    await apart.signal("left", 2)
    await apart.result()

    plain = await client.start(plainly, id="plain")
    await plain.signal("letter", "one", "two")
    await env.sleep(7)
    await plain.signal("letter")
    await plain.result()
    try:
        await plain.signal("letter", "late")
    except WorkflowClosedError:
        return
