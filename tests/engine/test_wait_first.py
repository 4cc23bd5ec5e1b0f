"""Waiting for the first of several workflows, and for what their code puts into their memos."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest
from tests.engine.conftest import MakeEnvironment

import outlast
from outlast import (
    InvalidOptionError,
    RetryPolicy,
    StartOptions,
    WorkflowClosedError,
    WorkflowFailedError,
    WorkflowHandle,
    WorkflowNotFoundError,
    workflow,
)
from outlast_workflow.errors import ApplicationError, PayloadDecodeError


@workflow.defn
async def sleeper(seconds: float) -> float:
    await workflow.sleep(seconds)
    if seconds == 7:
        raise ApplicationError("seven")
    return seconds


@dataclass
class Status:
    step: str


@workflow.defn
async def teller(again: bool) -> str:
    await workflow.sleep(10)
    if again:
        workflow.continue_as_new(False)
    workflow.upsert_memo({"status": Status("half way"), "odd": {"$codec": "x", "data": ""}})
    await workflow.sleep(10)
    return "done"


WORKFLOWS = [sleeper, teller]


# --- wait_first -------------------------------------------------------------------------------------------------------


async def test_results_come_in_the_order_of_completion(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        times = [5, 3, 9, 7, 1]
        waiting = [await env.client.start(sleeper, float(seconds), id=f"s{seconds}") for seconds in times]
        ended: list[Any] = []
        while waiting:
            first = await outlast.wait_first(waiting)
            waiting.remove(first)
            try:
                ended.append(await first.result())
            except WorkflowFailedError as error:
                ended.append(str(error.__cause__))
        assert ended[:3] == [1, 3, 5]
        assert "seven" in ended[3]
        assert ended[4] == 9


async def test_of_those_that_have_ended_the_first_is_returned(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        for seconds in (5, 3, 9):
            await env.client.start(sleeper, float(seconds), id=f"s{seconds}")
        await env.sleep(20)
        waiting = [env.client.handle(f"s{seconds}") for seconds in (9, 5, 3)]
        order: list[str] = []
        while waiting:
            first = await outlast.wait_first(waiting, timeout=1)
            waiting.remove(first)
            order.append(first.workflow_id)
        assert order == ["s3", "s5", "s9"]


async def test_all_runs_of_a_chain_are_waited_for(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        chain: WorkflowHandle[Any] = await env.client.start(teller, True)
        other: WorkflowHandle[Any] = await env.client.start(sleeper, 25.0)
        assert await outlast.wait_first([chain, other]) is other
        assert await outlast.wait_first([chain]) is chain
        assert await chain.result() == "done"


async def test_nobody_ends_in_time(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.start(sleeper, 9.0)
        with pytest.raises(TimeoutError, match="the workflow has not ended within 2"):
            await outlast.wait_first([handle], timeout=2)
        assert await handle.result() == 9


async def test_what_cannot_be_waited_for_is_refused(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = env.client.handle("nobody")
        with pytest.raises(InvalidOptionError, match="at least one handle"):
            await outlast.wait_first([])
        with pytest.raises(ValueError, match="'nobody' twice"):
            await outlast.wait_first([handle, env.client.handle("nobody")])
        with pytest.raises(InvalidOptionError, match="not Task"):
            await outlast.wait_first(cast("Any", [asyncio.create_task(asyncio.sleep(0))]))
        with pytest.raises(WorkflowNotFoundError):
            await outlast.wait_first([handle])


async def test_many_handles_are_asked_about_together(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handles = [await env.client.start(sleeper, 1000.0 + number) for number in range(600)]
        runtime, reads = env.client.runtime, list[str]()
        read = runtime.read

        async def counted(query: Any, *args: Any, **kwargs: Any) -> Any:
            reads.append(query.__name__)
            return await read(query, *args, **kwargs)

        monkeypatch.setattr(runtime, "read", counted)
        waiting = asyncio.ensure_future(outlast.wait_first(handles))
        await env.sleep(500)
        before = [name for name in reads if name.startswith("find_clos") or name == "find_terminal_event"]
        assert before == ["find_closings"] * 2
        assert await waiting is handles[0]


# --- memo_value -------------------------------------------------------------------------------------------------------


async def test_a_field_of_the_memo_is_waited_for_along_the_chain(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.start(teller, True)
        with pytest.raises(TimeoutError, match="did not set field 'status'"):
            await handle.memo_value("status", timeout=5)
        assert await handle.memo_value("status", timeout=0, default="nothing") == "nothing"
        assert await handle.memo_value("status", timeout=60, result_type=Status) == Status("half way")
        assert await handle.memo_value("odd") == {"$codec": "x", "data": ""}
        with pytest.raises(PayloadDecodeError, match="field 'odd' of the memo"):
            await handle.memo_value("odd", result_type=int)
        assert await handle.result() == "done"
        assert await handle.memo_value("status") == {"step": "half way"}


async def test_a_memo_is_read_of_the_start_and_without_a_worker(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[]) as env:
        handle = await env.client.start("Unknown", options=StartOptions(memo={"who": "ada"}))
        assert await handle.memo_value("who", timeout=0) == "ada"


async def test_an_end_without_the_field_is_told_at_once(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle: WorkflowHandle[float] = await env.client.start(
            sleeper, 7.0, options=StartOptions(retry_policy=RetryPolicy(max_attempts=2))
        )
        with pytest.raises(WorkflowClosedError) as raised:
            await handle.memo_value("status")
        assert raised.value.workflow_id == handle.workflow_id
        assert "has never set field 'status' of its memo: give a default" in str(raised.value)
        assert (await handle.describe()).run_count == 2
        assert await handle.memo_value("status", default=None) is None


async def test_what_cannot_be_read_is_refused(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = env.client.handle("nobody")
        with pytest.raises(InvalidOptionError, match="must be text"):
            await handle.memo_value("")
        with pytest.raises(InvalidOptionError, match="timeout"):
            await handle.memo_value("x", timeout=-1)
        with pytest.raises(WorkflowNotFoundError):
            await handle.memo_value("x")
