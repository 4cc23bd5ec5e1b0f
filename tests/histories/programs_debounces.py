"""Workflows whose starts were debounced: the last input counts, in the constructor too. Never edited."""

from __future__ import annotations

from typing import Any

from outlast import StartOptions, workflow
from outlast.testing import TestEnvironment


@workflow.defn
class Synced:
    """Returns the input that its constructor saw and the one that its run method got."""

    @workflow.init
    def __init__(self, version: int) -> None:
        self.constructed_with = version

    @workflow.run
    async def run(self, version: int) -> list[int]:
        await workflow.sleep(1)
        return [self.constructed_with, version]


WORKFLOWS = [Synced]
ACTIVITIES: list[Any] = []


async def live(env: TestEnvironment) -> None:
    """One call alone, a burst, a burst that stands in line, and a burst that is reset after it has ended."""
    from tests.queued import write_queue

    await write_queue(env.client.runtime.journal, "turns", concurrency=1)
    alone = await env.client.debounce(Synced.run, 1, key="alone", period=5)
    burst = [await env.client.debounce(Synced.run, version, key="burst", period=5) for version in (1, 2, 3)]
    queued = StartOptions(queue="turns")
    await env.client.start(Synced.run, 0, id="first", options=queued)
    lined = await env.client.debounce(Synced.run, 1, key="line", period=1, timeout=2, options=queued)
    await env.client.queues.pause("turns")
    await env.sleep(4)
    await env.client.debounce(Synced.run, 2, key="line", period=1, timeout=2)
    await env.client.queues.resume("turns")
    assert await alone.result() == [1, 1]
    assert [await handle.result() for handle in burst] == [[3, 3]] * 3
    assert await lined.result() == [2, 2]
    assert await (await burst[0].reset("first-workflow-task")).result() == [3, 3]
