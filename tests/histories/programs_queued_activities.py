"""Activities that stand in the line of a queue: with and without a partition, one retried, one left. Never edited."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast import ApplicationError, RetryPolicy, activity, workflow
from outlast.testing import TestEnvironment


@activity.defn(start_to_close_timeout=60, queue="calls", retry_policy=RetryPolicy(initial_interval=2))
async def fetch(what: str, failures: int) -> str:
    """Returns what it is asked for, once it has failed so many times."""
    if activity.info().attempt <= failures:
        raise ApplicationError("busy")
    return what


@workflow.defn
async def collect() -> list[Any]:
    """Calls through a queue, by key and without one; a call that nobody wants any more leaves the line."""
    keyed = fetch.with_options(partition_key="key-1", priority=1)
    found: list[Any] = list(
        await asyncio.gather(fetch("a", 0), keyed("b", 1), workflow.execute_activity(fetch, "c", 0))
    )
    left = workflow.start_activity(fetch, "d", 0, queue="closed", partition_key="key-2")
    await workflow.sleep(5)
    left.cancel()
    found.append(await workflow.execute_local_activity(plain, 7))
    return found


@activity.defn(start_to_close_timeout=60)
async def plain(number: int) -> int:
    """Returns what it is given; it has no queue."""
    return number


WORKFLOWS = [collect]
ACTIVITIES: list[Any] = [fetch, plain]


async def live(env: TestEnvironment) -> None:
    """One slot, and a queue that is paused."""
    await env.client.queues.define("calls", concurrency=1)
    await env.client.queues.define("closed")
    await env.client.queues.pause("closed")
    handle = await env.client.start(collect, id="collect")
    assert await handle.result() == ["a", "b", "c", 7]
