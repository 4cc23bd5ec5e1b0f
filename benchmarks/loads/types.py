"""Whether a claim costs the same however many runs of types that its worker lacks stand first in its task queue.

Nothing here runs a workflow: one claim after the other, as a worker's claimer makes them. Two databases take turns, one
with few foreign runs and one with many. The statements must be the same; for the time, the median of the ratios of
neighbouring windows counts.
"""

from __future__ import annotations

import asyncio
import statistics
from contextlib import AsyncExitStack

from benchmarks.harness.counting import Counter, Counts
from benchmarks.harness.databases import Backend, Databases
from benchmarks.harness.figures import Figure
from benchmarks.harness.filling import fill_waiting
from benchmarks.harness.inputs import WORKFLOW_TYPE
from benchmarks.harness.measuring import Timing, expect, timed
from outlast.client.client import Client
from outlast_runs.claims import ClaimRuns

MOST_RATIO = 1.2
WINDOW = 5
"""How many claims a window has."""
A_CLAIM = 4
"""How many runs a claim takes: few, so that what a claim costs by itself shows."""
COPIED = 1000
"""How many foreign runs are made one by one; the others are copies."""
TYPES = {
    "one type": frozenset({WORKFLOW_TYPE}),
    "a hundred types": frozenset({WORKFLOW_TYPE, *(f"other-{number}" for number in range(99))}),
}


async def _window(client: Client, types: frozenset[str]) -> Timing:
    claims = [ClaimRuns("bench", ["default"], types, A_CLAIM) for _ in range(WINDOW)]
    with timed(WINDOW) as timing:
        claimed = [len(await client.runtime.journal.apply(claim)) for claim in claims]
    expect("what the claims took", claimed, [A_CLAIM] * WINDOW)
    return timing


async def _compare(
    urls: tuple[str, str], types: frozenset[str], counter: Counter, rounds: int
) -> tuple[list[Timing], list[Timing], list[Counts]]:
    few: list[Timing] = []
    many: list[Timing] = []
    counts: list[Counts] = []
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client.connect(url)) for url in urls]
        for client in clients:
            await _window(client, types)
        for number in range(rounds):
            turns = ((clients[0], few), (clients[1], many))
            for client, into in turns if number % 2 else reversed(turns):
                into.append(await _window(client, types))
        for client in clients:
            with counter.counting() as counted:
                await _window(client, types)
            counts.append(counted)
    return few, many, counts


def measure(databases: Databases, backend: Backend, sizes: tuple[int, int], rounds: int) -> list[Figure]:
    """Compare a task queue with few foreign runs before one's own with one that has many."""
    found: list[Figure] = []
    for words, types in TYPES.items():
        with databases.fresh(backend) as small, databases.fresh(backend) as large, Counter() as counter:
            for url, count in zip((small, large), sizes, strict=True):
                made = min(count, COPIED)
                fill_waiting(
                    url, made, queue=None, workflow="foreign", name="foreign", copies=count // made - 1
                )
                fill_waiting(url, (rounds + 2) * WINDOW * A_CLAIM, queue=None)
            few, many, counts = asyncio.run(_compare((small, large), types, counter, rounds))
        pairs = list(zip(few, many, strict=True))
        details = {
            "of CPU": statistics.median(late.cpu_s / early.cpu_s for early, late in pairs),
            "ms": statistics.median(one.wall_us for one in many) / 1e3,
            "rounds": rounds,
        }
        what = f"a claim behind {sizes[1]:,} foreign runs to one behind {sizes[0]:,}, {words}"
        ratio = statistics.median(late.wall_s / early.wall_s for early, late in pairs)
        found.append(Figure("n", backend, f"{what}: time", ratio, "×", MOST_RATIO, details=details))
        if backend == "sqlite":
            kinds = counts[0].kinds | counts[1].kinds
            more = sum(abs(counts[1].kinds[kind] - counts[0].kinds[kind]) for kind in kinds)
            found.append(Figure("n", backend, f"{what}: statements more or less", float(more), "in all", 0.0))
    return found
