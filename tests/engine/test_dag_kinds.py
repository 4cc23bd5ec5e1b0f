"""Nodes of DAGs that wait, that ask somebody, that repeat a call and that start children, on the engine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import ApplicationError, RunStatus, WorkflowHandle, activity, workflow
from outlast.errors import (
    DagApprovalError,
    DagDataError,
    DagFailedError,
    DagValidationError,
    UpdateRejectedError,
    WorkflowCancelledError,
    WorkflowClosedError,
    WorkflowFailedError,
)
from outlast_dag import (
    DagBuilder,
    Decision,
    any_dag,
    approval,
    approve,
    child,
    dag,
    describe,
    last,
    repeat,
    sleep,
    step,
    wait_for,
)
from outlast_dag.check.checks import MAX_ID, MAX_ITEMS
from outlast_workflow.options.validation import MAX_SUMMARY_LENGTH

calls: list[Any] = []


@pytest.fixture(autouse=True)
def _afresh() -> None:
    calls.clear()


@dataclass
class Job:
    count: int
    done: bool


@dataclass
class Paid:
    order: int
    amount: float


@activity.defn(start_to_close_timeout=30)
async def halve(number: int) -> int:
    return number // 2


@activity.defn(start_to_close_timeout=30)
async def grow(job: Job, until: int) -> Job:
    calls.append(("grow", job.count))
    if until < 0:
        raise ApplicationError("no", type="No", non_retryable=True)
    return Job(job.count + 1, job.count + 1 >= until)


@activity.defn(start_to_close_timeout=100)
async def slowly(seconds: float) -> Job:
    calls.append("begins")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        calls.append("stopped")
        raise
    return Job(0, False)


@activity.defn(start_to_close_timeout=30)
async def note(words: Any = None) -> str:
    calls.append(("note", words))
    return "noted"


ACTIVITIES = [grow, slowly, note]


async def told(handle: WorkflowHandle[Any], kind: str) -> list[Any]:
    return [event.payload async for event in handle.history() if event.type == kind]


# --- sleeps -----------------------------------------------------------------------------------------------------------


@dag(timeout=10_000)
def sleeps(until: datetime) -> str:
    first = sleep(timedelta(minutes=1))
    second = sleep(until=until, timeout=5_000, after=[first])
    return step(note, after=[second])("awake")


async def test_a_sleep_takes_so_long_or_until_an_instant(engine: MakeEnvironment) -> None:
    async with engine(workflows=[sleeps], activities=ACTIVITIES) as env:
        begun = env.now()
        handle = await env.client.start(sleeps, begun + timedelta(minutes=30))
        assert await handle.result() == "noted"
        assert timedelta(minutes=30) <= env.now() - begun < timedelta(minutes=31)
        assert [timer["summary"] for timer in await told(handle, "TimerScheduled")] == ["sleep", "sleep_2"]
        begun = env.now()
        assert await env.client.execute(sleeps, begun - timedelta(days=1)) == "noted"
        assert timedelta(minutes=1) <= env.now() - begun < timedelta(minutes=2)
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(sleeps, env.now() + timedelta(days=1))
        failure = caught.value.__cause__
        assert isinstance(failure, DagFailedError)
        assert isinstance(failure.__cause__, DagDataError)
        assert failure.nodes == ("sleep_2",)
        assert env.now() - begun < timedelta(minutes=4)


# --- signals ----------------------------------------------------------------------------------------------------------


@dag(timeout=10_000)
def pays(order: int, instead: float) -> float:
    pause = sleep(60)
    paid = wait_for("paid", result=Paid, timeout=600, match=lambda paid: paid.order == order, after=[pause])
    late = wait_for("more", timeout=30, on_timeout={"amount": 7}, after=[paid])
    step(note)(late.amount)
    return paid.amount


async def test_a_wait_takes_the_signal_that_came_before_it_and_matches(engine: MakeEnvironment) -> None:
    async with engine(workflows=[pays], activities=ACTIVITIES) as env:
        handle = await env.client.start(pays, 5, 0.0)
        for message in ({"order": 4, "amount": 1.5}, "another form", {"order": 5, "amount": 2.5}):
            await handle.signal("paid", message)
        assert await handle.result() == 2.5
        assert calls == [("note", 7)]
        timers = [timer["summary"] for timer in await told(handle, "TimerScheduled")]
        assert timers == ["sleep", "paid", "more"] or timers == ["sleep", "more"]


async def test_a_wait_whose_signal_never_comes_fails(engine: MakeEnvironment) -> None:
    async with engine(workflows=[pays], activities=ACTIVITIES) as env:
        handle = await env.client.start(pays, 5, 0.0)
        await handle.signal("paid", {"order": 4, "amount": 1.5})
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        failure = caught.value.__cause__
        assert isinstance(failure, DagFailedError)
        assert failure.nodes == ("paid",)
        assert "no signal 'paid' that it waits for came within 600 s" in str(failure)


async def test_each_signal_is_for_one_wait(engine: MakeEnvironment) -> None:
    flow = DagBuilder("two waits", timeout=1_000)
    one = flow.wait_for("one", "go", timeout=100)
    two = flow.wait_for("two", "go", timeout=100, on_timeout=None)
    flow.output([one, two])
    waits = flow.build()
    async with engine(workflows=[waits], activities=ACTIVITIES) as env:
        handle = await env.client.start(waits)
        await env.sleep(1)
        await handle.signal("go", 1)
        await handle.signal("go", 2)
        assert await handle.result() == [1, 2]
        handle = await env.client.start(waits)
        await handle.signal("go", 1)
        assert await handle.result() == [1, None]


async def test_a_wait_for_which_no_worker_is_there_is_decided_by_the_time_of_its_signal(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=[pays], activities=ACTIVITIES) as env:
        late, early = [await env.client.start(pays, 5, 0.0) for _ in range(2)]
        await env.sleep(100)
        await env.worker.stop()
        await early.signal("paid", {"order": 5, "amount": 1.0})
        await env.sleep(1_000)
        async with env.new_worker(workflows=[pays], activities=ACTIVITIES):
            assert await early.result() == 1.0
            with pytest.raises(WorkflowFailedError, match="came within 600 s"):
                await late.result()


# --- approvals --------------------------------------------------------------------------------------------------------


@dag(timeout=10_000)
def deploys(on: str) -> Decision:
    ready = step(note)("ready")
    decided = approval("review", timeout=600, after=[ready])
    step(note, id="deploy", run_when=decided.approved)(on)
    step(note, id="told", skip_when=decided.approved)(decided.comment)
    return decided


async def waiting(engine: Any, env: Any, flow: Any, *args: Any) -> WorkflowHandle[Any]:
    handle: WorkflowHandle[Any] = await env.client.start(flow, *args)
    await env.sleep(5)
    return handle


async def test_an_approval_is_decided_once(engine: MakeEnvironment) -> None:
    async with engine(workflows=[deploys], activities=ACTIVITIES) as env:
        handle = await waiting(engine, env, deploys, "production")
        with pytest.raises(DagApprovalError, match="reviews does not wait for a decision") as caught:
            await approve(handle, "reviews")
        assert not caught.value.closed
        made = await approve(handle, "review", comment="looks good", by="ada", id="mine")
        assert made == Decision(True, "looks good", "ada")
        assert await approve(handle, "review", comment="looks good", by="ada", id="mine") == made
        assert await handle.result() == made
        assert calls == [("note", "ready"), ("note", "production")]
        assert [timer["command_id"] for timer in await told(handle, "TimerCancelled")]
        with pytest.raises(WorkflowClosedError):
            await approve(handle, "review", by="bob")


async def test_of_two_who_decide_at_once_one_does_and_the_other_is_told(engine: MakeEnvironment) -> None:
    flow = DagBuilder("slow to go on", timeout=1_000)
    review = flow.approval("review", timeout=600)
    flow.task("deploy", slowly, 50).after(review).run_when(review.approved)
    flow.output(review)
    deploys = flow.build()
    async with engine(workflows=[deploys], activities=ACTIVITIES) as env:
        handle = await waiting(engine, env, deploys)
        found = await asyncio.gather(
            approve(handle, "review", by="ada"),
            approve(handle, "review", decision="reject", by="bob"),
            return_exceptions=True,
        )
        (made,) = [one for one in found if isinstance(one, Decision)]
        (refused,) = [one for one in found if isinstance(one, DagApprovalError)]
        assert (refused.node, refused.closed) == ("review", True)
        assert (refused.approved, refused.by) == (made.approved, made.by)
        assert (
            str(refused) == f"review was {'approved' if made.approved else 'rejected'} already by {made.by}"
        )
        assert await handle.result() == {"approved": made.approved, "comment": None, "by": made.by}
        assert len(await told(handle, "UpdateAccepted")) == 1


async def test_who_decides_nothing_in_time_has_rejected_it(engine: MakeEnvironment) -> None:
    flow = DagBuilder("left alone", timeout=5_000)
    flow.approval("rejected", timeout=60, on_timeout="reject")
    flow.approval("approved", timeout=60, on_timeout="approve")
    instead = flow.task("instead", "note", "nobody").with_timeout(5)
    flow.approval("failed", timeout=60, on_timeout="fail").on_failure(instead)
    left = flow.build()
    async with engine(workflows=[left], activities=ACTIVITIES) as env:
        handle = await env.client.start(left)
        assert await handle.result() == {
            "rejected": {"approved": False, "comment": None, "by": None},
            "approved": {"approved": True, "comment": None, "by": None},
            "failed": "noted",
        }
    calls.clear()
    async with engine(workflows=[deploys], activities=ACTIVITIES) as env:
        handle = await waiting(engine, env, deploys, "production")
        await env.sleep(590)
        assert calls == [("note", "ready")]
        assert await handle.result() == Decision(False)
        assert calls == [("note", "ready"), ("note", None)]


async def test_a_decision_that_is_none_is_refused(engine: MakeEnvironment) -> None:
    async with engine(workflows=[deploys], activities=ACTIVITIES) as env:
        handle = await waiting(engine, env, deploys, "production")
        with pytest.raises(UpdateRejectedError):
            await approve(handle, "review", decision=cast("Any", "maybe"))
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()


async def test_an_approval_that_nobody_needs_any_more_cannot_be_decided(engine: MakeEnvironment) -> None:
    flow = DagBuilder("fails elsewhere", timeout=1_000)
    flow.approval("review", timeout=600)
    flow.task("broken", grow, {"count": 0, "done": False}, -1)
    flow.task("cleanup", slowly, 50).after("broken").trigger("one_failed")
    fails = flow.build()
    async with engine(workflows=[fails], activities=ACTIVITIES) as env:
        handle = await waiting(engine, env, fails)
        with pytest.raises(DagApprovalError, match="can no longer be decided") as caught:
            await approve(handle, "review")
        assert caught.value.closed
        assert caught.value.approved is None
        with pytest.raises(WorkflowFailedError):
            await handle.result()


# --- repeated calls ---------------------------------------------------------------------------------------------------


@dag(timeout=10_000)
def grows(begin: Job, most: int) -> int:
    grown = repeat(grow, until=lambda job: job.done, max_iterations=5, delay=10)(last(begin), most)
    return grown.count


async def test_a_call_is_repeated_until_its_condition_holds(engine: MakeEnvironment) -> None:
    async with engine(workflows=[grows], activities=ACTIVITIES) as env:
        begun = env.now()
        handle = await env.client.start(grows, Job(3, False), 6)
        assert await handle.result() == 6
        assert calls == [("grow", 3), ("grow", 4), ("grow", 5)]
        assert 20 <= (env.now() - begun).total_seconds() < 30
        made = [event["summary"] for event in await told(handle, "ActivityScheduled")]
        assert made == ["grow[0]", "grow[1]", "grow[2]"]
        assert [event["summary"] for event in await told(handle, "TimerScheduled")] == ["grow", "grow"]


async def test_a_call_is_not_repeated_for_ever(engine: MakeEnvironment) -> None:
    async with engine(workflows=[grows], activities=ACTIVITIES) as env:
        with pytest.raises(WorkflowFailedError, match="after 5 calls its condition still does not hold"):
            await env.client.execute(grows, Job(0, False), 50)
        assert len(calls) == 5
        with pytest.raises(WorkflowFailedError, match="No"):
            await env.client.execute(grows, Job(0, False), -1)
        assert len(calls) == 6


async def test_the_time_of_all_calls_is_bounded(engine: MakeEnvironment) -> None:
    flow = DagBuilder("slow polls", timeout=5_000)
    flow.repeat("poll", slowly, 40, until=lambda job: job.done, max_duration=100, delay=1)
    flow.task("after", note).after("poll").trigger("all_done").with_args()
    polls = flow.build()
    async with engine(workflows=[polls], activities=ACTIVITIES) as env:
        begun = env.now()
        handle = await env.client.start(polls)
        with pytest.raises(WorkflowFailedError, match="its condition did not hold within 100 s"):
            await handle.result()
        assert calls == ["begins", "begins", "begins", "stopped", ("note", None)]
        assert 100 <= (env.now() - begun).total_seconds() < 125
        assert not await told(handle, "WorkflowCancelRequested")


# --- children ---------------------------------------------------------------------------------------------------------


@workflow.defn(run_timeout=500)
async def doubled(number: int) -> int:
    calls.append(("doubled", number))
    await workflow.sleep(100)
    if number == 13:
        raise ApplicationError("unlucky", type="Unlucky")
    return number * 2


@dag(timeout=10_000)
def parent(number: int) -> int:
    once = child(doubled)(number)
    twice = child(grows, id="grown", timeout=600, after=[once])(Job(0, False), 2)
    alone = child(doubled, id="alone", parent_close_policy="abandon")(twice)
    step(note)(alone.workflow_id)
    return once


async def test_a_child_is_a_node(engine: MakeEnvironment) -> None:
    async with engine(workflows=[parent, grows, doubled], activities=ACTIVITIES) as env:
        handle = await env.client.start(parent, 4)
        assert await handle.result() == 8
        made = await told(handle, "ChildWorkflowScheduled")
        assert [one["summary"] for one in made] == ["doubled", "grown", "alone"]
        left = calls[-1][1]
        assert left == made[2]["workflow_id"]
        alone = env.client.handle(left, result_type=int)
        seen = await alone.describe()
        assert seen.run.status in (RunStatus.PENDING, RunStatus.RUNNING)
        assert seen.execution_timeout_seconds == 500
        assert await alone.result() == 4


async def test_a_child_that_fails_fails_its_node(engine: MakeEnvironment) -> None:
    async with engine(workflows=[parent, grows, doubled], activities=ACTIVITIES) as env:
        with pytest.raises(WorkflowFailedError, match="unlucky") as caught:
            await env.client.execute(parent, 13)
        failure = caught.value.__cause__
        assert isinstance(failure, DagFailedError)
        assert failure.nodes == ("doubled",)


async def test_a_cancelled_dag_waits_for_its_children(engine: MakeEnvironment) -> None:
    async with engine(workflows=[parent, grows, doubled], activities=ACTIVITIES) as env:
        handle = await waiting(engine, env, parent, 4)
        await handle.cancel("enough")
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        assert len(await told(handle, "ChildWorkflowCancelled")) == 1


# --- documents --------------------------------------------------------------------------------------------------------


async def test_a_document_may_have_all_kinds(engine: MakeEnvironment) -> None:
    document = {
        "name": "from a document",
        "timeout": 5_000,
        "params": ["order"],
        "nodes": [
            {"id": "nap", "kind": "sleep", "seconds": 5},
            {"id": "paid", "kind": "wait_for", "event": "paid", "timeout": 600, "after": ["nap"],
             "match": {"op": "==", "left": {"bound": "event", "path": ["order"]}, "right": {"param": "order"}}},
            {"id": "review", "kind": "approval", "timeout": 600},
            {"id": "grow", "kind": "repeat", "type": "grow", "max_iterations": 3,
             "args": [{"bound": "result", "or_else": {"is": {"count": 0, "done": False}}}, {"is": 2}],
             "until": {"op": "==", "left": {"bound": "result", "path": ["done"]}, "right": {"is": True}},
             "options": {"start_to_close_timeout": 10}},
            {"id": "inner", "kind": "child", "type": "outlast.dag", "timeout": 60, "args": [
                {"is": {"name": "inner", "nodes": [{"id": "nap", "kind": "sleep", "seconds": 1}],
                        "output": {"is": "inside"}}}]},
        ],
        "output": {"array": [{"of": name} for name in ("paid", "review", "grow", "inner")]},
    }  # fmt: skip
    async with engine(workflows=[any_dag], activities=ACTIVITIES) as env:
        handle = await waiting(engine, env, any_dag, document, 5)
        await handle.signal("paid", {"order": 5})
        await approve(handle, "review", by="ada")
        paid, review, grown, inner = await handle.result()
        assert paid == {"order": 5}
        assert review == {"approved": True, "comment": None, "by": "ada"}
        assert grown == {"count": 2, "done": True}
        assert inner == "inside"


def with_longest_ids(length: int, name: str) -> Any:
    flow = DagBuilder(name, timeout=5_000)

    def named(last: str) -> str:
        return ("g" * 49 + "/") * 3 + "n" * (length - 151) + last

    def grown(number: int) -> Job:
        return Job(number, done=False)

    flow.task(named("t"), grow, grown(0), 1)
    flow.each(named("m"), halve, list(range(12)))
    flow.each(named("c"), halve, list(range(12)), chunks_of=1)
    flow.sleep(named("s"), 1)
    flow.wait_for(named("w"), "paid", timeout=2, on_timeout=None)
    flow.approval(named("a"), timeout=2)
    return flow.build()


async def test_the_longest_id_labels_whatever_a_node_does(in_memory: MakeEnvironment) -> None:
    longest = with_longest_ids(MAX_ID, "d" * 200)
    assert len(f"{longest.spec.nodes[0].id}[{MAX_ITEMS - 1}]") == MAX_SUMMARY_LENGTH
    async with in_memory(workflows=[longest], activities=[*ACTIVITIES, halve]) as env:
        handle = await env.client.start(longest)
        await handle.result()
        nodes = (await describe(handle)).nodes
        assert {node.state for node in nodes if node.kind != "approval"} == {"completed"}
    with pytest.raises(
        DagValidationError, match=f"has {MAX_ID + 1} characters, more than {MAX_ID}"
    ) as caught:
        with_longest_ids(MAX_ID + 1, "d")
    assert {problem.kind for problem in caught.value.problems} == {"bad_id"}
