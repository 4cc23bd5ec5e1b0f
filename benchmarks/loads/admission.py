"""Admission alone, and whether a look at a queue costs the same however much waits in it.

Nothing here runs a workflow: one change after the other admits from a line, as a worker's looks do. Two databases take
turns, one with a short line and one with a long one, or one of few tenants and one of many. The statements must be the
same; for the time, the median of the ratios of neighbouring windows counts.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from contextlib import AsyncExitStack

from benchmarks.harness.counting import Counter, Counts
from benchmarks.harness.databases import Backend, Databases
from benchmarks.harness.figures import Figure, rate
from benchmarks.harness.filling import fill_waiting
from benchmarks.harness.inputs import WORKFLOW_TYPE
from benchmarks.harness.measuring import Timing, expect, timed
from outlast import Queue, Rate
from outlast.client.client import Client
from outlast.worker.runs.claimer import MOST_RUNS_CLAIMED
from outlast_runs.admission import AdmitFromQueue, Taker

QUEUE = "bench"
LEAST_RATE = {"sqlite": 10_000.0, "postgresql": 5_000.0}
MOST_RATIO = 1.2
WINDOW = 5
"""How many looks a window has."""
A_LOOK = 4
"""How many runs a look admits where lines are compared: few, so that what a look costs by itself shows."""
TENANTS = 100
MANY = 1_000_000
PLAIN = Queue(QUEUE)
LIMITED = Queue(
    QUEUE,
    concurrency=MANY,
    worker_concurrency=MANY,
    rate=Rate(MANY, per=60),
    partition_concurrency=MANY,
    partition_worker_concurrency=MANY,
    partition_rate=Rate(MANY, per=60),
)
"""All limits, so that all are counted; none is reached."""

Partition = Callable[[int], str | None]


async def _admit(client: Client, most: int) -> int:
    """Admit as a worker does; return how many."""
    taker = Taker("bench", ["default"], workflows=frozenset({WORKFLOW_TYPE}), runs=most)
    return len((await client.runtime.journal.apply(AdmitFromQueue(QUEUE, taker))).runs)


async def _all_admitted(url: str, queue: Queue, count: int) -> Timing:
    async with Client.connect(url) as client:
        await client.queues.define_queue(queue, "update")
        admitted = 0
        with timed(count) as timing:
            while more := await _admit(client, MOST_RUNS_CLAIMED):
                admitted += more
        expect("runs that were admitted", admitted, count)
    return timing


def alone(databases: Databases, backend: Backend, count: int) -> list[Figure]:
    """Measure admissions, without limits and with all of them."""
    found: list[Figure] = []
    for words, queue, partition, target in (
        ("no limits", PLAIN, _none, LEAST_RATE[backend]),
        (f"all limits, {TENANTS} tenants", LIMITED, _of(TENANTS), None),
    ):
        with databases.fresh(backend) as url:
            fill_waiting(url, count, queue=QUEUE, partition=partition)
            timing = asyncio.run(_all_admitted(url, queue, count))
        figure = rate("l", backend, f"{count:,} runs are admitted from a queue: {words}", timing)
        figure.target, figure.at_least = target, True
        found.append(figure)
    return found


def _none(number: int) -> None:
    return None


def _of(tenants: int) -> Partition:
    return lambda number: f"tenant-{number % tenants:05}"


async def _window(client: Client) -> Timing:
    with timed(WINDOW) as timing:
        admitted = [await _admit(client, A_LOOK) for _ in range(WINDOW)]
    expect("what the looks admitted", admitted, [A_LOOK] * WINDOW)
    return timing


async def _compare(
    urls: tuple[str, str], queue: Queue, counter: Counter, rounds: int
) -> tuple[list[Timing], list[Timing], list[Counts]]:
    few: list[Timing] = []
    many: list[Timing] = []
    counts: list[Counts] = []
    async with AsyncExitStack() as stack:
        clients: list[Client] = []
        for url in urls:
            client = await stack.enter_async_context(Client.connect(url))
            clients.append(client)
            await client.queues.define_queue(queue, "update")
            await _window(client)
        for number in range(rounds):
            turns = ((clients[0], few), (clients[1], many))
            for client, into in turns if number % 2 else reversed(turns):
                into.append(await _window(client))
        for client in clients:
            with counter.counting() as counted:
                await _window(client)
            counts.append(counted)
    return few, many, counts


def _compared(
    backend: Backend, what: str, found: tuple[list[Timing], list[Timing], list[Counts]]
) -> list[Figure]:
    few, many, counts = found
    pairs = list(zip(few, many, strict=True))
    details = {
        "of CPU": statistics.median(late.cpu_s / early.cpu_s for early, late in pairs),
        "ms": statistics.median(one.wall_us for one in many) / 1e3,
        "rounds": len(pairs),
    }
    ratio = statistics.median(late.wall_s / early.wall_s for early, late in pairs)
    figures = [Figure("l", backend, f"{what}: time", ratio, "×", MOST_RATIO, details=details)]
    if backend == "sqlite":
        # Each statement is told from the others by its verb and table, however many marks it has.
        more = sum(
            abs(counts[1].kinds[kind] - counts[0].kinds[kind]) for kind in counts[0].kinds | counts[1].kinds
        )
        figures.append(Figure("l", backend, f"{what}: statements more or less", float(more), "in all", 0.0))
    return figures


def lines(databases: Databases, backend: Backend, sizes: tuple[int, int], rounds: int) -> list[Figure]:
    """Compare a look at a short line with one at a long line."""
    short, long = sizes
    with databases.fresh(backend) as first, databases.fresh(backend) as second, Counter() as counter:
        fill_waiting(first, short, queue=QUEUE)
        fill_waiting(second, short, queue=QUEUE, copies=long // short - 1)
        found = asyncio.run(_compare((first, second), PLAIN, counter, rounds))
    return _compared(backend, f"a look at {long:,} in line to one at {short:,}", found)


def tenants(databases: Databases, backend: Backend, sizes: tuple[int, int], rounds: int) -> list[Figure]:
    """Compare a look at the lines of a few tenants with one at those of many, with all limits."""
    few, many = sizes
    with databases.fresh(backend) as first, databases.fresh(backend) as second, Counter() as counter:
        for url, number in ((first, few), (second, many)):
            fill_waiting(url, number, queue=QUEUE, partition=_of(number), copies=max(many // number, 2) - 1)
        found = asyncio.run(_compare((first, second), LIMITED, counter, rounds))
    return _compared(backend, f"a look at the lines of {many:,} tenants to one at those of {few:,}", found)
