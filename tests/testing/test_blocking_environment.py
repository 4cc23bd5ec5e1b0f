"""Code without an event loop is tested in virtual time, with a blocking client."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outlast import ActivityIds, StartOptions, activity, workflow
from outlast.blocking import Client
from outlast.errors import BlockedLoopError, NonDeterminismError, StillRunningError
from outlast.testing import BlockingTestEnvironment, StuckWorkflowError

charged: list[str] = []


@activity.defn(start_to_close_timeout=60)
def charge(order: str) -> str:
    charged.append(order)
    return f"receipt-{order}"


@activity.defn(start_to_close_timeout=86_400)
def ask() -> str:
    return activity.defer()


@workflow.defn
class Order:
    def __init__(self) -> None:
        self.approved = False

    @workflow.run
    async def run(self, order: str) -> str:
        await workflow.wait_condition(lambda: self.approved, timeout=timedelta(days=3))
        receipt = await charge(order)
        await workflow.sleep(timedelta(days=30))
        return receipt

    @workflow.signal
    def approve(self) -> None:
        self.approved = True

    @workflow.query
    def is_approved(self) -> bool:
        return self.approved

    @workflow.update
    async def confirm(self, by: str) -> str:
        await workflow.sleep(60)
        return f"confirmed by {by}"


@workflow.defn
async def asking() -> str:
    return await ask()


@workflow.defn
async def stuck() -> None:
    call: Any = workflow.execute_activity
    await call("nobody", 1)


@workflow.defn
async def unsteady() -> None:
    await workflow.sleep(60 + len(charged))
    if charged:
        await charge("again")


def place(client: Client, order: str) -> str:
    """As a view of Flask or Django does."""
    options = StartOptions.return_existing().with_execution_timeout(timedelta(days=60))
    return client.start(Order.run, order, id=f"order-{order}", options=options).workflow_id


def test_plain_code_starts_messages_and_waits_in_virtual_time() -> None:
    charged.clear()
    with BlockingTestEnvironment(workflows=[Order], activities=[charge], replay=True) as env:
        assert env.now() == datetime(2026, 1, 1, tzinfo=UTC)
        assert place(env.client, "7") == place(env.client, "7")
        handle = env.client.handle("order-7", result_type=str)
        assert handle.execute_update(Order.confirm, "ada") == "confirmed by ada"
        assert env.now() == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
        env.sleep(timedelta(days=1))
        assert not handle.query(Order.is_approved)
        with pytest.raises(StillRunningError):
            handle.result(timeout=3600)
        handle.signal(Order.approve)
        env.settle()
        assert charged == ["7"]
        env.sleep_until(datetime(2026, 1, 20, tzinfo=UTC))
        assert [run.workflow_id for run in env.client.list(status="running")] == ["order-7"]
        assert handle.result() == "receipt-7"
        assert env.now() > datetime(2026, 1, 31, tzinfo=UTC)


def test_other_threads_take_turns() -> None:
    with BlockingTestEnvironment(workflows=[Order], activities=[charge]) as env:
        threads = [threading.Thread(target=place, args=(env.client, str(one))) for one in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert env.client.count(workflow_type="Order") == 8


def test_the_test_is_the_outside_of_a_deferred_activity() -> None:
    with BlockingTestEnvironment(workflows=[asking], activities=[ask]) as env:
        handle = env.client.start(asking, id="a")
        env.sleep(hours=20)
        env.client.complete_activity(ActivityIds("a", 1), "yes")
        assert handle.result() == "yes"
        late = env.client.start(asking, id="b", options=StartOptions(run_timeout=60))
        with pytest.raises(TimeoutError):
            late.result()


def test_it_says_what_the_other_environment_says() -> None:
    with (
        BlockingTestEnvironment(workflows=[stuck], static_checks="off") as env,
        pytest.raises(StuckWorkflowError),
    ):
        env.client.execute(stuck)
    with pytest.raises(TypeError, match="max_cached_workflow"):
        BlockingTestEnvironment(max_cached_workflow=0)
    charged.clear()
    with (  # noqa: PT012  # the error comes at the end of the environment
        pytest.raises(NonDeterminismError),
        BlockingTestEnvironment(
            workflows=[unsteady], activities=[charge], replay=True, static_checks="off"
        ) as env,
    ):
        env.client.execute(unsteady)
        charged.append("now the code does something else")


def test_it_is_not_for_code_on_an_event_loop() -> None:
    async def on_a_loop() -> None:
        with pytest.raises(BlockedLoopError):
            BlockingTestEnvironment(workflows=[asking]).__enter__()

    asyncio.run(on_a_loop())
