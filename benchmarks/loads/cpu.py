"""What a sync activity that computes costs the rest of its worker: in a thread, and in a process of its own.

Workflows with one activity run for a while, alone and next to the computing one, in turns. The median of the rounds'
ratios counts.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.databases import Backend, Databases
from benchmarks.harness.figures import Figure
from benchmarks.harness.inputs import answer_to, argument
from benchmarks.harness.measuring import expect
from benchmarks.harness.workloads import charge, order
from outlast import activity, workflow
from outlast.client.client import Client
from outlast.worker.worker import Worker

IN_FLIGHT = 90
"""Fewer than the slots of a worker with defaults, of which the computing activity holds one."""
MOST = 3.0


def _compute(file: str) -> int:
    """Use a processor for as long as a file exists."""
    steps = 0
    Path(file + ".begun").touch()
    while Path(file).exists():
        steps += sum(number * number for number in range(20_000))
    return steps


@activity.defn(start_to_close_timeout=600)
def computes_in_thread(file: str) -> int:
    """Compute in the worker's own interpreter."""
    return _compute(file)


@activity.defn(start_to_close_timeout=600, executor="process")
def computes_in_process(file: str) -> int:
    """Compute in another interpreter."""
    return _compute(file)


@workflow.defn
async def in_thread(file: str) -> int:
    """Compute in a thread."""
    return await computes_in_thread(file)


@workflow.defn
async def in_process(file: str) -> int:
    """Compute in a process."""
    return await computes_in_process(file)


async def _orders_a_second(client: Client, seconds: float) -> float:
    """Run workflows for a number of seconds."""
    numbers, begun, done = itertools.count(), time.perf_counter(), 0

    async def customer() -> None:
        nonlocal done
        # Each runs one at least: the first may begin only when the time is over.
        while True:
            value = argument(next(numbers))
            expect("a workflow's result", await client.execute(order, value), answer_to(value))
            done += 1
            if time.perf_counter() - begun >= seconds:
                return

    await asyncio.gather(*(customer() for _ in range(IN_FLIGHT)))
    return done / (time.perf_counter() - begun)


async def _next_to(client: Client, computing: Any, file: Path, seconds: float) -> float:
    file.touch()
    handle = await client.start(computing, str(file))
    begun = Path(f"{file}.begun")
    while not begun.exists():
        await asyncio.sleep(0.01)
    found = await _orders_a_second(client, seconds)
    file.unlink()
    expect("whether it computed", await handle.result() > 0, True)
    begun.unlink()
    return found


async def _measure(url: str, seconds: float, rounds: int, folder: Path) -> dict[str, list[float]]:
    slower: dict[str, list[float]] = {"thread": [], "process": []}
    async with Client.connect(url) as client:
        worker = Worker(
            client,
            workflows=[order, in_thread, in_process],
            activities=[charge, computes_in_thread, computes_in_process],
        )
        async with worker:
            await _orders_a_second(client, seconds / 2)
            for number in range(rounds):
                for name, computing in (("thread", in_thread), ("process", in_process)):
                    alone = await _orders_a_second(client, seconds)
                    next_to = await _next_to(client, computing, folder / f"{name}{number}", seconds)
                    slower[name].append(alone / next_to)
    return slower


def measure(databases: Databases, backend: Backend, seconds: float, rounds: int) -> list[Figure]:
    """Return how many times slower the other workflows are next to it."""
    with tempfile.TemporaryDirectory() as folder, databases.fresh(backend) as url:
        slower = asyncio.run(_measure(url, seconds, rounds, Path(folder)))
    words = "workflows next to a sync activity that computes in a {}: slower by"
    return [
        Figure(
            "j",
            backend,
            words.format(name),
            statistics.median(ratios),
            "×",
            MOST,
            details={"rounds": len(ratios)},
        )
        for name, ratios in slower.items()
    ]
