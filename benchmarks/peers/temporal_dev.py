"""Temporal's dev server on an SQLite file, equally durable, driven by temporalio in the same process as its worker.

The definitions have a module of their own, because the sandbox imports them again.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import subprocess
import tempfile
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

activity: Any = importlib.import_module("temporalio.activity")
workflow: Any = importlib.import_module("temporalio.workflow")

QUEUE = "bench"
BOUND = timedelta(seconds=600)


@activity.defn
async def step(number: int) -> int:
    return number


@workflow.defn
class One:
    @workflow.run
    async def run(self, number: int) -> int:
        found: int = await workflow.execute_activity(step, number, start_to_close_timeout=BOUND)
        return found


@workflow.defn
class Many:
    @workflow.run
    async def run(self, steps: int) -> int:
        for number in range(steps):
            await workflow.execute_activity(step, number, start_to_close_timeout=BOUND)
        return steps


@workflow.defn
class Wide:
    @workflow.run
    async def run(self, steps: int) -> int:
        return sum(
            await asyncio.gather(
                *[
                    workflow.execute_activity(step, number, start_to_close_timeout=BOUND)
                    for number in range(steps)
                ]
            )
        )


@workflow.defn
class Listener:
    def __init__(self) -> None:
        self.heard = 0

    @workflow.run
    async def run(self, number: int) -> int:
        await workflow.wait_condition(lambda: self.heard == number)
        return self.heard

    @workflow.signal
    def hear(self, word: str) -> None:
        self.heard += 1


class Made:
    """The workloads, run through a client."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def _run(self, definition: Any, number: int) -> int:
        found: int = await self.client.execute_workflow(
            definition.run, number, id=str(uuid.uuid4()), task_queue=QUEUE
        )
        return found

    async def one_step(self, number: int) -> int:
        return await self._run(One, number)

    async def sequence(self, steps: int) -> int:
        return await self._run(Many, steps)

    async def fan_out(self, steps: int) -> int:
        return await self._run(Wide, steps)

    async def messages(self, number: int) -> int:
        handle = await self.client.start_workflow(
            Listener.run, number, id=str(uuid.uuid4()), task_queue=QUEUE
        )
        for _ in range(number):
            await handle.signal(Listener.hear, "word")
        found: int = await handle.result()
        return found


@asynccontextmanager
async def served(*, sandboxed: bool) -> AsyncGenerator[Made]:
    """Yield the workloads on a new server (the binary that ``TEMPORAL_BIN`` names), with a worker and a client."""
    client_api: Any = importlib.import_module("temporalio.client")
    worker_api: Any = importlib.import_module("temporalio.worker")
    with tempfile.TemporaryDirectory(
        prefix="outlast-temporal-", dir=os.environ.get("BENCH_FOLDER")
    ) as folder:
        port = _free_port()
        server = subprocess.Popen(  # noqa: ASYNC220  # nothing else runs yet
            [
                os.environ["TEMPORAL_BIN"],
                *("server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)),
                *("--http-port", str(_free_port()), "--metrics-port", str(_free_port())),
                *("--db-filename", str(Path(folder) / "temporal.db"), "--log-level", "never"),
                *("--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=2"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            client = await _connected(client_api, f"127.0.0.1:{port}")
            runner: Any = (
                importlib.import_module("temporalio.worker.workflow_sandbox").SandboxedWorkflowRunner()
                if sandboxed
                else worker_api.UnsandboxedWorkflowRunner()
            )
            async with worker_api.Worker(
                client,
                task_queue=QUEUE,
                workflows=[One, Many, Wide, Listener],
                activities=[step],
                workflow_runner=runner,
                max_concurrent_activities=2000,
                max_concurrent_workflow_tasks=200,
                max_cached_workflows=2000,
            ):
                yield Made(client)
        finally:
            server.terminate()
            server.wait(30)


async def _connected(client_api: Any, address: str) -> Any:
    async with asyncio.timeout(60):
        while True:
            try:
                return await client_api.Client.connect(address)
            except RuntimeError:  # it does not listen yet
                await asyncio.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
