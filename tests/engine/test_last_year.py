"""Near the end of the year 9999, after which no instant can be written: what is refused, and what just ends then."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast import ActivityIds, ApplicationError, RetryPolicy, StartOptions, activity, workflow
from outlast.errors import InvalidOptionError
from outlast.testing import StuckWorkflowError, TestEnvironment

YEAR_S = 365 * 86_400
FAR_S = 50 * YEAR_S
LAST = datetime.max.replace(tzinfo=UTC)
SLOWLY = RetryPolicy(initial_interval=FAR_S, max_interval=FAR_S, max_attempts=2)


@activity.defn(
    start_to_close_timeout=FAR_S,
    schedule_to_start_timeout=FAR_S,
    schedule_to_close_timeout=FAR_S,
    heartbeat_timeout=FAR_S,
)
async def ask() -> str:
    return activity.defer()


@activity.defn(start_to_close_timeout=5, retry_policy=SLOWLY)
async def fail() -> None:
    raise ApplicationError("no")


@workflow.defn
async def child() -> str:
    return "grown"


@workflow.defn
async def first(what: str) -> str:
    if what == "ask":
        return await ask()
    if what == "fail":
        await fail()
    if what == "sleep":
        await asyncio.sleep(3 * YEAR_S)
        workflow.continue_as_new("slept")
    if what == "later":
        raise ApplicationError("not yet", next_retry_delay=FAR_S)
    return what


years = 50
"""What the code below gives; a test corrects it."""


@workflow.defn
async def careless(call: str, option: str) -> str:
    given: Any = {option: years * YEAR_S}
    if call == "execute_child":
        return await workflow.execute_child(child, id="c", **given)
    if call == "continue_as_new":
        workflow.continue_as_new("went on", "", **given)
    return call


def near_the_end(*workflows: Any) -> TestEnvironment:
    return TestEnvironment(
        workflows=workflows, activities=[ask, fail], start_at=datetime(9990, 1, 1, tzinfo=UTC)
    )


SPANS = {
    ("execute_child", "execution_timeout"): "grown",
    ("execute_child", "run_timeout"): "grown",
    ("continue_as_new", "run_timeout"): "went on",
    ("continue_as_new", "start_delay"): "went on",
}


@pytest.mark.parametrize(("call", "option"), SPANS)
async def test_code_that_gives_such_a_span_fails_its_task_and_says_why(
    monkeypatch: pytest.MonkeyPatch, call: str, option: str
) -> None:
    async with near_the_end(careless, child) as env:
        handle = await env.client.start(careless, call, option, id="w")
        with pytest.raises(StuckWorkflowError) as caught:
            await handle.result()
        assert f"{option.replace('_', ' ')} ends after the year 9999" in str(caught.value.__cause__)
        monkeypatch.setitem(globals(), "years", 1)
        await env.sleep(60)
        assert await handle.result() == SPANS[call, option]


async def test_a_reset_with_such_a_timeout_is_refused() -> None:
    async with near_the_end(first) as env:
        handle = await env.client.start(first, "sleep", id="w", options=StartOptions(run_timeout=9 * YEAR_S))
        await env.sleep(1)
        with pytest.raises(InvalidOptionError, match="ends after the year 9999") as caught:
            await handle.reset("first-workflow-task", execution_timeout=FAR_S)
        assert caught.value.field == "execution_timeout"
        await env.sleep(2.5 * YEAR_S)
        again = await handle.reset("first-workflow-task")
        assert (await again.describe()).run.run_deadline_at == LAST, "what it takes over just ends then"
        assert await again.result() == "slept"


async def test_the_next_run_takes_over_a_timeout_and_just_ends_then() -> None:
    async with near_the_end(first) as env:
        handle = await env.client.start(first, "sleep", id="w", options=StartOptions(run_timeout=9 * YEAR_S))
        assert await handle.result() == "slept"
        assert (await handle.describe()).run.run_deadline_at == LAST


async def test_deadlines_and_retries_of_activities_just_end_then() -> None:
    async with near_the_end(first) as env:
        asking = await env.client.start(first, "ask", id="ask")
        failing = await env.client.start(first, "fail", id="fail")
        await env.sleep(1)
        (open_activity,) = (await asking.describe()).pending_activities
        for name in ("start_to_close", "schedule_to_close", "heartbeat", "next"):
            assert getattr(open_activity, f"{name}_deadline_at") == LAST
        await env.client.complete_activity(ActivityIds("ask", 1), "answered")
        assert await asking.result() == "answered"
        (retried,) = (await failing.describe()).pending_activities
        assert retried.available_at == LAST
        await failing.cancel()


@pytest.mark.parametrize("run_timeout", [None, FAR_S / 10])
async def test_a_retry_of_a_run_just_begins_then(run_timeout: float | None) -> None:
    options = StartOptions(retry_policy=RetryPolicy(max_attempts=2), run_timeout=run_timeout)
    async with near_the_end(first) as env:
        handle = await env.client.start(first, "later", id="w", options=options)
        await env.sleep(1)
        described = (await handle.describe()).run
        assert (described.attempt, described.begins_at) == (2, LAST)
        assert described.run_deadline_at == (LAST if run_timeout else None)
        await handle.terminate()
