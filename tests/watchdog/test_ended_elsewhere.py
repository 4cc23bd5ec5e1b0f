"""A watchdog beside a worker that has a run in memory, which another process has ended: it must look again."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import Client, DataConverter, StructuralLimits, workflow
from outlast.runtime.runtime import Runtime
from outlast.testing import TestEnvironment, VirtualLoop
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_watchdog.enforcement import ReleaseLostRuns
from outlast_watchdog.watchdog import TaskWatchdog


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@workflow.defn
async def long() -> None:
    await workflow.sleep(1000)


@workflow.defn
async def parent() -> None:
    await workflow.execute_child(long, id="child")


def as_another_process(env: TestEnvironment, sqlite_url: str) -> Client:
    """A client with a journal, and so a cache, of its own."""
    url, environment = DatabaseUrl.parse(sqlite_url), env.client.runtime.environment
    runtime = Runtime(url, environment, Database(url, environment))
    return Client("other", runtime, DataConverter(), StructuralLimits())


async def test_the_children_of_a_run_that_was_ended_elsewhere_meet_their_policy(sqlite_url: str) -> None:
    async with TestEnvironment(url=sqlite_url, workflows=[parent, long]) as env:
        await env.client.start(parent, id="p")
        await env.sleep(1)
        async with as_another_process(env, sqlite_url) as other:
            await other.handle("p").terminate()
        await TaskWatchdog(env.client).run_pass()
        assert (await env.client.describe("child")).run.status == "terminated"


async def test_a_run_that_was_taken_and_lost_elsewhere_is_released(sqlite_url: str) -> None:
    async with TestEnvironment(url=sqlite_url, workflows=[parent, long]) as env:
        handle = await env.client.start(long, id="w")
        run_id = str(handle.run_id)
        await env.sleep(1)
        async with as_another_process(env, sqlite_url) as other:
            connection = other.runtime.journal.committer.connect()
            connection.exec_driver_sql("UPDATE workflow_runs SET owner_id = 'dead', fence = fence + 1")
        released = await env.client.runtime.journal.apply(ReleaseLostRuns("dead", [run_id]))
        assert released.waiting == [run_id]
