"""Real time: parents and children on workers that share nothing but the database, one of which may die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engine import process
from tests.engine.process import WorkerProcess, until

from outlast import workflow
from outlast.client.client import Client
from outlast.worker.worker import Worker
from outlast_workflow.environment import Environment
from outlast_workflow.errors import WorkflowCancelledError, WorkflowTerminatedError


@workflow.defn
async def parent_of_steps(count: int) -> int:
    """Its child runs where there is a worker for it, not here."""
    return await workflow.execute_child(process.steps, count, id="child", task_queue="default")


@workflow.defn
async def parent_of_sleeper(policy: str) -> int:
    return await workflow.execute_child(
        process.sleeps_then_steps, 3600.0, id="child", task_queue="default", parent_close_policy=policy
    )


PARENTS = [parent_of_steps, parent_of_sleeper]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def parents(url: str) -> AsyncGenerator[Client]:
    """A client, and a worker that runs parents only."""
    async with Client.connect(url) as client:
        async with Worker(client, task_queue="parents", workflows=PARENTS, watchdog_interval=0.1):
            yield client


async def test_a_child_runs_in_another_process(shared_url: str, diary: Path) -> None:
    async with parents(shared_url) as client:
        handle = await client.start(parent_of_steps, 3, id="parent", task_queue="parents")
        with WorkerProcess("other", shared_url, diary, lease=30) as other:
            assert await asyncio.wait_for(handle.result(), 60) == 1000 + sum(range(6))
            assert other.stop() == 0


async def test_a_parent_is_told_although_the_childs_first_process_died(shared_url: str, diary: Path) -> None:
    async with parents(shared_url) as client:
        handle = await client.start(parent_of_steps, 2, id="parent", task_queue="parents")
        with WorkerProcess("first", shared_url, diary) as first:
            await until(diary, "hold 1000 first")
            first.kill()
        with WorkerProcess("second", shared_url, diary, lease=30) as second:
            assert await asyncio.wait_for(handle.result(), 60) == 1000 + sum(range(4))
            assert second.stop() == 0
        types = [event.type async for event in handle.history()]
        assert types.count("ChildWorkflowCompleted") == 1


@pytest.mark.parametrize("policy", ["terminate", "request_cancel"])
async def test_a_child_in_another_process_meets_its_parents_end(
    shared_url: str, diary: Path, policy: str
) -> None:
    ends = {"terminate": WorkflowTerminatedError, "request_cancel": WorkflowCancelledError}
    async with parents(shared_url) as client:
        handle = await client.start(parent_of_sleeper, policy, id="parent", task_queue="parents")
        with WorkerProcess("other", shared_url, diary, lease=30) as other:
            await until(diary, "asleep")
            await handle.terminate()
            with pytest.raises(ends[policy]):
                await asyncio.wait_for(client.handle("child").result(), 60)
            assert other.stop() == 0


async def test_a_cancel_request_reaches_a_child_in_another_process(shared_url: str, diary: Path) -> None:
    async with parents(shared_url) as client:
        handle = await client.start(parent_of_sleeper, "terminate", id="parent", task_queue="parents")
        with WorkerProcess("other", shared_url, diary, lease=30) as other:
            await until(diary, "asleep")
            await handle.cancel()
            with pytest.raises(WorkflowCancelledError):
                await asyncio.wait_for(handle.result(), 60)
            with pytest.raises(WorkflowCancelledError, match="its parent parent asked for it"):
                await client.handle("child").result()
            assert other.stop() == 0


async def test_two_journals_on_one_database(shared_url: str, diary: Path) -> None:
    """Parents and children whose workers have a journal each, and contend for each other's rows."""

    async def serve(queue: str, workflows: list[Any], ready: asyncio.Event, done: asyncio.Event) -> None:
        async with Client.connect(shared_url, environment=Environment()) as client:
            async with Worker(
                client,
                task_queue=queue,
                workflows=workflows,
                activities=process.ACTIVITIES,
                watchdog_interval=0.1,
            ):
                ready.set()
                await done.wait()

    done = asyncio.Event()
    async with Client.connect(shared_url, environment=Environment()) as client:
        async with asyncio.TaskGroup() as group:
            for queue, workflows in (("parents", [parents_of_many]), ("default", process.WORKFLOWS)):
                ready = asyncio.Event()
                group.create_task(serve(queue, workflows, ready, done))
                await ready.wait()
            handles = [
                await client.start(parents_of_many, 10, id=f"parent-{number}", task_queue="parents")
                for number in range(5)
            ]
            found = [await asyncio.wait_for(handle.result(), 60) for handle in handles]
            done.set()
    assert found == [10 * sum(range(3))] * 5


@workflow.defn
async def parents_of_many(count: int) -> int:
    calls = [workflow.execute_child(process.fan_out, 3, task_queue="default") for _ in range(count)]
    return sum(await asyncio.gather(*calls))
