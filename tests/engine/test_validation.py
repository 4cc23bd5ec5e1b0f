"""Wrong options are refused at every way in, by the same words, before anything is written.

One table says which values are wrong and how the message begins; each way in is tried with all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment

from outlast import ActivityOptions, StartOptions, activity, workflow
from outlast.client.client import Client
from outlast.errors import InvalidOptionError, OutlastError
from outlast.worker.worker import Worker
from outlast_store.database.sql_text import fetch
from outlast_store.schema import tables

CENTURY = 100 * 31_557_600
NO_DURATIONS: dict[str, tuple[Any, str]] = {
    "a boolean": (True, "must be a number of seconds or a timedelta, not bool"),
    "text": ("60", "must be a number of seconds or a timedelta, not str"),
    "a list": ([60], "must be a number of seconds or a timedelta, not list"),
    "not a number": (math.nan, "must be finite"),
    "infinite": (math.inf, "must be finite"),
    "over a century": (CENTURY + 1, "must be at most 100 years"),
    "over a century of days": (timedelta(days=36_526), "must be at most 100 years"),
}
NOT_POSITIVE: dict[str, Any] = {
    "zero": 0,
    "no time": timedelta(),
    "negative": -1,
    "a negative timedelta": timedelta(seconds=-1),
}
UNDER_A_SECOND: dict[str, Any] = {**NOT_POSITIVE, "half a second": 0.5, "999 ms": timedelta(milliseconds=999)}


@dataclass(frozen=True)
class Wrong:
    """Options that can't be, and what is said of them."""

    options: dict[str, Any]
    field: str
    message: str
    what: str

    def __str__(self) -> str:
        return f"{self.field}: {self.what}"


def durations(field: str, too_small: dict[str, Any], says: str) -> list[Wrong]:
    """What no duration may be, for one field."""
    words = field.replace("schedule_to_start", "schedule-to-start").replace(
        "start_to_close", "start-to-close"
    )
    words = words.replace("schedule_to_close", "schedule-to-close").replace("_", " ")
    wrong = [
        Wrong({field: value}, field, f"{words} {why}", what) for what, (value, why) in NO_DURATIONS.items()
    ]
    return wrong + [
        Wrong({field: value}, field, f"{words} {says}", what) for what, value in too_small.items()
    ]


def contradiction(lesser: str, greater: str) -> Wrong:
    less, great = lesser.replace("_", "-"), greater.replace("_", "-")
    return Wrong(
        {f"{lesser}_timeout": 6, f"{greater}_timeout": 5},
        f"{lesser}_timeout",
        f"{less} timeout (6 s) must not be longer than the {great} timeout (5 s)",
        f"longer than {great}",
    )


START = [
    *durations("execution_timeout", UNDER_A_SECOND, "must be at least 1 second"),
    *durations("run_timeout", UNDER_A_SECOND, "must be at least 1 second"),
    *durations("start_delay", {"negative": -1}, "must not be negative"),
    Wrong(
        {"execution_timeout": 10, "start_delay": 10},
        "start_delay",
        "start delay (10 s) must be shorter than the execution timeout (10 s)",
        "no time left",
    ),
    Wrong({"priority": 10}, "priority", "priority must be from 0 to 9", "too large"),
    Wrong({"priority": True}, "priority", "priority must be a whole number, not bool", "a boolean"),
    Wrong({"retry_policy": 3}, "retry_policy", "retry policy must be a RetryPolicy, not int", "a number"),
    Wrong({"memo": [1]}, "memo", "memo must be a dict with text keys", "a list"),
]
ACTIVITY = [
    *durations("schedule_to_start_timeout", NOT_POSITIVE, "must be positive"),
    *durations("start_to_close_timeout", NOT_POSITIVE, "must be positive"),
    *durations("schedule_to_close_timeout", NOT_POSITIVE, "must be positive"),
    *durations("heartbeat_timeout", NOT_POSITIVE, "must be positive"),
    contradiction("heartbeat", "start_to_close"),
    contradiction("heartbeat", "schedule_to_close"),
    contradiction("start_to_close", "schedule_to_close"),
    contradiction("schedule_to_start", "schedule_to_close"),
    Wrong({"priority": -1}, "priority", "priority must be from 0 to 9", "negative"),
    Wrong({"task_queue": ""}, "task_queue", "task queue must not be empty", "empty"),
    Wrong({"retry_policy": {}}, "retry_policy", "retry policy must be a RetryPolicy, not dict", "a dict"),
]
EVERY_START = pytest.mark.parametrize("wrong", START, ids=str)
EVERY_ACTIVITY = pytest.mark.parametrize("wrong", ACTIVITY, ids=str)


def refused(make: Callable[[], object], wrong: Wrong) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the message is compared below
        make()
    assert isinstance(caught.value, InvalidOptionError)
    assert isinstance(caught.value, OutlastError)
    assert str(caught.value).startswith(wrong.message)
    assert caught.value.field == wrong.field


def rows_of(client: Client) -> dict[str, int]:
    """How many rows each table has."""
    counts = {}
    for table in tables.metadata.sorted_tables:
        counts[table.name] = client.runtime.read_now(fetch, f"SELECT COUNT(*) FROM {table.name}", ())[0][0]
    return counts


# --- starting a workflow --------------------------------------------------------------------------------------------


@EVERY_START
def test_start_options_refuse_it_at_once(wrong: Wrong) -> None:
    refused(lambda: StartOptions(**wrong.options), wrong)


@EVERY_START
def test_the_call_of_with_itself_refuses_it(wrong: Wrong) -> None:
    *before, last = wrong.options.items()
    options = StartOptions.reject_duplicate()
    for name, value in before:
        options = getattr(options, f"with_{name}")(value)
    refused(lambda: getattr(options, f"with_{last[0]}")(last[1]), wrong)


@EVERY_START
async def test_nothing_is_started_with_it(in_memory: MakeEnvironment, wrong: Wrong) -> None:
    async with in_memory() as env:
        before = rows_of(env.client)
        with pytest.raises(InvalidOptionError) as caught:
            await env.client.start(programs.nothing, id="w", options=StartOptions(**wrong.options))
        assert str(caught.value).startswith(wrong.message)
        assert rows_of(env.client) == before


@pytest.mark.parametrize("options", [{"run_timeout": 60}, ActivityOptions(), "run_timeout", 60])
async def test_options_of_another_kind_start_nothing(in_memory: MakeEnvironment, options: Any) -> None:
    async with in_memory() as env:
        before = rows_of(env.client)
        with pytest.raises(InvalidOptionError, match=r"^options must be StartOptions, not"):
            await env.client.start(programs.nothing, id="w", options=options)
        assert rows_of(env.client) == before


def test_a_run_timeout_may_exceed_the_execution_timeout_and_is_kept_as_given() -> None:
    options = StartOptions(execution_timeout=60, run_timeout=3600)
    assert (options.execution_timeout, options.run_timeout) == (60, 3600)
    assert StartOptions(execution_timeout=1, run_timeout=1.0, start_delay=0.5).run_timeout == 1


# --- activities -----------------------------------------------------------------------------------------------------


@EVERY_ACTIVITY
def test_activity_options_refuse_it_at_once(wrong: Wrong) -> None:
    refused(lambda: ActivityOptions(**wrong.options), wrong)


@EVERY_ACTIVITY
def test_the_definition_of_an_activity_refuses_it(wrong: Wrong) -> None:
    refused(lambda: activity.defn(**wrong.options), wrong)


@EVERY_ACTIVITY
async def test_a_workers_defaults_refuse_it(in_memory: MakeEnvironment, wrong: Wrong) -> None:
    async with in_memory() as env:
        with pytest.raises(InvalidOptionError) as caught:
            Worker(
                env.client,
                workflows=[programs.nothing],
                default_activity_options=ActivityOptions(**wrong.options),
            )
        assert str(caught.value).startswith(wrong.message)


async def test_a_workers_defaults_of_another_kind_are_refused(in_memory: MakeEnvironment) -> None:
    given: Any = {"start_to_close_timeout": 5}
    async with in_memory() as env:
        with pytest.raises(
            InvalidOptionError, match=r"^default activity options must be ActivityOptions, not dict"
        ):
            Worker(env.client, workflows=[programs.nothing], default_activity_options=given)


# --- the call in a workflow: it fails the task, and the run goes on when the code is right ---------------------------

CALL: dict[str, Any] = {}
"""The options of the next call: what a deploy would change."""


@activity.defn(start_to_close_timeout=5)
async def answer() -> int:
    return 42


@activity.defn
async def unbounded() -> int:
    return 42


@workflow.defn
async def calls_with_options() -> int:
    return await workflow.execute_activity(answer, **CALL)


@workflow.defn
async def calls_with_copied_options() -> int:
    return await answer.with_options(**CALL)()


@workflow.defn
async def calls_the_unbounded() -> int:
    return await workflow.execute_activity(unbounded, **CALL)


WORKFLOWS = [calls_with_options, calls_with_copied_options, calls_the_unbounded]


async def failed_task(
    make: MakeEnvironment, called: Any, wrong: dict[str, Any], right: dict[str, Any]
) -> str:
    """Run a workflow whose call is wrong, then put it right; returns why its task failed."""
    CALL.clear()
    CALL.update(wrong)
    async with make(workflows=WORKFLOWS, activities=[answer, unbounded]) as env:
        handle = await env.client.start(called, id="w")
        await env.settle()
        events = [event async for event in handle.history()]
        assert [event.type for event in events] == ["WorkflowStarted", "WorkflowTaskFailed"]
        assert rows_of(env.client)["activity_executions"] == 0
        description = await handle.describe()
        assert description.run.status in ("pending", "running")
        CALL.clear()
        CALL.update(right)
        assert await handle.result() == 42
        return str(events[-1].payload["failure"]["message"])


@pytest.mark.parametrize("called", [calls_with_options, calls_with_copied_options])
@pytest.mark.parametrize(
    "wrong",
    [
        one
        for one in ACTIVITY
        if one.what in ("a boolean", "zero", "infinite", "over a century", "empty", "a dict")
    ]
    + [contradiction("heartbeat", "schedule_to_close"), contradiction("start_to_close", "schedule_to_close")],
    ids=str,
)
async def test_a_call_with_it_fails_the_task_and_not_the_run(
    in_memory: MakeEnvironment, called: Any, wrong: Wrong
) -> None:
    assert wrong.message in await failed_task(in_memory, called, wrong.options, {})


async def test_a_call_that_contradicts_its_declaration_fails_the_task(in_memory: MakeEnvironment) -> None:
    said = await failed_task(
        in_memory, calls_with_options, {"heartbeat_timeout": 6}, {"heartbeat_timeout": 4}
    )
    assert "heartbeat timeout (6 s) must not be longer than the start-to-close timeout (5 s)" in said


async def test_an_activity_that_nothing_bounds_fails_the_task_and_says_what_to_choose(
    in_memory: MakeEnvironment,
) -> None:
    wrong, right = {"schedule_to_start_timeout": 5}, {"schedule_to_close_timeout": 5}
    said = await failed_task(in_memory, calls_the_unbounded, wrong, right)
    for choice in ("start_to_close", "schedule_to_close", "heartbeat"):
        assert choice in said


async def test_a_deadline_of_the_run_bounds_its_activities(in_memory: MakeEnvironment) -> None:
    CALL.clear()
    async with in_memory(workflows=WORKFLOWS, activities=[unbounded]) as env:
        for options in (StartOptions(run_timeout=60), StartOptions(execution_timeout=60)):
            assert await env.client.execute(calls_the_unbounded, options=options) == 42


async def test_a_workers_defaults_bound_its_activities(in_memory: MakeEnvironment) -> None:
    CALL.clear()
    defaults = ActivityOptions(heartbeat_timeout=60)
    async with in_memory(
        workflows=WORKFLOWS, activities=[unbounded], default_activity_options=defaults
    ) as env:
        assert await env.client.execute(calls_the_unbounded) == 42
