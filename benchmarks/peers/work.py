"""The workloads for Outlast and its peers, each in a process of its own.

``python work.py <engine> <database url> <workload> <number> <in flight>`` prints seconds, CPU and latencies as JSON.
The engines are named at the end of this file. Only the one asked for is imported; Temporal's server makes its own
database. The results are checked.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

IN_A_QUEUE = 100
"""How many workflows of the queue may be under way at a time."""


class Engine(Protocol):
    """What the workloads need of an engine."""

    async def one_step(self, number: int) -> int:
        """Run a workflow with one step, from its start to its result."""
        ...

    async def queued(self, number: int) -> int:
        """Run the same workflow through a queue that admits :data:`IN_A_QUEUE` at a time."""
        ...

    async def sequence(self, steps: int) -> int:
        """Run a workflow with a number of steps, one after the other; return that number."""
        ...

    async def fan_out(self, steps: int) -> int:
        """Run a workflow with a number of steps at once; return the sum of their arguments."""
        ...

    async def messages(self, number: int) -> int:
        """Run a workflow that receives a number of messages and ends with the last; return how many it got."""
        ...


# --- Outlast -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def outlast(url: str, *, as_written: bool = False) -> AsyncGenerator[Engine]:
    """Outlast: client and worker in one process, which is tuned as ``outlast worker`` does it.

    Args:
        url: The database.
        as_written: Whether the program is one as users write it: a worker with its defaults, options where the step
            is called, and ``client.start`` before ``handle.result``. Otherwise it is the fastest form.
    """
    face: Any = importlib.import_module("outlast")
    activity, workflow = face.activity, face.workflow

    @activity.defn(**({} if as_written else {"start_to_close_timeout": 600}))
    async def step(number: int) -> int:
        return number

    if as_written:
        # Written out, because it is the program that is measured.
        @workflow.defn
        async def one(number: int) -> int:
            found: int = await workflow.execute_activity(step, number, start_to_close_timeout=600)
            return found

        @workflow.defn
        async def many(steps: int) -> int:
            for number in range(steps):
                await workflow.execute_activity(step, number, start_to_close_timeout=600)
            return steps

        @workflow.defn
        async def wide(steps: int) -> int:
            calls = [workflow.execute_activity(step, n, start_to_close_timeout=600) for n in range(steps)]
            return sum(await asyncio.gather(*calls))

        async def run(client: Any, flow: Any, number: int, **options: Any) -> int:
            handle = await client.start(flow, number, **options)
            found: int = await handle.result()
            return found

    else:

        @workflow.defn
        async def one(number: int) -> int:
            found: int = await step(number)
            return found

        @workflow.defn
        async def many(steps: int) -> int:
            for number in range(steps):
                await step(number)
            return steps

        @workflow.defn
        async def wide(steps: int) -> int:
            return sum(await asyncio.gather(*[step(number) for number in range(steps)]))

        async def run(client: Any, flow: Any, number: int, **options: Any) -> int:
            found: int = await client.execute(flow, number, **options)
            return found

    class Listener:
        def __init__(self) -> None:
            self.heard = 0

        async def run(self, number: int) -> int:
            await workflow.wait_condition(lambda: self.heard == number)
            return self.heard

        def hear(self, word: str) -> None:
            self.heard += 1

    Listener.run = workflow.run(Listener.run)  # type: ignore[method-assign]
    Listener.hear = workflow.signal(Listener.hear)  # type: ignore[method-assign]
    listener = workflow.defn(Listener)

    class Made:
        def __init__(self, client: Any) -> None:
            self.client = client

        async def one_step(self, number: int) -> int:
            return await run(self.client, one, number)

        async def queued(self, number: int) -> int:
            return await run(self.client, one, number, options=face.StartOptions(queue="queue"))

        async def sequence(self, steps: int) -> int:
            return await run(self.client, many, steps)

        async def fan_out(self, steps: int) -> int:
            return await run(self.client, wide, steps)

        async def messages(self, number: int) -> int:
            handle = await self.client.start(listener.run, number)
            for _ in range(number):
                await handle.signal("hear", "word")
            found: int = await handle.result()
            return found

    face.tune_process()
    slots = {} if as_written else {"max_concurrent_activities": 2000, "max_cached_workflows": 2000}
    async with face.Client.connect(url) as client:
        await client.queues.define("queue", concurrency=IN_A_QUEUE)
        async with face.Worker(client, workflows=[one, many, wide, listener], activities=[step], **slots):
            yield Made(client)


# --- DBOS -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def dbos(url: str) -> AsyncGenerator[Engine]:
    """DBOS with its defaults, except for SQLite's journal, which gets the mode that Outlast uses."""
    peer: Any = importlib.import_module("dbos")
    logging.getLogger("dbos").setLevel(logging.CRITICAL)
    if url.startswith("sqlite"):
        import sqlite3

        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
    api = peer.DBOS
    api(config={"name": "bench", "system_database_url": url, "run_admin_server": False})

    @api.step()
    async def step(number: int) -> int:
        return number

    @api.workflow()
    async def one(number: int) -> int:
        found: int = await step(number)
        return found

    @api.workflow()
    async def many(steps: int) -> int:
        for number in range(steps):
            await step(number)
        return steps

    @api.workflow()
    async def wide(steps: int) -> int:
        return sum(await asyncio.gather(*[step(number) for number in range(steps)]))

    @api.workflow()
    async def listen(number: int) -> int:
        for _ in range(number):
            assert await api.recv_async("hear", 600) == "word"
        return number

    async def run(workflow: Callable[[int], Any], number: int) -> int:
        handle = await api.start_workflow_async(workflow, number)
        found: int = await handle.get_result()
        return found

    class Made:
        async def one_step(self, number: int) -> int:
            return await run(one, number)

        async def queued(self, number: int) -> int:
            handle = await api.enqueue_workflow_async("queue", one, number)
            found: int = await handle.get_result()
            return found

        async def sequence(self, steps: int) -> int:
            return await run(many, steps)

        async def fan_out(self, steps: int) -> int:
            return await run(wide, steps)

        async def messages(self, number: int) -> int:
            handle = await api.start_workflow_async(listen, number)
            for _ in range(number):
                await api.send_async(handle.get_workflow_id(), "word", "hear")
            found: int = await handle.get_result()
            return found

    api.launch()
    await api.register_queue_async("queue", concurrency=IN_A_QUEUE)
    try:
        yield Made()
    finally:
        api.destroy()


# --- Temporal -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def temporal(_url: str, *, sandboxed: bool = False) -> AsyncGenerator[Engine]:
    """Temporal's dev server on an SQLite file, every commit of which waits for the disk, and temporalio's worker."""
    peer: Any = importlib.import_module("temporal_dev")
    async with peer.served(sandboxed=sandboxed) as made:
        yield made


# --- the workloads --------------------------------------------------------------------------------------------------


async def in_flight(run: Callable[[int], Awaitable[int]], number: int, at_once: int) -> list[float]:
    """Run workflows with one step, some at a time; return how long each took."""
    took: list[float] = []
    left = iter(range(number))

    async def lane() -> None:
        for index in left:
            began = time.perf_counter()
            assert await run(index) == index
            took.append(time.perf_counter() - began)

    await asyncio.gather(*[lane() for _ in range(at_once)])
    assert len(took) == number
    return took


async def measure(name: str, url: str, workload: str, number: int, at_once: int) -> dict[str, Any]:
    """Run a workload after a warm-up."""
    engines: dict[str, Any] = {
        "outlast": outlast,
        "outlast-as-written": partial(outlast, as_written=True),
        "dbos": dbos,
        "temporal": temporal,
        "temporal-sandboxed": partial(temporal, sandboxed=True),
    }
    alone: dict[str, Callable[[Engine], Awaitable[int]]] = {
        "sequence": lambda engine: engine.sequence(number),
        "fan_out": lambda engine: engine.fan_out(number),
        "messages": lambda engine: engine.messages(number),
    }
    async with engines[name](url) as engine:
        many = {"in_flight": engine.one_step, "queued": engine.queued}
        await in_flight(many.get(workload, engine.one_step), 20, min(at_once, 20))
        took: list[float] = []
        cpu, began = time.process_time(), time.perf_counter()
        if workload in many:
            took = await in_flight(many[workload], number, at_once)
        else:
            found = await alone[workload](engine)
            assert found == (number * (number - 1) // 2 if workload == "fan_out" else number), found
        seconds = time.perf_counter() - began
        cpu = time.process_time() - cpu
    took.sort()
    return {
        "seconds": seconds,
        "per_second": number / seconds,
        "cpu_us": cpu / number * 1e6,
        "p50_ms": took[len(took) // 2] * 1000 if took else None,
        "p99_ms": took[int(len(took) * 0.99)] * 1000 if took else None,
    }


if __name__ == "__main__":
    engine_name, database, wanted, how_many, flight = sys.argv[1:6]
    print(json.dumps(asyncio.run(measure(engine_name, database, wanted, int(how_many), int(flight)))))
