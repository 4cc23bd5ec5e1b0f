"""What a DAG costs beside the same work written by hand: ``python -m benchmarks.dags``.

CPU time of the process that does all of it, on SQLite in memory: the DAG and its twin take turns, and the median of the
ratios of neighbouring turns counts. Events and commits are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outlast import Client, Worker, activity, workflow
from outlast_dag import DagBuilder, DagDefinition, dag, each, step
from outlast_store.journal.committer import Committer

WIDTH, DEPTH, ITEMS = 1_000, 100, 10_000


@activity.defn(start_to_close_timeout=10)
async def work(number: int) -> int:
    """Do nothing."""
    return number


@activity.defn(start_to_close_timeout=10)
async def numbers(count: int) -> list[int]:
    """Return a list to map over."""
    return list(range(count))


def wide() -> DagDefinition[..., Any]:
    """Return a DAG of many steps that depend on nothing."""
    flow = DagBuilder("wide", timeout=36_000)
    for number in range(WIDTH):
        flow.task(f"n{number}", work, number)
    return flow.build()


def deep() -> DagDefinition[..., Any]:
    """Return a DAG of steps, each of which takes what the one before it returns."""
    flow = DagBuilder("deep", timeout=36_000)
    before = flow.task("n0", work, 0)
    for number in range(1, DEPTH):
        before = flow.task(f"n{number}", work, before)
    return flow.build()


@dag(timeout=36_000)
def mapped(count: int) -> list[int]:
    """Map over a list."""
    return each(work, max_items=ITEMS)(step(numbers)(count))


@workflow.defn(run_timeout=36_000)
async def wide_by_hand() -> list[int]:
    """Do what the wide DAG does."""
    return await asyncio.gather(*(work(number) for number in range(WIDTH)))


@workflow.defn(run_timeout=36_000)
async def deep_by_hand() -> int:
    """Do what the deep DAG does."""
    number = 0
    for _ in range(DEPTH):
        number = await work(number)
    return number


@workflow.defn(run_timeout=36_000)
async def mapped_by_hand(count: int) -> list[int]:
    """Do what the map does."""
    return await asyncio.gather(*(work(number) for number in await numbers(count)))


@dataclass(slots=True)
class Turn:
    """What one run took."""

    cpu_s: float
    events: int
    commits: int


async def turn(target: Any, args: tuple[Any, ...]) -> Turn:
    """Run a workflow in a database of its own, and return what it took.

    Args:
        target: The workflow.
        args: Its arguments.
    """
    async with Client.connect("sqlite://") as client:
        worker = Worker(client, workflows=[target], activities=[work, numbers], max_concurrent_activities=500)
        async with worker:
            commits = Counted(client.runtime.journal.committer)
            before = time.process_time()
            handle = await client.start(target, *args)
            await handle.result()
            spent = time.process_time() - before
            length = (await handle.describe()).run.history_length
            return Turn(spent, length, commits.count)


class Counted:
    """Counts the transactions of a committer."""

    def __init__(self, committer: Committer) -> None:
        self.count = 0
        commit: Callable[..., Any] = committer.run

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return commit(*args, **kwargs)

        committer.run = counted  # type: ignore[method-assign]


def main() -> None:
    """Measure, and print the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--turns", type=int, default=9)
    turns = parser.parse_args().turns
    for name, flow, twin, args in (
        (f"{WIDTH:,} wide", wide(), wide_by_hand, ()),
        (f"{DEPTH} deep", deep(), deep_by_hand, ()),
        (f"a map of {ITEMS:,}", mapped, mapped_by_hand, (ITEMS,)),
    ):
        ratios, ours, theirs = [], [], []
        for number in range(turns):
            both = (flow, twin) if number % 2 else (twin, flow)
            found = {one: asyncio.run(turn(one, args)) for one in both}
            ours.append(found[flow])
            theirs.append(found[twin])
            ratios.append(found[flow].cpu_s / found[twin].cpu_s)
        cpu_ms = [statistics.median(one.cpu_s for one in side) * 1000 for side in (ours, theirs)]
        print(
            f"{name:16} DAG {cpu_ms[0]:8.0f} ms, by hand {cpu_ms[1]:8.0f} ms, ratio {statistics.median(ratios):.2f}; "
            f"events {ours[0].events:,} and {theirs[0].events:,}, "
            f"transactions {ours[0].commits} and {theirs[0].commits}"
        )


if __name__ == "__main__":
    main()
