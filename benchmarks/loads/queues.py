"""Queues at work: a backlog through a queue and past it, slots that are handed on, and a rate used in full.

All waits are read from the rows and the histories afterwards: a slot is free at the end of the run that held it, is
filled by the admission of the next run, and that one's first workflow task begins its work. With a concurrency of one,
each run follows the one before it.

Run as a program, this module is a worker: ``python -m benchmarks.loads.queues URL TASK_QUEUE``.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from itertools import pairwise

from benchmarks.handover import echo
from benchmarks.harness.databases import Backend, Databases, count_where, opened
from benchmarks.harness.figures import Figure
from benchmarks.harness.filling import fill_waiting
from benchmarks.harness.measuring import Timing, WrongResultError, expect, percentile
from benchmarks.harness.processes import ROOT
from benchmarks.harness.tuning import tune
from benchmarks.harness.workloads import charge, order
from outlast import Queue, Rate, StartOptions
from outlast.client.client import Client
from outlast.worker.worker import Worker

QUEUE = "bench"
OPEN = "closed_at IS NULL"
PATIENCE_S = 300
LEAST_SHARE = 0.8
MOST_MS = {"in one process": 5.0, "to another process": 25.0}
"""How long a slot may be free, as the median."""
LEAST_USED = 0.99


async def _until_all_have_ended(url: str) -> None:
    begun = time.monotonic()
    while left := await asyncio.to_thread(count_where, url, "workflow_runs", OPEN):
        if time.monotonic() - begun > PATIENCE_S:
            raise WrongResultError(f"{left} runs are still open after {PATIENCE_S} s")
        await asyncio.sleep(0.05)


# --- throughput -----------------------------------------------------------------------------------------------------


async def _worked_off(url: str, count: int) -> Timing:
    """Work off what waits; the clock runs from the first workflow task to the last end."""
    async with Client.connect(url) as client:
        await client.queues.define(QUEUE, concurrency=1_000_000, if_exists="keep")
        worker = Worker(client, workflows=[order], activities=[charge])
        cpu = time.process_time()
        async with worker:
            await _until_all_have_ended(url)
        cpu = time.process_time() - cpu
    expect("workflows that completed", count_where(url, "workflow_runs", "status = 'completed'"), count)
    with opened(url) as connection:
        first, last = connection.exec_driver_sql(
            "SELECT min(started_at), max(closed_at) FROM workflow_runs"
        ).one()
    return Timing(count, (last - first) / 1e6, cpu)


def throughput(databases: Databases, backend: Backend, count: int, rounds: int) -> list[Figure]:
    """Compare a backlog that goes through a queue with the same one that does not; they take turns."""
    timings: dict[bool, list[Timing]] = {True: [], False: []}
    for number in range(rounds):
        for queued in (True, False) if number % 2 else (False, True):
            with databases.fresh(backend) as url:
                fill_waiting(url, count, queue=QUEUE if queued else None)
                timings[queued].append(asyncio.run(_worked_off(url, count)))
    pairs = list(zip(timings[True], timings[False], strict=True))
    details = {
        "workflows/s through it": statistics.median(one.rate for one in timings[True]),
        "past it": statistics.median(one.rate for one in timings[False]),
        "of CPU": statistics.median(past.cpu_s / through.cpu_s for through, past in pairs),
        "rounds": rounds,
    }
    words = f"a backlog of {count:,} workflows with one activity through a queue, to the same past it"
    ratio = statistics.median(through.rate / past.rate for through, past in pairs)
    return [Figure("k", backend, words, ratio, "×", LEAST_SHARE, at_least=True, details=details)]


# --- slots ----------------------------------------------------------------------------------------------------------


def _handed_on(url: str) -> tuple[list[float], list[float]]:
    """Return the seconds that the slot was free before each run, and those until its first workflow task."""
    text = (
        "SELECT started_at, closed_at, recorded_at FROM workflow_runs JOIN history_events USING (run_id) "
        "WHERE type = 'WorkflowDequeued' ORDER BY recorded_at"
    )
    with opened(url) as connection:
        rows = [tuple(row) for row in connection.exec_driver_sql(text)]
    free: list[float] = []
    begun: list[float] = []
    for (_, closed, _), (started, _, dequeued) in pairwise(rows):
        # The admission reads the clock before it counts: the end that it then sees may be younger.
        free.append(max(dequeued - closed, 0) / 1e6)
        begun.append(max(started - closed, 0) / 1e6)
    return free, begun


def _slot_figures(backend: Backend, where: str, url: str) -> list[Figure]:
    free, begun = _handed_on(url)
    found: list[Figure] = []
    for what, seconds, target in (
        ("a slot that a run has left is taken by the next", free, MOST_MS[where]),
        (
            "from the end of a run to the next one's first workflow task",
            begun,
            10.0 if where == "in one process" else None,
        ),
    ):
        found.append(
            Figure(
                "k",
                backend,
                f"{what}, {where}: p50",
                statistics.median(seconds) * 1e3,
                "ms",
                target,
                details={"p99 ms": percentile(seconds, 0.99) * 1e3, "count": len(seconds)},
            )
        )
    if where == "in one process":
        found.append(
            Figure("k", backend, f"the same, {where}: p99", percentile(begun, 0.99) * 1e3, "ms", 50.0)
        )
    return found


@contextmanager
def _workers(url: str, task_queues: tuple[str, ...]) -> Generator[None]:
    """A worker process for each task queue."""
    with ExitStack() as stack:
        for task_queue in task_queues:
            command = [sys.executable, "-m", "benchmarks.loads.queues", url, task_queue]
            process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
        yield


async def _serve(url: str, task_queue: str) -> None:
    async with Client.connect(url) as client:
        await Worker(client, task_queue=task_queue, workflows=[echo]).run()


async def _through_one_slot(url: str, count: int, task_queues: tuple[str, ...]) -> None:
    """Let workflows through a queue with one slot, each by the worker of another task queue than the one before."""
    async with Client.connect(url) as client:
        await client.queues.define(QUEUE, concurrency=1)
        await client.queues.pause(QUEUE)
        options = StartOptions(queue=QUEUE)
        for number in range(count):
            where = task_queues[number % len(task_queues)]
            await client.start(echo, number, task_queue=where, options=options)
        if len(task_queues) == 1:
            async with Worker(client, workflows=[echo]):
                await client.queues.resume(QUEUE)
                await _until_all_have_ended(url)
            return
        with _workers(url, task_queues):
            while await asyncio.to_thread(count_where, url, "workers", "worker_id IS NOT NULL") < len(
                task_queues
            ):
                await asyncio.sleep(0.05)
            await client.queues.resume(QUEUE)
            await _until_all_have_ended(url)


def slots(databases: Databases, backend: Backend, count: int) -> list[Figure]:
    """Measure how soon a slot is filled again, by the same process and by another one."""
    found: list[Figure] = []
    for where, task_queues in (("in one process", ("default",)), ("to another process", ("one", "two"))):
        with databases.fresh(backend) as url:
            asyncio.run(_through_one_slot(url, count, task_queues))
            found += _slot_figures(backend, where, url)
    return found


# --- rates ----------------------------------------------------------------------------------------------------------


async def _at_a_rate(url: str, rate: Rate, count: int) -> None:
    async with Client.connect(url) as client:
        await client.queues.define_queue(Queue(QUEUE, rate=rate), "update")
        async with Worker(client, workflows=[echo]):
            await _until_all_have_ended(url)
    expect("workflows that completed", count_where(url, "workflow_runs", "status = 'completed'"), count)


def rate(databases: Databases, backend: Backend, limit: int, windows: int) -> list[Figure]:
    """Measure which part of a rate a backlog uses, and check that no window has more."""
    bound = Rate(limit, per=1)
    with databases.fresh(backend) as url:
        fill_waiting(url, limit * windows, queue=QUEUE, workflow=echo.__name__, input=lambda number: number)
        asyncio.run(_at_a_rate(url, bound, limit * windows))
        with opened(url) as connection:
            text = (
                "SELECT recorded_at FROM history_events WHERE type = 'WorkflowDequeued' ORDER BY recorded_at"
            )
            instants = [row[0] for row in connection.exec_driver_sql(text)]
    least = min(late - early for early, late in zip(instants, instants[limit:], strict=False))
    expect("a window with more than the rate", least < bound.per * 1_000_000, False)
    # The last window is not over: what it holds was used in the time of those before it.
    used = (len(instants) - limit) / limit * bound.per * 1e6 / (instants[-limit] - instants[0])
    words = f"a rate of {limit:,} a second: the part that a backlog uses over {windows - 1} windows, none exceeded"
    return [Figure("k", backend, words, used, "×", LEAST_USED, at_least=True)]


if __name__ == "__main__":
    tune()
    asyncio.run(_serve(sys.argv[1], sys.argv[2]))
