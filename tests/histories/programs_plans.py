"""DAGs of interpreter 1 that plan other DAGs, and maps that are divided among children."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from outlast import activity
from outlast.errors import WorkflowResultError
from outlast.testing import TestEnvironment
from outlast_dag import any_dag, dag, each, plan, step

OPTIONS = {"start_to_close_timeout": 10}


def node(id: str, word: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "kind": "task", "type": "found", "args": [{"is": word}], "options": OPTIONS, **more}


@activity.defn(start_to_close_timeout=10)
async def planner(goal: str) -> Any:
    if goal == "deep":
        inner = {"kind": "plan", "type": "planner", "args": [{"is": "wide"}], "options": OPTIONS}
        return {"nodes": [{**inner, "id": "inner", "allow": ["found"], "max_nodes": 3, "run_timeout": 60}]}
    if goal == "wrong":
        return {"nodes": [node("a", 1, after=["b"]), node("b", 2, after=["a"])]}
    if goal == "slow":
        return {
            "name": "slow",
            "nodes": [{**node("a", 30), "type": "patient", "options": {"start_to_close_timeout": 90}}],
        }
    return {"nodes": [node("a", 1), node("b", 2), node("c", 3, after=["a"])]}


@activity.defn(start_to_close_timeout=10)
async def found(word: Any) -> Any:
    return {"found": word}


@activity.defn(start_to_close_timeout=90)
async def patient(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "waited"


@dag(timeout=3600)
def agent(goal: str) -> Any:
    made = plan(planner, allow=[found, planner, patient], max_nodes=10, run_timeout=600)(goal)
    return step(found, id="told")(made)


@dag(timeout=3600)
def divided(rows: list[int]) -> list[Any]:
    return each(found, chunks_of=3, concurrency=6)(rows)


WORKFLOWS = [agent, divided, any_dag]
ACTIVITIES = [planner, found, patient]


async def live(env: TestEnvironment) -> None:
    """Run each of them once, so that it leaves its history."""
    client = env.client
    for goal in ("wide", "deep", "wrong"):
        with suppress(WorkflowResultError):
            await client.execute(agent, goal, id=goal)
    await client.execute(divided, list(range(8)), id="divided")
    await client.execute(divided, [], id="empty")
    cancelled = await client.start(agent, "slow", id="cancelled")
    await env.sleep(5)
    await cancelled.cancel()
    with suppress(WorkflowResultError):
        await cancelled.result()
    named = await client.start("agent", "wide", id="named")
    await named.result()
    await client.reset("wide", "last-workflow-task", reason="once more")
    await client.handle("wide").result()
