"""Streams: how soon readers have an item, in the writer's process and in another one, and how many activities write."""

from __future__ import annotations

import asyncio
import time

from benchmarks.costs import Told
from benchmarks.harness.databases import Backend
from benchmarks.harness.figures import Figure, latency, rate
from benchmarks.harness.measuring import expect, timed
from benchmarks.loads.messages import worker_elsewhere
from outlast import activity, workflow
from outlast.client.client import Client
from outlast.worker.worker import Worker

SOON_MS = 5.0
SOON_ELSEWHERE_MS = 25.0
ITEMS_PER_SECOND = 20_000
IN_A_ROW = 1000


@activity.defn(start_to_close_timeout=600)
async def publish(count: int) -> None:
    """Write items as fast as they are taken."""
    stream = activity.stream("items")
    for number in range(count):
        stream.write(number)
        if number % IN_A_ROW == IN_A_ROW - 1:
            await stream.drain()


@workflow.defn
async def publishes(count: int) -> None:
    """Let one activity publish."""
    await publish(count)


async def _latency(url: str, backend: Backend, count: int, where: str, target: float) -> Figure:
    """Measure from the transaction that writes an item, on the clock that all processes of the machine share."""
    seconds: list[float] = []
    async with Client.connect(url) as client:
        handle = await client.start(Told.run)
        items = handle.stream("told", item_type=int)
        for number in range(count):
            waiting = asyncio.ensure_future(anext(items))
            await handle.signal(Told.publish, number)
            item = await waiting
            seconds.append(time.time() - item.written_at.timestamp())
            expect("the offset of an item", item.offset, number)
        await handle.signal(Told.stop)
        await handle.result()
    found = latency("m", backend, f"from the write of an item until a reader {where} has it", seconds)
    found.target = target
    return found


async def _within(url: str, backend: Backend, items: int, written: int) -> list[Figure]:
    async with Client.connect(url) as client, Worker(client, workflows=[Told]):
        soon = await _latency(url, backend, items, "in the process", SOON_MS)
    async with (
        Client.connect(url) as client,
        Worker(client, workflows=[publishes], activities=[publish]),
    ):
        with timed(written) as timing:
            handle = await client.start(publishes, written)
            await handle.result()
        pages = handle.stream("items", start=written - 1)
        expect("the last item", (await anext(pages)).value, written - 1)
    fast = rate("m", backend, f"{written:,} items of one activity, until all are written", timing)
    fast.target, fast.at_least = (ITEMS_PER_SECOND, True) if backend == "sqlite" else (None, False)
    return [soon, fast]


def measure_within(url: str, backend: Backend, items: int, written: int) -> list[Figure]:
    """Measure with client and worker in one process.

    Args:
        url: The database.
        backend: What it is called.
        items: How many items a reader waits for.
        written: How many items an activity writes.
    """
    return asyncio.run(_within(url, backend, items, written))


def measure_across(url: str, backend: Backend, items: int) -> list[Figure]:
    """Measure with the worker in another process.

    Args:
        url: The database.
        backend: What it is called.
        items: How many items a reader waits for.
    """
    with worker_elsewhere(url):
        return [asyncio.run(_latency(url, backend, items, "in another process", SOON_ELSEWHERE_MS))]
