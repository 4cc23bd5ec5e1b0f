"""How fast many workflows are resumed: ``python -m benchmarks.resuming --workflows 10000``.

One process starts workflows that sleep, terminates them, and resumes all of them by one bulk operation, as many at a
time as by default, on each backend. The time of the processor counts this process with its writer and readers, but not
PostgreSQL's; on a machine that does other things, go by that.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from benchmarks.harness.databases import BACKENDS, Databases
from benchmarks.harness.measuring import expect
from outlast import Client, Worker, workflow
from outlast.client.bulk import BulkOutcome
from outlast.client.operations import BULK_AT_ONCE


@workflow.defn
async def resting() -> str:
    """Sleeps for longer than this takes."""
    await workflow.sleep(36_000)
    return "rested"


async def measure(url: str, count: int, at_once: int) -> tuple[float, float]:
    """Return how many workflows are resumed in a second, and the milliseconds of the processor for each.

    Args:
        url: The database.
        count: How many workflows.
        at_once: How many are resumed at a time.
    """
    async with Client.connect(url) as client:
        async with Worker(client, workflows=[resting]):
            for first in range(0, count, 500):
                some = range(first, min(first + 500, count))
                await asyncio.gather(*(client.start(resting, id=f"w-{number}") for number in some))
            while await client.count(status="running") < count:
                await asyncio.sleep(0.1)
        outcomes: list[BulkOutcome] = [one async for one in client.bulk(at_once=200, open=True).terminate()]
        expect("workflows terminated", sum(one.done for one in outcomes), count)
        began, busy = time.perf_counter(), time.process_time()
        outcomes = [one async for one in client.bulk(at_once=at_once, status="terminated").resume()]
        took, worked = time.perf_counter() - began, time.process_time() - busy
        expect("workflows resumed", sum(one.done for one in outcomes), count)
    return count / took, worked * 1000 / count


def main() -> None:
    """Measure on each backend."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resuming", description=__doc__)
    parser.add_argument("--workflows", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=BULK_AT_ONCE)
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    given = parser.parse_args()
    with Databases() as databases:
        for backend in given.backend or BACKENDS:
            with databases.fresh(backend) as url:
                rate, cpu = asyncio.run(measure(url, given.workflows, given.at_once))
            print(
                f"{backend}: {given.workflows:,} resumed, {rate:,.0f}/s, {cpu:.2f} ms of the processor each"
            )


if __name__ == "__main__":
    main()
