"""Workflows and activities run, wait, and return their results."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment
from tests.engine.histories import types_of
from tests.engine.programs import Colour, Order, Part, Sleeper, Sum
from tests.rows import latest_row

from outlast_workflow.errors import (
    ActivityError,
    ApplicationError,
    PayloadEncodeError,
    StructuralLimitError,
    WorkflowFailedError,
)
from outlast_workflow.options.limits import StructuralLimits


async def test_a_class_workflow_returns_its_result(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(Sum.run, [1, 2, 3], id="sum")
        assert await handle.result() == 6
        assert await handle.result() == 6
        assert await env.client.handle("sum").result() == 6
        assert programs.calls["add"] == 3


async def test_a_function_workflow_runs_a_plain_activity(engine: MakeEnvironment) -> None:
    async with engine() as env:
        assert await env.client.execute(programs.double, 21) == 42


async def test_a_workflow_with_nothing_to_do_is_one_change(engine: MakeEnvironment) -> None:
    async with engine() as env:
        before = env.client.runtime.journal.committer.batches
        handle = await env.client.start(programs.nothing, id="nothing")
        assert env.client.runtime.journal.committer.batches == before + 1
        await handle.result()
        assert await types_of(env.client, "nothing") == [
            "WorkflowStarted",
            "WorkflowTaskCompleted",
            "WorkflowCompleted",
        ]


async def test_a_workflow_with_one_activity_costs_two_commits(in_memory: MakeEnvironment) -> None:
    async with in_memory() as env:
        before = env.client.runtime.journal.committer.batches
        handle = await env.client.start(programs.double, 4)
        assert await handle.result() == 8
        assert env.client.runtime.journal.committer.batches == before + 2


async def test_a_workflow_may_be_named(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start("Sum", [4, 5], id="named", result_type=int)
        assert await handle.result() == 9


async def test_values_travel_by_type_hint(engine: MakeEnvironment) -> None:
    order = Order(
        id=uuid.UUID(int=7),
        at=datetime.datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=datetime.UTC),
        colour=Colour.RED,
        parts=[Part("bolt", decimal.Decimal("0.10"))],
        blob=b"\x00\xff",
    )
    async with engine() as env:
        assert await env.client.execute(programs.typed, order, id="typed") == order


async def test_durable_sleep_takes_its_time_and_no_more(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(Sleeper.run, 5.5, id="sleeper")
        before, after = await handle.result()
        took = datetime.datetime.fromisoformat(after) - datetime.datetime.fromisoformat(before)
        assert took == datetime.timedelta(seconds=5.5)


async def test_thirty_days_pass_at_once(in_memory: MakeEnvironment) -> None:
    async with in_memory() as env:
        began = env.now()
        handle = await env.client.start(Sleeper.run, 30 * 86_400, id="month")
        await env.sleep(days=29)
        assert (await latest_row(handle)).status == "running"
        await handle.result()
        assert env.now() - began == datetime.timedelta(days=30)


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [
        (programs.with_gather, [2, 9, "slept", "x"]),
        (programs.with_gather_of_failures, ["ActivityError", "int"]),
        (programs.with_wait, [1, 1, 2]),
        (programs.with_wait_for, "timed out"),
        (programs.with_timeout, ["timed out", "in time"]),
        (programs.with_task_group, [3, 6, 20]),
        (programs.with_failing_group, ["ActivityError"]),
        (programs.with_as_completed, [1.0, 2.0, 3.0]),
        (programs.with_queue_and_lock, [100, 101, 102]),
        (programs.explicit_calls, [3, 12, 11]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_asyncio_is_durable(engine: MakeEnvironment, workflow: Any, expected: Any) -> None:
    async with engine() as env:
        assert await env.client.execute(workflow, id="w") == expected


async def test_values_that_are_the_same_on_every_replay(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(programs.deterministic_values, id="values")
        values = await handle.result()
        assert values[0] != values[3]
        assert values[1] != values[4]
        assert values[5:] == ["values", (await latest_row(handle)).run_id]


# --- retries --------------------------------------------------------------------------------------------------------


async def test_a_flaky_activity_is_retried_with_backoff(engine: MakeEnvironment) -> None:
    async with engine() as env:
        began = env.now()
        assert await env.client.execute(programs.retrying, "flaky", 3, id="w") == 4
        took = (env.now() - began).total_seconds()
        assert 7 <= took < 8  # 1 + 2 + 4, and then at most the next look
        assert "ActivityFailed" not in await types_of(env.client, "w")


async def test_attempts_come_to_an_end(engine: MakeEnvironment) -> None:
    async with engine() as env:
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(programs.retrying, "flaky", 99, id="w")
        error = caught.value.__cause__
        assert isinstance(error, ActivityError)
        assert error.retry_state == "maximum_attempts_reached"
        assert isinstance(error.__cause__, ApplicationError)
        assert error.__cause__.type == "ConnectionError"
        assert programs.calls["flaky"] == 5


async def test_an_error_may_refuse_retries_and_carry_details(engine: MakeEnvironment) -> None:
    async with engine() as env:
        result = await env.client.execute(programs.refused, "non_retryable", id="w")
        assert result == ["non_retryable_failure", "Hopeless", [{"code": 7}], "Hopeless: no use"]
        assert programs.calls["refuse"] == 1


async def test_an_error_may_name_the_next_delay(engine: MakeEnvironment) -> None:
    async with engine() as env:
        began = env.now()
        result = await env.client.execute(programs.refused, "delay", id="w")
        assert result[:2] == ["maximum_attempts_reached", "Busy"]
        assert (env.now() - began).total_seconds() >= 4 * 30


async def test_heartbeat_details_reach_the_next_attempt(engine: MakeEnvironment) -> None:
    async with engine() as env:
        assert await env.client.execute(programs.resuming, 10, id="w") == [[5, "so far"], 2]


async def test_an_attempt_that_falls_silent_times_out_one_timeout_after_its_last_heartbeat(
    engine: MakeEnvironment,
) -> None:
    async with engine() as env:
        assert await env.client.execute(programs.falling_silent, 29, id="in time") == ["done"]
        began = env.now()
        assert await env.client.execute(programs.falling_silent, 52, id="silent") == ["heartbeat", "the last"]
        assert 31 <= (env.now() - began).total_seconds() < 32


# --- failures -------------------------------------------------------------------------------------------------------


async def test_a_workflow_that_raises_fails(engine: MakeEnvironment) -> None:
    async with engine() as env:
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(programs.failing, "broken", id="w")
        cause = caught.value.__cause__
        assert isinstance(cause, ApplicationError)
        assert (str(cause), cause.type, list(cause.details)) == ("Bad: broken", "Bad", [1, 2])
        assert (await types_of(env.client, "w"))[-1] == "WorkflowFailed"


async def test_any_exception_that_leaves_run_fails_the_run(engine: MakeEnvironment) -> None:
    async with engine() as env:
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(programs.crashing, "by zero", id="w")
        assert isinstance(caught.value.__cause__, ApplicationError)
        assert caught.value.__cause__.type == "ZeroDivisionError"


async def test_activity_results_that_cant_be_kept_fail_the_activity(engine: MakeEnvironment) -> None:
    async with engine(limits=StructuralLimits(payload_bytes=1000)) as env:
        found = await env.client.execute(programs.handles_bad_results, 2000, id="w")
        assert found == [PayloadEncodeError.__name__, StructuralLimitError.__name__]


async def test_a_workflow_result_over_the_limit_fails_the_run(engine: MakeEnvironment) -> None:
    async with engine(limits=StructuralLimits(payload_bytes=1000)) as env:
        assert await env.client.execute(programs.too_large, 990, id="fits") == "x" * 990
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(programs.too_large, 2000, id="w")
        assert isinstance(caught.value.__cause__, StructuralLimitError)
        await env.client.execute(programs.nothing, id="next")
