"""How throughput grows with processes: ``python -m benchmarks.scaling``, PostgreSQL by default.

For each number of processes, a fresh database gets a number of waiting workflows with one activity each. Then ``outlast
worker --processes N`` runs them, and the clock runs from its first workflow task to its last end. The activity computes
for ``--compute`` milliseconds; with 0, only the engine and the database work. The number of busy cores, printed next to
the rate, shows what limits it: if all cores are busy, another process only takes them from the database.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.harness.databases import BACKENDS, Backend, Databases, count_where, opened
from benchmarks.harness.measuring import expect
from outlast import activity, workflow
from outlast.client.client import Client

ROOT = Path(__file__).parents[1]
OPEN = "closed_at IS NULL"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@activity.defn(start_to_close_timeout=600)
async def compute(milliseconds: float) -> int:
    """Use the processor for a number of milliseconds."""
    steps, end = 0, time.thread_time() + milliseconds / 1000
    while time.thread_time() < end:
        steps += 1
    return steps


@workflow.defn
async def computing(milliseconds: float) -> int:
    """A workflow with one activity that computes."""
    return await compute(milliseconds)


@dataclass(slots=True)
class Point:
    """What a number of processes did."""

    processes: int
    rate: float
    worker_cpu_us: float
    """The CPU of all worker processes per workflow."""
    cores: float
    """How many of the machine's cores were busy meanwhile, with whatever work."""


async def fill(url: str, count: int, milliseconds: float) -> None:
    """Start workflows that no worker runs yet."""
    async with Client.connect(url) as client:
        for start in range(0, count, 1000):
            batch = range(start, min(start + 1000, count))
            await asyncio.gather(*(client.start(computing, milliseconds) for _ in batch))


def busy_s() -> float:
    """Return the CPU seconds of the whole machine since it started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(ticks) for place, ticks in enumerate(fields[:8]) if place not in (3, 4)) / CLOCK_TICKS


def measure(url: str, count: int, processes: int, milliseconds: float) -> Point:
    """Run the workflows that wait in a database."""
    asyncio.run(fill(url, count, milliseconds))
    command = [sys.executable, "-m", "outlast", "worker", "benchmarks.scaling", f"--processes={processes}"]
    environment = {**os.environ, "OUTLAST_URL": url}
    cpu_before = os.times()
    worker = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    try:
        cores = wait_for(url, count)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
    cpu_after = os.times()
    worker_cpu = cpu_after[2] + cpu_after[3] - cpu_before[2] - cpu_before[3]
    with opened(url) as connection:
        query = "SELECT min(started_at), max(closed_at) FROM workflow_runs"
        first, last = connection.exec_driver_sql(query).one()
    expect("workflows that completed", count_where(url, "workflow_runs", "status = 'completed'"), count)
    return Point(processes, count / ((last - first) / 1e6), worker_cpu / count * 1e6, cores)


def wait_for(url: str, count: int) -> float:
    """Wait until nothing is open, and return how many cores were busy meanwhile."""
    while count_where(url, "workflow_runs", OPEN) == count:
        time.sleep(0.05)
    began, busy = time.perf_counter(), busy_s()
    while count_where(url, "workflow_runs", OPEN):
        time.sleep(0.1)
    return (busy_s() - busy) / (time.perf_counter() - began)


def main() -> None:
    """Measure, and print a line for each number of processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--count", type=int, default=4000, help="workflows for each number of processes")
    parser.add_argument(
        "--compute", type=float, default=0.0, help="milliseconds of CPU that each activity takes"
    )
    parser.add_argument("--database", choices=BACKENDS, default="postgresql")
    parser.add_argument("--rounds", type=int, default=2, help="how many rounds; the best one counts")
    options = parser.parse_args()
    backend: Backend = options.database
    points: dict[int, Point] = {}
    with Databases() as databases:
        for _ in range(options.rounds):
            for processes in options.processes:
                with databases.fresh(backend) as url:
                    point = measure(url, options.count, processes, options.compute)
                known = points.get(processes)
                if known is None or known.rate < point.rate:
                    points[processes] = point
    table = Table("processes", "workflows/s", "ratio", "worker CPU µs", "busy cores", box=None)
    for point in points.values():
        table.add_row(
            str(point.processes),
            f"{point.rate:,.0f}",
            f"{point.rate / points[options.processes[0]].rate:.2f}",
            f"{point.worker_cpu_us:,.0f}",
            f"{point.cores:.1f} of {os.cpu_count()}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
