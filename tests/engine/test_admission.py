"""Workflows through queues: limits, order, deadlines, delays, children and chains, in virtual time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.engine.conftest import MakeEnvironment
from tests.queued import write_queue

from outlast import Client, Queue, StartOptions, WorkflowHandle, activity, workflow
from outlast.errors import (
    ApplicationError,
    ChildWorkflowError,
    QueueNotFoundError,
    WorkflowCancelledError,
    WorkflowFailedError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast.testing import TestEnvironment
from outlast_store.database.sql_text import fetch
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.options import RetryPolicy
from outlast_workflow.primitives.enums import RunStatus, TimeoutKind


@workflow.defn
class Nap:
    @workflow.run
    async def run(self, seconds: float) -> str:
        await workflow.sleep(seconds)
        return workflow.info().workflow_id


@workflow.defn
class Remaining:
    """Returns the run timeout's rest when it begins, in seconds, and its queue and partition."""

    @workflow.run
    async def run(self) -> list[Any]:
        left = workflow.time_remaining()
        info = workflow.info()
        return [None if left is None else left.total_seconds(), info.queue, info.partition_key]


@workflow.defn
class Again:
    """Continues as new, or fails for its retry policy, so many times."""

    @workflow.run
    async def run(self, how: str, times: int) -> str:
        await workflow.sleep(1)
        if how == "continue" and times:
            workflow.continue_as_new(how, times - 1)
        if how == "retry" and workflow.info().attempt <= times:
            raise ApplicationError("again")
        return "done"


@workflow.defn
class Parent:
    @workflow.run
    async def run(self, queue: str, count: int) -> list[str]:
        children = [
            workflow.start_child(Nap.run, 1, id=f"child{number}", queue=queue, partition_key="t")
            for number in range(count)
        ]
        return list(await asyncio.gather(*children))


@workflow.defn
class Delayed:
    @workflow.run
    async def run(self, delay: float, queue: str | None) -> float:
        begin = workflow.now()
        await workflow.start_child(Nap.run, 0, id="late", queue=queue, start_delay=delay)
        return (workflow.now() - begin).total_seconds()


@workflow.defn
class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_condition(lambda: bool(self.heard))
        return self.heard

    @workflow.signal
    def hear(self, word: str) -> None:
        self.heard.append(word)


@activity.defn(start_to_close_timeout=10)
async def near() -> int:
    return activity.info().attempt


@workflow.defn
class Near:
    @workflow.run
    async def run(self) -> int:
        return await workflow.execute_local_activity(near)


@workflow.defn
class Far:
    @workflow.run
    async def run(self) -> int:
        return await near()


WORKFLOWS = [Far, Near, Nap, Remaining, Again, Parent, Delayed, Listener]


async def queue(env: TestEnvironment, name: str = "q", **limits: int | None) -> None:
    await write_queue(env.client.runtime.journal, name, **limits)


def options(**more: Any) -> StartOptions:
    given: dict[str, Any] = {"queue": "q", **more}
    return StartOptions(**given)


async def nap(client: Client, workflow_id: str, seconds: float = 1, **more: Any) -> WorkflowHandle[str]:
    return await client.start(Nap.run, seconds, id=workflow_id, options=options(**more))


async def row_of(client: Client, handle: WorkflowHandle[Any]) -> RunRow:
    assert handle.run_id is not None
    row = await client.runtime.read(find_run, handle.run_id)
    assert row is not None
    return row


def read_spans(connection: Connection) -> list[tuple[str, int, int]]:
    """Of each run that has begun and ended: its workflow id, and when it did; in the order of their beginnings."""
    text = (
        "SELECT workflow_id, started_at, closed_at FROM workflow_runs "
        "WHERE started_at IS NOT NULL AND closed_at IS NOT NULL ORDER BY started_at, run_id"
    )
    return [(row[0], row[1], row[2]) for row in fetch(connection, text)]


async def began(client: Client) -> list[str]:
    return [workflow_id for workflow_id, _, _ in await client.runtime.read(read_spans)]


async def most_at_once(client: Client, prefix: str) -> int:
    spans = [one[1:] for one in await client.runtime.read(read_spans) if one[0].startswith(prefix)]
    return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)


# --- limits ---------------------------------------------------------------------------------------------------------


async def test_no_more_than_the_concurrency_run_at_once(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=2)
        begin = env.now()
        handles = [await nap(env.client, f"w{number}") for number in range(6)]
        assert [await handle.result() for handle in handles] == [f"w{number}" for number in range(6)]
        assert await began(env.client) == [f"w{number}" for number in range(6)]
        assert await most_at_once(env.client, "w") == 2
        # Each slot is filled as soon as it is free.
        assert timedelta(seconds=3) <= env.now() - begin < timedelta(seconds=3.6)


async def test_a_rate_is_used_in_full(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, rate_limit=5, rate_per=1_800_000)
        begin = env.now()
        handles = [await nap(env.client, f"w{number}", 0) for number in range(15)]
        for handle in handles:
            await handle.result()
        assert timedelta(seconds=3.6) <= env.now() - begin < timedelta(seconds=4)


async def test_a_worker_admits_only_from_its_queues(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=()) as env:
        await queue(env, "q")
        await queue(env, "other")
        async with env.new_worker(workflows=WORKFLOWS, queues=["other"]):
            mine = await nap(env.client, "mine", queue="other")
            others = await nap(env.client, "others")
            plain = await env.client.start(Nap.run, 0, id="plain")
            await mine.result()
            await plain.result()
            assert (await row_of(env.client, others)).status == "queued"
        async with env.new_worker(workflows=WORKFLOWS):
            await others.result()


async def test_a_worker_defines_its_queues_and_keeps_those_that_are_there(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=()) as env:
        queues = [Queue("q", concurrency=2), "other"]
        async with env.new_worker(workflows=WORKFLOWS, queues=queues):
            assert [one.name for one in await env.client.queues.list()] == ["q"]
            await env.client.queues.update("q", concurrency=1)
        async with env.new_worker(workflows=WORKFLOWS, queues=queues):
            assert (await env.client.queues.describe("q")).concurrency == 1
            handles = [await nap(env.client, f"w{number}") for number in range(3)]
            for handle in handles:
                await handle.result()
        assert await most_at_once(env.client, "w") == 1
        with pytest.raises(InvalidOptionError, match="twice"):
            env.new_worker(workflows=WORKFLOWS, queues=["q", Queue("q")])


async def test_an_unknown_queue_is_refused(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        with pytest.raises(QueueNotFoundError):
            await nap(env.client, "w", queue="nobody")
        await queue(env)
        # The id is as free as before.
        await (await nap(env.client, "w")).result()


def test_options_that_need_a_queue() -> None:
    wrong: list[dict[str, Any]] = [{"partition_key": "t"}, {"schedule_to_start_timeout": 5}]
    for given in wrong:
        with pytest.raises(InvalidOptionError) as caught:
            StartOptions(**given)
        assert caught.value.field == next(iter(given))
    with pytest.raises(InvalidOptionError):
        StartOptions(queue="outlast_mine")
    assert StartOptions().with_queue("q", "t") == StartOptions(queue="q", partition_key="t")
    assert options(schedule_to_start_timeout=5).with_queue(None) == StartOptions()


# --- deadlines ------------------------------------------------------------------------------------------------------


async def test_waiting_in_line_costs_no_run_timeout(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        first = await nap(env.client, "first", 60)
        second = await env.client.start(
            Remaining.run, id="second", options=options(run_timeout=10, partition_key="t")
        )
        assert (await row_of(env.client, second)).run_deadline_at is None
        assert await second.result() == [10, "q", "t"]
        await first.result()


async def test_an_execution_timeout_counts_from_the_call(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        await nap(env.client, "first", 60)
        second = await nap(env.client, "second", execution_timeout=10)
        with pytest.raises(WorkflowTimeoutError) as caught:
            await second.result()
        assert caught.value.timeout_kind is TimeoutKind.EXECUTION_TIMEOUT
        assert (await row_of(env.client, second)).started_at is None


async def test_a_run_that_stands_in_line_too_long_times_out(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        first = await nap(env.client, "first", 60)
        retried = RetryPolicy(max_attempts=5)
        late = await nap(env.client, "late", schedule_to_start_timeout=5, retry_policy=retried)
        soon = await nap(env.client, "soon", schedule_to_start_timeout=90)
        begin = env.now()
        with pytest.raises(WorkflowTimeoutError) as caught:
            await late.result()
        assert caught.value.timeout_kind is TimeoutKind.SCHEDULE_TO_START
        assert timedelta(seconds=5) <= env.now() - begin < timedelta(seconds=6)
        await soon.result()
        await first.result()
        assert (await row_of(env.client, soon)).start_deadline_at is None


# --- delays ---------------------------------------------------------------------------------------------------------


async def test_a_delayed_run_joins_the_line_when_its_delay_ends(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        begin = env.now()
        late = await nap(env.client, "late", 0, start_delay=10, schedule_to_start_timeout=5)
        soon = await nap(env.client, "soon", 0)
        await soon.result()
        row = await row_of(env.client, late)
        assert (row.status, row.queued_at) == ("queued", None)
        await late.result()
        assert timedelta(seconds=10) <= env.now() - begin < timedelta(seconds=11)


async def test_a_signal_ends_the_delay_but_not_the_line(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        begin = env.now()
        first = await nap(env.client, "first", 5)
        listener = await env.client.start(
            Listener.run, id="listener", options=options(start_delay=100, schedule_to_start_timeout=20)
        )
        await listener.signal(Listener.hear, "now")
        row = await row_of(env.client, listener)
        assert (row.status, row.wake_at) == ("queued", None)
        assert row.queued_at is not None
        assert row.start_deadline_at is not None
        assert abs(row.start_deadline_at - row.queued_at - 20_000_000) < 1_000
        assert await listener.result() == ["now"]
        await first.result()
        assert timedelta(seconds=5) <= env.now() - begin < timedelta(seconds=6)


# --- ends while queued ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [None, 50])
async def test_a_queued_run_that_is_cancelled_never_begins(
    engine: MakeEnvironment, delay: float | None
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        first = await nap(env.client, "first", 5)
        second = await nap(env.client, "second", start_delay=delay)
        third = await nap(env.client, "third", start_delay=delay)
        await second.cancel("not wanted")
        await third.terminate("nor this")
        with pytest.raises(WorkflowCancelledError) as caught:
            await second.result()
        assert caught.value.reason == "not wanted"
        with pytest.raises(WorkflowTerminatedError):
            await third.result()
        await first.result()
        await env.sleep(100)
        assert await began(env.client) == ["first"]


async def test_replacing_a_queued_run_puts_the_new_one_at_the_end(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        await nap(env.client, "first", 5)
        old = await nap(env.client, "twice")
        await nap(env.client, "other")
        new = await nap(env.client, "twice", duplicate_policy="terminate_existing")
        with pytest.raises(WorkflowTerminatedError):
            await old.result()
        await new.result()
        assert await began(env.client) == ["first", "other", "twice"]


# --- chains ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["continue", "retry"])
async def test_a_chain_keeps_its_slot(engine: MakeEnvironment, how: str) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        policy = RetryPolicy(initial_interval=5, max_attempts=10)
        chain = await env.client.start(Again.run, how, 3, id="chain", options=options(retry_policy=policy))
        after = await nap(env.client, "after", 0)
        await after.result()
        # It began only when the whole chain had ended.
        assert await chain.result() == "done"
        latest = await row_of(
            env.client, env.client.handle("chain", run_id=(await chain.describe()).run.run_id)
        )
        row = await row_of(env.client, after)
        assert latest.closed_at is not None
        assert row.started_at is not None
        assert row.started_at >= latest.closed_at


async def test_a_chain_that_fails_gives_its_slot_back(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        policy = RetryPolicy(initial_interval=1, max_attempts=2)
        chain = await env.client.start(
            Again.run, "retry", 5, id="chain", options=options(retry_policy=policy)
        )
        after = await nap(env.client, "after", 0)
        with pytest.raises(WorkflowFailedError):
            await chain.result()
        await after.result()


async def test_a_reset_of_an_open_run_keeps_the_slot(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        first = await nap(env.client, "first", 10, run_timeout=30)
        second = await nap(env.client, "second", 0)
        await env.sleep(4)
        fresh = await first.reset("first-workflow-task")
        row = await row_of(env.client, fresh)
        assert row.slot_queue == "q"
        await fresh.result()
        await second.result()
        ended = await row_of(env.client, fresh)
        assert ended.closed_at is not None
        assert ended.closed_at <= ((await row_of(env.client, second)).started_at or 0)


async def test_a_reset_of_a_closed_run_joins_the_end_of_the_line(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        again = await nap(env.client, "again", 1, run_timeout=30)
        await again.result()
        await nap(env.client, "first", 5)
        second = await nap(env.client, "second", 5)
        fresh = await again.reset("last-workflow-task")
        row = await row_of(env.client, fresh)
        assert (row.status, row.slot_queue, row.run_deadline_at) == ("queued", None, None)
        # It has begun before, so a cancel request keeps its place.
        await env.sleep(1)
        await fresh.result()
        closed = await row_of(env.client, second)
        assert closed.closed_at is not None
        reset_run = await row_of(env.client, fresh)
        assert reset_run.closed_at is not None
        assert reset_run.closed_at >= closed.closed_at
        assert (await row_of(env.client, fresh)).run_timeout == 30_000_000


async def test_a_local_activity_of_a_run_in_line_waits_for_its_admission(engine: MakeEnvironment) -> None:
    """Whoever ran it would own the run, which nobody has admitted."""
    async with engine(workflows=WORKFLOWS, activities=[near]) as env:
        await queue(env, concurrency=1)
        again = await env.client.start(Near.run, id="again", options=options())
        await again.result()
        first = await nap(env.client, "first", 5)
        await env.sleep(1)
        scheduled = [event.seq async for event in again.history() if event.type == "ActivityScheduled"]
        fresh = await again.reset(scheduled[0])
        await env.sleep(2)
        row = await row_of(env.client, fresh)
        assert (row.status, row.owner_id, row.slot_queue) == ("queued", None, None)
        await first.result()
        assert await fresh.result() == 1


async def test_an_activity_of_a_run_in_line_runs_and_its_code_learns_of_it_when_it_is_admitted(
    engine: MakeEnvironment,
) -> None:
    """The line holds up code; what was under way at the point of a reset is part of what was copied."""
    async with engine(workflows=WORKFLOWS, activities=[near]) as env:
        await queue(env, concurrency=1)
        again = await env.client.start(Far.run, id="again", options=options())
        await again.result()
        first = await nap(env.client, "first", 5)
        await env.sleep(1)
        scheduled = [event.seq async for event in again.history() if event.type == "ActivityScheduled"]
        fresh = await again.reset(scheduled[0])
        await env.sleep(2)
        row = await row_of(env.client, fresh)
        assert (row.status, row.owner_id, row.slot_queue, row.wake_at) == ("queued", None, None, None)
        assert [event.type async for event in fresh.history()][scheduled[0] :] == ["ActivityCompleted"]
        await first.result()
        assert await fresh.result() == 1
        told = [event.type async for event in fresh.history()][scheduled[0] + 1 :]
        assert told == ["WorkflowDequeued", "WorkflowTaskCompleted", "WorkflowCompleted"]


async def test_a_cancelled_run_that_had_begun_hears_of_it_when_it_is_admitted(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, concurrency=1)
        again = await nap(env.client, "again", 100)
        await env.sleep(1)
        await again.terminate("for now")
        first = await nap(env.client, "first", 5)
        # Behind its first workflow task, which has scheduled a timer.
        fresh = await again.reset(4)
        await fresh.cancel()
        assert (await row_of(env.client, fresh)).status == "queued"
        await first.result()
        with pytest.raises(WorkflowCancelledError):
            await fresh.result()


# --- children -------------------------------------------------------------------------------------------------------


async def test_children_go_through_a_queue(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, "children", concurrency=2)
        parent = await env.client.start(Parent.run, "children", 5, id="parent")
        assert await parent.result() == [f"child{number}" for number in range(5)]
        assert await most_at_once(env.client, "child") == 2


async def test_a_child_of_an_unknown_queue_is_not_started(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        parent = await env.client.start(Parent.run, "nobody", 1, id="parent")
        with pytest.raises(WorkflowFailedError) as caught:
            await parent.result()
        cause = caught.value.__cause__
        assert isinstance(cause, ChildWorkflowError)
        assert isinstance(cause.__cause__, QueueNotFoundError)
        assert cause.__cause__.name == "nobody"


@pytest.mark.parametrize("name", [None, "q"])
async def test_a_child_may_be_delayed(engine: MakeEnvironment, name: str | None) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env)
        parent = await env.client.start(Delayed.run, 20, name, id="parent")
        assert 20 <= await parent.result() < 21


async def test_a_parent_that_ends_takes_its_queued_children_along(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await queue(env, "children", concurrency=1)
        parent = await env.client.start(Parent.run, "children", 3, id="parent")
        await env.sleep(0.5)
        await parent.terminate("enough")
        await env.sleep(5)
        for number in range(3):
            described = await env.client.handle(f"child{number}").describe()
            assert described.run.status is RunStatus.TERMINATED


# --- workers that go ------------------------------------------------------------------------------------------------


async def test_a_worker_that_stops_hands_its_runs_on_with_their_slots(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=()) as env:
        await queue(env, concurrency=1)
        async with env.new_worker(workflows=WORKFLOWS):
            first = await nap(env.client, "first", 50)
            second = await nap(env.client, "second", 0)
            await env.sleep(1)
        row = await row_of(env.client, first)
        assert (row.owner_id, row.slot_queue) == (None, "q")
        async with env.new_worker(workflows=WORKFLOWS):
            await second.result()
            assert (await row_of(env.client, first)).status == "completed"
            history = [event.type async for event in first.history()]
            assert history.count("WorkflowDequeued") == 1
