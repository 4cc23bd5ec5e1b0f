"""A worker process is killed with many open runs: how long until all have made progress in another.

Half of the runs wait for an activity that the killed process was doing, half for a timer that fires meanwhile. The
other worker is idle until then. Each run ends when it has made progress, and the clock runs from SIGKILL to the last
end.

Run as a program, this module is such a worker: ``python -m benchmarks.loads.recovery URL LEASE first|second``.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

from benchmarks.harness.databases import Backend, count_where, opened
from benchmarks.harness.figures import Figure
from benchmarks.harness.measuring import WrongResultError, expect
from benchmarks.harness.processes import ROOT
from benchmarks.harness.tuning import tune
from outlast import activity, workflow
from outlast.client.client import Client
from outlast.worker.worker import Worker

ALLOWANCE_S = 2.0
PATIENCE_S = 120
TIMER_S = 5.0
first_process = False


@activity.defn(start_to_close_timeout=3600)
async def held(number: int) -> int:
    """Wait forever in the first process; return at once in any other."""
    if first_process:
        await asyncio.sleep(3600)
    return number


@workflow.defn
async def busy(number: int) -> int:
    """Wait for an activity that is running."""
    return await held(number)


@workflow.defn
async def asleep(number: int) -> int:
    """Wait for a timer."""
    await asyncio.sleep(TIMER_S)
    return await held(number)


async def work(url: str, lease: float) -> None:
    """Serve until stopped."""
    async with Client.connect(url) as client:
        worker = Worker(
            client,
            workflows=[busy, asleep],
            activities=[held],
            lease_duration=lease,
            max_cached_workflows=10_000,
            max_concurrent_activities=10_000,
        )
        await worker.run()


def _spawn(url: str, lease: float, which: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.loads.recovery", url, str(lease), which]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)


async def _fill(url: str, count: int) -> None:
    async with Client.connect(url) as client:
        await asyncio.gather(*(client.start(busy, number) for number in range(count // 2)))
        await asyncio.gather(*(client.start(asleep, number) for number in range(count - count // 2)))


def _wait(url: str, table: str, condition: str, wanted: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while (found := count_where(url, table, condition)) != wanted:
        if time.monotonic() > until:
            raise WrongResultError(f"{table} where {condition}: {found} after {PATIENCE_S} s, not {wanted}")
        time.sleep(0.1)


def once(url: str, count: int, lease: float) -> float:
    """Kill a worker; return the seconds until all of its runs have ended in another."""
    first = _spawn(url, lease, "first")
    second: subprocess.Popen[bytes] | None = None
    try:
        asyncio.run(_fill(url, count))
        _wait(url, "activity_executions", "claimed_by IS NOT NULL", count // 2)
        _wait(url, "workflow_runs", "owner_id IS NULL AND closed_at IS NULL", 0)
        second = _spawn(url, lease, "second")
        _wait(url, "workers", "worker_id IS NOT NULL", 2)
        expect("runs that are open", count_where(url, "workflow_runs", "closed_at IS NULL"), count)
        killed = time.time()
        first.kill()
        _wait(url, "workflow_runs", "closed_at IS NULL", 0)
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait(60)
    expect("runs that completed", count_where(url, "workflow_runs", "status = 'completed'"), count)
    with opened(url) as connection:
        last = connection.exec_driver_sql("SELECT max(closed_at) FROM workflow_runs").scalar_one()
    return float(last) / 1e6 - killed


def figure(backend: Backend, count: int, lease: float, seconds: list[float]) -> Figure:
    """Return the median of the rounds."""
    words = f"SIGKILL to {count:,} runs moved on elsewhere, lease {lease:g} s"
    value = statistics.median(seconds)
    return Figure(
        "g",
        backend,
        words,
        value,
        "s",
        lease + ALLOWANCE_S,
        details={"worst": max(seconds), "rounds": len(seconds)},
    )


if __name__ == "__main__":
    first_process = sys.argv[3] == "first"
    tune()
    asyncio.run(work(sys.argv[1], float(sys.argv[2])))
