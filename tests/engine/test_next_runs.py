"""What a run hands on to the next one of its chain: options of continue-as-new, the last failure, the last result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.rows import latest_row

from outlast import RetryPolicy, StartOptions, WorkflowHandle, workflow
from outlast.errors import (
    ApplicationError,
    InvalidOptionError,
    PayloadDecodeError,
    WorkflowFailedError,
    WorkflowTimeoutError,
)
from outlast.testing import TestEnvironment
from outlast_runs.start import StartRun
from outlast_store.transitions.new_runs import first_run, started_event
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.payloads import Payload

POLICY = RetryPolicy(initial_interval=7, max_attempts=2)


@workflow.defn
class Continuing:
    """Continues as new once, with the given options, and then ends as it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @workflow.signal
    def tell(self, what: str) -> None:
        self.told.append(what)

    @workflow.run
    async def run(self, options: dict[str, Any], ending: str = "return") -> list[Any]:
        info = workflow.info()
        if info.run_number == 1:
            policy = options.pop("retry_policy", None)
            workflow.continue_as_new(
                {}, ending, retry_policy=None if policy is None else RetryPolicy(**policy), **options
            )
        if ending == "raise" and info.attempt == 1:
            raise ApplicationError("the first attempt fails")
        return [info.run_number, info.attempt, workflow.now().isoformat(), self.told]


@workflow.defn
def continuing_plainly(left: int) -> str:
    if left:
        workflow.continue_as_new(left - 1, start_delay=timedelta(minutes=1), retry_policy=POLICY)
    return workflow.now().isoformat()


@dataclass
class Total:
    amount: int


@workflow.defn
async def told_before(steps: list[str]) -> list[Any]:
    """Say what was there before; each step ends one run."""
    info = workflow.info()
    total = workflow.last_result(Total)
    failure = info.last_failure
    known = [
        type(failure).__name__ if failure is not None else None,
        failure.message if isinstance(failure, ApplicationError) else None,
        info.last_result,
        total.amount if total is not None else None,
    ]
    step = steps[info.attempt - 1] if info.attempt <= len(steps) else "return"
    if step == "fail":
        raise ApplicationError(f"attempt {info.attempt}")
    if step == "continue":
        workflow.continue_as_new([])
    if step == "sleep":
        await asyncio.sleep(1000)
    return known


async def started_after(env: TestEnvironment, last_result: Any, steps: list[str]) -> WorkflowHandle[Any]:
    """Start a workflow as a schedule will: with the result of an earlier run."""
    environment = env.client.runtime.environment
    run = first_run(
        run_id=environment.ids.next(),
        workflow_id="w",
        workflow_type="told_before",
        task_queue="default",
        options=StartOptions(retry_policy=RetryPolicy(max_attempts=3), run_timeout=60),
        memo=None,
        now=environment.clock.now(),
        owner_id=None,
    )
    event = started_event(run, input=Payload.of([steps]), seed=1, last_result=Payload.of(last_result))
    await env.client.runtime.journal.apply(StartRun(run, event, DuplicatePolicy.ALLOW_DUPLICATE))
    return env.client.handle("w")


# --- continue_as_new ------------------------------------------------------------------------------------------------


async def test_the_next_run_may_have_another_retry_policy(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Continuing]) as env:
        options: dict[str, Any] = {"retry_policy": {"initial_interval": 7, "max_attempts": 2}}
        began = env.now()
        handle = await env.client.start(Continuing.run, options, "raise", id="w")
        assert (await handle.result())[:2] == [3, 2], "its second run was retried"
        assert (env.now() - began).total_seconds() == pytest.approx(7, abs=0.1)
        # Without the option it has the policy of the run before.
        plain = StartOptions(retry_policy=POLICY)
        assert (await env.client.execute(Continuing.run, {}, "raise", id="v", options=plain))[:2] == [3, 2]


async def test_the_next_run_may_wait_before_it_starts(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Continuing]) as env:
        began = env.now()
        options = StartOptions(run_timeout=100)
        handle = await env.client.start(Continuing.run, {"start_delay": 60}, id="w", options=options)
        await env.sleep(1)
        run = (await handle.describe()).run
        assert (run.status, run.start_delayed, run.run_number) == ("pending", True, 2)
        assert run.begins_at == began + timedelta(seconds=60)
        assert run.run_deadline_at == began + timedelta(seconds=160), "it counts from the end of the wait"
        assert (await handle.result())[2] == (began + timedelta(seconds=60)).isoformat()
        started = [event async for event in handle.history()]
        ended = [event async for event in env.client.handle("w", run_id=handle.run_id).history()][-1]
        assert ended.payload["start_delay_seconds"] == 60
        first, *_ = [event async for event in env.client.handle("w").history()]
        assert (first.payload["start_delay_seconds"], started[-1].type) == (60, "WorkflowContinuedAsNew")


async def test_a_synchronous_workflow_continues_in_the_same_way(engine: MakeEnvironment) -> None:
    async with engine(workflows=[continuing_plainly]) as env:
        began = env.now()
        handle = await env.client.start(continuing_plainly, 2, id="w")
        assert await handle.result() == (began + timedelta(minutes=2)).isoformat()
        row = await latest_row(handle)
        assert row.retry_policy is not None
        assert '"max_attempts":2' in row.retry_policy


@pytest.mark.parametrize("how", ["signal", "cancel"])
async def test_a_message_ends_the_wait(engine: MakeEnvironment, how: str) -> None:
    async with engine(workflows=[Continuing]) as env:
        handle = await env.client.start(Continuing.run, {"start_delay": 1000}, id="w")
        await env.sleep(1)
        began = env.now()
        if how == "signal":
            await handle.signal(Continuing.tell, "now")
        else:
            await handle.cancel()
        assert (await handle.result())[3] == (["now"] if how == "signal" else [])
        assert (env.now() - began).total_seconds() < 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start_delay": 100}, "must end before the execution deadline"),
        ({"start_delay": 3600}, "must end before the execution deadline"),
        ({"start_delay": -1}, "start delay"),
        ({"start_delay": "soon"}, "start delay"),
    ],
)
async def test_options_that_cannot_be_fail_the_task(
    engine: MakeEnvironment, options: dict[str, Any], message: str
) -> None:
    async with engine(workflows=[Continuing], workflow_failure_types=[InvalidOptionError]) as env:
        bounds = StartOptions(execution_timeout=100)
        with pytest.raises(WorkflowFailedError) as failed:
            await env.client.execute(Continuing.run, options, id="w", options=bounds)
        assert isinstance(failed.value.__cause__, InvalidOptionError)
        assert message in str(failed.value.__cause__)


async def test_no_run_follows_past_the_execution_deadline(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Continuing]) as env:
        bounds = StartOptions(execution_timeout=100)
        handle = await env.client.start(Continuing.run, {"start_delay": 99.9}, id="w", options=bounds)
        await env.sleep(1)
        run = (await handle.describe()).run
        assert run.execution_deadline_at is not None
        assert run.begins_at is not None
        assert run.begins_at < run.execution_deadline_at
        await handle.result()


def refused(options: Callable[[], Any]) -> Any:
    @workflow.defn(name="Refused", workflow_failure_types=[InvalidOptionError])
    async def workflow_of_this() -> None:
        options()

    return workflow_of_this


async def test_a_retry_policy_that_is_none_fails_the_task(in_memory: MakeEnvironment) -> None:
    wrong: Any = {"max_attempts": 3}
    code = refused(lambda: workflow.continue_as_new(retry_policy=wrong))
    async with in_memory(workflows=[code]) as env:
        with pytest.raises(WorkflowFailedError) as failed:
            await env.client.execute("Refused", id="w")
        assert "retry policy must be a RetryPolicy, not dict" in str(failed.value.__cause__)


# --- the last failure and the last result ---------------------------------------------------------------------------


async def test_a_plain_start_has_neither(engine: MakeEnvironment) -> None:
    async with engine(workflows=[told_before]) as env:
        handle = await env.client.start(told_before, [], id="w")
        assert await handle.result() == [None, None, None, None]
        first, *_ = [event async for event in handle.history()]
        assert "last_failure" not in first.payload
        assert "last_result" not in first.payload


async def test_a_retry_knows_the_failure_before_it(engine: MakeEnvironment) -> None:
    options = StartOptions(retry_policy=RetryPolicy(max_attempts=4), run_timeout=60)
    async with engine(workflows=[told_before]) as env:
        steps = ["fail", "fail"]
        handle = await env.client.start(told_before, steps, id="w", options=options)
        assert await handle.result() == ["ApplicationError", "attempt 2", None, None]
        handle = await env.client.start(told_before, ["sleep"], id="v", options=options)
        assert (await handle.result())[0] == WorkflowTimeoutError.__name__


async def test_both_pass_on_through_retries_and_continue_as_new(engine: MakeEnvironment) -> None:
    async with engine(workflows=[told_before]) as env:
        handle = await started_after(env, {"amount": 5}, ["fail", "continue"])
        assert await handle.result() == ["ApplicationError", "attempt 1", {"amount": 5}, 5]
        assert (await latest_row(handle)).run_number == 3


async def test_a_reset_keeps_them(engine: MakeEnvironment) -> None:
    async with engine(workflows=[told_before]) as env:
        handle = await started_after(env, {"amount": 5}, ["return"])
        assert (await handle.result())[2:] == [{"amount": 5}, 5]
        again = await handle.reset("first-workflow-task")
        assert (await again.result())[2:] == [{"amount": 5}, 5]


async def test_a_result_that_has_another_shape_fails_the_task(engine: MakeEnvironment) -> None:
    lists = {"workflow_failure_types": [PayloadDecodeError]}
    async with engine(workflows=[told_before], **lists) as env:
        handle = await started_after(env, {"amount": "many"}, ["return"])
        with pytest.raises(WorkflowFailedError) as failed:
            await handle.result()
        assert "the last result" in str(failed.value.__cause__)
        assert "many" not in str(failed.value.__cause__)
