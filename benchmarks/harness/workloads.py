"""The workloads: workflows and activities, with client and worker in this process and full durability."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.harness.floor import check
from benchmarks.harness.inputs import ACTIVITY_TYPE, TIMEOUT_S, WORKFLOW_TYPE, answer_to, argument
from benchmarks.harness.measuring import Timing, expect, timed
from outlast import activity, workflow
from outlast.client.client import Client
from outlast.client.workflows.run_rows import final_row
from outlast.worker.worker import Worker
from outlast_store.reads.histories import read_history
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import replay

MOST_AT_ONCE = 1_000
"""Activity slots and cached runs: as many as there are workflows in flight."""


@activity.defn(name=ACTIVITY_TYPE, start_to_close_timeout=TIMEOUT_S)
async def charge(order: str) -> str:
    """Do as little work as possible."""
    return answer_to(order)


@workflow.defn(name=WORKFLOW_TYPE)
async def order(name: str) -> str:
    """A workflow with one activity."""
    return await charge(name)


@activity.defn(start_to_close_timeout=TIMEOUT_S)
async def add(number: int) -> int:
    """One step of a sequence."""
    return number


@workflow.defn
async def sequence(count: int) -> int:
    """Activities one after the other; three events each."""
    total = 0
    for number in range(count):
        total += await add(number)
    return total


@asynccontextmanager
async def engine(url: str, at_once: int = MOST_AT_ONCE) -> AsyncGenerator[Client]:
    """Yield a client, with a worker that serves everything here."""
    async with Client.connect(url) as client:
        worker = Worker(
            client,
            workflows=[order, sequence],
            activities=[charge, add],
            max_concurrent_activities=at_once,
            max_cached_workflows=2 * at_once,
        )
        async with worker:
            yield client


async def run_orders(client: Client, count: int, in_flight: int) -> list[float]:
    """Run workflows with one activity, some at a time; return each one's seconds from start to result."""
    numbers = iter(range(count))
    seconds: list[float] = []

    async def customer() -> None:
        for number in numbers:
            value = argument(number)
            begun = time.perf_counter()
            result = await client.execute(order, value)
            seconds.append(time.perf_counter() - begun)
            expect("a workflow's result", result, answer_to(value))

    await asyncio.gather(*(customer() for _ in range(min(in_flight, count))))
    return seconds


async def orders(url: str, count: int, in_flight: int) -> tuple[Timing, list[float]]:
    """Measure :func:`run_orders` on a database that is empty, after a few to warm up elsewhere."""
    async with engine(url) as client:
        gc.collect()
        with timed(count) as timing:
            seconds = await run_orders(client, count, in_flight)
    check(url, count)
    return timing, seconds


async def steps(url: str, count: int) -> Timing:
    """Measure a workflow of activities in sequence."""
    async with engine(url) as client:
        gc.collect()
        with timed(count) as timing:
            result = await client.execute(sequence, count)
    expect("the sum of the steps", result, count * (count - 1) // 2)
    return timing


@dataclass(slots=True)
class Recorded:
    """A run whose history is in a database, to be replayed."""

    url: str
    run_id: str
    events: int


async def record_history(url: str, events: int) -> Recorded:
    """Run a sequence of about that many events: three per step, and three more at the start and end."""
    count = max(1, (events - 3) // 3)
    async with engine(url) as client:
        handle = await client.start(sequence, count)
        expect("the sum of the steps", await handle.result(), count * (count - 1) // 2)
        run = await final_row(client.runtime, handle.workflow_id)
    return Recorded(url, run.run_id, run.last_seq)


async def replays(recorded: Recorded, times: int) -> Timing:
    """Measure reading a history and replaying it; counts events."""
    async with Client.connect(recorded.url) as client:
        gc.collect()
        with timed(recorded.events * times) as timing:
            for _ in range(times):
                machine = WorkflowMachine(
                    definition_of(sequence),
                    recorded.run_id,
                    converter=client.converter,
                    limits=StructuralLimits(),
                )
                rows = client.runtime.read_now(read_history, recorded.run_id)
                replayed = replay(machine, rows)
                machine.evict()
                expect(
                    "the last event replayed", (replayed.last_seq, replayed.closed), (recorded.events, True)
                )
    return timing
