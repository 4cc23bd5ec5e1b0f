"""Real time: handlers that send no heartbeats stop although another process ended their attempt, or asked for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from outlast import RetryPolicy, StartOptions, activity, workflow
from outlast.client.client import Client
from outlast.worker.worker import Worker
from outlast_workflow.environment import Environment
from outlast_workflow.errors import (
    WorkflowCancelledError,
    WorkflowFailedError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)

begun = asyncio.Event()
stopped = asyncio.Event()
in_thread = threading.Event()
out_of_thread = threading.Event()


@activity.defn(start_to_close_timeout=600, retry_policy=RetryPolicy(max_attempts=1))
async def waits() -> None:
    begun.set()
    try:
        await asyncio.Event().wait()
    finally:
        stopped.set()


@activity.defn(start_to_close_timeout=600, retry_policy=RetryPolicy(max_attempts=1))
def works() -> None:
    in_thread.set()
    while not activity.is_cancelled():
        time.sleep(0.01)
    out_of_thread.set()


@workflow.defn
async def drives(start_to_close_timeout: float) -> None:
    await workflow.execute_activity(
        waits,
        task_queue="silent",
        start_to_close_timeout=start_to_close_timeout,
        cancellation_type="wait",
    )


@workflow.defn
async def drives_thread() -> None:
    await workflow.execute_activity(works, task_queue="silent", cancellation_type="wait")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _afresh() -> None:
    global begun, stopped  # an event belongs to the loop that first waits for it
    begun, stopped = asyncio.Event(), asyncio.Event()
    in_thread.clear()
    out_of_thread.clear()


@asynccontextmanager
async def two_journals(url: str) -> AsyncGenerator[Client]:
    """Workflows here; activities on a worker that shares nothing but the database."""
    async with (
        Client.connect(url, environment=Environment()) as client,
        Client.connect(url, environment=Environment()) as other,
        Worker(client, workflows=[drives, drives_thread], watchdog_interval=0.1),
        Worker(other, task_queue="silent", activities=[waits, works], watchdog=False),
    ):
        yield client


async def until(event: asyncio.Event) -> None:
    async with asyncio.timeout(30):
        await event.wait()


async def test_it_hears_of_a_cancel_request(shared_url: str) -> None:
    async with two_journals(shared_url) as client:
        handle = await client.start(drives, 600)
        await until(begun)
        await handle.cancel()
        await until(stopped)
        with pytest.raises(WorkflowCancelledError):
            await handle.result(60)


async def test_one_in_a_thread_hears_of_it(shared_url: str) -> None:
    async with two_journals(shared_url) as client:
        handle = await client.start(drives_thread)
        assert await asyncio.to_thread(in_thread.wait, 60)
        await handle.cancel()
        assert await asyncio.to_thread(out_of_thread.wait, 60)
        await handle.result(60)


async def test_it_hears_that_its_run_was_terminated(shared_url: str) -> None:
    async with two_journals(shared_url) as client:
        handle = await client.start(drives, 600)
        await until(begun)
        await handle.terminate()
        await until(stopped)
        with pytest.raises(WorkflowTerminatedError):
            await handle.result(60)


async def test_it_hears_that_its_workflow_was_deleted(shared_url: str) -> None:
    async with two_journals(shared_url) as client:
        handle = await client.start(drives, 600)
        await until(begun)
        await client.delete(handle.workflow_id, terminate=True)
        await until(stopped)


async def test_it_hears_that_its_attempt_has_timed_out(shared_url: str) -> None:
    async with two_journals(shared_url) as client:
        handle = await client.start(drives, 1)
        await until(begun)
        await until(stopped)
        with pytest.raises(WorkflowFailedError):
            await handle.result(60)


async def test_it_hears_that_its_run_has_timed_out(shared_url: str) -> None:
    async with two_journals(shared_url) as client:
        handle = await client.start(drives, 600, options=StartOptions(execution_timeout=1))
        await until(begun)
        await until(stopped)
        with pytest.raises(WorkflowTimeoutError):
            await handle.result(60)
