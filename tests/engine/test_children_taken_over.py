"""Children that had not ended at the point of a reset: their end is told, or they are taken over."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import ApplicationError, ChildWorkflowError, RetryPolicy, RunStatus, activity, workflow
from outlast.errors import WorkflowCancelledError, WorkflowFailedError, WorkflowTerminatedError

broken: set[str] = set()


@pytest.fixture(autouse=True)
def _afresh() -> None:
    broken.clear()


@activity.defn(start_to_close_timeout=100, retry_policy=RetryPolicy(max_attempts=1))
async def check(word: str) -> None:
    if word in broken:
        raise ApplicationError("no such word")


@workflow.defn
class Child:
    """Waits for a word, and returns it."""

    def __init__(self) -> None:
        self.word: str | None = None

    @workflow.signal
    def say(self, word: str) -> None:
        self.word = word

    @workflow.run
    async def run(self, rounds: int = 0) -> str:
        await workflow.wait_condition(lambda: self.word is not None)
        await check(str(self.word))
        if rounds:
            workflow.continue_as_new(rounds - 1)
        return str(self.word)


@workflow.defn
async def parent(policy: str, rounds: int = 0) -> list[str]:
    handle = workflow.start_child(Child.run, rounds, id="c", parent_close_policy=policy)
    await handle.started()
    await workflow.sleep(10)
    return [await handle]


@workflow.defn
async def patient() -> str:
    try:
        return await workflow.execute_child(Child.run, id="c")
    except ChildWorkflowError as error:
        return f"failed: {type(error.__cause__).__name__}"


@workflow.defn
async def hurried() -> str:
    handle = workflow.start_child(Child.run, id="c", parent_close_policy="abandon", execution_timeout=20)
    await handle.started()
    await workflow.sleep(10)
    try:
        return await handle
    except ChildWorkflowError as error:
        return type(error.__cause__).__name__


@pytest.fixture
def made(engine: MakeEnvironment) -> MakeEnvironment:
    return lambda **options: engine(
        workflows=[parent, patient, hurried, Child], activities=[check], **options
    )


async def seq_of(handle: Any, kind: str) -> int:
    found: list[int] = [event.seq async for event in handle.history() if event.type == kind]
    return found[0]


@pytest.mark.parametrize("policy", ["terminate", "request_cancel", "abandon"])
async def test_an_open_child_of_an_open_run_is_taken_over(made: MakeEnvironment, policy: str) -> None:
    async with made() as env:
        handle = await env.client.start(parent, policy, id="p")
        await env.sleep(5)
        again = await handle.reset("last-workflow-task")
        await env.sleep(20)
        assert (await env.client.describe("c")).run.status is RunStatus.RUNNING
        await env.client.signal("c", "say", "hello")
        assert await again.result() == ["hello"]
        assert await env.client.count(workflow_type="Child") == 1
        types = [event.type async for event in env.client.handle("c").history()]
        assert types.count("ParentReset") == 1


async def test_a_child_that_has_ended_since_is_told_to_the_new_run(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(parent, "terminate", id="p")
        await env.sleep(5)
        await env.client.signal("c", "say", "hello")
        assert await handle.result() == ["hello"]
        again = await handle.reset(await seq_of(handle, "ChildWorkflowStarted"))
        assert await again.result() == ["hello"]
        assert await env.client.count(workflow_type="Child") == 1


async def test_a_cancelled_family_is_resumed_from_the_child_up(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(parent, "terminate", id="p")
        await env.sleep(15)
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        with pytest.raises(WorkflowCancelledError):
            await env.client.handle("c").result()
        await env.client.resume("c")
        again = await env.client.resume("p")
        await env.sleep(5)
        await env.client.signal("c", "say", "hello")
        assert await again.result() == ["hello"]
        assert await handle.result() == ["hello"]


async def test_a_parent_that_is_resumed_alone_hears_how_its_child_has_ended(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(parent, "terminate", id="p")
        await env.sleep(15)
        await handle.terminate()
        with pytest.raises(WorkflowTerminatedError):
            await env.client.handle("c").result()
        again = await handle.resume()
        with pytest.raises(WorkflowFailedError) as failed:
            await again.result()
        assert isinstance(failed.value.__cause__, ChildWorkflowError)


async def test_a_child_that_continues_as_new_belongs_to_the_new_run_from_then_on(
    made: MakeEnvironment,
) -> None:
    async with made() as env:
        handle = await env.client.start(parent, "terminate", 2, id="p")
        await env.sleep(5)
        await env.client.signal("c", "say", "one")
        await env.sleep(5)
        again = await handle.reset("last-workflow-task")
        for word in ("two", "three"):
            await env.sleep(5)
            await env.client.signal("c", "say", word)
        assert await again.result() == ["three"]
        third = await env.client.handle("c").describe()
        assert third.run.run_number == 3
        assert third.run.parent_run_id == again.run_id


async def test_a_child_that_failed_is_started_again_or_taken_up(made: MakeEnvironment) -> None:
    async with made() as env:
        broken.add("bad")
        handle = await env.client.start(parent, "terminate", id="p")
        await env.sleep(5)
        await env.client.signal("c", "say", "bad")
        with pytest.raises(WorkflowFailedError):
            await handle.result()
        again = await handle.reset("last-successful")
        await env.sleep(5)
        assert await env.client.count(workflow_type="Child") == 2  # another chain of the same id
        await env.client.signal("c", "say", "bad")
        with pytest.raises(WorkflowFailedError):
            await again.result()
        broken.clear()
        mended = await env.client.reset("c", "last-successful")
        last = await env.client.reset("p", "last-successful")
        assert await mended.result() == "bad"
        assert await last.result() == ["bad"]
        assert await env.client.count(workflow_type="Child") == 3


async def test_a_parent_that_was_told_is_not_told_again(made: MakeEnvironment) -> None:
    async with made() as env:
        broken.add("bad")
        handle = await env.client.start(patient, id="p")
        await env.sleep(1)
        await env.client.signal("c", "say", "bad")
        assert await handle.result() == "failed: ActivityError"
        broken.clear()
        assert await (await env.client.reset("c", "last-successful")).result() == "bad"
        assert await handle.result() == "failed: ActivityError"


async def test_a_child_under_way_meets_the_policy_of_the_new_run(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(parent, "terminate", id="p")
        await env.sleep(5)
        again = await handle.reset("last-workflow-task")
        await asyncio.sleep(0)
        await env.sleep(5)
        await again.terminate()
        with pytest.raises(WorkflowTerminatedError):
            await env.client.handle("c").result()


async def test_a_child_whose_deadline_has_passed_unseen_is_ended_by_the_reset(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(hurried, id="p")
        await env.sleep(5)
        # Nobody has seen yet that the time of the child is over.
        env.clock.set(env.now() + timedelta(seconds=60))
        again = await handle.reset("last-workflow-task")
        assert await again.result() == "WorkflowTimeoutError"
        types = [event.type async for event in env.client.handle("c").history()]
        assert types[-1] == "WorkflowTimedOut"
        assert "ParentReset" not in types
