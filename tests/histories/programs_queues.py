"""Workflows that go through a queue: admission, its run deadline, and a reset that keeps the slot. Never edited."""

from __future__ import annotations

from typing import Any

from outlast import StartOptions, workflow
from outlast.testing import TestEnvironment


@workflow.defn
class Turn:
    """Notes what it sees of its deadline and its queue before and after a wait."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.signal
    def hear(self, word: str) -> None:
        self.heard.append(word)

    @workflow.run
    async def run(self, seconds: float) -> list[Any]:
        info = workflow.info()
        before = workflow.time_remaining()
        await workflow.sleep(seconds)
        after = workflow.time_remaining()
        return [
            None if before is None else before.total_seconds(),
            None if after is None else after.total_seconds(),
            info.queue,
            info.partition_key,
            self.heard,
        ]


@workflow.defn
async def sender() -> list[Any]:
    """Starts children through the queue, one of them delayed."""
    first = workflow.start_child(Turn.run, 1, id="sent", queue="turns", partition_key="child", run_timeout=50)
    second = workflow.start_child(Turn.run, 1, id="sent later", queue="turns", start_delay=30)
    return [await first, await second]


WORKFLOWS = [Turn, sender]
ACTIVITIES: list[Any] = []


async def live(env: TestEnvironment) -> None:
    """One after the other through a queue of one slot; the first is reset while it holds the slot."""
    from tests.queued import write_queue

    await write_queue(env.client.runtime.journal, "turns", concurrency=1)
    options = StartOptions(queue="turns", partition_key="p", run_timeout=100)
    first = await env.client.start(Turn.run, 10, id="first", options=options)
    second = await env.client.start(Turn.run, 1, id="second", options=options)
    parent = await env.client.start(sender, id="parent")
    await second.signal("hear", "in line")
    await env.sleep(4)
    again = await first.reset(4, reason="once more")
    found = await again.result()
    # The timer of the first run goes on, and the run timeout is fresh.
    assert found == [100, 94, "turns", "p", []], found
    assert await second.result() == [100, 99, "turns", "p", ["in line"]]
    await parent.result()
