"""A definition named ``orders:*`` serves every type that begins with ``orders:``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import StartOptions, activity, workflow
from outlast.errors import InvalidOptionError


@activity.defn
async def told(type: str) -> str:
    return type


@workflow.defn(name="orders:*")
class Orders:
    @workflow.run
    async def run(self, rounds: int = 0) -> str:
        if rounds:
            workflow.continue_as_new(rounds - 1)
        kind = workflow.info().workflow_type
        await workflow.execute_local_activity(told, kind, start_to_close_timeout=60)
        return kind

    @workflow.query
    def kind(self) -> str:
        return workflow.info().workflow_type


@workflow.defn(name="orders:eu:*")
async def eu() -> str:
    return "the family of the EU"


@workflow.defn(name="orders:eu:de")
async def germany() -> str:
    return "Germany"


@workflow.defn
async def parent() -> str:
    return str(await workflow.execute_child("orders:child"))


@pytest.mark.usefixtures("one_worker")
async def test_a_family_serves_its_types_and_what_is_named_more_closely_comes_first(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=[Orders, eu, germany, parent], activities=[told]) as env:
        client = env.client
        assert await (await client.start("orders:us")).result() == "orders:us"
        assert await (await client.start("orders:us", 3, id="again")).result() == "orders:us"
        assert await (await client.start("orders:eu:fr")).result() == "the family of the EU"
        assert await (await client.start("orders:eu:de")).result() == "Germany"
        assert await (await client.start(parent)).result() == "orders:child"
        found = [run.workflow_type async for run in client.list(workflow_type="orders:us")]
        assert found == ["orders:us"] * 5
        assert await client.handle("again").query(Orders.kind) == "orders:us"


async def test_others_are_passed_over_and_told(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Orders], activities=[told]) as env:
        await env.client.queues.define("line", concurrency=1)
        other = await env.client.start("invoices:us")
        options = StartOptions(queue="line")
        queued = [await env.client.start("orders:us", options=options) for _ in range(3)]
        for handle in queued:
            assert await handle.result() == "orders:us"
        await asyncio.sleep(60)
        cause = [reason.cause for reason in (await other.describe()).attention_reasons]
        assert cause == [
            "workers poll task queue 'default', but none of them knows workflow 'invoices:us' (known: orders:*)"
        ]
        assert (await queued[0].describe()).attention_reasons == ()


async def test_a_family_is_no_type_of_a_run(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[Orders], activities=[told]) as env:
        targets: list[Any] = [Orders.run, "orders:*"]
        for target in targets:
            with pytest.raises(InvalidOptionError, match=r"must name one type, not the family 'orders:\*'"):
                await env.client.start(target)


async def test_who_serves_the_family_takes_over(engine: MakeEnvironment) -> None:
    async with engine(workflows=[germany]) as env:
        handle = await env.client.start("orders:later")
        await asyncio.sleep(5)
        async with env.new_worker(workflows=[Orders], activities=[told]):
            assert await handle.result() == "orders:later"
