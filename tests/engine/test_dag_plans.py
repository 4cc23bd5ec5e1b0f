"""A planner returns a DAG, which runs as a child: bounded, and only by what it may call."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import ApplicationError, RunStatus, activity, workflow
from outlast.errors import DagFailedError, DagValidationError, WorkflowCancelledError, WorkflowFailedError
from outlast_dag import DagBuilder, dag, plan, step

calls: list[str] = []
plans: dict[str, Any] = {}
"""What the planner returns, by goal."""


@pytest.fixture(autouse=True)
def _afresh() -> None:
    calls.clear()
    plans.clear()


@activity.defn(start_to_close_timeout=10)
async def think(goal: str) -> Any:
    calls.append(f"think {goal}")
    return plans[goal]


@activity.defn(start_to_close_timeout=10)
async def search(word: str) -> str:
    calls.append(f"search {word}")
    if word == "nothing":
        raise ApplicationError("found nothing", non_retryable=True)
    return f"found {word}"


@activity.defn(start_to_close_timeout=10)
async def forget(found: str) -> None:
    calls.append(f"forget {found}")


@activity.defn(start_to_close_timeout=10)
async def tell(what: Any) -> str:
    calls.append("tell")
    return f"told {what}"


@activity.defn(start_to_close_timeout=100)
async def slowly(word: str) -> str:
    calls.append("begun")
    try:
        await asyncio.sleep(50)
    except asyncio.CancelledError:
        calls.append("stopped")
        raise
    return word


@workflow.defn
async def helper(word: str) -> str:
    return f"helped {word}"


@dag(timeout=3600)
def agent(goal: str) -> str:
    found = plan(think, allow=[search, slowly, "think", helper, forget], run_timeout=600, max_nodes=8)(goal)
    return step(tell)(found)


ACTIVITIES = [think, search, tell, slowly, forget]
OPTIONS = {"start_to_close_timeout": 5}


def task(id: str, word: Any, **more: Any) -> dict[str, Any]:
    arg = word if isinstance(word, dict) else {"is": word}
    return {"id": id, "kind": "task", "type": "search", "args": [arg], "options": OPTIONS, **more}


async def test_what_is_planned_runs_and_is_the_output(engine: MakeEnvironment) -> None:
    plans["g"] = {"nodes": [task("a", "x"), task("b", {"of": "a"})]}
    # Whoever serves a DAG with a planner serves what that plans.
    async with engine(workflows=[agent, helper], activities=ACTIVITIES) as env:
        assert await env.client.execute(agent, "g", id="g") == "told found found x"
        assert calls == ["think g", "search x", "search found x", "tell"]
        [child] = [run async for run in env.client.list(workflow_type="outlast.dag")]
        assert child.status is RunStatus.COMPLETED
        begun = [event.payload async for event in env.client.handle("g").history()]
        assert [one["summary"] for one in begun if one.get("summary")] == ["think", "think", "tell"]
    assert agent.critical_path.seconds == 10 + 600 + 10


async def test_of_several_last_steps_the_output_is_an_object(engine: MakeEnvironment) -> None:
    plans["g"] = {"nodes": [task("a", "x"), task("b", "y")]}
    async with engine(workflows=[agent, helper], activities=ACTIVITIES) as env:
        assert await env.client.execute(agent, "g") == "told {'a': 'found x', 'b': 'found y'}"
        plans["g"] = {**plans["g"], "output": {"of": "b"}}
        assert await env.client.execute(agent, "g") == "told found y"


async def test_children_of_a_plan_are_what_it_may_start(engine: MakeEnvironment) -> None:
    child = {"id": "c", "kind": "child", "type": "helper", "args": [{"is": "me"}], "timeout": 60}
    plans["g"] = {"nodes": [child]}
    async with engine(workflows=[agent, helper], activities=ACTIVITIES) as env:
        assert await env.client.execute(agent, "g") == "told helped me"


async def test_a_plan_that_cannot_be_run_fails_the_planner_with_all_problems(engine: MakeEnvironment) -> None:
    plans["g"] = {"nodes": [{**task("a", "x"), "type": "rm", "options": {}}]}
    async with engine(workflows=[agent, helper], activities=ACTIVITIES) as env:
        with pytest.raises(WorkflowFailedError) as failed:
            await env.client.execute(agent, "g", id="g")
        dag_failed = failed.value.__cause__
        assert isinstance(dag_failed, DagFailedError)
        refused = dag_failed.__cause__
        assert isinstance(refused, DagValidationError)
        assert {problem.kind for problem in refused.problems} == {"missing_timeout", "not_allowed"}
        assert calls == ["think g"]
        assert await env.client.count(workflow_type="outlast.dag") == 0


@pytest.mark.parametrize(
    "planned",
    [
        {"nodes": [{**task("a", "x"), "kind": ["task"]}]},
        {"timeout": 0.5, "nodes": [task("a", "x")]},
        {"nodes": [{**task("a", "x"), "args": [{"is": orjson.loads("[" * 190 + "]" * 190)}]}]},
    ],
)
async def test_a_plan_of_an_odd_form_does_not_hold_the_run_up(engine: MakeEnvironment, planned: Any) -> None:
    plans["g"] = planned
    async with engine(workflows=[agent, helper], activities=ACTIVITIES) as env:
        with pytest.raises(WorkflowFailedError, match="DagValidationError"):
            await env.client.execute(agent, "g", id="g")


async def test_planners_may_plan_planners(engine: MakeEnvironment) -> None:
    nested = {
        "kind": "plan",
        "type": "think",
        "args": [{"is": "more"}],
        "options": OPTIONS,
        "run_timeout": 60,
    }
    plans["g"] = {"nodes": [{**nested, "id": "p", "allow": ["search"], "max_nodes": 3}]}
    plans["more"] = {"nodes": [task("a", "x")]}
    async with engine(workflows=[agent, helper], activities=ACTIVITIES) as env:
        assert await env.client.execute(agent, "g") == "told found x"


async def test_a_plan_that_fails_undoes_what_it_has_done(engine: MakeEnvironment) -> None:
    undo = {"id": "undo", "kind": "task", "type": "forget", "args": [{"of": "a"}], "options": OPTIONS}
    nodes = [task("a", "x", compensate="undo"), undo, task("b", "nothing", after=["a"])]
    plans["g"] = {"nodes": nodes}
    async with engine(workflows=[agent, helper], activities=ACTIVITIES) as env:
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(agent, "g")
        assert calls == ["think g", "search x", "search nothing", "forget found x"]


async def test_a_cancelled_dag_waits_for_what_was_planned_to_stop(engine: MakeEnvironment) -> None:
    plans["g"] = {"nodes": [{**task("a", "x"), "type": "slowly", "options": {"start_to_close_timeout": 90}}]}
    async with engine(workflows=[agent, helper], activities=ACTIVITIES) as env:
        handle = await env.client.start(agent, "g")
        await env.sleep(5)
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        assert calls == ["think g", "begun", "stopped"]
        [child] = [run async for run in env.client.list(workflow_type="outlast.dag")]
        assert child.status is RunStatus.CANCELLED


def test_a_planner_says_what_it_may_plan_and_for_how_long() -> None:
    flow = DagBuilder("loose")
    flow.plan("a", think, "g")
    flow.plan("b", think, "g", allow=["search"], run_timeout=5, max_nodes=5000)
    flow.plan("c", think, "g", allow="search", run_timeout=0.5)
    flow.plan("d", think, "g", allow=[5], run_timeout=5)
    with pytest.raises(DagValidationError) as refused:
        flow.build()
    found = {(problem.node, problem.kind) for problem in refused.value.problems}
    assert found == {
        ("a", "missing_timeout"),
        ("a", "bad_plan"),
        ("b", "bad_plan"),
        ("c", "bad_plan"),
        ("c", "timeout_out_of_range"),
        ("d", "bad_plan"),
    }
