"""Whether a workflow costs the same however many runs the database holds, closed or open.

Two databases, one of few runs and one of many, are served in this process and take turns, a window of workflows each.
What reaches the database must be equal byte for byte, except for the length of numbers. For the time, the median of
the ratios of neighbouring windows counts.
"""

from __future__ import annotations

import asyncio
import statistics
from contextlib import AsyncExitStack

from benchmarks.costs import Told
from benchmarks.harness.counting import Counter, Counts
from benchmarks.harness.databases import Backend, Databases
from benchmarks.harness.figures import Figure
from benchmarks.harness.filling import fill_runs
from benchmarks.harness.measuring import Timing, expect, timed
from benchmarks.harness.workloads import charge, order, run_orders
from outlast.client.client import Client
from outlast.worker.worker import Worker

WINDOW = 50
MESSAGES = 10
MOST_RATIO = 1.2


async def _window(client: Client) -> Timing:
    with timed(WINDOW) as timing:
        await run_orders(client, WINDOW, 1)
    return timing


async def _counted(client: Client, counter: Counter) -> Counts:
    """Run workflows with an activity, and one that receives signals and updates."""
    await _mixed(client)
    with counter.counting() as counts:
        await _mixed(client)
    return counts


async def _mixed(client: Client) -> None:
    await run_orders(client, WINDOW, 1)
    handle = await client.start(Told.run)
    for number in range(MESSAGES):
        await handle.execute_update(Told.ask, number)
    await handle.signal(Told.stop)
    expect("the sum of what was sent", await handle.result(), sum(range(MESSAGES)))


async def _compare(
    urls: tuple[str, str], counter: Counter, rounds: int
) -> tuple[list[Timing], list[Timing], list[Counts]]:
    few: list[Timing] = []
    many: list[Timing] = []
    async with AsyncExitStack() as stack:
        clients: list[Client] = []
        for url in urls:
            client = await stack.enter_async_context(Client.connect(url))
            clients.append(client)
            await stack.enter_async_context(Worker(client, workflows=[order, Told], activities=[charge]))
            await _window(client)
        for number in range(rounds):
            turns = ((clients[0], few), (clients[1], many))
            for client, into in turns if number % 2 else reversed(turns):
                into.append(await _window(client))
        counts = [await _counted(client, counter) for client in clients]
    return few, many, counts


def measure(
    databases: Databases, backend: Backend, sizes: tuple[int, int], rounds: int, *, closed: bool
) -> list[Figure]:
    """Compare a database of few runs with one of many."""
    with databases.fresh(backend) as small, databases.fresh(backend) as large, Counter() as counter:
        for url, count in zip((small, large), sizes, strict=True):
            fill_runs(url, count, closed=closed)
        few, many, counts = asyncio.run(_compare((small, large), counter, rounds))
    what = f"a workflow at {sizes[1]:,} {'closed' if closed else 'open'} runs to one at {sizes[0]:,}"
    pairs = list(zip(few, many, strict=True))
    time = Figure(
        "i",
        backend,
        f"{what}: time",
        statistics.median(late.wall_s / early.wall_s for early, late in pairs),
        "×",
        MOST_RATIO,
        details={
            "of CPU": statistics.median(late.cpu_s / early.cpu_s for early, late in pairs),
            "rounds": rounds,
        },
    )
    if backend != "sqlite":
        return [time]
    names = ("statements", "rows", "bytes", "commits")
    more = {name: getattr(counts[1], name) - getattr(counts[0], name) for name in names}
    more["reads"] = counts[1].reads - counts[0].reads
    total = Figure(
        "i",
        backend,
        f"{what}: statements, rows, bytes, commits more or less",
        sum(abs(more[name]) for name in names),
        "in all",
        0.0,
        details=more,
    )
    return [time, total]
