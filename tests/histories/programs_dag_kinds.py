"""DAGs of interpreter 1 that sleep, wait for signals, ask for approvals, repeat calls and start children."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from outlast import ApplicationError, activity, workflow
from outlast.errors import WorkflowClosedError, WorkflowResultError
from outlast.testing import TestEnvironment
from outlast_dag import (
    DagBuilder,
    approval,
    approve,
    child,
    dag,
    last,
    or_else,
    repeat,
    sleep,
    step,
    wait_for,
)


@activity.defn(start_to_close_timeout=30)
async def counted(number: int, most: int = 3) -> dict[str, Any]:
    if number == 13:
        raise ApplicationError("unlucky", type="Unlucky", non_retryable=True)
    return {"number": number + 1, "done": number + 1 >= most}


@activity.defn(start_to_close_timeout=30)
async def joined(*parts: Any) -> list[Any]:
    return list(parts)


@activity.defn(start_to_close_timeout=30)
async def other() -> Any:
    return {"approved": False, "comment": "instead", "by": None}


@workflow.defn(run_timeout=100)
async def nap(seconds: float) -> str:
    await workflow.sleep(seconds)
    return "slept"


@dag(version="1", timeout=3600, max_parallel=1)
def waits(until: str, order: int) -> list[Any]:
    pause = sleep(5)
    instant = sleep(until=until, timeout=600)
    paid = wait_for(
        "paid", result=dict[str, Any], timeout=60, match=lambda paid: paid["order"] == order, after=[pause]
    )
    more = wait_for("more", timeout=20, on_timeout="none came", after=[instant])
    return step(joined)(or_else(paid["amount"], 0), more)


@dag(timeout=3600)
def asks(what: str) -> list[Any]:
    review = approval("review", timeout=300)
    second = approval("second", timeout=30, on_timeout="approve", run_when=review.approved)
    third = approval("third", timeout=10, on_timeout="fail", on_failure=lambda failure: step(other)())
    return step(joined)(what, review, or_else(second.approved, "unasked"), third.approved)


@dag(timeout=3600)
def repeats(number: int, most: int) -> list[Any]:
    again = repeat(counted, until=lambda found: found["done"], max_iterations=4, delay=7)(number, most)
    grown = repeat(counted, id="grown", until=lambda found: found["done"], max_iterations=9)(
        last(again["number"]), most
    )
    return step(joined)(again, grown)


@dag(timeout=3600)
def families(seconds: float) -> list[Any]:
    whole = child(nap)(seconds)
    inner = child(asks, id="inner", timeout=900, after=[whole])("inside")
    alone = child(nap, id="alone", parent_close_policy="abandon")(200)
    step(joined, id="told")(alone.workflow_id)
    return step(joined)(whole, inner)


def bounded() -> Any:
    flow = DagBuilder("timed", timeout=3600)
    flow.repeat("poll", counted, 0, 100, until=lambda found: found["done"], max_duration=60, delay=25)
    flow.child("nap", nap, 90).after("poll").trigger("one_failed")
    return flow.build()


timed = bounded()

WORKFLOWS = [waits, asks, repeats, families, timed, nap]
ACTIVITIES = [counted, joined, other]


async def live(env: TestEnvironment) -> None:
    """Run all of them: in time and too late, decided and undecided, cancelled, restarted and reset."""
    client = env.client
    for order, until in ((5, 30), (6, 3_000), (7, -30)):
        handle = await client.start(waits, (env.now() + timedelta(seconds=until)).isoformat(), order)
        with suppress(WorkflowClosedError):
            await handle.signal("paid", {"amount": 1})
            await handle.signal("paid", {"order": 5, "amount": 2})
            await env.sleep(20)
            await handle.signal("paid", {"order": 7, "amount": 3})
            await env.sleep(15)
            await handle.signal("more", order)
        with suppress(WorkflowResultError):
            await handle.result()
    for decision in ("approve", "reject"):
        handle = await client.start(asks, decision)
        await env.sleep(20)
        await approve(handle, "review", decision=decision, comment="so be it", by="ada")
        await handle.result()
    await client.execute(asks, "nobody")
    cancelled = await client.start(asks, "cancelled")
    await env.sleep(2)
    await cancelled.cancel()
    for number, most in ((0, 1), (2, 3), (0, 9), (13, 3)):
        with suppress(WorkflowResultError):
            await client.execute(repeats, number, most)
    await client.execute(families, 3)
    with suppress(WorkflowResultError):
        await client.execute(families, 300)
    late = await client.start(timed)
    await env.sleep(70)
    await late.cancel()
    with suppress(WorkflowResultError):
        await late.result()
    again = await client.start(asks, "reset")
    await env.sleep(20)
    await approve(again, "review")
    again = await again.reset(15)
    await again.result()
