"""DAGs of interpreter 1 that stand in for failed steps, undo what was done, and end before their deadline."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from outlast import ApplicationError, RetryPolicy, StartOptions, activity
from outlast.errors import WorkflowResultError
from outlast.testing import TestEnvironment
from outlast_dag import DagBuilder, NodeFailure, dag, each, step

shipped: list[str] = []


@activity.defn(start_to_close_timeout=10)
async def charge(cents: int) -> dict[str, Any]:
    if cents == 13:
        raise ApplicationError("unlucky", type="Unlucky", non_retryable=True)
    return {"id": f"p{cents}", "cents": cents}


@activity.defn(start_to_close_timeout=10)
async def refund(payment: str) -> None:
    if payment == "p666":
        raise ApplicationError("spent", type="Spent", non_retryable=True)


@activity.defn(start_to_close_timeout=10)
async def refund_all(payments: list[dict[str, Any]]) -> int:
    return len(payments)


@activity.defn(start_to_close_timeout=10)
async def ship(payment: str) -> str:
    if payment == "p99" and not shipped:
        shipped.append(payment)
        raise ApplicationError("no stock yet", type="Late", non_retryable=True)
    if payment != "p99" and payment != "p1":
        raise ApplicationError("no stock", type="Late", non_retryable=True)
    return f"shipped {payment}"


@activity.defn(start_to_close_timeout=10)
async def mail(failure: NodeFailure) -> str:
    if failure.item is not None:
        raise ApplicationError("nobody to write to", type="Nobody", non_retryable=True)
    return f"mailed about {failure.type}"


@activity.defn(start_to_close_timeout=300)
async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@activity.defn(start_to_close_timeout=10)
async def note(what: Any = None) -> str:
    return "noted"


@dag(timeout=600, reserve=60)
def order(cents: int) -> str:
    paid = step(charge, compensate=lambda paid: step(refund)(paid["id"]))(cents)
    step(wait, compensate_when="started", compensate=lambda waited: step(note)(waited))(1)
    return step(ship)(paid["id"])


def again(failure: NodeFailure) -> Any:
    return step(note, id="again")(failure.message)


@dag(timeout=600, reserve=60)
def recovering(cents: int, others: list[int]) -> str:
    paid = step(charge)(cents)
    all_paid = each(
        charge,
        id="others",
        concurrency=1,
        max_items=9,
        on_failure=lambda failure: step("mail", id="give_up", timeout=10, on_failure=again)(failure),
        compensate=lambda paid: step(refund_all)(paid),
    )(others)
    step(note, id="told")(all_paid)
    return step(ship, on_failure=lambda failure: step(mail)(failure))(paid["id"])


def long(name: str, **options: Any) -> Any:
    flow = DagBuilder(name, **dict[str, Any](timeout=600, reserve=60) | options)
    paid = flow.task("charge", charge, 7)
    flow.task("wait", wait, 200).after(paid)
    paid.compensate(flow.task("refund", refund, paid["id"]))
    return flow.build()


waits = long("waits")
keeps = long("keeps", compensate_on_cancel=False)
aborts = long("aborts", cancel_on="abort")
hurries = long("hurries", timeout=150)

WORKFLOWS = [order, recovering, waits, keeps, aborts, hurries]
ACTIVITIES = [charge, refund, refund_all, ship, mail, wait, note]


async def live(env: TestEnvironment) -> None:
    """Run all of them."""
    client = env.client
    shipped.clear()

    async def ended(flow: Any, *args: Any, options: StartOptions | None = None) -> None:
        with suppress(WorkflowResultError):
            await client.execute(flow, *args, options=options)

    for cents in (1, 5, 666, 13):
        await ended(order, cents)
    await ended(order, 99, options=StartOptions(retry_policy=RetryPolicy(max_attempts=2)))
    await ended(recovering, 1, [1, 2])
    await ended(recovering, 5, [1, 2, 13, 4])
    await ended(recovering, 13, [1])
    for flow in (waits, keeps):
        cancelled = await client.start(flow)
        await env.sleep(5)
        await cancelled.cancel("enough")
        with suppress(WorkflowResultError):
            await cancelled.result()
    aborted = await client.start(aborts)
    await env.sleep(5)
    await aborted.signal("abort")
    with suppress(WorkflowResultError):
        await aborted.result()
    await ended(aborts)
    await ended(hurries)
    await ended(hurries, options=StartOptions(run_timeout=50))
    reset = await client.start(hurries)
    await env.sleep(60)
    await reset.reset("last-workflow-task")
    with suppress(WorkflowResultError):
        await client.handle(reset.workflow_id).result()
