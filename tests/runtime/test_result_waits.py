"""A run that another process ends: its owner drops it, and callers that wait for its result there get it."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from typing import Any

import pytest
from tests.engine.answerers import WORKFLOWS, Cart
from tests.engine.family import napping

from outlast import Client, WorkflowTerminatedError
from outlast.testing import TestEnvironment
from outlast_workflow.environment import Environment
from outlast_workflow.errors import JournalClosedError, RunNotFoundError
from outlast_workflow.errors.request import UpdateFailedError


@pytest.mark.parametrize("remembered", [True, False])
async def test_the_owner_drops_a_run_that_another_process_has_closed(
    sqlite_url: str, remembered: bool
) -> None:
    async with TestEnvironment(workflows=[napping], url=sqlite_url) as env:
        handle = await env.client.start(napping, 100_000.0, id="n")
        waiting = asyncio.ensure_future(handle.result())
        await env.sleep(5)
        if not remembered:  # As if the journal's row had been old: it is read when it is written again.
            (run_id,) = env.worker.local.owner.cache.runs
            env.client.runtime.journal.cache.forget((run_id,), ())
        elsewhere = Environment(env.clock, rng=random.Random(1), threads=False)
        async with Client.connect(sqlite_url, environment=elsewhere) as other:
            await other.handle("n").terminate("not needed")
        await env.sleep(5)
        assert waiting.done(), "somebody would wait forever"
        with pytest.raises(WorkflowTerminatedError):
            await waiting
        assert not env.worker.local.owner.cache.runs, "nothing of it stays in memory"


@pytest.mark.parametrize("how", ["terminate", "reset"])
async def test_who_waits_for_an_update_learns_that_another_process_has_closed_the_run(
    sqlite_url: str, how: str
) -> None:
    async with TestEnvironment(workflows=WORKFLOWS, url=sqlite_url) as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        made = await handle.start_update(Cart.wait_for, 5)
        waiting = asyncio.ensure_future(made.result())
        await env.sleep(5)
        elsewhere = Environment(env.clock, rng=random.Random(1), threads=False)
        async with Client.connect(sqlite_url, environment=elsewhere) as other:
            if how == "terminate":
                await other.handle("c").terminate()
            else:
                _ = await other.handle("c").reset("first-workflow-task")
        await env.sleep(5)
        assert waiting.done(), "somebody would wait forever"
        with pytest.raises(UpdateFailedError):
            await waiting


async def test_who_waits_when_the_client_is_closed_is_told_so(sqlite_url: str) -> None:
    async with TestEnvironment(workflows=WORKFLOWS, url=sqlite_url) as env:
        _ = await env.client.start(Cart.run, "ada", id="c")
        elsewhere = Environment(env.clock, rng=random.Random(1), threads=False)
        async with Client.connect(sqlite_url, environment=elsewhere) as other:
            handle = other.handle("c")
            made = await handle.start_update(Cart.wait_for, 5)
            waiting = [asyncio.ensure_future(made.result()), asyncio.ensure_future(handle.result())]
            await env.sleep(5)
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in told] == [JournalClosedError, JournalClosedError]


async def test_who_waits_learns_that_another_process_has_deleted_the_workflow(sqlite_url: str) -> None:
    async with TestEnvironment(workflows=WORKFLOWS, url=sqlite_url) as env:
        elsewhere = Environment(env.clock, rng=random.Random(1), threads=False)
        async with Client.connect(sqlite_url, environment=elsewhere) as other:
            waiting: list[asyncio.Future[Any]] = []
            handle = await env.client.start(Cart.run, "ada", id="c")
            for client in (env.client, other):
                made = await client.handle("c").start_update(Cart.wait_for, 5, id="one")
                waiting.append(asyncio.ensure_future(made.result()))
                waiting.append(asyncio.ensure_future(client.handle("c").result()))
            await env.sleep(5)
            with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as database:  # all at once
                for table in ("workflow_requests", "workflow_runs", "workflow_instances", "history_events"):
                    database.execute(f"DELETE FROM {table}")
            await env.sleep(5)
            assert all(future.done() for future in waiting), "somebody would wait forever"
            told = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(error) for error in told] == [RunNotFoundError] * 4
            assert handle.run_id not in env.worker.local.owner.cache.runs
