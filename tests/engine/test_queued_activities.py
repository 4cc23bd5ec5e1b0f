"""Activities through queues: limits, rates, retries, deadlines, cancelling and the rest, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.engine.conftest import MakeEnvironment
from tests.queued import write_queue

from outlast import ActivityIds, Client, Queue, Rate, StartOptions, activity, workflow
from outlast.errors import (
    ActivityTimeoutError,
    ApplicationError,
    InvalidOptionError,
    QueueInUseError,
    QueueNotFoundError,
    WorkflowFailedError,
)
from outlast.testing import TestEnvironment
from outlast_store.database.sql_text import fetch
from outlast_workflow.options.options import ActivityOptions, RetryPolicy
from outlast_workflow.primitives.enums import TimeoutKind

AGAIN = RetryPolicy(initial_interval=10, backoff_coefficient=1, jitter=0)
STARTS: list[tuple[str, int]] = []
"""Which attempts have begun, and when."""


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    STARTS.clear()
    yield
    STARTS.clear()


@activity.defn(start_to_close_timeout=1000, queue="q")
async def charge(name: str, seconds: float) -> str:
    info = activity.info()
    STARTS.append((name, round(asyncio.get_running_loop().time() * 1_000_000)))
    await asyncio.sleep(seconds)
    return f"{name}, attempt {info.attempt}"


@activity.defn(start_to_close_timeout=1000)
async def plain(seconds: float) -> None:
    STARTS.append(("plain", round(asyncio.get_running_loop().time() * 1_000_000)))
    await asyncio.sleep(seconds)


@activity.defn(start_to_close_timeout=1000, queue="q", retry_policy=AGAIN)
async def flaky(name: str) -> str:
    STARTS.append((name, round(asyncio.get_running_loop().time() * 1_000_000)))
    if activity.info().attempt < 3:
        raise ApplicationError("not yet")
    return name


@activity.defn(start_to_close_timeout=1000, queue="q")
async def lend() -> str:
    return activity.defer()


@workflow.defn
async def call(name: str, count: int, seconds: float, partition: str | None = None) -> list[str]:
    calls = [charge.with_options(partition_key=partition)(f"{name}{n}", seconds) for n in range(count)]
    return list(await asyncio.gather(*calls))


@workflow.defn
async def call_with(options: dict[str, Any], name: str, seconds: float) -> str:
    once = charge.with_options(retry_policy=RetryPolicy(max_attempts=1))
    return await workflow.execute_activity(once, name, seconds, **options)


@workflow.defn
async def call_flaky(names: Sequence[str]) -> list[str]:
    return list(await asyncio.gather(*[flaky(name) for name in names]))


@workflow.defn
async def call_plain(count: int, seconds: float) -> None:
    await asyncio.gather(*[plain(seconds) for _ in range(count)])


@workflow.defn
async def call_lent(count: int) -> list[str]:
    return list(await asyncio.gather(*[lend() for _ in range(count)]))


@workflow.defn
async def give_up(seconds: float) -> str:
    """Cancels a call that waits in line, and goes on."""
    task = asyncio.ensure_future(charge("unwanted", 1))
    await asyncio.sleep(seconds)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return await charge("wanted", 1)


@workflow.defn
async def call_and_sleep() -> list[str]:
    calls = [workflow.start_activity(charge, name, 1.0, partition_key="t") for name in ("a0", "a1")]
    await asyncio.sleep(1)
    return [await one for one in calls]


@workflow.defn
async def locally() -> str:
    return await workflow.execute_local_activity(charge, "local", 1)


@workflow.defn
async def lap(laps: int) -> int:
    """Leaves an activity in line each time it continues as new."""
    left = asyncio.ensure_future(charge(f"lap{laps}", 1))
    await asyncio.sleep(1)
    if laps:
        workflow.continue_as_new(laps - 1)
    left.cancel()
    return laps


WORKFLOWS = [call, call_with, call_and_sleep, call_flaky, call_plain, call_lent, give_up, locally, lap]
ACTIVITIES = [charge, flaky, plain, lend]


async def queue(env: TestEnvironment, name: str = "q", **limits: int | None) -> None:
    await write_queue(env.client.runtime.journal, name, **limits)


def rows(connection: Connection) -> list[tuple[str, str | None, str | None]]:
    text = "SELECT status, queue, partition_key FROM activity_executions ORDER BY run_id, activity_id"
    return [(row[0], row[1], row[2]) for row in fetch(connection, text)]


async def all_rows(client: Client) -> list[tuple[str, str | None, str | None]]:
    return await client.runtime.read(rows)


def most_in(period_us: int) -> int:
    """The most attempts that began in any window of a length."""
    at = sorted(one for _, one in STARTS)
    return max(sum(begin <= one < begin + period_us for one in at) for begin in at)


# --- limits ---------------------------------------------------------------------------------------------------------


async def test_no_more_run_at_once_than_the_queue_allows(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, concurrency=2)
        begin = env.now()
        found = await env.client.execute(call, "a", 6, 1.0, id="w")
        assert found == [f"a{number}, attempt 1" for number in range(6)]
        # Two at a time, each slot filled as soon as it is free.
        assert timedelta(seconds=3) <= env.now() - begin < timedelta(seconds=3.6)
        # In the order of the calls.
        assert sorted(STARTS, key=lambda one: one[1]) == STARTS
        assert {queue for _, queue, _ in await all_rows(env.client)} == {"q"}


async def test_a_rate_holds_in_every_window_over_all_workers(in_memory: MakeEnvironment) -> None:
    """A hundred a second over four workers, for a minute."""
    async with in_memory(workflows=[call], activities=()) as env:
        await env.client.queues.define("q", rate=Rate(100, per=1))
        workers = [env.new_worker(workflows=(), activities=[charge]) for _ in range(4)]
        for worker in workers:
            await worker.start()
        for place in range(6):
            await env.client.start(call, f"w{place}", 1000, 0.0, id=f"w{place}")
        for place in range(6):
            await env.client.handle(f"w{place}").result()
        for worker in workers:
            await worker.stop()
    assert len(STARTS) == 6000
    assert most_in(1_000_000) <= 100
    # The budget is used: a minute's worth takes hardly longer than a minute.
    assert STARTS[-1][1] - STARTS[0][1] <= 61_500_000


async def test_each_key_has_a_limit_of_its_own(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, partition_concurrency=1)
        begin = env.now()
        handles = [
            await env.client.start(call, key, 3, 1.0, key, id=f"w-{key}") for key in ("key-1", "key-2")
        ]
        for handle in handles:
            await handle.result()
        assert timedelta(seconds=3) <= env.now() - begin < timedelta(seconds=3.6)
        found = Counter(await all_rows(env.client))
        assert found == {("completed", "q", "key-1"): 3, ("completed", "q", "key-2"): 3}


async def test_runs_and_activities_of_one_queue_share_its_slots(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, concurrency=2)
        through = StartOptions(queue="q")
        other = await env.client.start(call_plain, 1, 10.0, id="holds a slot", options=through)
        await env.sleep(0.1)
        begin = env.now()
        await env.client.execute(call, "a", 3, 1.0, id="w")
        assert env.now() - begin >= timedelta(seconds=3)
        await other.result()


async def test_neither_runs_nor_activities_starve(in_memory: MakeEnvironment) -> None:
    """They leave the line in the order in which they joined it."""
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, concurrency=1)
        through = StartOptions(queue="q")
        for place in range(3):
            await env.client.start(call_plain, 1, 1.0, id=f"run{place}", options=through)
            await env.client.start(call, f"call{place}-", 1, 1.0, id=f"w{place}")
            await env.sleep(0.01)
        for place in range(3):
            await env.client.handle(f"w{place}").result()
        assert [name for name, _ in STARTS] == ["plain", "call0-0", "plain", "call1-0", "plain", "call2-0"]


@pytest.mark.parametrize("slots", [1, 2])
async def test_the_slots_of_a_worker_are_dealt_in_turns(in_memory: MakeEnvironment, slots: int) -> None:
    """Neither the backlog of a queue nor that of a task queue keeps the other from running."""
    async with in_memory(workflows=[call, call_plain], activities=()) as env:
        await queue(env)
        await env.client.start(call, "queued", 40, 1.0, id="queued")
        await env.client.start(call_plain, 40, 1.0, id="plain")
        await env.sleep(0.1)
        async with env.new_worker(workflows=(), activities=ACTIVITIES, max_concurrent_activities=slots):
            await env.sleep(20)
    begun = Counter(name.startswith("queued") for name, _ in STARTS)
    assert sum(begun.values()) >= 18 * slots
    assert min(begun[True], begun[False]) >= 7 * slots


async def test_the_rate_of_a_worker_holds_for_activities_of_queues(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[call], activities=()) as env:
        await queue(env)
        async with env.new_worker(workflows=(), activities=[charge], max_activities_per_second=10):
            await env.client.execute(call, "a", 30, 0.0, id="w")
    assert most_in(1_000_000) <= 11
    assert STARTS[-1][1] - STARTS[0][1] < 3_500_000


async def test_nothing_of_a_queue_starts_eagerly(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await env.client.queues.define("q")
        await env.client.queues.pause("q", "the provider is down")
        handle = await env.client.start(call, "a", 1, 1.0, "key-1", id="w")
        await env.sleep(60)
        assert await all_rows(env.client) == [("pending", "q", "key-1")]
        (waiting,) = (await handle.describe()).pending_activities
        assert waiting.queue is not None
        assert (waiting.queue.name, waiting.queue.partition_key) == ("q", "key-1")
        assert waiting.queue.held_up_by == "its queue 'q' is paused: the provider is down"
        await env.client.queues.resume("q")
        assert await handle.result() == ["a0, attempt 1"]


async def test_a_worker_admits_only_from_its_queues(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[call], activities=()) as env:
        await env.client.queues.define("q")
        await env.client.start(call, "a", 1, 1.0, id="w")
        async with env.new_worker(workflows=(), activities=[charge], queues=["other"]):
            await env.sleep(60)
            assert [row[0] for row in await all_rows(env.client)] == ["pending"]
        async with env.new_worker(workflows=(), activities=[charge], queues=[Queue("q")]):
            await env.client.handle("w").result()


# --- attempts -------------------------------------------------------------------------------------------------------


async def test_a_retry_gives_its_slot_back_and_takes_one_anew(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, concurrency=1)
        handle = await env.client.start(call_flaky, ["a", "b"], id="w")
        await env.sleep(5)
        found = await env.client.queues.describe("q")
        assert (found.waiting, found.running, found.delayed) == (0, 0, 2)
        waiting = [one.queue for one in (await handle.describe()).pending_activities]
        assert all(one is not None and one.start_at is not None and not one.holds_slot for one in waiting)
        assert await handle.result() == ["a", "b"]
        assert Counter(name for name, _ in STARTS) == {"a": 3, "b": 3}
        # Each is retried when it is due, though nothing else happens then.
        assert STARTS[-1][1] - STARTS[0][1] < 21_000_000


async def test_an_attempt_of_a_lost_worker_is_admitted_again(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[call], activities=()) as env:
        await queue(env, concurrency=1)
        lost = env.new_worker(workflows=(), activities=[charge], lease_duration=10)
        await lost.start()
        handle = await env.client.start(call, "a", 2, 5.0, id="w")
        await env.sleep(1)
        await lost.stop()
        async with env.new_worker(workflows=(), activities=[charge]):
            assert await handle.result() == ["a0, attempt 1", "a1, attempt 1"]


async def test_a_deferred_activity_keeps_its_slot_until_it_is_completed(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, concurrency=1)
        handle = await env.client.start(call_lent, 2, id="w")
        await env.sleep(10)
        assert sorted(row[0] for row in await all_rows(env.client)) == ["pending", "running"]
        for number in (1, 2):
            await env.client.complete_activity(ActivityIds("w", number), f"done {number}")
            await env.sleep(1)
        assert await handle.result() == ["done 1", "done 2"]


# --- timeouts -------------------------------------------------------------------------------------------------------


async def timeout_of(client: Client, options: dict[str, Any], name: str = "late") -> ActivityTimeoutError:
    with pytest.raises(WorkflowFailedError) as failed:
        await client.execute(call_with, options, name, 1.0, id=f"w-{name}")
    cause = failed.value.__cause__
    assert isinstance(cause, ActivityTimeoutError)
    return cause


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"paused_at": 1}, "its queue 'q' is paused"),
        ({"concurrency": 1}, "the only slot of queue 'q' is taken"),
        ({"partition_concurrency": 1}, "the only slot of partition 't' of queue 'q' is taken"),
        ({"rate_limit": 1, "rate_per": 3_600_000_000}, "the rate of queue 'q' is used up (1 per hour)"),
        (
            {"partition_rate_limit": 1, "partition_rate_per": 3_600_000_000},
            "the rate of partition 't' of queue 'q' is used up (1 per hour)",
        ),
        (
            {"worker_concurrency": 1},
            "the only worker that could run it holds its only slot of queue 'q' (worker_concurrency=1)",
        ),
        (
            {"partition_worker_concurrency": 1},
            (
                "the only worker that could run it holds its only slot of partition 't' of queue 'q' "
                "(partition_worker_concurrency=1)"
            ),
        ),
    ],
)
async def test_a_schedule_to_start_timeout_holds_in_line_and_says_what_held_it_up(
    in_memory: MakeEnvironment, limits: dict[str, int | None], why: str
) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, "q", **limits)
        await env.client.start(call, "first", 1, 500.0, "t", id="first")
        await env.sleep(1)
        begin = env.now()
        options = {
            "partition_key": "t",
            "schedule_to_start_timeout": 30,
        }
        found = await timeout_of(env.client, options)
        assert found.timeout_kind is TimeoutKind.SCHEDULE_TO_START
        assert found.lack == why
        assert why in str(found)
        assert timedelta(seconds=30) <= env.now() - begin < timedelta(seconds=31)


async def test_what_no_worker_knows_is_told_before_its_queue(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=[plain]) as env:
        await queue(env, paused_at=1)
        options = {"schedule_to_start_timeout": 30}
        found = await timeout_of(env.client, options)
        assert "none of them knows activity 'charge'" in str(found)


async def test_a_schedule_to_close_timeout_holds_in_line(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, paused_at=1)
        found = await timeout_of(env.client, {"start_to_close_timeout": 5, "schedule_to_close_timeout": 30})
        assert found.timeout_kind is TimeoutKind.SCHEDULE_TO_CLOSE


async def test_a_start_to_close_timeout_counts_from_the_admission(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, concurrency=1)
        await env.client.start(call, "first", 1, 100.0, id="first")
        await env.sleep(1)
        assert await env.client.execute(
            call_with, {"start_to_close_timeout": 5}, "second", 1.0, id="second"
        ) == ("second, attempt 1")


# --- the end of calls and runs --------------------------------------------------------------------------------------


async def test_a_cancelled_call_leaves_the_line(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, concurrency=1)
        await env.client.start(call, "first", 1, 10.0, id="first")
        await env.sleep(1)
        assert await env.client.execute(give_up, 2.0, id="w") == "wanted, attempt 1"
        assert "unwanted" not in {name for name, _ in STARTS}


@pytest.mark.parametrize("verb", ["terminate", "cancel"])
async def test_what_a_closed_run_has_left_leaves_the_line(in_memory: MakeEnvironment, verb: str) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, concurrency=1)
        handle = await env.client.start(call, "a", 5, 100.0, id="w")
        await env.sleep(1)
        with pytest.raises(QueueInUseError) as used:
            await env.client.queues.delete("q")
        assert (used.value.waiting, used.value.running) == (4, 1)
        await getattr(handle, verb)()
        await env.sleep(1)
        found = await env.client.queues.describe("q")
        assert (found.waiting, found.running, found.delayed) == (0, 0, 0)
        await env.client.queues.delete("q")


async def test_deleted_workflows_leave_nothing_in_their_queue(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, paused_at=1)
        for place in range(3):
            handle = await env.client.start(call, "a", 2, 1.0, id=f"w{place}")
            await env.sleep(1)
            await handle.terminate()
        outcomes = [outcome.done async for outcome in env.client.bulk(open=False).delete()]
        assert outcomes == [True] * 3
        assert await all_rows(env.client) == []
        await env.client.queues.delete("q")


async def test_the_next_run_leaves_the_calls_of_the_one_before(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, paused_at=1)
        assert await env.client.execute(lap, 2, id="w") == 0
        assert Counter(row[0] for row in await all_rows(env.client)) == {"cancelled": 3}


async def test_a_reset_puts_open_calls_back_in_line(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, concurrency=1, paused_at=1)
        handle = await env.client.start(call_and_sleep, id="w")
        await env.sleep(5)
        again = await handle.reset()
        assert Counter(await all_rows(env.client)) == {("cancelled", "q", "t"): 2, ("pending", "q", "t"): 2}
        await env.client.queues.resume("q")
        assert await again.result() == ["a0, attempt 1", "a1, attempt 1"]


async def test_a_reset_whose_calls_have_no_queue_any_more_is_refused(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env, paused_at=1)
        handle = await env.client.start(call_and_sleep, id="w")
        await env.sleep(5)
        await handle.terminate()
        await env.client.queues.delete("q")
        with pytest.raises(QueueNotFoundError):
            await handle.reset()
        await env.client.queues.define("q")
        assert await (await handle.reset()).result() == ["a0, attempt 1", "a1, attempt 1"]


async def test_an_imported_history_keeps_the_queue_of_its_calls(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await queue(env)
        await env.client.execute(call, "a", 2, 1.0, "t", id="w")
        exported = [document async for document in env.client.export_histories()]
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as other:
        await other.client.import_histories(exported)
        assert await all_rows(other.client) == [("completed", "q", "t")] * 2


# --- queues that are not there --------------------------------------------------------------------------------------


async def test_an_unknown_queue_fails_the_task_until_somebody_defines_it(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await env.client.queues.define("queue")
        handle = await env.client.start(call, "a", 1, 1.0, id="w")
        await env.sleep(10)
        found = await handle.describe()
        assert found.run.task_failures >= 2
        assert found.failures[0].exception_class == "QueueNotFoundError"
        assert "no queue 'q'" in found.failures[0].message
        assert await all_rows(env.client) == []
        await env.client.queues.define("q")
        assert await handle.result() == ["a0, attempt 1"]


async def test_local_activities_take_no_queue(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, activities=ACTIVITIES) as env:
        await env.client.queues.define("q")
        handle = await env.client.start(locally, id="w")
        await env.sleep(1)
        (failure,) = (await handle.describe()).failures
        assert failure.exception_class == "InvalidOptionError"
        assert "leave queue out" in failure.message


async def test_the_default_queue_of_a_worker_is_not_that_of_local_activities(
    in_memory: MakeEnvironment,
) -> None:
    @activity.defn(start_to_close_timeout=10)
    async def add(left: int, right: int) -> int:
        return left + right

    @workflow.defn
    async def both() -> list[int]:
        return [await add(1, 2), await workflow.execute_local_activity(add, 3, 4)]

    async with in_memory(workflows=(), activities=()) as env:
        await env.client.queues.define("everything")
        defaults = ActivityOptions(queue="everything")
        async with env.new_worker(workflows=[both], activities=[add], default_activity_options=defaults):
            assert await env.client.execute(both, id="w") == [3, 7]
        assert [row[1] for row in await all_rows(env.client)] == ["everything", None]


async def test_a_partition_needs_a_queue(in_memory: MakeEnvironment) -> None:
    @workflow.defn
    async def partitioned() -> None:
        await plain.with_options(partition_key="t")(1)

    async with in_memory(workflows=[partitioned], activities=[plain]) as env:
        handle = await env.client.start(partitioned, id="w")
        await env.sleep(1)
        (failure,) = (await handle.describe()).failures
        assert "give queue= as well" in failure.message


def test_options_name_a_queue_and_a_partition_of_it() -> None:
    options = charge.with_options(partition_key="tenant-7", priority=1).options
    assert (options.queue, options.partition_key, options.priority) == ("q", "tenant-7", 1)
    assert ActivityOptions().with_queue("stripe", "t") == ActivityOptions(queue="stripe", partition_key="t")
    with pytest.raises(InvalidOptionError):
        ActivityOptions(queue="outlast.own")
    with pytest.raises(InvalidOptionError, match="it is called partition_key here"):
        activity.defn(queue_partition_key="t")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
