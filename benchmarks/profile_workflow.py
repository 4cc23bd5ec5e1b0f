"""Where a workflow's time goes: ``python -m benchmarks.profile_workflow``.

Runs workflows with one activity under cProfile and prints, per workflow, each function's own time in microseconds and
how often it was called; then, without the profiler, the statements and JSON passes of one. A profiler makes Python
calls more expensive compared with C, so its shares only point at suspects; the clean time above them decides.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import sys
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).parents[1])

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.harness.counting import Counter, Counts
from benchmarks.harness.databases import Backend, Databases
from benchmarks.harness.floor import LARGEST_BATCH, floor
from benchmarks.harness.tuning import tune
from benchmarks.harness.workloads import engine, orders, run_orders, sequence

ROOT = Path(__file__).parents[1]


class JsonPasses:
    """Counts calls of orjson while its ``with`` block is open."""

    def __init__(self) -> None:
        self.calls = {"dumps": 0, "loads": 0}
        self._real: dict[str, Any] = {}

    def __enter__(self) -> JsonPasses:
        for name in self.calls:
            self._real[name] = getattr(orjson, name)
            setattr(orjson, name, self._counting(name))
        return self

    def __exit__(self, *exc_info: object) -> None:
        for name, real in self._real.items():
            setattr(orjson, name, real)

    def _counting(self, name: str) -> Any:
        real = self._real[name]

        def call(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return real(*args, **options)

        return call


async def profiled(
    url: str, count: int, in_flight: int, profile: cProfile.Profile, *, in_sequence: bool
) -> None:
    """Run the workload with the profiler on."""
    async with engine(url) as client:
        profile.enable()
        if in_sequence:
            await client.execute(sequence, count)
        else:
            await run_orders(client, count, in_flight)
        profile.disable()


async def counted(databases: Databases, count: int, in_flight: int) -> tuple[Counts, dict[str, int]]:
    """Count the statements and JSON passes of a number of workflows, on SQLite."""
    with databases.fresh("sqlite") as url, Counter() as counter:
        async with engine(url) as client:
            with JsonPasses() as passes, counter.counting() as counts:
                await run_orders(client, count, in_flight)
            return counts, passes.calls


def place_of(key: tuple[str, int, str]) -> str:
    """Return a function's place, shortened."""
    file, line, name = key
    if file == "~":
        return name
    path = Path(file)
    if path.is_relative_to(ROOT):
        return f"{path.relative_to(ROOT)}:{line} {name}"
    return f"{path.parent.name}/{path.name}:{line} {name}"


def table_of(profile: cProfile.Profile, count: int, top: int) -> Table:
    """Return the functions with the largest own time."""
    profile.create_stats()
    all_of_it: Any = pstats.Stats(profile)
    stats: dict[Any, Any] = all_of_it.stats
    total = sum(entry[2] for entry in stats.values())
    table = Table(title=f"own time per workflow, µs of {total / count * 1e6:.0f} (profiled)")
    for heading in ("own µs", "with callees µs", "calls"):
        table.add_column(heading, justify="right")
    table.add_column("function", overflow="fold")
    for key, (_, calls, own, cumulative, _callers) in sorted(stats.items(), key=lambda item: -item[1][2])[
        :top
    ]:
        table.add_row(
            f"{own / count * 1e6:.2f}",
            f"{cumulative / count * 1e6:.1f}",
            f"{calls / count:.2f}",
            place_of(key),
        )
    return table


def main(argv: list[str] | None = None) -> int:
    """Profile and print."""
    parser = argparse.ArgumentParser(description="Show where the time of a workflow with one activity goes.")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--workflows", type=int, default=3_000)
    parser.add_argument("--in-flight", type=int, default=1_000)
    parser.add_argument("--sequence", action="store_true", help="profile activities in sequence instead")
    parser.add_argument("--untuned", action="store_true", help="leave Python's garbage collector as it is")
    parser.add_argument("--top", type=int, default=60)
    parser.add_argument("--folder", type=Path, help="where SQLite files go")
    parser.add_argument("--save", type=Path, help="keep the profile for pstats or snakeviz")
    options = parser.parse_args(argv)
    backend: Backend = options.database
    count, in_flight, console = options.workflows, options.in_flight, Console(width=150)
    if not options.untuned:
        tune()
    with Databases(options.folder) as databases:
        with databases.fresh(backend) as url:
            bare = floor(url, count, min(in_flight, LARGEST_BATCH))
        with databases.fresh(backend) as url:
            clean, _ = asyncio.run(orders(url, count, in_flight))
        console.print(
            f"clean: {clean.rate:,.0f} workflows/s, {clean.wall_us:.0f} µs each, {clean.cpu_us:.0f} µs of CPU; "
            f"floor: {bare.wall_us:.0f} µs, {bare.cpu_us:.0f} µs of CPU; {clean.rate / bare.rate:.0%} of the floor"
        )
        profile = cProfile.Profile()
        with databases.fresh(backend) as url:
            asyncio.run(profiled(url, count, in_flight, profile, in_sequence=options.sequence))
        console.print(table_of(profile, count, options.top))
        if options.save is not None:
            profile.dump_stats(options.save)
        counts, passes = asyncio.run(counted(databases, min(count, 200), 1))
    workflows = min(count, 200)
    console.print(
        f"a lone workflow: {counts.statements / workflows:.2f} statements of the journal, "
        f"{counts.reads / workflows:.2f} reads, {counts.rows / workflows:.2f} rows, "
        f"{counts.bytes / workflows:,.0f} bytes of SQL; "
        + ", ".join(f"{calls / workflows:.2f} orjson.{name}" for name, calls in passes.items())
    )
    for kind, times in counts.kinds.most_common():
        console.print(f"  {times / workflows:7.3f}  {kind}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
