"""How fast Outlast is, compared with the floor: ``python -m benchmarks.throughput``, or ``make bench-floor``.

On one database after the other, round by round: workflows with one activity, activities in sequence, replay; the same
in a program as users write it; then what an activity costs early and late in a history. Every result and every row is
checked. The exit code is 1 if one is wrong; it never is for being slow.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.harness.databases import BACKENDS, Backend, Databases
from benchmarks.harness.measuring import WrongResultError, expect
from benchmarks.harness.reports import RESULTS, machine
from benchmarks.harness.tuning import tune, untuned
from benchmarks.throughput.as_written import Compared, compare
from benchmarks.throughput.growth import Growth, measure_growth
from benchmarks.throughput.report import save, show, show_compared
from benchmarks.throughput.rounds import QUICK, Measure, Sizes, measure


def main(argv: list[str] | None = None, sizes: Sizes | None = None) -> int:
    """Measure, print and save; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.throughput", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument("--quick", action="store_true", help="half a minute: small sizes, two rounds")
    parser.add_argument("--untuned", action="store_true", help="leave Python's garbage collector as it is")
    parser.add_argument("--rounds", type=int, help="how many rounds")
    parser.add_argument("--database", choices=(*BACKENDS, "both"), default="both")
    parser.add_argument(
        "--folder", type=Path, help="where the SQLite files go; not in memory, if it is to mean much"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args(argv)
    sizes = sizes or (QUICK if options.quick else Sizes())
    if options.rounds:
        sizes = dataclasses.replace(sizes, rounds=options.rounds)
    backends: tuple[Backend, ...] = BACKENDS if options.database == "both" else (options.database,)
    process = untuned() if options.untuned else tune()
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        facts, measures, compared, growth = run(backends, sizes, options.folder, console, process)
    except WrongResultError as error:
        console.print(f"[red]wrong[/]: {error}")
        return 1
    show(console, facts, measures, growth)
    show_compared(console, compared)
    console.print(f"kept in {save(facts, sizes, measures, compared, growth, options.results)}")
    return 0


def run(
    backends: tuple[Backend, ...],
    sizes: Sizes,
    folder: Path | None,
    console: Console,
    process: dict[str, str],
) -> tuple[dict[str, dict[str, str]], list[Measure], list[Compared], Growth | None]:
    """Measure everything.

    Raises:
        WrongResultError: A result or a row is not what it must be.
    """
    measures: list[Measure] = []
    compared: list[Compared] = []
    counts = {number: sizes.orders_at(number) for number in sizes.in_flight}
    growth: Growth | None = None
    facts = {"machine": machine(), "process": process}
    with Databases(folder) as databases, console.status("…") as status:
        for backend in backends:
            facts[backend] = databases.facts(backend)
            measures += measure(databases, backend, sizes, status.update)
            compared += compare(databases, backend, counts, sizes.steps, sizes.written_rounds, status.update)
        if "sqlite" in backends:
            status.update(f"sqlite: what an activity costs at {sizes.growth_events:,} events")
            growth = measure_growth(databases, sizes.growth_events, sizes.growth_rounds)
            expect(
                "statements, rows, bytes and commits late in a history",
                growth.late.written,
                growth.early.written,
            )
    return facts, measures, compared, growth
