"""DAGs of interpreter 1: maps, skips, rules, both failure policies, a cancelled one, one that was started by name."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from outlast import ApplicationError, activity, workflow
from outlast.errors import WorkflowResultError
from outlast.testing import TestEnvironment
from outlast_dag import DagBuilder, all_of, dag, each, or_else, step


@activity.defn(start_to_close_timeout=10)
async def listed(count: int) -> dict[str, Any]:
    return {"rows": list(range(count)), "count": count, "tags": {"kind": "even" if count % 2 == 0 else "odd"}}


@activity.defn(start_to_close_timeout=10)
async def doubled(number: int, add: int = 0) -> int:
    if number == 13:
        raise ApplicationError("unlucky", type="Unlucky", non_retryable=True)
    return number * 2 + add


@activity.defn(start_to_close_timeout=10)
async def joined(*parts: Any) -> list[Any]:
    return list(parts)


@activity.defn(start_to_close_timeout=100)
async def patient(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "waited"


@dag(version="1", timeout=3600, max_parallel=3)
def mapped(count: int) -> list[Any]:
    found = step(listed)(count)
    rows = each(doubled, concurrency=2, max_items=50)(found["rows"])
    odd = step(doubled, id="odd", skip_when=all_of(found["tags"]["kind"] == "even", found["count"] > 0))(
        found["count"]
    )
    return step(joined)(rows, or_else(odd, -1))


def ruled(name: str, failure: Any) -> Any:
    flow = DagBuilder(name, timeout=3600, failure=failure)
    slow = flow.task("slow", patient, 20)
    bad = flow.task("bad", doubled, 13)
    flow.task("told", joined, "it failed").after(bad).trigger("one_failed")
    flow.task("never", joined, "never").after(bad)
    flow.task("last", joined, "the end").after(slow, bad).trigger("all_done")
    return flow.build()


fails_fast = ruled("fails_fast", "fail_fast")
finishes = ruled("finishes", "finish")


@workflow.defn
async def parent(count: int) -> list[Any]:
    return await workflow.execute_child(mapped, count)


WORKFLOWS = [mapped, fails_fast, finishes, parent]
ACTIVITIES = [listed, doubled, joined, patient]


async def live(env: TestEnvironment) -> None:
    """Run all of them."""
    client = env.client
    for count in (0, 3, 4):
        await client.execute(mapped, count)
    await client.execute("mapped", 5)
    await client.execute(parent, 2)
    for flow in (fails_fast, finishes):
        with suppress(WorkflowResultError):
            await client.execute(flow)
    unlucky = await client.start(mapped, 20, id="unlucky")
    with suppress(WorkflowResultError):
        await unlucky.result()
    cancelled = await client.start(finishes, id="cancelled")
    await env.sleep(5)
    await cancelled.cancel()
    with suppress(WorkflowResultError):
        await cancelled.result()
