"""Local activities, headers, updates of synchronous workflows, resets. Never edited: see README.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from outlast import ActivityTimeoutError, ApplicationError, RetryPolicy, StartOptions, activity, workflow
from outlast.errors import UpdateFailedError, UpdateRejectedError, WorkflowFailedError
from outlast.interceptors import (
    ContinueAsNewCall,
    Interceptor,
    SignalExternal,
    SignalWorkflow,
    StartActivity,
    StartChild,
    StartWorkflow,
    UpdateWorkflow,
)
from outlast.testing import TestEnvironment
from outlast.workflow import blocking

ONCE = RetryPolicy(max_attempts=1)
down: list[str] = []
"""While there is something in it, ``charge`` fails."""


class Tenants(Interceptor):
    """Says with each call whose it is."""

    async def start_workflow(self, call: StartWorkflow, next: Callable[[StartWorkflow], Any]) -> Any:
        call.headers["tenant"] = "ada"
        return await next(call)

    async def signal_workflow(self, call: SignalWorkflow, next: Callable[[SignalWorkflow], Any]) -> Any:
        call.headers["tenant"] = "bob"
        return await next(call)

    async def update_workflow(self, call: UpdateWorkflow, next: Callable[[UpdateWorkflow], Any]) -> Any:
        call.headers["tenant"] = "eve"
        return await next(call)

    def start_activity(self, call: StartActivity, next: Callable[[StartActivity], Any]) -> Any:
        call.headers["tenant"] = "ada"
        return next(call)

    def start_child(self, call: StartChild, next: Callable[[StartChild], Any]) -> Any:
        call.headers["tenant"] = "ada"
        return next(call)

    def signal_external(self, call: SignalExternal, next: Callable[[SignalExternal], Any]) -> Any:
        call.headers["tenant"] = "ada"
        return next(call)

    def continue_as_new(self, call: ContinueAsNewCall, next: Callable[[ContinueAsNewCall], Any]) -> None:
        call.headers["tenant"] = "ada"
        next(call)


INTERCEPTORS = [Tenants()]

# --- activities -----------------------------------------------------------------------------------------------------


@activity.defn(start_to_close_timeout=60)
async def add(a: int, b: int) -> int:
    return a + b


@activity.defn(start_to_close_timeout=60, retry_policy=RetryPolicy(initial_interval=5, max_attempts=3))
async def shaky(succeeds_at: int) -> int:
    attempt = activity.info().attempt
    if attempt < succeeds_at:
        raise ConnectionError("not yet")
    return attempt


@activity.defn(start_to_close_timeout=2, retry_policy=ONCE)
async def hang() -> None:
    await asyncio.sleep(1000)


@activity.defn(start_to_close_timeout=60, retry_policy=ONCE)
async def charge(order: str) -> str:
    if down:
        raise ApplicationError(f"{order} can't be charged", type="Down")
    return f"{order} charged"


# --- local activities -------------------------------------------------------------------------------------------------


@workflow.defn
async def local() -> list[Any]:
    """Local activities that end well, late, badly, too late, and not at all."""
    found: list[Any] = list(
        await asyncio.gather(
            workflow.execute_local_activity(add, 1, 2), workflow.start_local_activity(shaky, 2), add(3, 4)
        )
    )
    try:
        await workflow.execute_local_activity(hang)
    except ActivityTimeoutError as error:
        found.append(str(error.timeout_kind))
    try:
        await workflow.execute_local_activity(shaky, 100)
    except Exception as error:
        found.append(type(error.__cause__).__name__)
    given_up = workflow.start_local_activity(hang)
    await asyncio.sleep(1)
    given_up.cancel()
    await asyncio.sleep(1)
    return found


@workflow.defn
def plain_local() -> int:
    first = blocking.execute_local_activity(shaky, 2)
    return first + blocking.start_local_activity(add, first, 5).result()


# --- spoken to --------------------------------------------------------------------------------------------------------


@workflow.defn
class Till:
    """A synchronous workflow whose handlers block."""

    @workflow.init
    def __init__(self, opened_by: str) -> None:
        self.opened_by = opened_by
        self.total = 0
        self.closed = False

    @workflow.run
    def run(self, opened_by: str) -> list[Any]:
        told = "nobody waited"
        try:
            blocking.wait_condition(lambda: self.total > 1000, timeout=20)
        except TimeoutError:
            told = "waited"
        blocking.upsert_search_attributes({"opened_by": opened_by, "total": self.total, "rate": None})
        blocking.wait_condition(lambda: self.closed)
        blocking.wait_condition(blocking.all_handlers_finished)
        blocking.external("ears").signal("say", self.total)
        child = blocking.execute_child(counted, self.total, id=f"{blocking.info().workflow_id}-child")
        return [told, self.total, child, blocking.side_effect(lambda: 7)]

    @workflow.signal
    def close(self) -> None:
        blocking.sleep(1)
        self.total += add.call(1, 1)
        self.closed = True

    @workflow.update
    def pay(self, amount: int) -> int:
        blocking.sleep(2)
        self.total = add.call(self.total, amount)
        blocking.upsert_search_attributes({"total": self.total})
        return self.total

    @pay.validator
    def _pay_something(self, amount: int) -> None:
        if amount <= 0:
            raise ValueError("pay something")

    @workflow.update
    def refuse(self) -> None:
        blocking.sleep(1)
        raise ApplicationError("as asked", type="AsAsked")


@workflow.defn
async def counted(number: int) -> int:
    workflow.upsert_search_attributes({"number": number, "kind": "child", "tags": ["a", "b"]})
    return await add(number, 1)


@workflow.defn
class Ears:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    @workflow.run
    async def run(self, wanted: int) -> list[Any]:
        await workflow.wait_condition(lambda: len(self.heard) >= wanted)
        if wanted > 1:
            workflow.continue_as_new(1)
        return self.heard

    @workflow.signal
    def say(self, what: Any) -> None:
        self.heard.append(what)


# --- reset ------------------------------------------------------------------------------------------------------------


@workflow.defn
class Order:
    """Is reset: where the charge failed, while it waits, and after its end."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    @workflow.run
    async def run(self, order: str) -> list[str]:
        workflow.upsert_search_attributes({"step": "charging"})
        reminder = asyncio.create_task(workflow.sleep(500))
        self.notes.append(str(await add(1, 1)))
        if workflow.patched("with-charge"):
            self.notes.append(await charge(order))
        workflow.upsert_search_attributes({"step": "waiting"})
        await workflow.wait_condition(lambda: "ship" in self.notes)
        await workflow.execute_local_activity(shaky, 1)
        reminder.cancel()
        return self.notes

    @workflow.signal
    def note(self, text: str) -> None:
        self.notes.append(text)

    @workflow.update
    async def correct(self, text: str) -> int:
        self.notes.append(text)
        return await add(len(self.notes), 0)


WORKFLOWS: list[Any] = [local, plain_local, Till, counted, Ears, Order]
ACTIVITIES: list[Any] = [add, shaky, hang, charge]


# --- their lives ------------------------------------------------------------------------------------------------------


async def live(env: TestEnvironment) -> None:
    """Start all of them, and do to them what makes the histories."""
    client = env.client
    await client.start(local, id="local")
    await client.start(plain_local, id="plain-local")
    await client.start(Ears.run, 2, id="ears")
    attributes = StartOptions(search_attributes={"rate": 0.5, "opened_by": "nobody"})
    till = await client.start(Till.run, "ada", id="till", options=attributes)
    assert await till.execute_update(Till.pay, 5, id="p-1") == 5
    assert await till.execute_update(Till.pay, 5, id="p-1") == 5
    for wrong in (Till.pay(0), Till.refuse()):
        with suppress(UpdateRejectedError, UpdateFailedError):
            await till.execute_update(wrong)
    both = [await till.start_update(Till.pay, amount) for amount in (10, 20)]
    assert [await update.result() for update in both] == [15, 25]  # both took the 5
    await env.sleep(30)
    await client.signal("ears", "say", "first")
    await till.signal(Till.close, request_id="c-1")

    down.append("no connection")
    order = await client.start(Order.run, "o-1", id="order")
    await order.signal("note", "urgent", request_id="n-1")
    with suppress(WorkflowFailedError):
        await order.result()
    down.clear()
    waiting = await client.reset("order", "last-successful", reason="charging works again")
    await env.sleep(1)
    assert await waiting.execute_update(Order.correct, "blue", id="u-1") == 4
    await waiting.signal(Order.note, "second thoughts")
    await env.sleep(1)
    again = await client.reset("order", "last-workflow-task", reason="while it waits")
    await again.signal(Order.note, "ship")
    await again.result()
    final = await client.reset("order", "first-workflow-task")
    await final.signal(Order.note, "ship")
    await final.result()
    await client.signal("ears", "say", "last")
    await env.sleep(1000)
