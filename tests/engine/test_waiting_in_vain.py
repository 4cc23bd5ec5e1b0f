"""Who waits for what no live worker can serve is told so, once, with what to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from outlast import WorkflowHandle, activity, workflow
from outlast.errors import NonDeterminismError, StillRunningError
from outlast.testing import TestEnvironment
from outlast_workflow.primitives.enums import Attention


@activity.defn(start_to_close_timeout=10)
async def fine() -> int:
    return 1


@workflow.defn
async def order() -> int:
    return await fine()


@workflow.defn
class Counter:
    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.update
    async def add(self) -> int:
        return 1


@workflow.defn
async def by_name() -> Any:
    return await workflow.execute_activity("nobody", start_to_close_timeout=5)


@workflow.defn
async def breaks() -> None:
    raise NonDeterminismError(expected=["a"], actual=["b"])


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What is logged about waits, as it comes."""
    found: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert record.levelno == logging.WARNING
            found.append(record.getMessage())

    keeper = Keeper()
    logging.getLogger("outlast.client").addHandler(keeper)
    yield found
    logging.getLogger("outlast.client").removeHandler(keeper)


def environment() -> TestEnvironment:
    return TestEnvironment(
        workflows=[order, by_name, breaks, Counter], activities=[fine], max_task_failures=0
    )


POLLED = "workers poll task queue 'default', but none of them knows"
NO_POLLER = (
    "no live worker polls task queue 'slow' of workflow 'order' (polled: default)",
    "start one: `outlast worker MODULE --task-queue slow`, or correct the task queue's name",
)
UNKNOWN_WORKFLOW = (
    f"{POLLED} workflow 'Missing' (known: Counter, breaks, by_name, order)",
    "give workflow 'Missing' to a worker of that task queue, or correct the name",
)
UNKNOWN_ACTIVITY = (
    f"{POLLED} activity 'nobody' (known: fine)",
    "give activity 'nobody' to a worker of that task queue, or correct the name",
)


@pytest.mark.parametrize(
    ("type", "task_queue", "kind", "told"),
    [
        ("order", "slow", Attention.NO_POLLER, NO_POLLER),
        ("Missing", "default", Attention.UNKNOWN_TYPE, UNKNOWN_WORKFLOW),
        ("by_name", "default", Attention.UNKNOWN_TYPE, UNKNOWN_ACTIVITY),
    ],
)
async def test_a_result_that_no_worker_can_give_is_warned_about_once_after_ten_seconds(
    type: str, task_queue: str, kind: Attention, told: tuple[str, str], warnings: list[str]
) -> None:
    async with environment() as env:
        handle = await env.client.start(type, id="w-1", task_queue=task_queue)
        with pytest.raises(StillRunningError):
            await handle.result(timeout=9.5)
        assert not warnings
        with pytest.raises(StillRunningError):
            await handle.result(timeout=100)
        assert warnings == [f"workflow w-1 is waited for in vain: {told[0]}: {told[1]}"]
        found = await handle.describe()
        assert [(one.kind, one.cause, one.remedy) for one in found.attention_reasons] == [(kind, *told)]
        assert found.attention == (kind,)
        page = await env.client.list(attention=True).page()
        assert page.runs[0].attention_reasons == found.attention_reasons


async def test_an_update_that_no_worker_can_answer_is_warned_about(warnings: list[str]) -> None:
    async with environment() as env:
        handle: WorkflowHandle[Any] = await env.client.start(Counter.run, id="c-1", task_queue="slow")
        waiting = asyncio.ensure_future(handle.execute_update("add"))
        await env.sleep(15)
        waiting.cancel()
    (warning,) = warnings
    assert warning.startswith("workflow c-1 is waited for in vain: no live worker polls task queue 'slow'")


async def test_nothing_is_said_of_waits_that_a_worker_serves(warnings: list[str]) -> None:
    async with environment() as env:
        handle = await env.client.start(Counter.run, id="c-2")
        with pytest.raises(StillRunningError):
            await handle.result(timeout=60)
        failing = await env.client.start(breaks, id="b-1")
        with pytest.raises(StillRunningError):
            await failing.result(timeout=60)
    assert not warnings


async def test_a_task_that_keeps_failing_says_why_and_what_to_do() -> None:
    async with environment() as env:
        handle = await env.client.start(breaks, id="b 2")
        await env.sleep(60)
        found = await handle.describe()
        (reason,) = found.attention_reasons
        assert reason.kind is Attention.TASK_KEEPS_FAILING
        words = (
            f"its workflow task has failed {found.run.task_failures} times in a row: NonDeterminismError: "
        )
        assert reason.cause.startswith(words)
        assert reason.remedy.startswith("`outlast history 'b 2'` says why; deploy corrected code, or")


async def test_a_run_whose_first_task_keeps_failing_is_listed_as_running() -> None:
    """It is ``pending``, since nothing of it is recorded; who looks for a run that hangs looks among the running."""
    async with environment() as env:
        await env.client.start(breaks, id="b-3")
        await env.client.start(Counter.run, id="c-3")
        await env.client.start(order, id="later", task_queue="slow")
        await env.sleep(60)
        running = [(run.workflow_id, run.status.value) async for run in env.client.list(status="running")]
        assert running == [("c-3", "running"), ("b-3", "pending")]
        assert await env.client.count(status=["running", "failed"]) == 2
        pending = [run.workflow_id async for run in env.client.list(status="pending")]
        assert pending == ["later", "b-3"]
