"""The memory of runs: cached and idle, evicted, ended, and only in the database. Each is measured in its own process.

A run here has done an activity and waits for a signal. ``python -m benchmarks.loads.memory MODE URL COUNT TRACED``
prints the figures as JSON. With TRACED 1, Python's own allocations are traced, which makes the resident size useless.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
import tracemalloc
from dataclasses import dataclass

from benchmarks.harness.databases import Backend, Databases, opened
from benchmarks.harness.figures import Figure
from benchmarks.harness.filling import fill_runs
from benchmarks.harness.inputs import TIMEOUT_S, answer_to, argument
from benchmarks.harness.measuring import expect
from benchmarks.harness.processes import measured, resident_mib
from benchmarks.harness.tuning import tune
from benchmarks.harness.workloads import charge, order
from outlast import activity, workflow
from outlast.client.client import Client
from outlast.worker.worker import Worker

MOST_BYTES = 20_000
NOTHING_MIB = 8.0
"""How much a process's memory differs from one start to another."""
FEW = 50
"""How many runs stay cached when the rest are to be evicted."""
BATCH = 200
STEPS_DONE = "SELECT count(*) FROM activity_executions WHERE closed_at IS NOT NULL"
ENDED = "SELECT count(*) FROM workflow_runs WHERE closed_at IS NOT NULL"
WORDS = {"cached": "cached idle", "evicted": "evicted open", "ended": "ended"}
NOTHING = 200.0
"""Bytes for each run that is gone, which the allocator does not give back. A leak of one object is more."""


@activity.defn(start_to_close_timeout=TIMEOUT_S)
async def looked_up(name: str) -> str:
    """A step."""
    return name


@workflow.defn
class Waiting:
    """Does a step, then waits for the signal to end."""

    def __init__(self) -> None:
        self.over = False

    @workflow.run
    async def run(self, name: str) -> str:
        """Wait."""
        found = await looked_up(name)
        await workflow.wait_condition(lambda: self.over)
        return found

    @workflow.signal
    def end(self) -> None:
        """Let the run end."""
        self.over = True


@dataclass(slots=True)
class Held:
    """Memory of the process: traced bytes, resident MiB, and objects that the collector tracks."""

    traced: int
    resident: float
    objects: int

    @classmethod
    def now(cls) -> Held:
        """Measure after everything that can be freed is freed."""
        for _ in range(3):
            gc.collect()
        traced = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0
        return cls(traced, resident_mib(), len(gc.get_objects()))

    def since(self, before: Held, count: int) -> dict[str, float]:
        """Return the difference for each of a number of runs."""
        return {
            "traced_bytes": (self.traced - before.traced) / count,
            "resident_bytes": (self.resident - before.resident) * 2**20 / count,
            "objects": (self.objects - before.objects) / count,
        }


def _warm(count: int) -> int:
    """Return how many runs there are before anything is measured: more than stay cached."""
    return max(FEW + 10, min(400, count))


async def _begin(url: str, client: Client, first: int, count: int) -> None:
    """Start runs, and wait until each has done its step."""
    for start in range(first, first + count, BATCH):
        numbers = range(start, min(start + BATCH, first + count))
        await asyncio.gather(*(client.start(Waiting.run, argument(n), id=argument(n)) for n in numbers))
    await _settled(url, STEPS_DONE, first + count)


async def _settled(url: str, query: str, wanted: int) -> None:
    with opened(url) as connection:
        while int(connection.exec_driver_sql(query).scalar_one()) != wanted:
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)


async def kept(url: str, count: int) -> dict[str, dict[str, float]]:
    """Measure the memory of cached runs, and what is left of it when they have ended."""
    warm = _warm(count)
    async with Client.connect(url) as client:
        async with Worker(
            client, workflows=[Waiting], activities=[looked_up], max_cached_workflows=2 * count + warm
        ):
            await _begin(url, client, 0, warm)
            await _end(url, client, range(warm))
            before = Held.now()
            await _begin(url, client, warm, count)
            cached = Held.now().since(before, count)
            await _end(url, client, range(warm, warm + count))
            ended = Held.now().since(before, count)
    return {"cached": cached, "ended": ended}


async def _end(url: str, client: Client, numbers: range) -> None:
    for start in range(numbers.start, numbers.stop, BATCH):
        batch = range(start, min(start + BATCH, numbers.stop))
        await asyncio.gather(*(client.signal(argument(n), Waiting.end) for n in batch))
    await _settled(url, ENDED, numbers.stop)


async def evicted(url: str, count: int) -> dict[str, dict[str, float]]:
    """Measure what is left in memory of open runs that were evicted."""
    warm = _warm(count)
    async with Client.connect(url) as client:
        async with Worker(client, workflows=[Waiting], activities=[looked_up], max_cached_workflows=FEW):
            await _begin(url, client, 0, warm)
            before = Held.now()
            await _begin(url, client, warm, count)
            after = Held.now().since(before, count)
    return {"evicted": after}


async def stored(url: str, _count: int) -> dict[str, dict[str, float]]:
    """Measure the memory of a worker, and how long it takes until it works."""
    begun = time.perf_counter()
    async with Client.connect(url) as client, Worker(client, workflows=[order], activities=[charge]):
        value = argument(0)
        expect("a workflow's result", await client.execute(order, value), answer_to(value))
        seconds = time.perf_counter() - begun
        await asyncio.sleep(3)  # Time for a watchdog's passes, which read what is open.
        return {"stored": {"seconds": seconds, "resident_mib": resident_mib()}}


MODES = {"kept": kept, "evicted": evicted, "stored": stored}


def measure(databases: Databases, backend: Backend, count: int, open_runs: int) -> list[Figure]:
    """Measure everything, each part on its own database and in its own process."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for mode in ("kept", "evicted"):
        for traced in (0, 1):
            with databases.fresh(backend) as url:
                parts = measured("benchmarks.loads.memory", mode, url, count, traced)
            found.update({(name, traced): part for name, part in parts.items()})
    figures: list[Figure] = []
    for name in ("cached", "evicted", "ended"):
        words = f"memory of each of {count:,} {WORDS[name]} runs"
        target = MOST_BYTES if name == "cached" else NOTHING
        resident, traced_part = found[name, 0], found[name, 1]
        details = {"resident bytes": resident["resident_bytes"], "objects": resident["objects"]}
        figures.append(
            Figure("h", backend, words, traced_part["traced_bytes"], "bytes", target, details=details)
        )
    return [*figures, *_stored(databases, backend, open_runs)]


def _stored(databases: Databases, backend: Backend, open_runs: int) -> list[Figure]:
    with databases.fresh(backend) as url:
        empty = measured("benchmarks.loads.memory", "stored", url, 0, 0)["stored"]
    with databases.fresh(backend) as url:
        fill_runs(url, open_runs, closed=False)
        full = measured("benchmarks.loads.memory", "stored", url, 0, 0)["stored"]
    more = full["resident_mib"] - empty["resident_mib"]
    return [
        Figure(
            "h",
            backend,
            f"a worker's memory because of {open_runs:,} open runs in the database",
            more,
            "MiB",
            NOTHING_MIB,
            details={"with them": full["resident_mib"], "without": empty["resident_mib"]},
        ),
        Figure(
            "h",
            backend,
            f"from connecting to the first result, {open_runs:,} open runs",
            full["seconds"] * 1000,
            "ms",
            details={"none open": empty["seconds"] * 1000},
        ),
    ]


def main() -> None:
    """Measure one part in this process."""
    mode, url, count, traced = sys.argv[1:]
    tune()
    if traced == "1":
        tracemalloc.start()
    print(json.dumps(asyncio.run(MODES[mode](url, int(count)))))


if __name__ == "__main__":
    main()
