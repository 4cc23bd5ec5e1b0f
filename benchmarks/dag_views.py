"""What looking at a DAG costs: ``python -m benchmarks.dag_views``.

A DAG maps over 10,000 items. Whenever 100 more have ended, its run is described anew, which is measured from the second
time on. A DAG of 200 nodes is drawn. All of it on SQLite in memory, while the process does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from benchmarks.harness.measuring import expect
from outlast import Client, Worker, activity
from outlast_dag import DagBuilder, dag, each, step
from outlast_dag.description.describing import describe
from outlast_dag.picture.svg import svg_of_run

ITEMS, AT_A_TIME, NODES, TURNS = 10_000, 100, 200, 9
DESCRIBED_MS, DRAWN_MS = 20.0, 100.0
allowed = asyncio.Semaphore(0)


@activity.defn(start_to_close_timeout=3600)
async def work(number: int) -> int:
    """Wait until one more may end."""
    await allowed.acquire()
    return number


@activity.defn(start_to_close_timeout=10)
async def numbers(count: int) -> list[int]:
    """Return a list to map over."""
    return list(range(count))


@activity.defn(start_to_close_timeout=10)
async def nothing() -> None:
    """Do nothing."""


@dag(timeout=1_000_000_000)
def mapped(count: int) -> list[int]:
    """Map over a list."""
    return each(work, max_items=ITEMS, concurrency=AT_A_TIME)(step(numbers)(count))


def layered(nodes: int) -> DagBuilder:
    """Return a DAG each step of which waits for two before it.

    Args:
        nodes: How many steps it has.
    """
    flow = DagBuilder("layered", timeout=1_000_000_000)
    made = [flow.task("n0", nothing)]
    for number in range(1, nodes):
        made.append(flow.task(f"n{number}", nothing, after=[made[(number - 1) // 3], made[number // 2]]))
    return flow


async def described(items: int) -> list[float]:
    """Return how many milliseconds each description took but the first.

    Args:
        items: How long the list is.
    """
    took: list[float] = []
    async with (
        Client.connect("sqlite://") as client,
        Worker(client, workflows=[mapped], activities=[work, numbers], max_concurrent_activities=AT_A_TIME),
    ):
        handle = await client.start(mapped, items)
        for ended in range(0, items, AT_A_TIME):
            while (await handle.describe()).run.history_length < 2 * ended:
                await asyncio.sleep(0.01)
            began = time.perf_counter()
            await describe(handle)
            took.append((time.perf_counter() - began) * 1000)
            for _ in range(AT_A_TIME):
                allowed.release()
        expect("the results", await handle.result(), list(range(items)))
    return took[1:]


async def drawn(nodes: int) -> list[float]:
    """Return how many milliseconds each drawing of a run took.

    Args:
        nodes: How many nodes its DAG has.
    """
    took: list[float] = []
    flow = layered(nodes).build()
    async with Client.connect("sqlite://") as client, Worker(client, workflows=[flow], activities=[nothing]):
        handle = await client.start(flow)
        await handle.result()
        for _ in range(TURNS):
            found = await describe(handle)
            began = time.perf_counter()
            expect("a picture", svg_of_run(found).startswith("<svg"), True)
            took.append((time.perf_counter() - began) * 1000)
    return took


def say(what: str, took: list[float], target_ms: float) -> None:
    """Print what was measured.

    Args:
        what: What it was.
        took: Milliseconds.
        target_ms: What the median should be at most.
    """
    print(
        f"{what}: {statistics.median(took):.1f} ms median, {max(took):.1f} ms at most, target {target_ms:g} ms"
    )


async def measure(items: int, nodes: int) -> None:
    """Measure, and print the figures.

    Args:
        items: How long the list is that a DAG maps over.
        nodes: How many nodes the DAG has that is drawn.
    """
    say(f"describing a map of {items:,} again", await described(items), DESCRIBED_MS)
    say(f"drawing a run of {nodes:,} nodes", await drawn(nodes), DRAWN_MS)


def main() -> None:
    """Measure as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--nodes", type=int, default=NODES)
    given = parser.parse_args()
    asyncio.run(measure(given.items, given.nodes))


if __name__ == "__main__":
    main()
