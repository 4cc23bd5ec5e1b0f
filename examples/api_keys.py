"""A rate limit for each key of an API, over all workers: no key is called more often than its provider allows."""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict

from outlast import Client, Rate, Worker, activity, workflow

QUEUE = "api"
RATE = Rate(5, per=0.5)

calls: dict[str, list[float]] = defaultdict(list)
"""When each key was called."""


@activity.defn(queue=QUEUE, start_to_close_timeout=30, schedule_to_close_timeout=3600)
async def fetch(key: str, page: int) -> int:
    calls[key].append(activity.info().started_at.timestamp())
    return page


@workflow.defn
async def import_all(key: str, pages: int) -> int:
    """Call for each page. Each call, and each retry of one, waits in line until the rate of its key allows it."""
    keyed = fetch.with_options(partition_key=key)
    return sum(await asyncio.gather(*(keyed(key, page) for page in range(pages))))


WORKFLOWS = [import_all]
ACTIVITIES = [fetch]


def most_in_any_window(times: list[float], seconds: float) -> int:
    """Return the most calls of any window of a length, wherever it begins."""
    return max(sum(begin <= at < begin + seconds for at in times) for begin in times)


async def main(url: str) -> None:
    async with Client.connect(url) as client:
        await client.queues.define(QUEUE, if_exists="update", partition_rate=RATE)
        # They could as well be processes on several machines.
        workers = [Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES) for _ in range(2)]
        async with workers[0], workers[1]:
            handles = [
                await client.start(import_all, key, 12, id=f"import/{key}") for key in ("key-1", "key-2")
            ]
            await asyncio.gather(*(handle.result() for handle in handles))
        most = max(most_in_any_window(times, RATE.per) for times in calls.values())
        print("calls of each key:", {key: len(times) for key, times in sorted(calls.items())})
        print("no key was called more than 5 times in any half second" if most <= 5 else f"{most} calls")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/api.db"))
