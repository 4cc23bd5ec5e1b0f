"""Resets: a new run takes the history up again at a point, with what was open there; the old one ends in one change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import ApplicationError, RunStatus, StartOptions, activity, workflow
from outlast.errors import (
    InvalidOptionError,
    ResetRefusedError,
    RunNotFoundError,
    WorkflowFailedError,
    WorkflowNotFoundError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast_workflow.options.options import RetryPolicy

calls: list[Any] = []
broken: set[str] = set()
ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture(autouse=True)
def _afresh() -> None:
    calls.clear()
    broken.clear()


@activity.defn(start_to_close_timeout=100, retry_policy=ONCE)
async def step(name: str) -> str:
    calls.append(name)
    if name in broken:
        raise ApplicationError(f"{name} is broken")
    return f"{name}!"


@activity.defn(start_to_close_timeout=1000)
async def slow(name: str) -> str:
    calls.append(name)
    await asyncio.sleep(100)
    return f"{name}!"


@workflow.defn
async def three(names: list[str]) -> list[str]:
    workflow.upsert_search_attributes({"at": "first"})
    done = [await step(names[0])]
    workflow.upsert_memo({"done": 1})
    done.append(await step(names[1]))
    workflow.upsert_search_attributes({"at": "third"})
    done.append(await step(names[2]))
    return done


@workflow.defn
class Talker:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.signal
    def say(self, word: str) -> None:
        self.heard.append(word)

    @workflow.run
    async def run(self, wanted: int) -> list[str]:
        await step("greet")
        await workflow.wait_condition(lambda: len(self.heard) >= wanted)
        return self.heard


@workflow.defn
async def waiting() -> list[Any]:
    first = workflow.uuid4()
    timer = asyncio.create_task(workflow.sleep(50))
    running = slow("slow")
    await workflow.sleep(10)
    second = workflow.uuid4()
    got = await running
    await timer
    return [str(first), str(second), got]


@workflow.defn
async def child() -> str:
    await workflow.sleep(100)
    return "grown"


@workflow.defn
async def parent() -> str:
    await step("before")
    handle = workflow.start_child(child)
    await handle.started()
    await step("between")
    return await handle


@workflow.defn
async def knows() -> list[int]:
    """Do something at once where it is taken up by a reset or a fork."""
    found = [workflow.info().resets]
    await step("first")
    while len(found) < 3:
        await workflow.wait_condition(lambda: workflow.info().resets != found[-1])
        found.append(workflow.info().resets)
        await step(f"again {found[-1]}")
    return found


WORKFLOWS: list[Any] = [three, Talker, waiting, parent, child, knows]


@pytest.fixture
def made(engine: MakeEnvironment) -> MakeEnvironment:
    return lambda **options: engine(workflows=WORKFLOWS, activities=[step, slow], **options)


async def seqs(handle: Any, kind: str) -> list[int]:
    return [event.seq async for event in handle.history() if event.type == kind]


async def test_a_failed_workflow_does_again_what_failed(made: MakeEnvironment) -> None:
    broken.add("b")
    async with made() as env:
        handle = await env.client.start(three, ["a", "b", "c"], id="w")
        with pytest.raises(WorkflowFailedError):
            await handle.result()
        broken.clear()
        again = await handle.reset("last-successful", reason="b is mended")
        assert again.run_id != handle.run_id
        assert await again.result() == ["a!", "b!", "c!"]
        assert calls == ["a", "b", "b", "c"]
        assert await handle.result() == ["a!", "b!", "c!"]
        with pytest.raises(WorkflowFailedError):  # the run that failed has failed
            await env.client.handle("w", run_id=handle.run_id).result()
        assert await env.client.handle("w").result() == ["a!", "b!", "c!"]
        run = (await env.client.describe("w")).run
        assert (run.run_number, run.previous_run_id, run.status) == (2, handle.run_id, RunStatus.COMPLETED)
        assert run.memo == {"done": 1}
        assert run.search_attributes == {"at": "third"}
        started = (await again.history_page())[0].payload
        assert started["reset"]["run_id"] == handle.run_id
        assert started["reset"]["reason"] == "b is mended"
        assert await env.client.count(where={"at": "third"}) == 1


async def test_every_point_is_taken_up_or_refused_with_the_points_around_it(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(three, ["a", "b", "c"], id="w")
        await handle.result()
        length = (await handle.describe()).run.history_length
        taken = 0
        refusals: list[str] = []
        for seq in range(length + 2):
            try:
                again = await env.client.handle("w").reset(seq)
            except ResetRefusedError as refusal:
                refusals.append(str(refusal))
                continue
            taken += 1
            assert await again.result() == ["a!", "b!", "c!"]
        assert taken >= 6
        assert all("can be" in refusal for refusal in refusals)


@pytest.mark.parametrize("to", ["first-workflow-task", "last-workflow-task"])
async def test_an_open_run_ends_in_the_same_change(made: MakeEnvironment, to: str) -> None:
    async with made() as env:
        handle = await env.client.start(waiting, id="w")
        await env.sleep(20)
        again = await handle.reset(to)
        old = await env.client.describe("w", handle.run_id)
        assert (old.run.status, old.run.next_run_id) == (RunStatus.TERMINATED, again.run_id)
        assert old.pending_activities == ()
        assert await handle.result() == await again.result()
        assert (await seqs(handle, "WorkflowReset")) == [old.run.history_length]


async def test_what_is_random_is_as_it_was_before_the_point_and_another_after_it(
    made: MakeEnvironment,
) -> None:
    async with made() as env:
        handle = await env.client.start(waiting, id="w")
        before, after, _ = await handle.result()
        fired = await seqs(handle, "TimerFired")
        again = await (await handle.reset(fired[0])).result()
        assert again[0] == before
        assert again[1] != after
        afresh = await (await env.client.reset("w", "first-workflow-task")).result()
        assert afresh[0] not in (before, again[0])


async def test_code_that_looks_at_its_resets_goes_on_at_once(made: MakeEnvironment) -> None:
    async with made(replay=True) as env:
        handle = await env.client.start(knows, id="w")
        await env.sleep(5)
        again = await handle.reset(max(await seqs(handle, "ActivityCompleted")) + 1)
        await env.sleep(5)
        assert calls == ["first", "again 1"]
        other = await again.fork(max(await seqs(again, "ActivityCompleted")) + 1, id="v")
        assert await other.result() == [0, 1, 2]
        assert calls == ["first", "again 1", "again 2"]
        await again.cancel()


async def test_timers_keep_their_time_and_activities_begin_again(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(waiting, id="w")
        await env.sleep(30)
        calls.clear()
        again = await handle.reset("last-workflow-task")
        found = await again.describe()
        assert [timer.timer_id for timer in found.pending_timers] != []
        assert found.run.started_at == found.run.created_at
        (pending,) = found.pending_activities
        assert pending.attempt <= 1
        began = env.now()
        await again.result()
        assert 95 <= (env.now() - began).total_seconds() <= 105
        assert calls == ["slow"]


async def test_signals_after_the_point_follow_in_order(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Talker.run, 3, id="w")
        await env.client.signal("w", "say", "a")
        await env.sleep(1)
        await env.client.signal("w", "say", "b", request_id="k")
        await env.sleep(1)
        again = await handle.reset("first-workflow-task")
        await env.client.signal("w", "say", "b", request_id="k")  # it is there already
        await env.client.signal("w", "say", "c")
        assert await again.result() == ["a", "b", "c"]
        assert await handle.result() == ["a", "b", "c"]
        last = await env.client.reset("w", "last-workflow-task")
        assert await last.result() == ["a", "b", "c"]


async def test_of_two_resets_at_once_one_is_refused(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(three, ["a", "b", "c"], id="w")
        await handle.result()
        outcomes = await asyncio.gather(
            *(env.client.reset("w", "first-workflow-task") for _ in range(3)), return_exceptions=True
        )
        refused = [one for one in outcomes if isinstance(one, ResetRefusedError)]
        assert len(refused) == 2
        assert "no longer the current run of its workflow" in str(refused[0])
        assert await env.client.count(workflow_id="w") == 2


async def test_the_execution_deadline_is_kept(made: MakeEnvironment) -> None:
    async with made() as env:
        options = StartOptions(execution_timeout=30)
        handle = await env.client.start(waiting, id="w", options=options)
        await env.sleep(15)
        again = await handle.reset("first-workflow-task")
        found = (await again.describe()).run
        assert (
            found.execution_deadline_at
            == (await env.client.describe("w", handle.run_id)).run.execution_deadline_at
        )
        with pytest.raises(WorkflowTimeoutError):
            await again.result()
        with pytest.raises(ResetRefusedError, match="give a new execution timeout"):
            await again.reset("first-workflow-task")
        last = await again.reset("first-workflow-task", execution_timeout=300)
        assert (await last.describe()).execution_timeout_seconds == 300
        assert len(await last.result()) == 3


async def test_a_cancelled_or_terminated_workflow_can_be_taken_up(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(waiting, id="w")
        await env.sleep(20)
        await handle.terminate("by mistake")
        with pytest.raises(WorkflowTerminatedError):
            await handle.result()
        again = await handle.reset("last-workflow-task")
        assert len(await again.result()) == 3


async def test_what_can_not_be_reset_is_refused(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(three, ["a", "b", "c"], id="w")
        with pytest.raises(WorkflowNotFoundError):
            await env.client.reset("nobody")
        with pytest.raises(RunNotFoundError):
            await env.client.reset("w", run_id="nonsense")
        with pytest.raises(
            InvalidOptionError, match="to must be the number of an event, or one of first-workflow-task"
        ):
            await env.client.reset("w", "yesterday")
        with pytest.raises(InvalidOptionError, match="execution timeout must be at least 1 second"):
            await env.client.reset("w", execution_timeout=0)
        number: Any = 3
        with pytest.raises(InvalidOptionError, match="reason must be text"):
            await env.client.reset("w", reason=number)
        await handle.result()
        with pytest.raises(ResetRefusedError, match="no activity and no child of the run has failed"):
            await env.client.reset("w", "last-successful")
        again = await handle.reset()
        with pytest.raises(ResetRefusedError, match=f"run {again.run_id} is:"):
            await env.client.reset("w", run_id=handle.run_id)
        assert await again.result() == ["a!", "b!", "c!"]
