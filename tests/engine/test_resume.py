"""Resuming: what was stopped goes on, whatever stopped it; and the old handles lead to its result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import ApplicationError, RetryPolicy, RunStatus, StartOptions, activity, workflow
from outlast.errors import (
    InvalidOptionError,
    QueueNotFoundError,
    ResetRefusedError,
    WorkflowCancelledError,
    WorkflowFailedError,
    WorkflowNotResumableError,
    WorkflowResultError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast.interceptors import Interceptor, Keep, ResumeWorkflow

KEEP = Keep.KEEP

calls: list[str] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _afresh() -> None:
    calls.clear()
    broken.clear()


@activity.defn(start_to_close_timeout=100, retry_policy=RetryPolicy(max_attempts=1))
async def step(name: str) -> str:
    calls.append(name)
    if name in broken:
        raise ApplicationError(f"{name} is broken")
    return f"{name}!"


@workflow.defn
class Steps:
    """Does one step after the other, and cleans up when it is cancelled."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.signal
    def say(self, word: str) -> None:
        self.heard.append(word)

    @workflow.run
    async def run(self) -> list[str]:
        try:
            done = [await step("a")]
            await workflow.sleep(50)
            done.append(await step("b"))
        except asyncio.CancelledError:
            await step("clean up")
            raise
        return done + self.heard


@workflow.defn
async def judging(verdict: str) -> str:
    await step("a")
    return await step(verdict)


WORKFLOWS: list[Any] = [Steps, judging]
WHOLE = ["a!", "b!"]


@pytest.fixture
def made(engine: MakeEnvironment) -> MakeEnvironment:
    return lambda **options: engine(workflows=WORKFLOWS, activities=[step], **options)


async def ended(handle: Any, error: type[WorkflowResultError]) -> None:
    with pytest.raises(error):
        await handle.result()


async def test_a_cancelled_workflow_goes_on_from_before_the_cancel_request(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id="w")
        await env.sleep(10)
        waiting = asyncio.ensure_future(handle.result())
        await handle.cancel("by mistake")
        with pytest.raises(WorkflowCancelledError):  # who waits at the cancellation hears of it
            await waiting
        assert calls == ["a", "clean up"]
        again = await handle.resume(reason="it was the wrong one")
        assert await again.result() == WHOLE
        assert await handle.result() == WHOLE  # the old handle leads to the new run
        assert (await handle.describe()).run.run_id == again.run_id
        assert calls == ["a", "clean up", "b"]
        types = [event.type async for event in again.history()]
        assert "WorkflowCancelRequested" not in types
        assert (await again.history_page())[0].payload["reset"]["reason"] == "it was the wrong one"
        with pytest.raises(WorkflowCancelledError):
            await env.client.handle("w", run_id=handle.run_id).result()


async def test_a_terminated_workflow_goes_on_where_it_was(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id="w")
        await env.sleep(10)
        await handle.terminate()
        await ended(handle, WorkflowTerminatedError)
        assert await (await env.client.resume("w")).result() == WHOLE
        assert calls == ["a", "b"]


async def test_a_timed_out_workflow_gets_another_run_timeout(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id="w", options=StartOptions(run_timeout=30))
        await ended(handle, WorkflowTimeoutError)
        again = await handle.resume()
        found = (await again.describe()).run
        assert found.run_deadline_at is not None
        assert (found.run_deadline_at - found.created_at).total_seconds() == 30
        assert await again.result() == WHOLE
        assert calls == ["a", "b"]


async def test_past_the_execution_deadline_a_new_timeout_is_needed(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id="w", options=StartOptions(execution_timeout=30))
        await ended(handle, WorkflowTimeoutError)
        with pytest.raises(ResetRefusedError, match="give a new execution timeout"):
            await handle.resume()
        assert await (await handle.resume(execution_timeout=100)).result() == WHOLE


async def test_a_failed_workflow_repeats_its_last_workflow_task_and_no_activity(
    made: MakeEnvironment,
) -> None:
    async with made() as env:
        broken.add("guilty")
        handle = await env.client.start(judging, "guilty", id="w")
        await ended(handle, WorkflowFailedError)
        broken.clear()
        again = await handle.resume()
        await ended(again, WorkflowFailedError)  # the code decides again, by the same failure
        assert calls == ["a", "guilty"]
        assert await (await again.reset("last-successful")).result() == "guilty!"
        assert calls == ["a", "guilty", "guilty"]


async def test_one_that_is_cancelled_in_line_joins_the_line_again(made: MakeEnvironment) -> None:
    async with made() as env:
        await env.client.queues.define("emails", concurrency=1)
        options = StartOptions(queue="emails", partition_key="t")
        first = await env.client.start(Steps.run, id="first", options=options)
        handle = await env.client.start(Steps.run, id="w", options=options)
        await env.sleep(1)
        await handle.cancel()
        await ended(handle, WorkflowCancelledError)
        again = await handle.resume()
        assert (await again.describe()).run.status is RunStatus.QUEUED
        assert await again.result() == WHOLE
        assert await first.result() == WHOLE


async def test_a_resume_may_change_the_queue(made: MakeEnvironment) -> None:
    async with made() as env:
        for name in ("emails", "slow"):
            await env.client.queues.define(name, concurrency=1)
        handle = await env.client.start(
            Steps.run, id="w", options=StartOptions(queue="emails", run_timeout=100)
        )
        await env.sleep(10)
        for queue in ("slow", None, "emails", KEEP):
            await handle.terminate() if queue == "slow" else await env.client.handle("w").terminate()
            again = await env.client.resume("w", queue=queue)
            await env.sleep(1)
            found = (await again.describe()).run
            assert (found.queue and found.queue.name) == ("emails" if queue is KEEP else queue)
            started = (await again.history_page())[0].payload
            assert started.get("queue") == (found.queue and found.queue.name)
            assert found.status is RunStatus.RUNNING
        assert await handle.result(follow_runs=True) == WHOLE
        with pytest.raises(ResetRefusedError):
            await handle.resume(queue="nowhere")
        other = await env.client.start(Steps.run, id="other")
        await other.terminate()
        with pytest.raises(QueueNotFoundError, match="nowhere"):
            await other.resume(queue="nowhere")
        assert await env.client.count(workflow_id="other") == 1


async def test_what_is_open_or_has_completed_is_not_resumed(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id="w")
        with pytest.raises(WorkflowNotResumableError, match="only what has ended can be resumed") as refusal:
            await handle.resume()
        assert (refusal.value.workflow_id, refusal.value.run_id) == ("w", handle.run_id)
        await handle.result()
        with pytest.raises(WorkflowNotResumableError, match="it has completed: reset it") as refusal:
            await handle.resume()
        assert refusal.value.status == "completed"
        options: Any = {"to": 3}
        with pytest.raises(InvalidOptionError, match="to"):
            await handle.resume(**options)
        wrong: Any = ""
        with pytest.raises(InvalidOptionError, match="queue"):
            await handle.resume(queue=wrong)
        assert await env.client.count() == 1


async def test_before_cancel_is_a_point_of_a_reset_too(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id="w")
        await env.sleep(10)
        with pytest.raises(ResetRefusedError, match="nobody has asked to cancel the run"):
            await handle.reset("before-cancel")
        broken.add("clean up")
        await handle.cancel()
        await ended(handle, WorkflowFailedError)  # the clean-up failed
        with pytest.raises(WorkflowFailedError):
            await (await handle.resume()).result()  # that is repeated: the request stands
        again = await env.client.reset("w", "before-cancel")
        assert await again.result() == WHOLE


async def test_a_walk_tells_which_it_could_not_resume(made: MakeEnvironment) -> None:
    async with made() as env:
        for number in range(3):
            _ = await env.client.start(Steps.run, id=f"w{number}")
        await env.sleep(1)
        await env.client.handle("w0").terminate()
        await env.client.handle("w1").cancel()
        await ended(env.client.handle("w1"), WorkflowCancelledError)
        outcomes = {one.workflow_id: one.error async for one in env.client.bulk().resume(reason="go on")}
        assert {key: type(error) for key, error in outcomes.items()} == {
            "w0": type(None),
            "w1": type(None),
            "w2": WorkflowNotResumableError,
        }
        for number in range(3):
            assert await env.client.handle(f"w{number}").result() == WHOLE


async def test_of_two_resumes_at_once_one_is_refused(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id="w")
        await handle.terminate()
        outcomes = await asyncio.gather(*(env.client.resume("w") for _ in range(3)), return_exceptions=True)
        assert sum(isinstance(one, ResetRefusedError) for one in outcomes) == 2
        assert await handle.result() == WHOLE


class Watching(Interceptor):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def resume_workflow(self, call: ResumeWorkflow, next: Any) -> str:
        self.seen.append((call.workflow_id, call.reason, call.queue))
        call.reason = "watched"
        run_id: str = await next(call)
        return run_id


async def test_interceptors_see_a_resume(made: MakeEnvironment) -> None:
    watching = Watching()
    async with made(interceptors=[watching]) as env:
        handle = await env.client.start(Steps.run, id="w")
        await handle.terminate()
        again = await handle.resume(reason="why")
        assert watching.seen == [("w", "why", KEEP)]
        assert (await again.history_page())[0].payload["reset"]["reason"] == "watched"
        assert await again.result() == WHOLE
