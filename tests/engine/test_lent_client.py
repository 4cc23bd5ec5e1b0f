"""The client that activities get from their worker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import Client, StartOptions, Worker, activity, workflow
from outlast import blocking as blocking_clients
from outlast.errors import NotInActivityError
from outlast.testing import ActivityEnvironment


@workflow.defn
async def other(number: int) -> int:
    return number + int(await workflow.receive("more", timeout=10, default=0))


@activity.defn(start_to_close_timeout=100)
async def ask_others(number: int) -> list[Any]:
    client: Client = activity.client()
    info = activity.info()
    async with client:
        handle = await client.start(
            other, number, id=f"other of {info.workflow_id}", options=StartOptions.return_existing()
        )
        await handle.signal("more", 5, request_id="more")
    parent = (await client.describe(info.workflow_id)).run.run_id
    child = (await handle.describe()).run.parent_run_id
    return [await handle.result(), await client.count(workflow_type="other"), parent == info.run_id, child]


@activity.defn(start_to_close_timeout=100)
def ask_others_in_a_thread(number: int) -> list[Any]:
    with activity.client() as client:
        assert isinstance(client, blocking_clients.Client)
        handle = client.start(other, number, id="from a thread")
        handle.signal("more", 5)
    return [blocking_clients.wait_first([handle]).result(), client.count(workflow_type="other")]


@workflow.defn
async def asking(number: int) -> list[Any]:
    return await ask_others(number)


@workflow.defn
async def asking_in_a_thread(number: int) -> list[Any]:
    return await ask_others_in_a_thread(number)


async def test_an_activity_starts_signals_awaits_and_reads(engine: MakeEnvironment) -> None:
    async with engine(workflows=[asking, other], activities=[ask_others]) as env:
        assert await env.client.execute(asking, 1) == [6, 1, True, None]
        assert await env.client.count() == 2  # the worker's own client is still open


async def run_in_threads(url: str) -> None:
    code: dict[str, Any] = {
        "workflows": [asking_in_a_thread, other],
        "activities": [ask_others_in_a_thread],
    }
    async with Client.connect(url) as client:
        for number, own_thread in enumerate((False, True)):
            async with Worker(client, own_thread=own_thread, **code):
                found = await asyncio.wait_for(client.execute(asking_in_a_thread, number), 120)
            assert found == [5 + number, 1]
            await client.delete("from a thread")


def test_a_plain_activity_gets_a_blocking_client(tmp_path: Path) -> None:
    asyncio.run(run_in_threads(f"sqlite:///{tmp_path}/file.db"))


@activity.defn(start_to_close_timeout=1)
async def count_all() -> int:
    client: Client = activity.client()
    return await client.count()


async def test_an_activity_alone_gets_the_client_that_its_test_gives(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[other]) as env:
        await env.client.execute(other, 1)
        assert await ActivityEnvironment(client=env.client).run(count_all) == 1
        with pytest.raises(NotInActivityError, match="count_all has no client here"):
            await ActivityEnvironment().run(count_all)


async def test_outside_of_an_activity_there_is_none() -> None:
    with pytest.raises(NotInActivityError, match=r"activity\.client\(\) was called outside an activity"):
        activity.client()
