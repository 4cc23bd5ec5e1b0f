"""How long it takes until a process sees what another one has written: ``python -m benchmarks.handover``.

This process starts workflows, a worker in another process runs them. *There*: from the moment that the start is
acknowledged here to the batch of the worker's first workflow task. *There and back*: from the call of ``start`` to the
result, here; each way is one hand-over. One workflow runs at a time, with a pause between them, so that no process is
awake already.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.harness.databases import BACKENDS, Backend, Databases
from benchmarks.harness.measuring import expect, percentile
from benchmarks.harness.tuning import tune
from outlast import workflow
from outlast.client.client import Client
from outlast.client.workflows.run_rows import final_row

ROOT = Path(__file__).parents[1]


@workflow.defn
async def echo(number: int) -> int:
    """Do as little as a workflow can do."""
    return number


def measure(url: str, count: int) -> tuple[list[float], list[float]]:
    """Measure hand-overs; return the milliseconds there, and there and back."""
    command = [
        sys.executable,
        "-m",
        "outlast",
        "worker",
        "benchmarks.handover",
        "--url",
        url,
        "--log-level=error",
    ]
    worker = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        return asyncio.run(hand_over(url, count))
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)


async def hand_over(url: str, count: int) -> tuple[list[float], list[float]]:
    """Start workflows and measure, in this process."""
    there: list[float] = []
    back: list[float] = []
    async with Client.connect(url) as client:
        clock = client.runtime.environment.clock
        await client.execute(echo, 0)
        for number in range(count):
            await asyncio.sleep(random.uniform(0.02, 0.06))
            begun = time.perf_counter()
            handle = await client.start(echo, number)
            acknowledged = clock.now()
            expect("what came back", await handle.result(), number)
            back.append((time.perf_counter() - begun) * 1000)
            run = await final_row(client.runtime, handle.workflow_id)
            there.append(((run.started_at or 0) - acknowledged) / 1000)
    return there, back


def main() -> None:
    """Measure both databases, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args()
    tune()
    table = Table("database", "there p50", "p99", "there and back p50", "p99", title="milliseconds", box=None)
    with Databases() as databases:
        for backend in BACKENDS:
            table.add_row(*_row(databases, backend, options.count))
    Console().print(table)


def _row(databases: Databases, backend: Backend, count: int) -> list[str]:
    with databases.fresh(backend) as url:
        there, back = measure(url, count)
    figures = [percentile(values, share) for values in (there, back) for share in (0.5, 0.99)]
    return [backend, *(f"{value:.1f}" for value in figures)]


if __name__ == "__main__":
    main()
