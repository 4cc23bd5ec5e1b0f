"""Synchronous workflows that the tests of the engine run, with their asynchronous twins."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.engine.programs import add, echo, multiply, note

from outlast import workflow
from outlast.workflow import blocking
from outlast_workflow.errors.child import ChildWorkflowError

# --- children and friends -------------------------------------------------------------------------------------------


@workflow.defn
def plain_child(number: int) -> int:
    blocking.sleep(5)
    return add.call(number, 1)


@workflow.defn
def refusing() -> None:
    raise ValueError("no")


# --- twins ----------------------------------------------------------------------------------------------------------


@workflow.defn(name="Order")
class Order:
    @workflow.init
    def __init__(self, number: int) -> None:
        self.number = number
        self.approved: list[str] = []

    @workflow.run
    async def run(self, number: int) -> list[Any]:
        total = await add(number, self.number)
        both = [workflow.start_activity(multiply, total, factor) for factor in (2, 3)]
        totals = [await one for one in both]
        try:
            await workflow.wait_condition(lambda: len(self.approved) == 2, timeout=180)
        except TimeoutError:
            self.approved.append("nobody")
        await workflow.wait_condition(workflow.all_handlers_finished)
        child = await workflow.start_child(plain_child, total, id=f"{workflow.info().workflow_id}-child")
        try:
            await workflow.execute_child(refusing)
        except ChildWorkflowError as error:
            self.approved.append(type(error.__cause__).__name__)
        return [*totals, child, self.approved, str(workflow.now())]

    @workflow.signal
    async def approve(self, by: str) -> None:
        self.approved.append(await echo(by))

    @workflow.signal
    def mark(self, text: str) -> None:
        self.approved.append(text)


@workflow.defn(name="Order")
class PlainOrder:
    @workflow.init
    def __init__(self, number: int) -> None:
        self.number = number
        self.approved: list[str] = []

    @workflow.run
    def run(self, number: int) -> list[Any]:
        total = add.call(number, self.number)
        both = [blocking.start_activity(multiply, total, factor) for factor in (2, 3)]
        totals = [one.result() for one in both]
        try:
            blocking.wait_condition(lambda: len(self.approved) == 2, timeout=180)
        except TimeoutError:
            self.approved.append("nobody")
        blocking.wait_condition(blocking.all_handlers_finished)
        child = blocking.start_child(plain_child, total, id=f"{workflow.info().workflow_id}-child").result()
        try:
            blocking.execute_child(refusing)
        except ChildWorkflowError as error:
            self.approved.append(type(error.__cause__).__name__)
        return [*totals, child, self.approved, str(blocking.now())]

    @workflow.signal
    def approve(self, by: str) -> None:
        self.approved.append(echo.call(by))

    @workflow.signal
    def mark(self, text: str) -> None:
        self.approved.append(text)


@workflow.defn(name="careful")
async def careful() -> str:
    try:
        await workflow.sleep(100_000)
    except asyncio.CancelledError:
        await workflow.sleep(7)
        await note("tidied")
        raise
    return "slept"


@workflow.defn(name="careful")
def plain_careful() -> str:
    try:
        blocking.sleep(100_000)
    except asyncio.CancelledError:
        blocking.sleep(7)
        note.call("tidied")
        raise
    return "slept"


@workflow.defn(name="rounds")
async def rounds(left: int) -> str:
    await workflow.sleep(60)
    await workflow.external("listener").signal("mark", f"{left} left")
    if left:
        workflow.continue_as_new(left - 1)
    return "done"


@workflow.defn(name="rounds")
def plain_rounds(left: int) -> str:
    blocking.sleep(60)
    blocking.external("listener").signal("mark", f"{left} left")
    if left:
        blocking.continue_as_new(left - 1)
    return "done"


@workflow.defn(name="Basket")
class Basket:
    def __init__(self) -> None:
        self.items: list[int] = []
        self.done = False

    @workflow.run
    async def run(self) -> list[int]:
        await workflow.wait_condition(lambda: self.done)
        return self.items

    @workflow.update
    async def add(self, number: int) -> int:
        self.items.append(await add(number, 1))
        await workflow.sleep(1)
        return len(self.items)

    @workflow.query
    def contents(self) -> list[int]:
        return self.items

    @workflow.signal
    async def finish(self) -> None:
        self.done = True


@workflow.defn(name="Basket")
class PlainBasket:
    def __init__(self) -> None:
        self.items: list[int] = []
        self.done = False

    @workflow.run
    def run(self) -> list[int]:
        blocking.wait_condition(lambda: self.done)
        return self.items

    @workflow.update
    def add(self, number: int) -> int:
        self.items.append(add.call(number, 1))
        blocking.sleep(1)
        return len(self.items)

    @workflow.query
    def contents(self) -> list[int]:
        return self.items

    @workflow.signal
    def finish(self) -> None:
        self.done = True


COROUTINES: list[Any] = [Order, Basket, careful, rounds, plain_child, refusing]
PLAIN: list[Any] = [PlainOrder, PlainBasket, plain_careful, plain_rounds, plain_child, refusing]
