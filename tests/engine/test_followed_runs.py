"""What a handle says of a chain: its result and its description tell one story, whatever followed which run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import RetryPolicy, RunStatus, StartOptions, WorkflowHandle, workflow
from outlast.errors import (
    ApplicationError,
    WorkflowCancelledError,
    WorkflowContinuedAsNewError,
    WorkflowFailedError,
    WorkflowResultError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast.testing import TestEnvironment

ENDS: dict[str, tuple[type[WorkflowResultError], RunStatus]] = {
    "cancel": (WorkflowCancelledError, RunStatus.CANCELLED),
    "terminate": (WorkflowTerminatedError, RunStatus.TERMINATED),
    "fail": (WorkflowFailedError, RunStatus.FAILED),
    "time_out": (WorkflowTimeoutError, RunStatus.TIMED_OUT),
}


@workflow.defn
class Waiting:
    def __init__(self) -> None:
        self.told: list[str] = []

    @workflow.signal
    def tell(self, what: str) -> None:
        self.told.append(what)

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: bool(self.told))
        if self.told[0] == "fail":
            raise ApplicationError("no")
        return self.told[0]


@workflow.defn
async def counting(left: int) -> str:
    await asyncio.sleep(1)
    if left:
        workflow.continue_as_new(left - 1)
    return "counted"


@workflow.defn
async def second_time() -> str:
    if workflow.info().attempt == 1:
        raise ApplicationError("not yet")
    return "now"


async def end(handle: WorkflowHandle[Any], how: str) -> None:
    """End a waiting workflow badly."""
    if how == "fail":
        await handle.signal(Waiting.tell, "fail")
    elif how != "time_out":
        await getattr(handle, how)()
    with pytest.raises(ENDS[how][0]):
        await handle.result()


async def story(handle: WorkflowHandle[Any], **options: Any) -> tuple[RunStatus, str, Any]:
    """Return the status and run that a handle describes, and what its result is; both must be about one run."""
    result: Any = (await asyncio.gather(handle.result(**options), return_exceptions=True))[0]
    run = (await handle.describe(**options)).run
    failed = isinstance(result, WorkflowResultError)
    assert failed is (run.status is not RunStatus.COMPLETED)
    assert not failed or result.run_id == run.run_id
    return run.status, run.run_id, result


@pytest.mark.parametrize("how", ENDS)
async def test_a_reset_after_a_bad_end_is_followed(engine: MakeEnvironment, how: str) -> None:
    kind, status = ENDS[how]
    async with engine(workflows=[Waiting]) as env:
        options = StartOptions(run_timeout=60)
        handle = await env.client.start(Waiting.run, id="w", options=options)
        await end(handle, how)
        first = (await story(handle))[1]
        new = await handle.reset("first-workflow-task", signals=False)
        await new.signal(Waiting.tell, "well")

        assert (await story(handle))[::2] == (RunStatus.COMPLETED, "well")
        assert (await story(new))[::2] == (RunStatus.COMPLETED, "well")
        by_id = env.client.handle("w")
        assert (await story(by_id))[::2] == (RunStatus.COMPLETED, "well")

        # A handle that names the run stays with it.
        pinned = env.client.handle("w", run_id=first)
        found, run_id, error = await story(pinned)
        assert (found, run_id, type(error)) == (status, first, kind)
        assert (await story(pinned, follow_runs=True))[::2] == (RunStatus.COMPLETED, "well")

        for one in (handle, pinned):
            found, run_id, error = await story(one, follow_runs=False)
            assert (found, run_id, type(error)) == (status, first, WorkflowContinuedAsNewError)
            assert error.next_run_id == new.run_id
            assert isinstance(error.__cause__, kind)


async def test_a_run_that_completed_stays_the_story_after_a_reset(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Waiting]) as env:
        handle = await env.client.start(Waiting.run, id="w")
        await handle.signal(Waiting.tell, "well")
        assert await handle.result() == "well"
        new = await handle.reset("first-workflow-task", signals=False)
        for options in ({}, {"follow_runs": True}, {"follow_runs": False}):
            assert await story(handle, **options) == (RunStatus.COMPLETED, handle.run_id, "well")
        await new.signal(Waiting.tell, "better")
        assert (await story(env.client.handle("w")))[::2] == (RunStatus.COMPLETED, "better")
        assert await story(handle) == (RunStatus.COMPLETED, handle.run_id, "well")


async def test_a_wait_that_is_under_way_follows_the_reset_of_an_open_run(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Waiting]) as env:
        handle = await env.client.start(Waiting.run, id="w")
        waits = asyncio.ensure_future(handle.result())
        alone = asyncio.ensure_future(handle.result(follow_runs=False))
        await env.sleep(1)
        new = await handle.reset("first-workflow-task")
        with pytest.raises(WorkflowContinuedAsNewError) as continued:
            await alone
        assert continued.value.next_run_id == new.run_id
        assert continued.value.__cause__ is None
        await new.signal(Waiting.tell, "well")
        assert await waits == "well"


async def test_runs_that_continue_as_new_are_followed_or_named(engine: MakeEnvironment) -> None:
    async with engine(workflows=[counting]) as env:
        handle = await env.client.start(counting, 2, id="w")
        first = handle.run_id
        assert await handle.result() == "counted"
        for one in (handle, env.client.handle("w", run_id=first)):
            with pytest.raises(WorkflowContinuedAsNewError) as continued:
                await one.result(timeout=1, follow_runs=False)
            described = await one.describe(follow_runs=False)
            assert described.run.status is RunStatus.CONTINUED_AS_NEW
            assert described.run.next_run_id == continued.value.next_run_id
            assert await one.result() == "counted"
        first_described = await handle.describe(follow_runs=False)
        following = env.client.handle("w", run_id=first_described.run.next_run_id)
        with pytest.raises(WorkflowContinuedAsNewError):
            await following.result(follow_runs=False)


async def test_an_attempt_that_is_retried_is_followed_or_named(engine: MakeEnvironment) -> None:
    async with engine(workflows=[second_time]) as env:
        options = StartOptions(retry_policy=RetryPolicy(max_attempts=2))
        handle = await env.client.start(second_time, id="w", options=options)
        assert await handle.result() == "now"
        with pytest.raises(WorkflowContinuedAsNewError) as continued:
            await handle.result(follow_runs=False)
        assert isinstance(continued.value.__cause__, WorkflowFailedError)
        pinned = env.client.handle("w", run_id=handle.run_id)
        assert await pinned.result() == "now"


def test_a_blocking_handle_does_the_same(tmp_path: Any) -> None:
    from outlast.blocking import Client

    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def chain() -> None:
        async with TestEnvironment(workflows=[counting], url=url) as env:
            await env.client.execute(counting, 1, id="w")

    TestEnvironment.run(chain)
    with Client.connect(url) as client:
        current = client.handle("w")
        first = current.describe().run.previous_run_id
        assert first is not None
        handle = client.handle("w", run_id=first)
        with pytest.raises(WorkflowContinuedAsNewError):
            handle.result(follow_runs=False)
        assert handle.result() == "counted"
        assert handle.describe(follow_runs=True).run.run_id == current.describe().run.run_id
