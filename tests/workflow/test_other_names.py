"""Whoever types an option as another engine calls it is told the word that is used here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from outlast import ActivityOptions, RetryPolicy, StartOptions, Worker, activity, workflow
from outlast.errors import InvalidOptionError, WorkflowFailedError
from outlast.testing import TestEnvironment, VirtualLoop


@activity.defn(start_to_close_timeout=timedelta(seconds=5))
async def fine(number: int) -> int:
    return number


@workflow.defn
async def napping() -> None:
    import asyncio

    await asyncio.sleep(cast("float", timedelta(seconds=1)))


@workflow.defn
async def calling(options: dict[str, Any]) -> int:
    call: Any = workflow.execute_activity
    result: int = await call(fine, 1, **options)
    return result


def loose(thing: Any) -> Any:
    """What type checkers refuse is what users of other engines type."""
    return thing


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: loose(RetryPolicy)(maximum_attempts=3), "it is called max_attempts here"),
        (lambda: loose(RetryPolicy)(maximum_interval=3), "it is called max_interval here"),
        (lambda: loose(RetryPolicy)(backoff_rate=3), "it is called backoff_coefficient here"),
        (lambda: loose(RetryPolicy)(interval_seconds=3), "it is called initial_interval here"),
        (lambda: loose(RetryPolicy)(max_atempts=3), "did you mean max_attempts?"),
        (lambda: loose(ActivityOptions)(queue_name="q"), "it is called task_queue here"),
        (lambda: loose(StartOptions)(id_reuse_policy=1), "it is called duplicate_policy here"),
        (lambda: loose(StartOptions)(workflow_timeout=1), "it is called execution_timeout here"),
        (lambda: loose(StartOptions)(cron_schedule="@daily"), "from a scheduler of your own"),
        (lambda: loose(activity.defn)(retries_allowed=True), "activities are retried by default"),
        (lambda: loose(workflow.defn)(sandboxed=False), "Worker(runtime_guard=…)"),
        (
            lambda: loose(workflow.defn)(failure_exception_types=[]),
            "it is called workflow_failure_types here",
        ),
        (lambda: loose(workflow.signal)(unfinished_policy=1), "workflow.all_handlers_finished"),
        (lambda: loose(workflow.update)(unfinished_policy=1), "workflow.all_handlers_finished"),
        (lambda: loose(workflow.query)(description=""), "there are name, dynamic"),
        (lambda: loose(Worker)(None, workflow_runner=None), "Worker(runtime_guard=…)"),
    ],
)
def test_an_option_of_another_engine_names_ours(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        call()
    assert said in str(caught.value)
    assert " has no option '" in str(caught.value)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"args": [1]}, "start has no option 'args': give the arguments one after another"),
        ({"workflow_id": "w"}, "it is called id here"),
        ({"execution_timeout": 5}, "give options=StartOptions(execution_timeout=…)"),
        ({"id_conflict_policy": 1}, "give options=StartOptions(duplicate_policy=…)"),
    ],
)
async def test_calls_of_a_client_name_our_options(options: dict[str, Any], said: str) -> None:
    async with TestEnvironment(workflows=[napping, calling], activities=[fine]) as env:
        for call in (env.client.start, env.client.execute):
            with pytest.raises(InvalidOptionError) as caught:
                await loose(call)(calling, **options)
            assert said in str(caught.value)
        handle = env.client.handle("w")
        for method in (handle.signal, handle.execute_update):
            with pytest.raises(InvalidOptionError) as caught:
                await loose(method)("approve", args=["ada"])
            assert "give the arguments one after another" in str(caught.value)


async def test_a_call_in_a_workflow_names_our_options() -> None:
    async with TestEnvironment(workflows=[napping, calling], activities=[fine]) as env:
        handle = await env.client.start(calling, {"args": [1]}, id="c")
        await env.sleep(5)
        (failure, *_) = (await handle.describe()).failures
        assert failure.message.startswith(
            "ActivityOptions has no option 'args': give the arguments one after another"
        )
        await handle.terminate()


async def test_asyncio_sleep_with_a_timedelta_names_workflow_sleep() -> None:
    async with TestEnvironment(workflows=[napping, calling], activities=[fine]) as env:
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(napping)
        assert "asyncio.sleep takes seconds; workflow.sleep takes a timedelta, too" in str(caught.value)
