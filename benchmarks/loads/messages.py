"""Signals and updates to one run: from the worker's process, and from another one through the database."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial

from benchmarks.costs import Told
from benchmarks.harness.databases import Backend
from benchmarks.harness.figures import Figure, latency, rate
from benchmarks.harness.measuring import Timing, expect, timed
from benchmarks.harness.processes import ROOT
from outlast.client.client import Client
from outlast.client.workflows.handle import WorkflowHandle
from outlast.worker.worker import Worker

AT_ONCE = 100

Send = Callable[[int], Awaitable[object]]


async def _send(send: Send, count: int, at_once: int) -> tuple[Timing, list[float]]:
    """Send numbers, some at a time; return the seconds that each took."""
    numbers, seconds = iter(range(count)), list[float]()

    async def sender() -> None:
        for number in numbers:
            begun = time.perf_counter()
            await send(number)
            seconds.append(time.perf_counter() - begun)

    with timed(count) as timing:
        await asyncio.gather(*(sender() for _ in range(at_once)))
    return timing, seconds


async def _begin(client: Client) -> WorkflowHandle[int]:
    handle = await client.start(Told.run)
    await handle.execute_update(Told.ask, 0)
    return handle


async def _end(handle: WorkflowHandle[int], count: int) -> None:
    await handle.signal(Told.stop)
    expect("the sum of what was sent", await handle.result(), count * (count - 1) // 2)


async def _signals(client: Client, backend: Backend, count: int, where: str) -> list[Figure]:
    found: list[Figure] = []
    for at_once in (1, AT_ONCE):
        handle = await _begin(client)
        timing, seconds = await _send(partial(handle.signal, Told.tell), count, at_once)
        with timed(count) as rest:
            await _end(handle, count)
        timing.wall_s, timing.cpu_s = timing.wall_s + rest.wall_s, timing.cpu_s + rest.cpu_s
        how = "one after the other" if at_once == 1 else f"{at_once} at a time"
        figure = rate("e", backend, f"{count:,} signals to one run, {how}, {where}: sent and handled", timing)
        figure.details |= latency("e", backend, "", seconds).details
        found.append(figure)
    return found


async def _updates(client: Client, backend: Backend, count: int, where: str) -> Figure:
    handle = await _begin(client)
    _, seconds = await _send(partial(handle.execute_update, Told.ask), count, 1)
    await _end(handle, count)
    return latency("e", backend, f"round trip of an update, {where}", seconds)


async def _measure(url: str, backend: Backend, signals: int, updates: int, where: str) -> list[Figure]:
    async with Client.connect(url) as client:
        found = await _signals(client, backend, signals, where)
        return [*found, await _updates(client, backend, updates, where)]


async def _within(url: str, backend: Backend, signals: int, updates: int) -> list[Figure]:
    where = "in the worker's process"
    async with Client.connect(url) as client, Worker(client, workflows=[Told]):
        found = await _signals(client, backend, signals, where)
        return [*found, await _updates(client, backend, updates, where)]


@contextmanager
def worker_elsewhere(url: str) -> Generator[None]:
    """``outlast worker`` for :class:`Told`, in another process."""
    command = [
        sys.executable,
        "-m",
        "outlast",
        "worker",
        "benchmarks.costs",
        "--url",
        url,
        "--log-level=error",
    ]
    worker = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)


def measure_within(url: str, backend: Backend, signals: int, updates: int) -> list[Figure]:
    """Measure with client and worker in one process."""
    return asyncio.run(_within(url, backend, signals, updates))


def measure_across(url: str, backend: Backend, signals: int, updates: int) -> list[Figure]:
    """Measure with the worker in another process, so that every message goes through the database."""
    with worker_elsewhere(url):
        return asyncio.run(_measure(url, backend, signals, updates, "from another process"))
