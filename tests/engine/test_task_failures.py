"""What fails the task and not the run: it is tried again, shown, and goes on when the code is fixed."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment
from tests.engine.histories import types_of
from tests.engine.programs import add, multiply, wait_long
from tests.rows import latest_row

from outlast import activity, workflow
from outlast.testing import TestEnvironment
from outlast_store.reads.workers import poll_work
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import WorkflowFailedError

# A second worker would go on with the code that the tests replace.
pytestmark = pytest.mark.usefixtures("one_worker")


async def row_of(env: TestEnvironment, workflow_id: str = "w") -> RunRow:
    return await latest_row(env.client.handle(workflow_id))


def named(name: str) -> Any:
    """A decorator for one version of a workflow type."""
    return workflow.defn(name=name)


@named("Versioned")
async def version_1() -> str:
    await add(1, 1)
    await asyncio.sleep(10)
    return "version 1"


@named("Versioned")
async def version_2() -> str:
    await multiply(1, 1)
    await asyncio.sleep(10)
    return "version 2"


async def test_other_code_than_history_fails_the_task_until_it_is_fixed(engine: MakeEnvironment) -> None:
    async with engine(workflows=[version_1]) as env:
        handle = await env.client.start("Versioned", id="w")
        await env.sleep(1)
        await env.worker.stop()
        async with env.new_worker(workflows=[version_2], activities=programs.ACTIVITIES):
            await env.sleep(60)
            row = await row_of(env)
            assert row.is_open
            assert row.task_failures >= 3
            assert row.attention == "task_keeps_failing"
            failed = [event async for event in handle.history() if event.type == "WorkflowTaskFailed"]
            assert len(failed) == 1, "one event per streak"
            text = str(failed[0].payload)
            assert "NonDeterminismError" in text
            assert "multiply" in text
            failures = (await handle.describe()).failures
            assert len(failures) == row.task_failures, "describe says why"
            assert failures[0].exception_class == "NonDeterminismError"
            assert failures[0].failure_category == "task_failure"
            assert "add" in text
        async with env.new_worker(workflows=[version_1], activities=programs.ACTIVITIES):
            assert await handle.result() == "version 1"
        row = await row_of(env)
        assert (row.task_failures, row.attention) == (0, None)


async def test_task_failures_back_off(engine: MakeEnvironment) -> None:
    async with engine() as env:
        await env.client.start("strict", 1, "not a date", id="w")
        counted: list[int] = []
        for _ in range(8):
            counted.append((await row_of(env)).task_failures)
            await env.sleep(4)
        assert counted[-1] <= 6, "1 + 2 + 4 + 8 + 16 seconds"
        assert counted[-1] >= 4
        await env.client.handle("w").terminate()


async def test_undecodable_input_names_the_parameter(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start("strict", 1, "not a date", id="w")
        await env.sleep(1)
        failed = [event async for event in handle.history() if event.type == "WorkflowTaskFailed"]
        assert len(failed) == 1
        message = failed[0].payload["failure"]["message"]
        assert "'when'" in message
        assert "strict" in message
        assert "not a date" not in message, "payloads never appear in messages"

        @workflow.defn
        async def strict(count: int, when: Any) -> int:
            return count

        await env.worker.stop()
        async with env.new_worker(workflows=[strict]):
            assert await handle.result() == 1


async def test_code_that_is_missing_is_waited_for(engine: MakeEnvironment) -> None:
    """A worker without the type never takes the run; one that has it does."""
    async with engine(workflows=[programs.nothing]) as env:
        handle = await env.client.start("double", 2, id="w", result_type=int)
        await env.sleep(30)
        assert (await row_of(env)).status == "pending"
        async with env.new_worker(workflows=[programs.double], activities=programs.ACTIVITIES):
            assert await handle.result() == 4


async def test_programming_errors_of_a_durable_call_fail_the_task(engine: MakeEnvironment) -> None:
    @named("Sloppy")
    async def sloppy() -> int:
        return await workflow.execute_activity("anything", result_type=int)  # nothing bounds it

    @named("Sloppy")
    async def mended() -> int:
        return await add(20, 22)

    async with engine(workflows=[sloppy]) as env:
        handle = await env.client.start("Sloppy", id="w")
        await env.sleep(20)
        row = await row_of(env)
        assert row.is_open
        assert row.attention == "task_keeps_failing"
        await env.worker.stop()
        async with env.new_worker(workflows=[mended], activities=programs.ACTIVITIES):
            assert await handle.result() == 42


async def test_a_workers_choice_of_errors_that_fail_the_task(engine: MakeEnvironment) -> None:
    @workflow.defn
    async def divides(number: int) -> float:
        return 1 / number

    async with engine(workflows=[divides], workflow_task_failure_types=(ZeroDivisionError,)) as env:
        handle = await env.client.start(divides, 0, id="w")
        await env.sleep(3)
        assert (await row_of(env)).task_failures >= 2
        await env.worker.stop()
        async with env.new_worker(workflows=[divides], workflow_task_failure_types=()):
            with pytest.raises(WorkflowFailedError):
                await handle.result()


async def test_an_unserialisable_result_of_a_workflow(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(programs.not_json, id="w")
        await env.sleep(5)
        row = await row_of(env)
        types = await types_of(env.client, "w")
        if row.is_open:
            assert row.task_failures >= 2
            assert types[1:] == ["WorkflowTaskFailed"]
            await handle.terminate()
        else:
            assert types[-1] == "WorkflowFailed"


async def test_a_streak_ends_with_a_success(engine: MakeEnvironment) -> None:
    """Two streaks leave two events."""
    broken = {"now": True}

    @named("Moody")
    async def moody() -> str:
        if broken["now"]:
            await workflow.execute_activity("unbounded")
        await asyncio.sleep(5)
        if broken["now"]:
            await workflow.execute_activity("unbounded")
        return "done"

    async with engine(workflows=[moody], max_cached_workflows=1000) as env:
        handle = await env.client.start("Moody", id="w")
        await env.sleep(2)
        broken["now"] = False
        await env.sleep(4)
        broken["now"] = True
        await env.sleep(6)
        broken["now"] = False
        assert await handle.result() == "done"
        types = await types_of(env.client, "w")
        assert types.count("WorkflowTaskFailed") == 2


async def test_cancelling_and_terminating_a_run_whose_task_fails(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start("strict", 1, "not a date", id="w")
        await env.sleep(5)
        await handle.cancel()
        await env.sleep(5)
        assert (await row_of(env)).is_open
        await handle.terminate()
        async with asyncio.timeout(10):
            with pytest.raises(Exception, match="terminated"):
                await handle.result()


async def test_a_deadline_beats_a_failing_task(engine: MakeEnvironment) -> None:
    from outlast_workflow.errors import WorkflowTimeoutError
    from outlast_workflow.options.options import StartOptions

    async with engine(max_task_failures=0) as env:
        handle = await env.client.start(
            "strict", 1, "not a date", id="w", options=StartOptions(run_timeout=20)
        )
        began = env.now()
        with pytest.raises(WorkflowTimeoutError):
            await handle.result()
        assert env.now() - began < datetime.timedelta(seconds=22)


async def test_histories_of_others_are_left_alone(engine: MakeEnvironment) -> None:
    """A run that fails its task does not hold up the others of its worker."""

    @activity.defn(start_to_close_timeout=10)
    async def quick() -> int:
        return 1

    @workflow.defn
    async def fine() -> int:
        return await quick() + await quick()

    async with engine(workflows=[fine, programs.strict], activities=[quick, wait_long]) as env:
        await env.client.start("strict", 1, "not a date", id="w")
        results = await asyncio.gather(*[env.client.execute(fine, id=f"fine-{n}") for n in range(20)])
        assert results == [2] * 20
        await env.client.handle("w").terminate()
        worker_id, now = env.worker.worker_id, env.clock.now()
        waiting = await env.client.runtime.read(poll_work, worker_id, ["default"], [], [], now, None)
        assert waiting.awake == []


async def test_a_result_is_not_lost_with_the_task_that_failed_over_it(engine: MakeEnvironment) -> None:
    """Its bundle could not be committed, so it is committed alone: the activity is not run again."""
    broken = {"now": True}

    @named("Unlucky")
    async def unlucky() -> int:
        found = await add(20, 22)
        if broken["now"]:
            await workflow.execute_activity("unbounded")
        return found

    async with engine(workflows=[unlucky]) as env:
        handle = await env.client.start("Unlucky", id="w")
        await env.sleep(5)
        types = await types_of(env.client, "w")
        assert types.count("ActivityCompleted") == 1
        assert types.count("WorkflowTaskFailed") == 1
        broken["now"] = False
        assert await handle.result() == 42
        assert programs.calls["add"] == 1
