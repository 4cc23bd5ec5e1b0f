"""What is told of a run of a DAG while it stands, after it was reset or forked, and however it was ended."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.engine import dag_flows as flows
from tests.engine.conftest import MakeEnvironment
from tests.engine.dag_flows import ACTIVITIES, calls, fetch, note, pipeline, slowly

from outlast import RetryPolicy, StartOptions, Worker, WorkflowHandle, workflow
from outlast.errors import InvalidOptionError, NonDeterminismError, WorkflowNotFoundError
from outlast.histories import following
from outlast.interceptors import Interceptor
from outlast.text.dag_words import waits_words
from outlast_dag import DagBuilder, DagDescription, DagNode, any_dag, describe
from outlast_dag.description.folds import folds_of
from outlast_store.reads.histories import read_history


@pytest.fixture(autouse=True)
def _afresh() -> None:
    calls.clear()
    flows.broken.clear()


@workflow.defn
async def sleeper() -> str:
    await workflow.sleep(500)
    return "slept"


def everything() -> Any:
    """A node of each kind behind the first."""
    flow = DagBuilder("everything", timeout=5_000, version="7")
    page = flow.task("fetch", fetch, "https://a")
    flow.each("parse", slowly, ["a", "b", "c", "d", "e"], concurrency=2, max_items=5).after(page)
    flow.task("flaky", fetch, "https://down", retry=RetryPolicy(max_attempts=3, initial_interval=100)).after(
        page
    )
    flow.task("elsewhere", note, "x").after(page).with_task_queue("nowhere")
    flow.approval("release", timeout=900).after(page)
    flow.wait_for("heard", "word", timeout=800).after(page)
    flow.sleep("nap", 700).after(page)
    flow.child("kid", sleeper, timeout=600).after(page)
    polled = flow.repeat(
        "polled", note, "y", until=lambda said: said == "never", max_iterations=9, delay=60
    ).after(page)
    flow.task("last", note, polled).after(page)
    flow.task("never", note, "z", skip_when=page.url == "https://a")
    return flow.build()


def by_id(found: DagDescription) -> dict[str, DagNode]:
    return {node.id: node for node in found.nodes}


def waits(node: DagNode) -> list[tuple[str, str]]:
    return [(wait.kind, wait.name) for wait in node.waits_for]


async def test_each_node_says_how_it_stands_what_it_waits_for_and_what_fires(engine: MakeEnvironment) -> None:
    made = everything()
    flows.broken["https://down"] = 9
    async with engine(workflows=[made, sleeper], activities=ACTIVITIES) as env:
        handle = await env.client.start(made, id="all")
        await env.sleep(20)
        seen = await describe(handle)
        assert (seen.name, seen.version, seen.hash) == ("everything", "7", made.hash)
        assert seen.run_id == handle.run_id
        nodes = by_id(seen)
        assert {name: node.state for name, node in nodes.items()} == {
            "fetch": "completed",
            "parse": "running",
            "flaky": "backing_off",
            "elsewhere": "running",
            "release": "running",
            "heard": "running",
            "nap": "running",
            "kid": "running",
            "polled": "running",
            "last": "waiting",
            "never": "skipped",
        }
        (child,) = (await handle.describe()).pending_children
        assert {name: waits(node) for name, node in nodes.items() if node.waits_for} == {
            "flaky": [("backoff", "")],
            "elsewhere": [("worker", "nowhere")],
            "release": [("approval", "release")],
            "heard": [("event", "word")],
            "nap": [("timer", "")],
            "kid": [("child", child.workflow_id)],
            "polled": [("timer", "")],
            "last": [("node", "polled")],
        }
        items = nodes["parse"].items
        assert items is not None
        assert (items.total, items.completed, items.running, items.left) == (5, 0, 2, 3)
        assert nodes["polled"].iterations == 1
        flaky = nodes["flaky"]
        assert (flaky.attempt, flaky.max_attempts) == (1, 3)
        assert flaky.last_failure is not None
        assert "https://down is down" in flaky.last_failure.message
        fires = {name: node.fires for name, node in nodes.items() if node.fires is not None}
        began = nodes["nap"].began_at
        assert began is not None
        ahead = {name: (one.kind, round((one.at - began).total_seconds())) for name, one in fires.items()}
        assert ahead["nap"] == ("timer", 700)
        assert ahead["heard"] == ("timer", 800)
        assert ahead["release"] == ("timer", 900)
        assert ahead["polled"] == ("timer", 60)
        assert ahead["flaky"][0] == "next_attempt"
        assert ahead["parse"] == ("start_to_close", 1000)
        assert "kid" not in ahead
        assert nodes["fetch"].ended_at is not None
        assert nodes["fetch"].critical
        assert not nodes["nap"].critical
        # Three waves of 1,000 s, two of them after the one that runs.
        assert seen.deadline_at is not None
        assert seen.left_seconds is not None
        assert seen.slack_seconds is not None
        left = (seen.deadline_at - seen.described_at).total_seconds() - seen.left_seconds
        assert seen.slack_seconds == pytest.approx(left, abs=0.01)
        assert not seen.at_risk
        await handle.terminate("seen enough")
        over = by_id(await describe(handle))
        assert over["fetch"].state == "completed"
        assert {over[name].state for name in ("parse", "flaky", "release", "last")} == {"cancelled"}
        assert over["parse"].fires is None
        assert not any(node.waits_for for node in over.values())


async def test_a_run_that_may_not_end_in_time_is_at_risk(in_memory: MakeEnvironment) -> None:
    flow = DagBuilder("tight", timeout=2_500)
    flow.task("second", slowly, "b").after(flow.task("first", slowly, "a"))
    made = flow.build()
    async with in_memory(workflows=[made], activities=ACTIVITIES) as env:
        calm = await describe_begun(env, await env.client.start(made))
        assert (calm.at_risk, round(calm.slack_seconds or 0, -1)) == (False, 500)
        options = StartOptions(run_timeout=1_500)
        hasty = await describe_begun(env, await env.client.start(made, options=options))
        assert (hasty.at_risk, round(hasty.slack_seconds or 0, -1)) == (True, -500)
        assert [node.id for node in hasty.nodes if node.critical] == ["first", "second"]


async def describe_begun(env: Any, handle: WorkflowHandle[Any]) -> DagDescription:
    await env.settle()
    return await describe(handle)


async def test_no_worker_is_needed_and_what_has_ended_meanwhile_is_seen(in_memory: MakeEnvironment) -> None:
    flow = DagBuilder("parted", timeout=100, max_parallel=2)
    each = flow.each("each", note, [1, 2, 3], max_items=3)
    flow.task("one", note, 1).with_task_queue("hands")
    flow.task("two", note, 2).after(each)
    made = flow.build()
    async with in_memory(workflows=[made], activities=[], task_queue="heads") as env:
        handle = await env.client.start(made, task_queue="heads")
        await env.settle()
        seen = by_id(await describe(handle))
        assert waits(seen["each"]) == [("worker", "heads")]
        # Both calls that run at once are the list's.
        assert (seen["one"].state, waits(seen["one"])) == ("running", [("room", "")])
        assert waits(seen["two"]) == [("node", "each")]


async def test_resets_forks_and_documents_are_followed(engine: MakeEnvironment) -> None:
    async with engine(workflows=[pipeline, any_dag], activities=ACTIVITIES) as env:
        handle = await env.client.start(pipeline, "https://a", id="p")
        assert await handle.result() == 100
        whole = by_id(await describe(handle))
        assert {node.state for node in whole.values()} == {"completed"}
        again = await handle.reset("first-workflow-task")
        assert await again.result() == 100
        anew = await describe(again)
        assert anew.run_id != handle.run_id
        assert {node.state for node in anew.nodes} == {"completed"}
        assert (await describe(env.client.handle("p", run_id=handle.run_id))).run_id == handle.run_id
        made = await handle.fork("last-workflow-task", id="q")
        await made.result()
        assert {node.state for node in (await describe(made)).nodes} == {"completed"}
        bounded = {"start_to_close_timeout": 10}
        document = {"name": "d", "nodes": [{"id": "n", "kind": "task", "type": "note", "options": bounded}]}
        spelled = await env.client.start(any_dag, document)
        await spelled.result()
        assert [(node.id, node.state) for node in (await describe(spelled)).nodes] == [("n", "completed")]


async def test_what_is_no_dag_or_has_not_begun_is_told(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[sleeper]) as env:
        handle = await env.client.start(sleeper)
        await env.settle()
        with pytest.raises(InvalidOptionError, match="not a run of a DAG"):
            await describe(handle)
        unserved = await env.client.start("pipeline", "https://a", id="unserved", task_queue="nowhere")
        with pytest.raises(InvalidOptionError, match="has not begun"):
            await describe(unserved)
        with pytest.raises(WorkflowNotFoundError):
            await describe(env.client.handle("nobody"))


async def test_a_look_reads_what_is_new_and_those_looked_at_longest_ago_are_let_go(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, int]] = []

    def reading(connection: Any, run_id: str, after_seq: int = 0, limit: int | None = None) -> Any:
        read.append((run_id, after_seq))
        return read_history(connection, run_id, after_seq, limit)

    monkeypatch.setattr(following, "read_history", reading)
    async with in_memory(workflows=[pipeline], activities=ACTIVITIES) as env:
        folds_of(env.client.runtime).following.most_kept = 2
        handles = [await env.client.start(pipeline, "https://a", id=f"p{number}") for number in range(3)]
        for handle in handles:
            await handle.result()
            await describe(handle)
        last = (await handles[2].describe()).run.history_length
        read.clear()
        # Two looks at once are one reader.
        await asyncio.gather(describe(handles[2]), describe(handles[2]))
        assert read == [(handles[2].run_id, last)] * 2
        read.clear()
        await describe(handles[0])
        assert (handles[0].run_id, 0) in read


class Meddling(Interceptor):
    """Makes a durable call of its own."""

    async def run_workflow(self, call: Any, next: Any) -> Any:
        await workflow.sleep(1)
        return await next(call)


async def test_a_run_with_calls_of_an_interceptor_cannot_be_followed(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[pipeline], activities=ACTIVITIES) as env:
        async with Worker(
            env.client,
            task_queue="meddled",
            workflows=[pipeline],
            activities=ACTIVITIES,
            interceptors=[Meddling()],
        ):
            handle = await env.client.start(pipeline, "https://a", task_queue="meddled")
            assert await handle.result() == 100
            with pytest.raises(NonDeterminismError):
                await describe(handle)


async def test_the_order_of_a_deploy_does_not_matter(in_memory: MakeEnvironment) -> None:
    """What is described is what the run follows, whatever the code says by now."""
    flow = DagBuilder("deployed", timeout=60)
    flow.task("old", note, 1)
    made = flow.build()
    async with in_memory(workflows=[made], activities=ACTIVITIES) as env:
        handle = await env.client.start(made)
        await handle.result()
        newer = DagBuilder("deployed", timeout=60)
        newer.task("new", note, 1)
        assert newer.build().hash != (await describe(handle)).hash
        assert [node.id for node in (await describe(handle)).nodes] == ["old"]
        (worker,) = await env.client.workers()
        assert worker.dags == {"deployed": made.hash}
        assert timedelta(0) <= env.now() - (await handle.describe()).described_at < timedelta(hours=1)


async def test_a_list_that_is_divided_waits_for_its_children(in_memory: MakeEnvironment) -> None:
    flow = DagBuilder("divided", timeout=9_000)
    flow.each("each", slowly, ["a", "b", "c", "d", "e"], max_items=5, chunks_of=2, concurrency=2)
    made = flow.build()
    async with in_memory(workflows=[made], activities=ACTIVITIES) as env:
        handle = await env.client.start(made)
        await env.sleep(1)
        (node,) = (await describe(handle)).nodes
        children = {child.workflow_id for child in (await handle.describe()).pending_children}
        assert children
        assert {(wait.kind, wait.name) for wait in node.waits_for} == {("child", id) for id in children}
        assert node.items is not None
        assert node.items.total == 3
        await handle.result()
        assert [node.state for node in (await describe(handle)).nodes] == ["completed"]


async def test_what_is_there_for_a_failure_says_for_whose(in_memory: MakeEnvironment) -> None:
    flow = DagBuilder("guarded", timeout=3600)
    flow.sleep("nap", 600)
    kept = flow.task("kept", flows.fetch, "https://a", timeout=5).after("nap")
    kept.on_failure(flow.task("instead", flows.fetch, "https://b", timeout=5))
    kept.compensate(flow.task("undone", flows.fetch, "https://c", timeout=5))
    made = flow.build()
    async with in_memory(workflows=[made], activities=ACTIVITIES) as env:
        handle = await env.client.start(made, id="guarded")
        await env.sleep(1)
        nodes = by_id(await describe(handle))
        assert waits(nodes["instead"]) == [("failure", "kept")]
        assert waits(nodes["undone"]) == [("undoing", "kept")]
        assert waits_words(nodes["instead"]) == "a failure of kept"
        assert waits_words(nodes["undone"]) == "kept to be undone"
        await env.sleep(700)
        assert not any(node.waits_for for node in by_id(await describe(handle)).values())
