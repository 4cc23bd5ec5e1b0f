"""A database in which the engine has left some of everything: for what looks at whole databases."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from tests.engine import answerers, family, programs, talkers
from tests.queued import write_queue

from outlast import AlertPolicy, Every, activity, workflow
from outlast.errors import UpdateRejectedError
from outlast.testing import TestEnvironment, check_database
from outlast_dag import any_dag, dag, step
from outlast_runs.claims import ClaimRuns
from outlast_watchdog.enforcement import ReleaseLostRuns
from outlast_workflow.errors.child import ChildWorkflowError
from outlast_workflow.options.options import RetryPolicy, StartOptions

LONG = 500_000.0
MOST_S = 1_000_000.0


@workflow.defn
async def noted() -> None:
    """Has a memo and search attributes, of its start and its own."""
    workflow.upsert_memo({"step": 1})
    workflow.upsert_search_attributes({"amount": 5, "customer": None})
    await asyncio.sleep(LONG)


@activity.defn(start_to_close_timeout=60)
async def publish() -> None:
    for value in ("one", "two"):
        activity.stream("both").write(value)


@workflow.defn
async def published() -> None:
    """Writes to streams, by its code and by an activity; one is closed."""
    workflow.stream("both").write("begin")
    workflow.stream("other").write(1)
    await publish()
    workflow.stream("both").write("end")
    workflow.stream("both").close()
    await asyncio.sleep(LONG)


@workflow.defn
async def watched() -> None:
    """Alerts of an activity and of the workflow have been fired, and others lie ahead."""
    policy = AlertPolicy(at=[0.000001, 0.9], after=[LONG])
    wait = programs.wait_long.with_options(start_to_close_timeout=LONG, alerts=policy)
    await wait.with_options(schedule_to_start_timeout=50)(LONG)


@workflow.defn
async def impatient() -> None:
    """Its activities end in each way there is; but for one that runs and one that waits."""
    wait = programs.wait_long
    ends = [
        wait.with_options(start_to_close_timeout=5, retry_policy=programs.ONCE)(50),
        wait.with_options(start_to_close_timeout=5, schedule_to_close_timeout=5.5)(50),
        wait.with_options(task_queue="nowhere", schedule_to_start_timeout=5)(1),
        programs.refuse.with_options(heartbeat_timeout=10)("non_retryable"),
        workflow.execute_local_activity(programs.add, 1, 1),
    ]
    await asyncio.gather(*ends, return_exceptions=True)
    unclaimed = wait.with_options(task_queue="nowhere", schedule_to_start_timeout=50)
    unwanted = [asyncio.ensure_future(call) for call in (wait(50), unclaimed(1))]
    await asyncio.sleep(1)
    for call in unwanted:
        call.cancel()
    await asyncio.gather(
        wait.with_options(start_to_close_timeout=1, schedule_to_close_timeout=1)(50),
        wait.with_options(heartbeat_timeout=50_000)(LONG),
        wait.with_options(
            task_queue="nowhere",
            start_to_close_timeout=10_000,
            schedule_to_start_timeout=50_000,
            schedule_to_close_timeout=90_000,
        )(1),
        return_exceptions=True,
    )


@workflow.defn
async def parenting() -> None:
    """One child has ended, one has failed, one could not begin, and two are open."""
    await workflow.execute_child(family.immediate, 1, id="grown")
    with suppress(ChildWorkflowError):
        await workflow.execute_child(family.hopeless, "x", id="fallen")
    with suppress(ChildWorkflowError):
        await workflow.execute_child(family.immediate, 1, id="taken")
    _ = workflow.start_child(family.napping, LONG, id="held")
    _ = workflow.start_child(family.napping, LONG, id="let-go", parent_close_policy="abandon")
    await asyncio.sleep(LONG)


@workflow.defn
async def limited() -> None:
    """Has set itself a limit."""
    workflow.limit(90_000)
    await asyncio.sleep(LONG)


@workflow.defn
async def leaving(policy: str) -> None:
    """Ends with a child under way."""
    _ = workflow.start_child(family.napping, LONG, id=f"child to {policy}", parent_close_policy=policy)


@workflow.defn
async def through_a_queue() -> None:
    """One of its activities runs, and one stands in line."""
    narrow = programs.wait_long.with_options(queue="narrow", partition_key="t")
    await asyncio.gather(narrow(LONG), narrow(LONG))


@dag(timeout=MOST_S)
def graph(seconds: float) -> str:
    """One of its steps is under way."""
    return step(programs.wait_long, id="wait", timeout=LONG, retry=1)(seconds)


async def live() -> bytes:
    """Open and closed runs, chains, families, retries, timers, requests; activities and children in each state."""
    workflows = [*programs.WORKFLOWS, *family.WORKFLOWS, noted, published, impatient, parenting, leaving]
    workflows += [limited, watched, through_a_queue, talkers.Collector, talkers.Deaf, answerers.Cart]
    workflows += [graph, any_dag]
    programs.calls.clear()
    async with TestEnvironment(workflows=workflows, activities=[*programs.ACTIVITIES, publish]) as env:
        await _begin(env)
        await _speak(env)
        await env.client.start(programs.retrying, "still-flaky", 99, id="backing-off")
        await env.sleep(5)
        with env.client.runtime.database.reader() as connection:
            assert check_database(connection) == []
            driver: Any = connection.connection.driver_connection
            saved: bytes = driver.serialize()
        return saved


async def _begin(env: TestEnvironment) -> None:
    start = env.client.start
    bounded = StartOptions(execution_timeout=MOST_S, run_timeout=100_000)
    await start(programs.waiting, LONG, id="timed-out", options=StartOptions(execution_timeout=5))
    await start(programs.waiting, LONG, id="run-timed-out", options=StartOptions(run_timeout=5))
    await start(programs.Countdown.run, 2, [], id="chain", options=bounded)
    await start(programs.third_time, id="retried", options=StartOptions(retry_policy=RetryPolicy()))
    await start(programs.retrying, "flaky", 2, id="flaky")
    await start(programs.crashing, "x", id="failed")
    await start(programs.with_timeout, id="timers", options=bounded)
    await start(programs.Sleeper.run, LONG, id="asleep", options=bounded)
    await start(programs.Sleeper.run, LONG, id="taken")
    await start(programs.waiting, 5000, id="busy", options=bounded)
    await start(programs.waiting, 5000, id="queued", task_queue="elsewhere")
    await start(programs.Careful.run, LONG, id="terminated", options=bounded)
    await start(programs.stubborn, id="asked")
    await start("strict", 1, "no date", id="stuck")
    about = StartOptions(memo={"who": "ada"}, search_attributes={"customer": "c-7", "step": "first"})
    await start(noted, id="noted", options=about)
    await start(published, id="published")
    await start(limited, id="limited", options=bounded)
    alerts = AlertPolicy(
        at=[0.000001, 0.8],
        before=[60],
        after=[1],
        at_instant=env.now() + timedelta(days=99),
        channels=["oncall"],
    )
    await start(watched, id="watched", options=bounded.replace(alerts=alerts))
    await start(impatient, id="impatient")
    await start(graph, LONG, id="graph")
    await start(any_dag, graph.spec.document, LONG, id="plan")
    await start(parenting, id="parent", options=StartOptions(execution_timeout=MOST_S))
    await write_queue(env.client.runtime.journal, "slow", concurrency=1)
    for workflow_id in ("admitted", "in line", "left the line"):
        through = StartOptions(queue="slow", partition_key="t", run_timeout=100_000)
        await start(programs.Sleeper.run, LONG, id=workflow_id, options=through)
    later = StartOptions(queue="slow", start_delay=MOST_S)
    await start(programs.Sleeper.run, LONG, id="delayed", options=later)
    for seconds in (1, LONG):
        await env.client.debounce(programs.Sleeper.run, seconds, key="k", period=MOST_S)
    narrow = ("concurrency", "partition_concurrency", "worker_concurrency", "partition_worker_concurrency")
    await write_queue(env.client.runtime.journal, "narrow", **dict.fromkeys(narrow, 1))
    await start(through_a_queue, id="calling through a queue")
    await _doom(env)
    await _schedule(env)
    for policy in ("terminate", "request_cancel", "abandon"):
        await start(leaving, policy, id=f"left to {policy}")


async def _doom(env: TestEnvironment) -> None:
    """A run ends because it has lost two owners in a row, and may lose one."""
    await env.client.start(programs.waiting, 5000, id="doomed", task_queue="doomed")
    journal = env.client.runtime.journal
    for number in range(2):
        [run] = await journal.apply(ClaimRuns(f"gone-{number}", ["doomed"], frozenset(["waiting"]), 1))
        await journal.apply(ReleaseLostRuns(f"gone-{number}", [run.run_id], 1))


async def _schedule(env: TestEnvironment) -> None:
    create, sleeper = env.client.schedules.create, programs.Sleeper.run
    every = await create("every second", sleeper, LONG, spec=Every(1), overlap="allow_all", max_runs=9)
    await every.trigger(request_id="once")
    await create("buffering", sleeper, LONG, spec=Every(1), overlap="buffer_all")
    await create("resting", sleeper, LONG, spec=Every(1), paused=True)
    await create("to come", sleeper, LONG, spec=Every(3600))


async def _speak(env: TestEnvironment) -> None:
    client, start = env.client, env.client.start
    await env.sleep(0.5)
    await client.handle("retried").signal("unheard")
    await env.sleep(0.5)
    await client.handle("terminated").terminate("enough")
    await client.handle("asked").cancel()
    await client.handle("left the line").cancel()

    cart = await start(answerers.Cart.run, "ada", id="cart")
    for number in (1, 2):
        await cart.execute_update("put", {"name": "tea"}, id=f"done {number}")
    await cart.start_update("wait_for", 5, id="under way")
    with pytest.raises(UpdateRejectedError):
        await cart.start_update("put", {"name": "air", "count": 0}, id="rejected")
    waiting = await start(answerers.Cart.run, "bob", id="cart elsewhere", task_queue="elsewhere")
    asking = asyncio.ensure_future(waiting.start_update("put", {"name": "tea"}, id="not seen"))
    await env.settle()
    asking.cancel()

    deaf = await start(talkers.Deaf.run, 4.0, id="deaf")
    await deaf.signal("first")
    await deaf.signal("second", request_id="keyed")
    relay = await start(talkers.Relay.run, 1, [], id="relay", task_queue="later")
    await relay.cancel()  # the run method is entered before what comes after this
    for word in ("one", "two"):
        await relay.signal("hear", word)
    worker = env.new_worker(task_queue="later", workflows=[talkers.Relay])
    async with worker:
        await env.settle()

    collector = await start(talkers.Collector.run, id="collector")
    await collector.signal("take", 1)
    await env.sleep(1)
    await collector.signal("take", 2)
    await (await collector.reset("first-workflow-task")).signal("take", 3)
    await env.sleep(1)
    again = await client.handle("collector").reset("last-workflow-task")
    await again.signal("stop")
    await again.result()
    fork = await client.fork("collector", "last-workflow-task", id="fork")
    await fork.signal("stop")
    await fork.result()
