"""Whoever types an option as another engine calls it is told the word that is used here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from outlast import (
    ActivityOptions,
    At,
    Client,
    Cron,
    Every,
    Queue,
    Rate,
    RetryPolicy,
    Schedule,
    StartOptions,
    Worker,
    activity,
    workflow,
)
from outlast.blocking import BlockingHandle
from outlast.blocking import Client as BlockingClient
from outlast.errors import InvalidOptionError, WorkflowFailedError
from outlast.testing import StuckWorkflowError, TestEnvironment, VirtualLoop


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
        (lambda: loose(ActivityOptions)(queue_name="q"), "it is called queue here"),
        (lambda: loose(StartOptions)(queue_name="q"), "it is called queue here"),
        (lambda: loose(StartOptions)(queue_partition_key="k"), "it is called partition_key here"),
        (lambda: loose(StartOptions)(delay_seconds=5), "it is called start_delay here"),
        (lambda: loose(Queue)("q", partition_queue=True), "every queue has partitions"),
        (lambda: loose(StartOptions)(id_reuse_policy=1), "it is called duplicate_policy here"),
        (lambda: loose(StartOptions)(workflow_timeout=1), "it is called execution_timeout here"),
        (lambda: loose(StartOptions)(cron_schedule="@daily"), "create a schedule"),
        (lambda: loose(StartOptions)(deduplication_id="d"), "the workflow's id deduplicates"),
        (lambda: loose(Schedule)("s", "w", cron="@daily"), "say when it fires: spec=Cron("),
        (lambda: loose(Schedule)("s", "w", schedule="@daily", cron_timezone="UTC"), "spec=Cron("),
        (lambda: loose(Schedule)("s", "w", spec=1, skip=[]), "it is called exclude here"),
        (lambda: loose(Schedule)("s", "w", spec=1, limited_actions=1), "it is called max_runs here"),
        (lambda: loose(Schedule)("s", "w", spec=1, automatic_backfill=True), "catch_up='all'"),
        (lambda: loose(Schedule)("s", "w", spec=1, trigger_immediately=True), "the handle's trigger"),
        (lambda: loose(Cron)("* * * * *", tz="UTC"), "Cron has no option 'tz': it is called time_zone here"),
        (lambda: loose(Every)(hours=6), "give seconds, or a timedelta such as timedelta(hours=6)"),
        (lambda: loose(Every)(interval=6), "it is called period here"),
        (lambda: loose(Rate)(5, period=1), "Rate has no option 'period': did you mean per?"),
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
        (lambda: loose(Worker)(None, queue="q"), "a worker takes task_queue="),
        (lambda: loose(Worker)(None, queue_name="q"), "a worker takes task_queue="),
        (lambda: loose(Worker)(None, concurrency=4), "it is called max_concurrent_activities here"),
        (lambda: loose(Worker)(None, workflow=[napping]), "it is called workflows here"),
        (lambda: loose(workflow.defn)(max_recovery_attempts=3), "StructuralLimits(owner_losses=…)"),
        (lambda: loose(activity.defn)(should_retry=bool), "non_retryable=True"),
        (lambda: loose(activity.defn)(max_attempts=3), "give retry_policy=RetryPolicy(max_attempts=…)"),
        (
            lambda: loose(activity.defn)(backoff_rate=3),
            "give retry_policy=RetryPolicy(backoff_coefficient=…)",
        ),
        (lambda: loose(activity.defn)(max_retries=3), "three retries are four attempts"),
        (lambda: loose(activity.defn)(time_limit=3), "it is called start_to_close_timeout here"),
        (lambda: loose(activity.defn)(timeout=3), "say which: start_to_close_timeout bounds an attempt"),
        (lambda: loose(StartOptions)(countdown=3), "it is called start_delay here"),
        (lambda: loose(StartOptions)(task_queue="q"), "starts, activities, children and workers take it"),
        (lambda: loose(Client.connect)("sqlite://", namespace="n"), "a namespace is a database"),
        (lambda: loose(BlockingClient.connect)("sqlite://", data_converter=1), "it is called converter here"),
    ],
)
def test_an_option_of_another_engine_names_ours(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        call()
    assert said in str(caught.value)
    assert " has no option '" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: loose(Cron)(), "Cron: missing a required argument: 'text'; it is called as Cron('0 2"),
        (lambda: loose(At)(when=6), "it is called as At(datetime(2027, 1, 1, tzinfo=UTC))"),
        (lambda: loose(Rate)(5), "missing a required argument: 'per'; it is called as Rate(20, per=1)"),
        (lambda: loose(Every)(1, 2, 3), "Every: too many positional arguments; it is called as Every(300)"),
    ],
)
def test_a_call_that_nothing_can_take_says_how_it_is_called(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        call()
    assert said in str(caught.value)


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


async def test_every_call_of_a_client_and_a_handle_names_our_options() -> None:
    args = "give the arguments one after another"
    async with TestEnvironment(workflows=[napping, calling], activities=[fine]) as env:
        client, handle = env.client, env.client.handle("w")
        started: dict[str, Any] = {"id": "w", "workflow_run_timeout": 1}
        refused: list[tuple[Callable[[], Any], str]] = [
            (lambda: loose(handle.signal)("approve", args=["ada"]), args),
            (lambda: loose(client.signal)("w", "approve", args=["ada"]), args),
            (lambda: loose(handle.query)("status", args=["ada"]), args),
            (
                lambda: loose(handle.query)("status", reject_condition=1),
                "closed workflows answer queries, too",
            ),
            (lambda: loose(handle.execute_update)("approve", args=["ada"]), args),
            (lambda: loose(handle.start_update)("approve", args=["ada"]), args),
            (lambda: loose(handle.start_update)("approve", wait_for_stage=1), "it is called wait_for here"),
            (lambda: loose(handle.result)(rpc_timeout=1), "`timeout` is the caller's patience"),
            (lambda: loose(handle.describe)(timeout=1), "there are follow_runs"),
            (lambda: loose(handle.cancel)(timeout=1), "there are reason"),
            (lambda: loose(handle.terminate)(args=["why"]), args),
            (
                lambda: loose(client.signal_with_start)(calling, {}, signal="s", **started),
                "give options=StartOptions(run_timeout=…)",
            ),
            (
                lambda: loose(client.update_with_start)(calling, {}, update="u", **started),
                "give options=StartOptions(run_timeout=…)",
            ),
        ]
        for call, said in refused:
            with pytest.raises(InvalidOptionError) as caught:
                await call()
            assert said in str(caught.value)
        with pytest.raises(InvalidOptionError, match="a handle that `start` returned follows its own chain"):
            loose(client.handle)("w", first_execution_run_id="r")
        with pytest.raises(InvalidOptionError, match="no filter 'type': it is called workflow_type here"):
            loose(client.list)(type="w")
        with pytest.raises(InvalidOptionError, match=r"workflows must be a list.*workflows=\[calling\]"):
            loose(Worker)(client, workflows=calling)


@workflow.defn
async def looping(call: str) -> None:
    if call == "continue_as_new":
        loose(workflow.continue_as_new)(args=[1])
    if call == "external":
        await loose(workflow.external("other").signal)("approve", args=["ada"])
    if call == "child":
        await loose(workflow.execute_child)(napping, id_reuse_policy=1)


@pytest.mark.parametrize("call", ["continue_as_new", "external", "child"])
async def test_calls_of_a_workflow_name_our_options(call: str) -> None:
    async with TestEnvironment(workflows=[looping, napping], static_checks="off") as env:
        with pytest.raises(StuckWorkflowError) as caught:
            await env.client.execute(looping, call)
    assert ("a child's id must not be open" if call == "child" else "arguments one after another") in str(
        caught.value
    )


def test_a_blocking_client_passes_every_option_on(tmp_path: Path) -> None:
    with BlockingClient.connect(f"sqlite:///{tmp_path / 'x.db'}") as client:
        handle: BlockingHandle[Any] = client.handle("w")
        for method in (
            *(handle.signal, handle.execute_update, handle.start_update, handle.query, handle.result),
            *(handle.describe, handle.cancel, handle.terminate, client.start),
        ):
            given = () if method.__name__ in ("result", "describe", "cancel", "terminate") else ("approve",)
            with pytest.raises(InvalidOptionError, match="give the arguments one after another"):
                loose(method)(*given, args=["ada"])


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
