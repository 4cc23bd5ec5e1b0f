"""DAGs run as workflows do: durable, replayed, cancelled, timed out; and each follows the spec that it recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.engine import dag_flows as flows
from tests.engine.conftest import MakeEnvironment
from tests.engine.dag_flows import (
    ACTIVITIES,
    DAGS,
    calls,
    fails_fast,
    fails_late,
    fetch,
    parse,
    pipeline,
    slowly,
    total,
    with_skips,
)

from outlast import RunStatus, StartOptions, WorkflowHandle, workflow
from outlast.errors import (
    DagDataError,
    DagFailedError,
    DagValidationError,
    WorkflowCancelledError,
    WorkflowFailedError,
    WorkflowTimeoutError,
)
from outlast.testing import Replayer
from outlast_dag import DagBuilder, any_dag, dag, each, step


@pytest.fixture(autouse=True)
def _afresh() -> None:
    calls.clear()
    flows.broken.clear()


@workflow.defn
async def around(url: str) -> int:
    """Runs a DAG as its child."""
    return await workflow.execute_child(pipeline, url)


async def kinds(handle: WorkflowHandle[Any]) -> list[str]:
    return [event.type async for event in handle.history()]


async def summaries(handle: WorkflowHandle[Any]) -> list[str]:
    found = [event async for event in handle.history() if event.type == "ActivityScheduled"]
    return [event.payload["summary"] for event in found]


async def test_a_dag_is_a_workflow(engine: MakeEnvironment) -> None:
    async with engine(workflows=[*DAGS, around], activities=ACTIVITIES) as env:
        handle = await env.client.start(pipeline, "https://a")
        assert await handle.result() == 100
        assert ("total", [10, 20, 30, 40], "https://a") in calls
        assert await summaries(handle) == ["fetch", "parse[0]", "parse[1]", "parse[2]", "parse[3]", "total"]
        seen = await handle.describe()
        assert seen.workflow_type == "pipeline"
        assert seen.run.run_timeout_seconds == 600
        told = await kinds(handle)
        assert told.count("SideEffectRecorded") == 1
        assert "WorkflowDeadlineLowered" not in told
        assert await env.client.execute(around, "https://b") == 100
        assert await env.client.execute(with_skips, "https://a") == "noted"
        assert ("note", 1) in calls
        assert len([one for one in calls if one[0] == "note"]) == 1


async def test_retries_are_those_of_the_engine(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        flows.broken["https://a"] = 2
        assert await env.client.execute(pipeline, "https://a") == 100
        assert calls.count(("fetch", "https://a")) == 3
        flows.broken["https://a"] = 99
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(pipeline, "https://a")
        failure = caught.value.__cause__
        assert isinstance(failure, DagFailedError)
        assert failure.nodes == ("fetch",)
        assert "https://a is down" in str(failure)


async def test_a_failed_step_stops_the_others_at_once(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        flows.broken["https://down"] = 99
        before = env.now()
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(fails_fast)
        assert isinstance(caught.value.__cause__, DagFailedError)
        assert (env.now() - before).total_seconds() < 40
        assert {("stopped", "left"), ("stopped", "right"), ("note", "it failed")} <= set(calls)
        assert ("note", "never") not in calls


async def test_or_the_others_are_left_to_finish(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        flows.broken["https://down"] = 99
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(fails_late)
        assert {("done", "left"), ("done", "right"), ("note", "it failed")} <= set(calls)
        assert ("note", "never") not in calls


async def test_a_cancelled_dag_waits_for_its_steps_to_stop(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        handle = await env.client.start(fails_fast)
        await env.sleep(1)
        await handle.cancel("enough")
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        assert {("stopped", "left"), ("stopped", "right")} <= set(calls)
        assert not [one for one in calls if one[0] == "done"]


async def test_a_dag_past_its_timeout_ends_however_it_was_started(engine: MakeEnvironment) -> None:
    flow = DagBuilder("hurried", timeout=20)
    flow.task("slow", slowly, "slow")
    hurried = flow.build()
    async with engine(workflows=[hurried], activities=ACTIVITIES) as env:
        for target in (hurried, "hurried"):
            handle = await env.client.start(target)
            begun = env.now()
            with pytest.raises(WorkflowTimeoutError) as caught:
                await handle.result()
            assert caught.value.timeout_kind == "run_timeout"
            assert 20 <= (env.now() - begun).total_seconds() < 21
        patient = await env.client.start(hurried, options=StartOptions(run_timeout=100))
        assert await patient.result() == "slow"
        by_name = await env.client.start("hurried", options=StartOptions(run_timeout=100))
        assert await by_name.result() == "slow"


async def test_what_a_step_needs_and_is_not_there_fails_it(engine: MakeEnvironment) -> None:
    @dag(timeout=60)
    def reaching(url: str) -> str:
        page = step(fetch)(url)
        return step(flows.note)(page.rows[9])

    async with engine(workflows=[reaching], activities=ACTIVITIES) as env:
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(reaching, "https://a")
        failure = caught.value.__cause__
        assert isinstance(failure, DagFailedError)
        cause = failure.__cause__
        assert isinstance(cause, DagDataError)
        assert cause.node == "note"
        assert "rows[9] is not there" in str(cause)


async def test_wrong_input_schedules_nothing(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        handle = await env.client.start("pipeline", 5)
        await env.sleep(1)
        seen = await handle.describe()
        assert seen.run.status is RunStatus.PENDING
        assert seen.run.task_failures
        assert "ActivityScheduled" not in await kinds(handle)
        await handle.terminate()


def version_of(steps: int) -> Any:
    """Versions of one DAG: with each, the first step and the last are the same and there are more between."""
    flow = DagBuilder("evolving", timeout=10_000)
    before = flow.task("first", slowly, "first")
    for number in range(steps):
        before = flow.task(f"s{number}", slowly, f"{steps}.{number}").after(before)
    return flow.build()


async def test_an_open_run_follows_the_spec_that_it_began_with(engine: MakeEnvironment) -> None:
    async with engine(workflows=[version_of(1)], activities=ACTIVITIES) as env:
        handle = await env.client.start("evolving")
        await env.sleep(10)
        async with env.new_worker(task_queue="elsewhere", workflows=[version_of(3)]):
            pass
        replaced = env.worker
        await replaced.stop()
        async with env.new_worker(workflows=[version_of(3)], activities=ACTIVITIES):
            assert await handle.result() == "1.0"
            assert await env.client.execute("evolving") == "3.2"


@dag(timeout=600)
def nothing_to_map(rows: list[int]) -> list[int]:
    return each(flows.parse)(rows)


async def test_a_map_of_nothing_is_an_empty_list(engine: MakeEnvironment) -> None:
    async with engine(workflows=[nothing_to_map], activities=ACTIVITIES) as env:
        assert await env.client.execute(nothing_to_map, []) == []
        flows.broken["row 2"] = 1
        with pytest.raises(WorkflowFailedError, match="row 2 is broken"):
            await env.client.execute(nothing_to_map, [1, 2, 3])
        await asyncio.sleep(0)


DOCUMENT: dict[str, Any] = {
    "name": "from a document",
    "timeout": 60,
    "params": ["url"],
    "nodes": [
        {"id": "fetch", "kind": "task", "type": "fetch", "args": [{"param": "url"}],
         "options": {"start_to_close_timeout": 10}},
        {"id": "total", "kind": "task", "type": "total", "args": [{"of": "fetch", "path": ["rows"]}],
         "options": {"start_to_close_timeout": 10}},
    ],
    "output": {"of": "total"},
}  # fmt: skip


async def test_a_document_is_run_as_it_is(engine: MakeEnvironment) -> None:
    async with engine(workflows=[any_dag], activities=ACTIVITIES) as env:
        handle = await env.client.start(any_dag, DOCUMENT, "https://a")
        assert await handle.result() == 10
        assert await summaries(handle) == ["fetch", "total"]
        told = await kinds(handle)
        assert told.count("SideEffectRecorded") == 1
        assert told.count("WorkflowDeadlineLowered") == 1
        slow = {"id": "slow", "kind": "task", "type": "slowly", "args": [{"is": "x"}]}
        once = {"start_to_close_timeout": 4, "retry_policy": {"max_attempts": 1}}
        hurried = {**DOCUMENT, "timeout": 5, "nodes": [{**slow, "options": once}], "output": {"is": 1}}
        with pytest.raises(WorkflowFailedError, match="node slow of the DAG from a document failed"):
            await env.client.execute(any_dag, hurried, "https://a")


@pytest.mark.parametrize("given", [(), ("https://a", 1)])
async def test_a_document_that_is_given_other_arguments_than_it_takes_is_not_begun(
    engine: MakeEnvironment, given: tuple[Any, ...]
) -> None:
    async with engine(workflows=[any_dag], activities=ACTIVITIES) as env:
        handle = await env.client.start(any_dag, DOCUMENT, *given)
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        failure = caught.value.__cause__
        assert isinstance(failure, DagValidationError)
        (problem,) = failure.problems
        assert problem.kind == "wrong_arguments"
        assert f"takes 1 argument (url), {len(given)} given" in problem.message
        assert await summaries(handle) == []


async def test_a_wrong_document_fails_its_run_with_all_problems(engine: MakeEnvironment) -> None:
    async with engine(workflows=[any_dag], activities=ACTIVITIES) as env:
        wrong = {
            **DOCUMENT,
            "nodes": [
                {"id": "a", "kind": "task", "type": "fetch", "after": ["b"]},
                {"id": "b", "kind": "task", "type": "fetch", "after": ["a"], "on_failure": "c"},
                {"id": "n", "kind": "map", "type": "fetch", "over": {"is": []}, "chunks_of": 0},
            ],
            "output": {"is": 1},
        }
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(any_dag, wrong, "https://a")
        failure = caught.value.__cause__
        assert isinstance(failure, DagValidationError)
        found = {problem.kind for problem in failure.problems}
        assert {"missing_timeout", "cycle", "unknown_dependency", "bad_map"} <= found
        assert "ActivityScheduled" not in await kinds(env.client.handle(caught.value.workflow_id))


def test_the_history_of_one_version_replays_under_the_code_of_another() -> None:
    histories = Path(__file__).parent.parent / "histories" / "programs_dags.jsonl"

    @dag(name="mapped", timeout=60, version="2")
    def mapped(count: int, more: str = "") -> str:
        return step(flows.note)(more)

    others = [version_named(name) for name in ("fails_fast", "finishes")]

    @workflow.defn
    async def parent(count: int) -> Any:
        return await workflow.execute_child("mapped", count)

    assert Replayer([mapped, parent, *others]).replay(histories).runs == 10


def version_named(name: str) -> Any:
    flow = DagBuilder(name, timeout=60)
    flow.task("quite", slowly, "another")
    return flow.build()


def in_chunks(name: str, **options: Any) -> Any:
    flow = DagBuilder(name, timeout=3600)
    first = flow.task("first", total, [3, 4])
    rows = flow.each("rows", parse, flow.input, chunks_of=3, **options)
    rows.with_timeout(10).after(first)
    return flow.output(rows).build()


async def test_a_long_list_is_divided_among_children(engine: MakeEnvironment) -> None:
    flow = in_chunks("long", concurrency=2, max_items=30_000)
    assert flow.critical_path.seconds == 10 + 10_000 * 2 * 10
    async with engine(workflows=[flow], activities=ACTIVITIES) as env:
        assert await env.client.execute(flow, list(range(8)), id="long") == [row * 10 for row in range(8)]
        assert await env.client.count(workflow_type="outlast.dag") == 3
        begun = [event.payload async for event in env.client.handle("long").history()]
        labels = [one["summary"] for one in begun if "summary" in one]
        assert labels == ["first", "rows[0]", "rows[1]", "rows[2]"]
        assert await env.client.execute(flow, []) == []


async def test_the_items_of_all_children_are_counted_and_their_failures_told(engine: MakeEnvironment) -> None:
    flows.broken["row 4"] = 1
    counted = in_chunks("counted", collect=False, on_item_failure="skip")
    collected = in_chunks("collected", on_item_failure="collect")
    strict = in_chunks("strict")
    async with engine(workflows=[counted, collected, strict], activities=ACTIVITIES) as env:
        assert await env.client.execute(counted, list(range(8))) == {"count": 7}
        found = await env.client.execute(collected, list(range(8)))
        assert [row for row in found if not isinstance(row, dict)] == [0, 10, 20, 30, 50, 60, 70]
        assert found[4] == {"failure": {"type": "Bad", "message": "row 4 is broken"}}
        with pytest.raises(WorkflowFailedError, match=r"rows\[4\] of the DAG strict"):
            await env.client.execute(strict, list(range(8)))
