"""Debounced starts: a burst of calls is one workflow, which begins with the last input once nobody calls any more."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.queued import write_queue

from outlast import RetryPolicy, StartOptions, StructuralLimits, WorkflowHandle, starting, workflow
from outlast.errors import (
    ApplicationError,
    DurableCallError,
    InvalidOptionError,
    QueueNotFoundError,
    StructuralLimitError,
)
from outlast.testing import Replayer, TestEnvironment
from outlast.watchdog import TaskWatchdog
from outlast_store.database.sql_text import fetch
from outlast_workflow.history.events import WorkflowStartChanged, WorkflowStarted


@workflow.defn
class Sync:
    """Says what it was given, and when it began. Its constructor sees the input, too."""

    @workflow.init
    def __init__(self, version: int) -> None:
        self.constructed_with = version

    @workflow.run
    async def run(self, version: int) -> list[Any]:
        assert version == self.constructed_with
        return [version, workflow.now().isoformat()]

    @workflow.query
    def version(self) -> int:
        return self.constructed_with


@workflow.defn
class Other:
    """Is debounced apart from the other type."""

    @workflow.run
    async def run(self, version: int) -> int:
        return version


@workflow.defn
class Failing:
    """Fails in its first run."""

    @workflow.run
    async def run(self, version: int) -> int:
        if workflow.info().attempt == 1:
            raise ApplicationError("once")
        return version


WORKFLOWS = [Sync, Other, Failing]


async def bounce(env: TestEnvironment, version: int, **options: Any) -> WorkflowHandle[list[Any]]:
    given: dict[str, Any] = {"key": "user-7", "period": 5, **options}
    return await env.client.debounce(Sync.run, version, **given)


def seconds(begun: str, since: datetime) -> float:
    return (datetime.fromisoformat(begun) - since).total_seconds()


async def test_a_burst_is_one_workflow_with_the_last_input(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handles = []
        for version in range(4):
            handles.append(await bounce(env, version))
            await env.sleep(3)
        assert len({(handle.workflow_id, handle.run_id) for handle in handles}) == 1
        assert [handle.existed for handle in handles] == [False, True, True, True]
        last = env.now() - timedelta(seconds=3)
        for handle in handles:
            version, begun = await handle.result()
            assert (version, 5 <= seconds(begun, last) <= 6) == (3, True)
        assert await env.client.count() == 1
        history = await handles[0].export_history()
        assert Replayer(WORKFLOWS).replay(history).runs == 1
        # The next call starts the next burst.
        after = await bounce(env, 9)
        assert (after.existed, (await after.result())[0]) == (False, 9)
        assert after.workflow_id != handles[0].workflow_id


async def test_keys_and_types_are_apart(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handles: list[WorkflowHandle[Any]] = [
            await bounce(env, 1),
            await bounce(env, 2, key="user-8"),
            await env.client.debounce(Other.run, 3, key="user-7", period=5),
            await env.client.debounce("Sync", 4, key="user-7", period=5, result_type=list[Any]),
        ]
        results = [await handle.result() for handle in handles]
        assert [found[0] if isinstance(found, list) else found for found in results] == [4, 2, 3, 4]
        assert await env.client.count() == 3


async def test_it_begins_at_the_latest_after_its_timeout(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        first = env.now()
        handles = []
        for version in range(8):
            handles.append(await bounce(env, version, timeout=10))
            await env.sleep(2)
        found = [await handle.result() for handle in handles]
        assert 10 <= seconds(found[0][1], first) <= 11
        # Those before it began are of the first burst, the others of the next.
        assert {version for version, _ in found} == {found[0][0], 7}
        assert found[0][0] in (4, 5)


async def test_calls_at_the_same_time_make_one_workflow(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handles = await asyncio.gather(*[bounce(env, version) for version in range(10)])
        assert len({handle.run_id for handle in handles}) == 1
        assert [handle.existed for handle in handles].count(False) == 1
        [version, _] = await handles[0].result()
        assert version in range(10)


async def test_the_first_call_says_the_options_and_a_scope_gives_them(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal, concurrency=1)
        with starting(queue="q", partition_key="t", priority=2):
            handle = await bounce(env, 1, options=StartOptions(memo={"by": "first"}, run_timeout=60))
        await bounce(env, 2, options=StartOptions(priority=9))
        run = (await handle.describe()).run
        assert run.queue is not None
        assert (run.queue.name, run.queue.partition_key, run.memo) == ("q", "t", {"by": "first"})
        assert (await env.client.queues.describe("q")).delayed == 1
        assert (await handle.result())[0] == 2
        started, *_ = [event async for event in handle.history()]
        assert started.payload["priority"] == 2
        assert started.payload["debounce_key"] == "user-7"


async def test_a_call_while_it_stands_in_line_counts(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal, concurrency=1)
        await env.client.queues.pause("q")
        handle = await bounce(env, 1, options=StartOptions(queue="q"), timeout=6)
        await env.sleep(8)
        assert (await env.client.queues.describe("q")).waiting == 1
        again = await bounce(env, 2, timeout=6)
        assert again.run_id == handle.run_id
        # Its time is up, so it keeps its place.
        assert (await env.client.queues.describe("q")).waiting == 1
        await env.client.queues.resume("q")
        assert (await handle.result())[0] == 2


async def test_a_query_and_a_retry_see_the_last_input(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await bounce(env, 1)
        await bounce(env, 2)
        assert await handle.query(Sync.version) == 2
        policy = StartOptions(retry_policy=RetryPolicy(max_attempts=2, initial_interval=1))
        failing = await env.client.debounce(Failing.run, 1, key="f", period=5, options=policy)
        await env.client.debounce(Failing.run, 2, key="f", period=5)
        assert await failing.result() == 2


async def test_a_reset_and_an_import_keep_the_last_input(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await bounce(env, 1)
        await bounce(env, 2)
        await handle.result()
        again = await handle.reset("first-workflow-task")
        assert (await again.result())[0] == 2


async def test_who_was_cancelled_or_terminated_takes_no_further_call(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        first = await bounce(env, 1)
        await first.terminate()
        second = await bounce(env, 2)
        assert second.workflow_id != first.workflow_id
        await second.cancel()
        third = await bounce(env, 3)
        assert (third.existed, (await third.result())[0]) == (False, 3)
        await env.client.delete(third.workflow_id)
        assert not (await bounce(env, 4)).existed


async def test_a_burst_has_a_limit(in_memory: MakeEnvironment) -> None:
    limits = StructuralLimits(debounced_calls=2)
    async with in_memory(workflows=WORKFLOWS, limits=limits) as env:
        await bounce(env, 0)
        handle = await bounce(env, 1)
        before = (await handle.describe()).run.history_length
        with pytest.raises(StructuralLimitError, match="debounced"):
            await bounce(env, 2)
        assert (await handle.describe()).run.history_length == before
        assert (await handle.result())[0] == 1


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"key": ""}, "key"),
        ({"period": 0}, "period"),
        ({"period": 5, "timeout": 4}, "at least the period"),
        ({"options": StartOptions(start_delay=1)}, "start_delay"),
        ({"options": StartOptions.reject_duplicate()}, "duplicate_policy"),
        ({"options": StartOptions(execution_timeout=60)}, "timeout="),
        ({"options": StartOptions(execution_timeout=60), "timeout": 60}, "timeout="),
        ({"options": StartOptions(execution_timeout=3)}, "shorter than the execution timeout"),
        ({"id": "w"}, "id"),
    ],
)
async def test_what_can_not_be_is_refused_and_nothing_is_written(
    in_memory: MakeEnvironment, options: dict[str, Any], why: str
) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        with pytest.raises(InvalidOptionError, match=why):
            await bounce(env, 1, **options)
        wrong: Any = Sync.run
        with pytest.raises(DurableCallError):
            await env.client.debounce(wrong, key="k", period=5)
        with pytest.raises(QueueNotFoundError):
            await bounce(env, 1, options=StartOptions(queue="nowhere"))
        assert await env.client.count() == 0
        assert await env.client.runtime.read(fetch, "SELECT 1 FROM debounces", ()) == []


async def test_the_row_of_a_key_goes_once_its_run_has_begun(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:

        async def keys() -> list[Any]:
            return await env.client.runtime.read(
                fetch, "SELECT debounce_key FROM debounces ORDER BY debounce_key", ()
            )

        await env.client.queues.define("q", concurrency=1)
        await env.client.queues.pause("q")
        watchdog = TaskWatchdog(env.client)
        await bounce(env, 1, key="begins")
        waiting = await bounce(env, 2, key="waits", options=StartOptions(queue="q"))
        assert [key for (key,) in await keys()] == ["begins", "waits"]
        await env.sleep(3600)
        await watchdog.run_pass()
        assert [key for (key,) in await keys()] == ["begins", "waits"]
        await env.sleep(120)
        await watchdog.run_pass()
        assert [key for (key,) in await keys()] == ["waits"]
        # It waits still, so another call finds it.
        assert (await bounce(env, 3, key="waits")).run_id == waiting.run_id


async def test_its_events_say_what_was_asked(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await bounce(env, 1)
        await bounce(env, 2)
        found = [event async for event in handle.history()]
        assert [event.type for event in found] == [WorkflowStarted.type, WorkflowStartChanged.type]
        assert [event.payload["input"] for event in found] == [[1], [2]]
