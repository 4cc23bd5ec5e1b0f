"""Loads other than throughput, each with its target: ``python -m benchmarks.loads``, or ``make bench-loads``.

d: durable timers. e: signals and updates to one run, from the worker's process and from another. g: recovery from
SIGKILL. h: memory of cached, evicted, ended and stored runs. i: what many runs in the database do to one workflow.
j: a sync activity that computes next to the rest, and a second worker process. k: queues at work. l: admission from
queues, alone. m: items of streams. n: claims behind runs of other types. o: a worker with nothing to do. Every result
is checked. The exit code is 1 if one is wrong; it never is for a missed target.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import scaling
from benchmarks.harness.databases import BACKENDS, Backend, Databases
from benchmarks.harness.figures import Figure, save, show
from benchmarks.harness.measuring import WrongResultError
from benchmarks.harness.reports import RESULTS, machine
from benchmarks.harness.tuning import tune, untuned
from benchmarks.loads import (
    admission,
    cpu,
    growth,
    idle,
    memory,
    messages,
    queues,
    recovery,
    streams,
    timers,
    types,
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The amounts of work that are measured."""

    timers: int = 10_000
    signals: int = 1_000
    updates: int = 500
    recovered: int = 1_000
    recoveries: int = 5
    lease: float = 5.0
    cached: int = 5_000
    stored: int = 100_000
    closed: tuple[int, int] = (1_000, 1_000_000)
    open: tuple[int, int] = (1_000, 100_000)
    growth_rounds: int = 25
    cpu_seconds: float = 3.0
    cpu_rounds: int = 7
    scaled: int = 4_000
    scaling_rounds: int = 3
    backlog: int = 4_000
    backlog_rounds: int = 5
    slots: int = 500
    rate: int = 200
    windows: int = 11
    admitted: int = 20_000
    line: tuple[int, int] = (1_000, 1_000_000)
    tenants: tuple[int, int] = (1_000, 10_000)
    line_rounds: int = 25
    items: int = 500
    published: int = 200_000
    foreign: tuple[int, int] = (1_000, 1_000_000)
    foreign_rounds: int = 25
    idle_seconds: float = 20.0
    handed_over: int = 300


QUICK = Sizes(
    items=50,
    published=20_000,
    timers=1_000,
    signals=200,
    updates=50,
    recovered=200,
    recoveries=1,
    cached=500,
    stored=10_000,
    closed=(100, 10_000),
    open=(100, 10_000),
    growth_rounds=5,
    cpu_seconds=1.0,
    cpu_rounds=1,
    scaled=500,
    scaling_rounds=1,
    backlog=500,
    backlog_rounds=1,
    slots=100,
    rate=50,
    windows=4,
    admitted=2_000,
    line=(500, 10_000),
    tenants=(500, 1_000),
    line_rounds=5,
    foreign=(100, 10_000),
    foreign_rounds=5,
    idle_seconds=3.0,
    handed_over=50,
)
"""The sizes for ``--quick``: about two minutes, to see that everything works."""

Load = Callable[[Databases, Backend, Sizes], list[Figure]]


def measure_timers(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load d."""
    with databases.fresh(backend) as url:
        return timers.measure(url, backend, sizes.timers)


def measure_messages(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load e."""
    with databases.fresh(backend) as url:
        within = messages.measure_within(url, backend, sizes.signals, sizes.updates)
    with databases.fresh(backend) as url:
        return within + messages.measure_across(url, backend, sizes.signals, sizes.updates)


def measure_streams(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load m."""
    with databases.fresh(backend) as url:
        within = streams.measure_within(url, backend, sizes.items, sizes.published)
    with databases.fresh(backend) as url:
        return within + streams.measure_across(url, backend, sizes.items)


def measure_recovery(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load g."""
    seconds: list[float] = []
    for _ in range(sizes.recoveries):
        with databases.fresh(backend) as url:
            seconds.append(recovery.once(url, sizes.recovered, sizes.lease))
    return [recovery.figure(backend, sizes.recovered, sizes.lease, seconds)]


def measure_memory(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load h."""
    return memory.measure(databases, backend, sizes.cached, sizes.stored)


def measure_growth(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load i."""
    rounds = sizes.growth_rounds
    found = growth.measure(databases, backend, sizes.closed, rounds, closed=True)
    return found + growth.measure(databases, backend, sizes.open, rounds, closed=False)


def measure_processor(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load j."""
    found = cpu.measure(databases, backend, sizes.cpu_seconds, sizes.cpu_rounds)
    return found if backend == "sqlite" else [*found, _two_processes(databases, backend, sizes)]


def _two_processes(databases: Databases, backend: Backend, sizes: Sizes) -> Figure:
    rates: dict[int, list[float]] = {1: [], 2: []}
    cores = 0.0
    for _ in range(sizes.scaling_rounds):
        for processes, into in rates.items():
            with databases.fresh(backend) as url:
                point = scaling.measure(url, sizes.scaled, processes, 0.0)
            into.append(point.rate)
            cores = point.cores
    ratio = statistics.median(two / one for one, two in zip(rates[1], rates[2], strict=True))
    details = {"workflows/s of one": statistics.median(rates[1]), "busy cores with two": cores}
    words = f"two worker processes to one, {sizes.scaled:,} workflows with one activity"
    return Figure("j", backend, words, ratio, "×", 1.0, at_least=True, details=details)


def measure_queues(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load k."""
    return [
        *queues.throughput(databases, backend, sizes.backlog, sizes.backlog_rounds),
        *queues.slots(databases, backend, sizes.slots),
        *queues.rate(databases, backend, sizes.rate, sizes.windows),
    ]


def measure_admission(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load l."""
    return [
        *admission.alone(databases, backend, sizes.admitted),
        *admission.lines(databases, backend, sizes.line, sizes.line_rounds),
        *admission.tenants(databases, backend, sizes.tenants, sizes.line_rounds),
    ]


def measure_types(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load n."""
    return types.measure(databases, backend, sizes.foreign, sizes.foreign_rounds)


def measure_idle(databases: Databases, backend: Backend, sizes: Sizes) -> list[Figure]:
    """Measure load o."""
    return idle.measure(databases, backend, sizes.idle_seconds, sizes.handed_over)


LOADS: dict[str, Load] = {
    "d": measure_timers,
    "e": measure_messages,
    "g": measure_recovery,
    "h": measure_memory,
    "i": measure_growth,
    "j": measure_processor,
    "k": measure_queues,
    "l": measure_admission,
    "m": measure_streams,
    "n": measure_types,
    "o": measure_idle,
}


def main(argv: list[str] | None = None, sizes: Sizes | None = None) -> int:
    """Measure, print and save; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loads", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--only", nargs="+", choices=LOADS, default=list(LOADS), help="these loads")
    parser.add_argument("--untuned", action="store_true", help="leave Python's garbage collector as it is")
    parser.add_argument("--database", choices=(*BACKENDS, "both"), default="both")
    parser.add_argument("--folder", type=Path, help="where the SQLite files go")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args(argv)
    sizes = sizes or (QUICK if options.quick else Sizes())
    backends: tuple[Backend, ...] = BACKENDS if options.database == "both" else (options.database,)
    console = Console(width=None if sys.stdout.isatty() else 160)
    facts = {"machine": machine(), "process": untuned() if options.untuned else tune()}
    figures: list[Figure] = []
    wrong = 0
    with Databases(options.folder) as databases, console.status("…") as status:
        for backend in backends:
            facts[backend] = databases.facts(backend)
            for name in options.only:
                status.update(f"{backend}: load {name}")
                try:
                    figures += LOADS[name](databases, backend, sizes)
                except WrongResultError as error:
                    wrong = 1
                    console.print(f"[red]wrong[/]: {backend}, load {name}: {error}")
    show(console, facts, figures)
    console.print(f"kept in {save(facts, figures, asdict(sizes), options.results)}")
    return wrong
