"""What a million open runs, a hundred thousand timers of one instant and ten million old events do to one machine.

``python -m benchmarks.scale``: some minutes for each database. **storm**: runs are started, each with a timer, all due
at one instant, beside open runs that have timers of their own; a worker with defaults runs them. **retention**: old
closed workflows are deleted, while a client runs one small workflow after the other. Every result is checked.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.harness.databases import BACKENDS, Backend, Databases, count_where
from benchmarks.harness.figures import Figure, save, show
from benchmarks.harness.filling import copy_closed, fill_runs
from benchmarks.harness.inputs import argument
from benchmarks.harness.measuring import WrongResultError, expect, percentile
from benchmarks.harness.processes import resident_mib
from benchmarks.harness.reports import RESULTS, machine
from benchmarks.harness.tuning import tune, untuned
from benchmarks.harness.workloads import engine, order, run_orders
from benchmarks.loads.timers import BATCH, sleeps_until
from outlast import Client, RetentionPolicy, Worker
from outlast.retention import Retention
from outlast_store.database.sql_text import fetch
from outlast_watchdog.watchdog import TaskWatchdog

PASSES = 200
ORIGINALS = 1_000
"""How many workflows are run before they are copied."""
EVENTS_A_RUN = 6
OLD = "substr(run_id, 1, 2) = '00'"
"""What the copies have in common."""


@dataclass(slots=True)
class Sizes:
    """How much is measured."""

    open: int = 1_000_000
    due: int = 100_000
    set_a_second: int = 800
    events: int = 10_000_000
    alone: int = 200


QUICK = Sizes(open=1_000, due=200, events=12_000, alone=20)


async def _count(client: Client, text: str) -> int:
    [(number,)] = await client.runtime.read(fetch, text, ())
    return int(number)


async def _until(look: Callable[[], Awaitable[bool]], every_s: float) -> None:
    while not await look():
        await asyncio.sleep(every_s)


async def _idle_passes(client: Client) -> float:
    """Return the median of the milliseconds that a pass of the watchdog takes where nothing is due."""
    watchdog = TaskWatchdog(client)
    found: list[float] = []
    for _ in itertools.repeat(None, PASSES):
        began = time.perf_counter()
        report = await watchdog.run_pass()
        found.append((time.perf_counter() - began) * 1000)
        expect("what an idle pass did", report.done, 0)
    return statistics.median(found)


async def _storm(url: str, backend: Backend, sizes: Sizes) -> list[Figure]:
    due = time.time() + sizes.due / sizes.set_a_second + 5
    async with Client.connect(url) as client, Worker(client, workflows=[sleeps_until]):
        before = resident_mib()
        for start in range(0, sizes.due, BATCH):
            batch = range(start, min(start + BATCH, sizes.due))
            await asyncio.gather(*(client.start(sleeps_until, due) for _ in batch))

        async def all_are_set() -> bool:
            return await _count(client, "SELECT count(*) FROM timers") == sizes.open + sizes.due

        await _until(all_are_set, 0.5)
        if time.time() > due:
            raise WrongResultError(
                "the first timer fired before the last was set: set fewer, or a later instant"
            )
        idle = await _idle_passes(client)
        held = resident_mib()
        await asyncio.sleep(max(0.0, due - time.time()))

        due_timers = f"SELECT count(*) FROM timers WHERE fire_at <= {int(due * 1e6)}"

        async def all_have_ended() -> bool:
            # To count a million open runs takes the worker's loop long, so that is left to the end.
            return await _count(client, due_timers) == 0 and (
                await _count(client, "SELECT count(*) FROM workflow_runs WHERE closed_at IS NULL")
                == sizes.open
            )

        async with asyncio.timeout(3_600):
            await _until(all_have_ended, 0.5)
        ended = "SELECT max(closed_at), min(closed_at) FROM workflow_runs"
        [(last, first)] = await client.runtime.read(fetch, ended, ())
        after = resident_mib()
    expect("whether a run ended before its timer was due", first / 1e6 < due, False)
    expect("runs that completed", count_where(url, "workflow_runs", "status = 'completed'"), sizes.due)
    took = last / 1e6 - due
    memory = {"before MiB": before, "all set MiB": held, "all ended MiB": after}
    return [
        Figure("storm", backend, f"idle pass over {sizes.open + sizes.due:,} open deadlines, median", idle, "ms", 5),
        Figure("storm", backend, f"the worker's memory when {sizes.due:,} runs wait", held, "MiB", details=memory),
        Figure(
            "storm", backend,
            f"{sizes.due:,} timers of one instant beside {sizes.open:,} open runs: ended",
            sizes.due / took, "/s", details={"seconds until the last": took},
        ),
    ]  # fmt: skip


def storm(url: str, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure what open runs hold, and how fast many that wake at one instant end."""
    fill_runs(url, sizes.open, closed=False)
    return asyncio.run(_storm(url, backend, sizes))


async def _old(url: str) -> None:
    """Run the workflows that are copied."""
    async with engine(url) as client:
        await run_orders(client, ORIGINALS, 100)


async def _retention(url: str, backend: Backend, sizes: Sizes, chains: int) -> list[Figure]:
    async with engine(url) as client:

        async def one(number: int) -> float:
            began = time.perf_counter()
            await client.execute(order, argument(number))
            return (time.perf_counter() - began) * 1000

        alone = [await one(number) for number in range(sizes.alone)]
        events = await _count(client, f"SELECT count(*) FROM history_events WHERE {OLD}")
        expect("events of the old workflows", events, chains * EVENTS_A_RUN)
        beside: list[float] = []
        over = asyncio.Event()

        async def customer() -> None:
            numbers = itertools.count(sizes.alone)
            while not over.is_set():
                beside.append(await one(next(numbers)))

        neighbour = asyncio.create_task(customer())
        began = time.perf_counter()
        # What is run beside it stays.
        report = await Retention(client, RetentionPolicy(days=300)).run_pass()
        took = time.perf_counter() - began
        over.set()
        await neighbour
        expect("workflows that were deleted", report.chains, chains)
        left = await _count(client, f"SELECT count(*) FROM history_events WHERE {OLD}")
        expect("old events that are left", left, 0)
    return [
        Figure(
            "retention", backend, f"{events:,} events of {chains:,} old workflows deleted", events / took, "events/s",
            details={"seconds": took},
        ),
        Figure(
            "retention", backend, "one workflow after the other meanwhile, compared with before: median",
            statistics.median(beside) / statistics.median(alone), "×",
            details={
                "p50 before ms": percentile(alone, 0.5), "p99 before ms": percentile(alone, 0.99),
                "p50 meanwhile ms": percentile(beside, 0.5), "p99 meanwhile ms": percentile(beside, 0.99),
            },
        ),
    ]  # fmt: skip


def retention(url: str, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure how fast what is old is deleted, and what that does to what runs meanwhile."""
    asyncio.run(_old(url))
    copies = sizes.events // (ORIGINALS * EVENTS_A_RUN)
    copy_closed(url, copies)
    return asyncio.run(_retention(url, backend, sizes, copies * ORIGINALS))


PARTS: dict[str, Callable[[str, Backend, Sizes], list[Figure]]] = {"storm": storm, "retention": retention}


def main(argv: list[str] | None = None, sizes: Sizes | None = None) -> int:
    """Measure, print and save; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these parts")
    parser.add_argument(
        "--backend", nargs="+", choices=BACKENDS, default=list(BACKENDS), help="these databases"
    )
    parser.add_argument("--untuned", action="store_true", help="leave Python's garbage collector as it is")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args(argv)
    sizes = sizes or (QUICK if options.quick else Sizes())
    console = Console(width=None if sys.stdout.isatty() else 160)
    facts = {"machine": machine(), "process": untuned() if options.untuned else tune()}
    figures: list[Figure] = []
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, Databases(Path(folder)) as databases:
        for part, backend in itertools.product(options.only, options.backend):
            try:
                with databases.fresh(backend) as url:
                    figures += PARTS[part](url, backend, sizes)
            except WrongResultError as error:
                wrong = 1
                console.print(f"[red]wrong[/]: {part}, {backend}: {error}")
    show(console, facts, figures)
    console.print(f"kept in {save(facts, figures, asdict(sizes), options.results, 'scale')}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
