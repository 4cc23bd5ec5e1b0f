"""``workflow_failure_types`` and ``workflow_task_failure_types``: what ends the run, and what waits for better code."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment
from tests.engine.histories import types_of
from tests.engine.programs import add, multiply
from tests.rows import latest_row

from outlast import RetryPolicy, StartOptions, workflow
from outlast.errors import (
    DurableCallError,
    InvalidOptionError,
    NonDeterminismError,
    PayloadDecodeError,
    QueryFailedError,
    StillRunningError,
    WorkflowClosedError,
    WorkflowFailedError,
)
from outlast.testing import Replayer, TestEnvironment
from outlast_workflow.run.run_outcome import BY_FAILURE_TYPE

# A second worker would go on with the code that the tests replace.
pytestmark = pytest.mark.usefixtures("one_worker")


async def end_of(env: TestEnvironment, workflow_id: str = "w") -> dict[str, Any]:
    """Return the payload of a workflow's last event."""
    payload: dict[str, Any] = {}
    async for event in env.client.handle(workflow_id).history():
        payload = {"type": event.type, **event.payload}
    return payload


def version(number: int, **options: Any) -> Any:
    """Return one version of a workflow type."""

    @workflow.defn(name="Versioned", **options)
    async def versioned() -> str:
        await (add if number == 1 else multiply)(1, 1)
        await asyncio.sleep(10)
        return f"version {number}"

    return versioned


@pytest.mark.parametrize("declared", [True, False])
async def test_non_determinism_may_fail_the_run(engine: MakeEnvironment, declared: bool) -> None:
    lists = {"workflow_failure_types": [NonDeterminismError]}
    other = version(2, **(lists if declared else {}))
    async with engine(workflows=[version(1)]) as env:
        handle = await env.client.start("Versioned", id="w")
        await env.sleep(1)
        await env.worker.stop()
        before = await types_of(env.client, "w")
        async with env.new_worker(
            workflows=[other], activities=programs.ACTIVITIES, **({} if declared else lists)
        ):
            with pytest.raises(WorkflowFailedError) as failed:
                await handle.result()
        assert isinstance(failed.value.__cause__, NonDeterminismError)
        end = await end_of(env)
        assert (end["type"], end["by"]) == ("WorkflowFailed", BY_FAILURE_TYPE)
        assert await types_of(env.client, "w") == [*before, "TimerFired", "WorkflowFailed"]
        # Replay stops before the end: with the code that wrote it, the history is sound.
        replayed = Replayer(workflows=[version(1)]).replay(await handle.export_history())
        assert replayed.ok


async def test_a_run_that_ends_by_non_determinism_is_retried_like_any_other(engine: MakeEnvironment) -> None:
    async with engine(workflows=[version(1)]) as env:
        options = StartOptions(retry_policy=RetryPolicy(max_attempts=2))
        handle = await env.client.start("Versioned", id="w", options=options)
        await env.sleep(1)
        await env.worker.stop()
        other = version(2, workflow_failure_types=[NonDeterminismError])
        async with env.new_worker(workflows=[other], activities=programs.ACTIVITIES):
            assert await handle.result() == "version 2", "the second attempt begins with the new code"


async def test_bad_input_may_fail_the_run(engine: MakeEnvironment) -> None:
    @workflow.defn(workflow_failure_types=[PayloadDecodeError])
    async def strict(when: date) -> str:
        return when.isoformat()

    async with engine(workflows=[strict]) as env:
        handle = await env.client.start("strict", "not a date", id="w")
        with pytest.raises(WorkflowFailedError) as failed:
            await handle.result()
        assert isinstance(failed.value.__cause__, PayloadDecodeError)
        assert failed.value.__cause__.parameter == "when"
        assert await types_of(env.client, "w") == ["WorkflowStarted", "WorkflowFailed"]
        with pytest.raises(QueryFailedError):
            await handle.query("__stack_trace")


async def test_a_signal_that_cannot_be_read_may_fail_the_run(engine: MakeEnvironment) -> None:
    @workflow.defn(workflow_failure_types=["PayloadDecodeError"])
    class Patient:
        @workflow.signal
        def by(self, when: date) -> None: ...

        @workflow.run
        async def run(self) -> None:
            await workflow.wait_condition(lambda: False)

    async with engine(workflows=[Patient]) as env:
        handle = await env.client.start(Patient.run, id="w")
        await env.sleep(1)
        await handle.signal("by", "not a date")
        with pytest.raises(WorkflowFailedError):
            await handle.result()
        assert (await end_of(env))["by"] == BY_FAILURE_TYPE


@pytest.mark.parametrize("where", ["run", "signal", "update", "callback"])
async def test_a_wrong_call_may_fail_the_run_wherever_it_is_made(engine: MakeEnvironment, where: str) -> None:
    async def wrong() -> None:
        await workflow.execute_activity("anything", result_type=int)  # nothing bounds it

    @workflow.defn
    class Sloppy:
        @workflow.run
        async def run(self, where: str) -> None:
            if where == "run":
                await wrong()
            if where == "callback":

                def refuse() -> None:
                    raise DurableCallError("from a callback")

                asyncio.get_running_loop().call_soon(refuse)
            await workflow.wait_condition(lambda: False)

        @workflow.signal
        async def told(self) -> None:
            await wrong()

        @workflow.update
        async def asked(self) -> None:
            await wrong()

    async with engine(workflows=[Sloppy], workflow_failure_types=[DurableCallError]) as env:
        handle = await env.client.start(Sloppy.run, where, id="w")
        if where == "signal":
            await handle.signal(Sloppy.told)
        elif where == "update":
            with pytest.raises(WorkflowClosedError):
                await handle.execute_update(Sloppy.asked)
        with pytest.raises(WorkflowFailedError) as failed:
            await handle.result()
        assert isinstance(failed.value.__cause__, DurableCallError)
        assert (await end_of(env))["by"] == BY_FAILURE_TYPE


async def test_the_declaration_wins(engine: MakeEnvironment) -> None:
    @workflow.defn(workflow_task_failure_types=[ZeroDivisionError])
    async def patient(number: int) -> float:
        return 1 / number

    @workflow.defn
    async def hasty(number: int) -> float:
        return 1 / number

    lists = {"workflow_failure_types": [ArithmeticError]}
    async with engine(workflows=[patient, hasty], max_task_failures=0, **lists) as env:
        waiting = await env.client.start(patient, 0, id="patient")
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(hasty, 0, id="hasty")
        assert (await end_of(env, "hasty")).get("by") is None, "the code's own end, which replay expects"
        with pytest.raises(StillRunningError):
            await waiting.result(timeout=30)
        assert (await latest_row(waiting)).task_failures >= 3
        await waiting.terminate()


async def test_the_lists_only_add(engine: MakeEnvironment) -> None:
    """Whatever the lists of a worker are, an engine's error that they do not name fails the task."""

    @workflow.defn
    async def sloppy() -> None:
        await workflow.execute_activity("anything", result_type=int)

    lists = {"workflow_task_failure_types": [KeyError], "workflow_failure_types": [PayloadDecodeError]}
    async with engine(workflows=[sloppy], **lists) as env:
        handle = await env.client.start(sloppy, id="w")
        await env.sleep(20)
        row = await latest_row(handle)
        assert row.is_open
        assert row.attention == "task_keeps_failing"
        await handle.terminate()


async def test_a_missing_handler_never_fails_the_run(engine: MakeEnvironment) -> None:
    """Code that is missing comes with the next deployment."""
    answer = {"found": True}

    def declared() -> Any:
        @workflow.defn(name="Answers", workflow_failure_types=[Exception])
        class Answers:
            @workflow.run
            async def run(self) -> str:
                await asyncio.sleep(10)
                return "done"

            if answer["found"]:

                @workflow.update
                async def asked(self) -> None:
                    await asyncio.sleep(5)

        return Answers

    async with engine(workflows=[declared()]) as env:
        handle = await env.client.start("Answers", id="w")
        await handle.start_update("asked")
        await env.worker.stop()
        answer["found"] = False
        async with env.new_worker(workflows=[declared()]):
            await env.sleep(20)
            row = await latest_row(handle)
            assert row.is_open
            assert row.task_failures > 0
        answer["found"] = True
        async with env.new_worker(workflows=[declared()]):
            assert await handle.result() == "done"


async def test_a_worker_refuses_lists_that_cannot_be(engine: MakeEnvironment) -> None:
    with pytest.raises(InvalidOptionError, match="always fails only the workflow task"):
        async with engine(workflows=[programs.nothing], workflow_failure_types=["MissingCodeError"]):
            pass
