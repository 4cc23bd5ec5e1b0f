"""A runtime: shared by the clients of a process, read from any of them, closed by the last."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from outlast import Client
from outlast.runtime.runtime import Runtime
from outlast_store.database.sql_text import fetch
from outlast_workflow.environment import Environment
from outlast_workflow.errors import JournalClosedError, OutlastError


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_clients_of_one_database_share_it_and_the_last_one_closes_it(sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as first:
        async with Client.connect(sqlite_url) as second:
            assert second.runtime is first.runtime
        assert first.runtime.read_now(fetch, "SELECT 1") == [(1,)]
    with pytest.raises(JournalClosedError):
        first.runtime.read_now(fetch, "SELECT 1")
    async with Client.connect(sqlite_url) as third:
        assert third.runtime is not first.runtime


@pytest.mark.parametrize("environment", [None, Environment()])
async def test_a_runtime_in_memory_or_of_its_own_environment_is_not_shared(
    sqlite_url: str, environment: Environment | None
) -> None:
    url = "sqlite://" if environment is None else sqlite_url
    async with (
        Client.connect(url, environment=environment) as first,
        Client.connect(url, environment=environment) as second,
    ):
        assert second.runtime is not first.runtime


async def test_a_read_gives_what_its_query_gives_and_raises_the_engines_errors(database_url: str) -> None:
    async with Client.connect(database_url) as client:
        runtime = client.runtime
        assert await runtime.read(fetch, "SELECT 7") == [(7,)]
        assert await runtime.read_aside(fetch, "SELECT 8") == [(8,)]
        with pytest.raises(OutlastError):
            await runtime.read(fetch, "SELECT nothing FROM nowhere")


async def test_a_task_that_fails_is_logged_by_its_name(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> None:
        raise RuntimeError("on purpose")

    async with Client.connect(sqlite_url) as client:
        with caplog.at_level(logging.ERROR, "outlast.runtime"):
            task = client.runtime.task(fails(), "outlast-test")
            await asyncio.wait([task])
            await asyncio.sleep(0)
    assert "outlast-test failed" in caplog.text


async def test_a_listener_is_called_for_what_others_write_until_it_is_taken_out(sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client:
        runtime: Runtime = client.runtime
        notified = asyncio.Event()
        runtime.subscribe(notified.set)
        async with asyncio.timeout(30):
            await notified.wait()
        runtime.unsubscribe(notified.set)
        assert runtime.listeners == []


async def test_a_poll_asks_about_runs_of_this_process_only_now_and_then(sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client:
        runtime = client.runtime
        asked: list[bool] = []

        async def poll(*, everywhere: bool) -> None:
            asked.append(everywhere)

        waits: Any = type(
            "Waits", (), {"awaited": True, "poll": staticmethod(poll), "close": lambda self: None}
        )()
        known, runtime.run_ends = runtime.run_ends, waits
        for _ in range(3):
            await runtime._poll()
        runtime.run_ends = known
        assert asked == [True, False, False]
