"""Search attributes end to end: set at start and in workflows, carried along chains, found by, shown."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import Range, StartOptions, StructuralLimits, workflow
from outlast.errors import (
    ChildWorkflowError,
    InvalidOptionError,
    StructuralLimitError,
    WorkflowFailedError,
    WorkflowTimeoutError,
)
from outlast_workflow.options.options import RetryPolicy

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
FIRST: dict[str, Any] = {"customer": "c-7", "amount": 5, "due": AT, "tags": ["eu", "new"]}


@workflow.defn
async def upserting(rounds: int = 0) -> list[Any]:
    seen = [workflow.info().search_attributes]
    workflow.upsert_search_attributes({"amount": 7.5, "tags": ["eu"], "customer": None})
    await workflow.sleep(10)
    workflow.upsert_search_attributes({"step": "done"})
    seen.append(workflow.info().search_attributes)
    if rounds:
        workflow.continue_as_new(rounds - 1)
    return seen


@workflow.defn
async def overriding(more: bool) -> dict[str, Any]:
    if more:
        workflow.continue_as_new(False, search_attributes={"fresh": True})
    return workflow.info().search_attributes


@workflow.defn
async def failing() -> None:
    workflow.upsert_search_attributes({"tried": workflow.info().attempt})
    raise ValueError("no")


@workflow.defn
async def having_a_child() -> dict[str, Any]:
    got: dict[str, Any] = await workflow.execute_child(
        overriding, False, id="child", search_attributes={"of": "the child", "due": AT}
    )
    return got


@workflow.defn
async def wrong(kind: str) -> None:
    given: Any = {
        "value": {"a": object()},
        "name": {"": 1},
        "large": {f"a{n}": "x" * 1000 for n in range(50)},
    }
    workflow.upsert_search_attributes(given[kind])


async def found(env: Any, **where: Any) -> list[str]:
    ids = [run.workflow_id async for run in env.client.list(where=where)]
    assert await env.client.count(where=where) == len(ids)
    return ids


async def test_attributes_are_set_at_start_and_by_the_workflow_and_shown_everywhere(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=[upserting]) as env:
        options = StartOptions(search_attributes=FIRST)
        handle = await env.client.start(upserting, id="o-1", options=options)
        await env.client.start(upserting, id="o-2")
        await asyncio.sleep(1)
        run = (await handle.describe()).run
        assert run.search_attributes == {"amount": 7.5, "due": AT, "tags": ["eu"]}
        assert '"due":"2026-01-31T12:00:00+00:00"' in run.model_dump_json()
        (listed,) = [one async for one in env.client.list(workflow_id="o-1")]
        assert listed.search_attributes == run.search_attributes
        assert await found(env, due=AT) == ["o-1"]
        assert await found(env, customer="c-7") == []
        assert await found(env, tags="eu") == ["o-2", "o-1"]
        assert await found(env, tags="new") == []
        assert await found(env, tags=["new", "eu"], due=Range(above=AT - timedelta(1))) == ["o-1"]
        assert await found(env, amount=Range(at_least=7, below=8)) == ["o-2", "o-1"]
        assert await found(env, amount=Range(above=7.5)) == []
        first, last = await handle.result()
        assert first["tags"] == ["eu", "new"]
        assert last["step"] == "done"
        assert "customer" not in last
        assert "o-1" in await found(env, step="done")


async def test_attributes_go_on_with_the_chain(engine: MakeEnvironment) -> None:
    async with engine(workflows=[upserting]) as env:
        handle = await env.client.start(upserting, 1, id="w", options=StartOptions(search_attributes=FIRST))
        await handle.result()
        runs = [run async for run in env.client.list(workflow_id="w")]
        assert [run.search_attributes["step"] for run in runs] == ["done", "done"]
        assert runs[0].search_attributes["due"] == AT
        assert await env.client.count(where={"step": "done"}) == 2


async def test_continue_as_new_may_replace_them(engine: MakeEnvironment) -> None:
    async with engine(workflows=[overriding]) as env:
        options = StartOptions(search_attributes=FIRST)
        assert await env.client.execute(overriding, True, id="w", options=options) == {"fresh": True}
        assert await found(env, fresh=True) == ["w"]


async def test_a_retried_run_keeps_them(engine: MakeEnvironment) -> None:
    async with engine(workflows=[failing]) as env:
        options = StartOptions(
            search_attributes={"kept": "yes"}, retry_policy=RetryPolicy(max_attempts=2, initial_interval=1)
        )
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(failing, id="w", options=options)
        assert await env.client.count(where={"kept": "yes"}) == 2
        assert [run.search_attributes["tried"] async for run in env.client.list()] == [2, 1]


async def test_a_run_that_timed_out_hands_them_on(engine: MakeEnvironment) -> None:
    async with engine(workflows=[upserting]) as env:
        options = StartOptions(
            run_timeout=5, retry_policy=RetryPolicy(max_attempts=2), search_attributes={"kept": "yes"}
        )
        with pytest.raises(WorkflowTimeoutError):
            await env.client.execute(upserting, id="w", options=options)
        assert await env.client.count(where={"kept": "yes", "amount": 7.5}) == 2


async def test_a_child_has_its_own(engine: MakeEnvironment) -> None:
    async with engine(workflows=[having_a_child, overriding]) as env:
        options = StartOptions(search_attributes=FIRST)
        got = await env.client.execute(having_a_child, id="parent", options=options)
        assert got["of"] == "the child"
        assert await found(env, of="the child") == ["child"]
        assert await found(env, customer="c-7") == ["parent"]
        assert [run.workflow_id async for run in env.client.list(parent="parent")] == ["child"]
        assert await env.client.count(parent="child") == 0


async def test_a_bad_one_at_start_writes_nothing(in_memory: MakeEnvironment) -> None:
    async with in_memory(limits=StructuralLimits(search_attributes_bytes=100)) as env:
        given: Any = {"a": object()}
        with pytest.raises(InvalidOptionError):
            await env.client.start("w", options=StartOptions(search_attributes=given))
        with pytest.raises(StructuralLimitError) as caught:
            await env.client.start("w", options=StartOptions(search_attributes={"a": "x" * 100}))
        assert (caught.value.kind, caught.value.limit) == ("search_attributes_bytes", 100)
        assert await env.client.count() == 0


@pytest.mark.parametrize("kind", ["value", "name"])
async def test_a_bad_one_in_a_workflow_fails_the_task(in_memory: MakeEnvironment, kind: str) -> None:
    async with in_memory(workflows=[wrong]) as env:
        handle = await env.client.start(wrong, kind, id="w")
        await asyncio.sleep(1)
        found = await handle.describe()
        assert found.run.task_failures > 0
        assert "search attribute" in found.failures[0].message
        await handle.terminate()


async def test_too_large_ones_in_a_workflow_fail_the_run(
    in_memory: MakeEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_memory(workflows=[wrong]) as env:
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(wrong, "large", id="w")
        assert "search attributes bytes" in str(caught.value.__cause__)
        await env.client.start(
            "w", options=StartOptions(search_attributes={f"a{n}": "x" * 1900 for n in range(18)})
        )
        assert "search attributes bytes at" in caplog.text


async def test_a_child_of_a_bad_call_is_not_started(in_memory: MakeEnvironment) -> None:
    @workflow.defn
    async def parent() -> None:
        try:
            given: Any = {"a": object()}
            await workflow.execute_child("nobody", search_attributes=given)
        except ChildWorkflowError:
            pass

    async with in_memory(workflows=[parent]) as env:
        handle = await env.client.start(parent, id="w")
        await asyncio.sleep(1)
        assert "search attribute 'a'" in (await handle.describe()).failures[0].message
        assert await env.client.count() == 1
        await handle.terminate()
