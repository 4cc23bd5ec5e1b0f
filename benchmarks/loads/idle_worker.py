"""A program with a worker that has nothing to do: ``python -m benchmarks.loads.idle_worker URL SECONDS``.

It runs one workflow, waits, and prints its share of a core while it waited, its resident memory and how long it took
until it worked. It imports little, because its memory is what is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from benchmarks.harness.processes import resident_mib
from outlast import Client, Worker, workflow

SETTLED_S = 2.0


@workflow.defn
async def echo(number: int) -> int:
    """Do as little as a workflow can do."""
    return number


async def idle(url: str, seconds: float) -> dict[str, float]:
    """Work, then wait, and return what the waiting took."""
    async with Client.connect(url) as client, Worker(client, workflows=[echo]):
        await client.execute(echo, 1)
        working_ms = time.process_time() * 1000
        if seconds:
            await asyncio.sleep(SETTLED_S)
        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        return {"share": cpu / wall, "resident_mib": resident_mib(), "working_ms": working_ms}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(idle(sys.argv[1], float(sys.argv[2])))))
