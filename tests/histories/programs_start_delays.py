"""Workflows whose start was moved before they began: without a queue, delayed in one, and in its line. Never edited."""

from __future__ import annotations

from typing import Any

from outlast import StartOptions, workflow
from outlast.testing import TestEnvironment


@workflow.defn
class Moved:
    """Notes what it sees of its run deadline, and what it heard before it began."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.signal
    def hear(self, word: str) -> None:
        self.heard.append(word)

    @workflow.run
    async def run(self, seconds: float) -> list[Any]:
        before = workflow.time_remaining()
        await workflow.sleep(seconds)
        return [None if before is None else before.total_seconds(), self.heard]


WORKFLOWS = [Moved]
ACTIVITIES: list[Any] = []


async def live(env: TestEnvironment) -> None:
    """Starts that are moved to later, to sooner, out of the line and back; one workflow is reset after that."""
    from tests.queued import write_queue

    await write_queue(env.client.runtime.journal, "turns", concurrency=1)
    plain = StartOptions(start_delay=30, run_timeout=100)
    queued = StartOptions(queue="turns", run_timeout=100)
    later = await env.client.start(Moved.run, 1, id="later", options=plain)
    sooner = await env.client.start(Moved.run, 1, id="sooner", options=plain)
    again = await env.client.start(Moved.run, 5, id="again", options=plain)
    first = await env.client.start(Moved.run, 10, id="first", options=queued)
    out = await env.client.start(Moved.run, 1, id="out of the line", options=queued)
    back = await env.client.start(Moved.run, 1, id="and back", options=queued)
    await later.set_start_delay(60)
    await sooner.set_start_delay(0)
    await again.set_start_delay(10)
    await out.set_start_delay(40)
    await back.set_start_delay(500)
    await back.signal("hear", "come")
    await back.set_start_delay(20)
    await env.sleep(12)
    anew = await again.reset(4)
    assert await anew.result() == [100, []]
    assert await later.result() == await sooner.result() == [100, []]
    assert await out.result() == [100, []]
    assert await back.result() == [100, ["come"]]
    await first.result()
