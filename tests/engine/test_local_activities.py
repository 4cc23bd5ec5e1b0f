"""Local activities: run where their run is, recorded once, retried by its owner whoever that is by then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.rows import latest_row

from outlast import ActivityTimeoutError, RetryPolicy, WorkflowFailedError, activity, workflow
from outlast.testing import TestEnvironment, check_database
from outlast_store.database.sql_text import fetch
from outlast_store.reads.activities import find_open_activities
from outlast_store.schema.rows import LOCAL

ran: list[str] = []


@pytest.fixture(autouse=True)
def _afresh() -> None:
    ran.clear()


@activity.defn(start_to_close_timeout=60, task_queue="elsewhere")
async def tax(amount: int) -> int:
    ran.append(f"tax {activity.info().task_queue}")
    return amount // 5


@activity.defn(start_to_close_timeout=60, retry_policy=RetryPolicy(initial_interval=10, max_attempts=3))
def shaky(succeeds_at: int) -> int:
    attempt = activity.info().attempt
    ran.append(f"shaky {attempt}")
    if attempt < succeeds_at:
        raise ConnectionError
    return attempt


@activity.defn(start_to_close_timeout=5, heartbeat_timeout=2, retry_policy=RetryPolicy(max_attempts=1))
async def hang() -> None:
    await asyncio.sleep(1000)


@activity.defn(start_to_close_timeout=600)
async def park(seconds: float) -> str:
    ran.append("park")
    await asyncio.sleep(seconds)
    return "parked"


@workflow.defn
class Invoice:
    @workflow.run
    async def run(self, amount: int) -> list[int]:
        both = await asyncio.gather(
            workflow.execute_local_activity(tax, amount), workflow.start_local_activity(tax, 10)
        )
        return [
            *both,
            await workflow.execute_local_activity("shaky", 1, result_type=int, start_to_close_timeout=60),
        ]


@workflow.defn
async def persists(succeeds_at: int) -> int:
    return await workflow.execute_local_activity(shaky, succeeds_at)


@workflow.defn
def plain(succeeds_at: int) -> int:
    first = workflow.blocking.execute_local_activity(shaky, succeeds_at)
    return first + workflow.blocking.start_local_activity(tax, 5).result()


@workflow.defn
async def hangs() -> str:
    try:
        await workflow.execute_local_activity(hang)
    except ActivityTimeoutError as error:
        return error.timeout_kind.value
    return "nothing"


@workflow.defn
async def parks(seconds: float) -> str:
    return await workflow.execute_local_activity(park, seconds)


@workflow.defn
async def gives_up() -> str:
    parked = workflow.start_local_activity(park, 100)
    await asyncio.sleep(1)
    parked.cancel()
    await asyncio.sleep(1)
    return "gave up"


@workflow.defn
async def parks_many(count: int) -> int:
    return len(await asyncio.gather(*[workflow.execute_local_activity(park, 5) for _ in range(count)]))


WORKFLOWS: list[Any] = [Invoice, persists, plain, hangs, parks, gives_up, parks_many]
ACTIVITIES: list[Any] = [tax, shaky, hang, park]
ALL: dict[str, Any] = {"workflows": WORKFLOWS, "activities": ACTIVITIES}


async def test_it_runs_here_whatever_its_queue_and_is_recorded_as_local(engine: MakeEnvironment) -> None:
    async with engine(**ALL) as env:
        handle = await env.client.start(Invoice.run, 100, id="invoice")
        assert await handle.result() == [20, 2, 1]
        scheduled = [event async for event in handle.history() if event.type == "ActivityScheduled"]
        assert [event.payload["local"] for event in scheduled] == [True] * 3
        assert {event.payload["task_queue"] for event in scheduled} == {"default"}
    assert ran == ["tax default", "tax default", "shaky 1"]


async def test_a_retry_waits_and_is_made_by_the_owner(engine: MakeEnvironment) -> None:
    async with engine(**ALL) as env:
        handle = await env.client.start(persists, 3, id="persists")
        began = env.now()
        assert await handle.result() == 3
        assert timedelta(seconds=30) <= env.now() - began <= timedelta(seconds=32)
    assert ran == ["shaky 1", "shaky 2", "shaky 3"]


async def test_a_retry_that_waits_is_described_as_any_other(engine: MakeEnvironment) -> None:
    async with engine(**ALL) as env:
        handle = await env.client.start(persists, 3, id="persists")
        await env.sleep(1)
        (pending,) = (await handle.describe()).pending_activities
        assert pending.local
        assert pending.task_queue == "default"
        assert pending.status == "pending"
        assert pending.last_failure is not None


async def test_attempts_that_are_used_up_fail_it(engine: MakeEnvironment) -> None:
    async with engine(**ALL) as env:
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(persists, 4, id="persists")
    assert ran == ["shaky 1", "shaky 2", "shaky 3"]


async def test_plain_workflows_call_them_too(engine: MakeEnvironment) -> None:
    async with engine(**ALL) as env:
        assert await env.client.execute(plain, 2, id="plain") == 3


async def test_its_timeouts_hold(engine: MakeEnvironment) -> None:
    async with engine(**ALL) as env:
        assert await env.client.execute(hangs, id="hangs") == "heartbeat"


async def test_it_can_be_cancelled(engine: MakeEnvironment) -> None:
    async with engine(**ALL) as env:
        handle = await env.client.start(gives_up, id="gives-up")
        assert await handle.result() == "gave up"
        assert not env.worker.local.dispatcher.runner.running


async def test_another_worker_of_the_queue_does_not_take_a_retry_from_the_owner(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=(), activities=()) as env:
        async with env.new_worker(**ALL) as first, env.new_worker(**ALL) as second:
            handles = [await env.client.start(persists, 3, id=f"persists-{n}") for n in range(5)]
            await env.sleep(1)
            owners = {
                (await latest_row(handle)).run_id: (await latest_row(handle)).owner_id for handle in handles
            }
            assert set(owners.values()) <= {first.worker_id, second.worker_id}
            assert [await handle.result() for handle in handles] == [3] * 5
            text = "SELECT run_id, worker_id FROM activity_attempts"
            attempts = await env.client.runtime.read(lambda connection: fetch(connection, text, ()))
    assert len(attempts) == 10
    assert {(run_id, owner_id) for run_id, owner_id in attempts} == set(owners.items())


async def test_the_next_owner_goes_on_where_a_worker_stopped(engine: MakeEnvironment) -> None:
    """The run waits for nothing but a retry of its local activity, and nobody owns it."""
    async with engine(workflows=(), activities=()) as env:
        async with env.new_worker(**ALL) as first:
            handle = await env.client.start(persists, 3, id="persists")
            await env.sleep(1)
            assert (await latest_row(handle)).owner_id == first.worker_id
        assert (await latest_row(handle)).owner_id is None
        assert ran == ["shaky 1"]
        async with env.new_worker(**ALL):
            assert await handle.result() == 3
        with env.client.runtime.database.reader() as connection:
            assert check_database(connection) == []
    assert ran == ["shaky 1", "shaky 2", "shaky 3"]


async def test_an_attempt_under_way_is_handed_to_the_next_owner(engine: MakeEnvironment) -> None:
    async with engine(workflows=(), activities=()) as env:
        async with env.new_worker(**ALL, graceful_shutdown_timeout=0):
            handle = await env.client.start(parks, 50, id="parks")
            await env.sleep(1)
        (pending,) = (await handle.describe()).pending_activities
        assert (pending.status, pending.attempt) == ("pending", 0)  # not charged
        async with env.new_worker(**ALL):
            assert await handle.result() == "parked"
    assert ran == ["park", "park"]


async def test_a_worker_without_the_code_leaves_it(engine: MakeEnvironment) -> None:
    async with engine(workflows=(), activities=()) as env:
        async with env.new_worker(**ALL):
            handle = await env.client.start(persists, 3, id="persists")
            await env.sleep(1)
        async with env.new_worker(workflows=[Invoice], activities=ACTIVITIES):
            await env.sleep(100)
            assert (await latest_row(handle)).owner_id is None
        assert ran == ["shaky 1"]
        row = (await env.client.runtime.read(find_open_activities, (await latest_row(handle)).run_id))[0]
        assert row.task_queue == f"{LOCAL}default"
        async with env.new_worker(**ALL):
            assert await handle.result() == 3


async def test_it_does_not_wait_for_slots_that_others_hold(engine: MakeEnvironment) -> None:
    async with engine(**ALL, max_concurrent_activities=1) as env:
        began = env.now()
        assert await env.client.execute(parks_many, 50, id="many") == 50
        assert env.now() - began < timedelta(seconds=6)


async def test_a_worker_that_runs_no_activities_runs_local_ones(engine: MakeEnvironment) -> None:
    async with engine(**ALL, max_concurrent_activities=0) as env:
        assert await env.client.execute(persists, 2, id="persists") == 2


async def test_beyond_their_slots_they_wait_for_one(in_memory: Callable[..., TestEnvironment]) -> None:
    async with in_memory(**ALL, max_concurrent_activities=1) as env:
        assert await env.client.execute(parks_many, 250, id="many") == 250


async def test_an_activity_that_the_worker_lacks_fails_the_task_and_says_so(
    in_memory: Callable[..., TestEnvironment],
) -> None:
    async with in_memory(workflows=[persists], activities=[tax]) as env:
        handle = await env.client.start(persists, 1, id="persists")
        await env.sleep(5)
        described = await handle.describe()
        assert (
            "calls shaky as a local activity, which this worker does not have"
            in described.failures[0].message
        )
        await handle.terminate()


@workflow.defn
async def misplaced() -> None:
    options: dict[str, Any] = {"task_queue": "gpu"}
    await workflow.execute_local_activity(tax, 1, **options)


async def test_a_queue_makes_no_sense(in_memory: Callable[..., TestEnvironment]) -> None:
    async with in_memory(workflows=[misplaced], activities=[tax]) as env:
        handle = await env.client.start(misplaced, id="misplaced")
        await env.sleep(5)
        assert "leave task_queue out" in (await handle.describe()).failures[0].message
        await handle.terminate()


@workflow.defn(name="changes")
async def was_local() -> int:
    got = await workflow.execute_local_activity(tax, 5)
    await workflow.sleep(10)
    return got


@workflow.defn(name="changes")
async def is_no_longer() -> int:
    got = await tax.with_options(task_queue="default")(5)
    await workflow.sleep(10)
    return got


async def test_replay_notices_that_a_local_activity_became_another(engine: MakeEnvironment) -> None:
    async with engine(workflows=(), activities=()) as env:
        async with env.new_worker(workflows=[was_local], activities=[tax]):
            handle = await env.client.start(was_local, id="changes")
            await env.sleep(1)
        async with env.new_worker(workflows=[is_no_longer], activities=[tax]):
            await env.sleep(20)
            message = (await handle.describe()).failures[0].message
        assert "ActivityScheduled #1 tax local" in message
        async with env.new_worker(workflows=[was_local], activities=[tax]):
            assert await handle.result() == 1


async def test_it_takes_no_more_commits_than_an_eager_one(in_memory: Callable[..., TestEnvironment]) -> None:
    @workflow.defn
    async def eager() -> int:
        return await tax.with_options(task_queue="default")(5)

    @workflow.defn
    async def local() -> int:
        return await workflow.execute_local_activity(tax, 5)

    async with in_memory(workflows=[eager, local], activities=[tax]) as env:
        commits = 0

        def count(committed: object) -> None:
            nonlocal commits
            commits += 1

        env.client.runtime.journal.subscribe(count)
        assert await env.client.execute(eager, id="eager") == 1
        before, commits = commits, 0
        assert await env.client.execute(local, id="local") == 1
        assert commits == before
