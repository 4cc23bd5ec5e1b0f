"""Activities through queues: limits, order, deadlines, retries and the rest, in virtual time."""

from __future__ import annotations

import asyncio

from tests.queued import write_queue

from outlast import activity, workflow
from outlast.testing import TestEnvironment

RUNNING: list[int] = []
MOST: list[int] = []


@activity.defn(start_to_close_timeout=1000, queue="q")
async def busy(seconds: float) -> float:
    RUNNING.append(1)
    MOST.append(len(RUNNING))
    try:
        await asyncio.sleep(seconds)
    finally:
        RUNNING.pop()
    return seconds


@workflow.defn
async def many(count: int, seconds: float) -> int:
    return len(await asyncio.gather(*[busy(seconds) for _ in range(count)]))


async def queue(env: TestEnvironment, name: str = "q", **limits: int | None) -> None:
    await write_queue(env.client.runtime.journal, name, **limits)


async def test_no_more_run_than_the_queue_allows() -> None:
    async with TestEnvironment(workflows=[many], activities=[busy]) as env:
        await queue(env, concurrency=3)
        assert await env.client.execute(many, 20, 5.0, id="w") == 20
        assert max(MOST) == 3
