"""Workflows in two versions, coroutines and plain code, that must ask for the same things."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast import workflow
from outlast_activities import definitions as activity
from outlast_workflow.api import blocking
from outlast_workflow.api.markers import patched, side_effect, upsert_memo
from outlast_workflow.api.shield import shield
from outlast_workflow.declare.definitions import defn, run
from outlast_workflow.errors import ActivityError


@activity.defn(start_to_close_timeout=10)
async def charge(order: str, amount: int = 1) -> list[Any]:
    return [order, amount]


@activity.defn(start_to_close_timeout=10)
def refund(order: str) -> list[Any]:
    return [order]


def six() -> int:
    return 6


# --- one after the other ----------------------------------------------------------------------------------------------


@defn(name="steps")
async def steps(order: str) -> Any:
    trace: list[Any] = []
    for amount in range(3):
        try:
            trace.append(await charge(order, amount))
        except ActivityError as error:
            trace.append(type(error).__name__)
            trace.append(await charge.with_options(priority=1)(order, amount=7))
        await workflow.sleep(amount)
    trace.append(await workflow.execute_activity("named", order, result_type=list))
    trace.append(await workflow.execute_activity(refund, order, priority=3))
    if patched("more"):
        trace.append(side_effect(six))
    upsert_memo({"order": order})
    trace.append([str(workflow.uuid4()), workflow.random().random(), workflow.now().isoformat()])
    return trace


@defn(name="steps")
def plain_steps(order: str) -> Any:
    trace: list[Any] = []
    for amount in range(3):
        try:
            trace.append(charge.call(order, amount))
        except ActivityError as error:
            trace.append(type(error).__name__)
            trace.append(charge.with_options(priority=1).call(order, amount=7))
        blocking.sleep(amount)
    trace.append(blocking.execute_activity("named", order, result_type=list))
    trace.append(blocking.execute_activity(refund, order, priority=3))
    if blocking.patched("more"):
        trace.append(blocking.side_effect(six))
    blocking.upsert_memo({"order": order})
    trace.append([str(blocking.uuid4()), blocking.random().random(), blocking.now().isoformat()])
    return trace


# --- side by side -----------------------------------------------------------------------------------------------------


@defn(name="Parallel")
class Parallel:
    @run
    async def run(self, order: str) -> Any:
        trace: list[Any] = []
        calls = [workflow.start_activity(charge, order, amount) for amount in range(4)]
        done, _ = await asyncio.wait((calls[0],), timeout=0.01)
        trace.append(len(done))
        calls[3].cancel()
        for call in calls:
            try:
                trace.append(await call)
            except (ActivityError, asyncio.CancelledError) as error:
                trace.append(type(error).__name__)
        both = asyncio.gather(charge(order), refund(order), return_exceptions=True)
        trace.append(len(await both))
        return trace


@defn(name="Parallel")
class PlainParallel:
    @run
    def run(self, order: str) -> Any:
        trace: list[Any] = []
        calls = [blocking.start_activity(charge, order, amount) for amount in range(4)]
        try:
            calls[0].result(timeout=0.01)
        except ActivityError:  # which may be a TimeoutError too
            trace.append(1)
        except TimeoutError:
            trace.append(0)
        else:
            trace.append(1)
        calls[3].cancel()
        for call in calls:
            try:
                trace.append(call.result())
            except (ActivityError, asyncio.CancelledError) as error:
                trace.append(type(error).__name__)
        both = asyncio.gather(charge(order), refund(order), return_exceptions=True)
        trace.append(len(blocking.await_(both)))
        return trace


# --- cancelled --------------------------------------------------------------------------------------------------------


@defn(name="Saga")
class Saga:
    @run
    async def run(self, order: str) -> Any:
        trace: list[Any] = []
        try:
            trace.append(await charge(order))
            await workflow.sleep(0.03)
            trace.append(await charge(order))
        except (ActivityError, asyncio.CancelledError) as error:
            trace.append(type(error).__name__)
            trace.append(await shield(workflow.execute_activity("tidy", result_type=list)))
            if isinstance(error, asyncio.CancelledError):
                raise
        return trace


@defn(name="Saga")
class PlainSaga:
    @run
    def run(self, order: str) -> Any:
        trace: list[Any] = []
        try:
            trace.append(charge.call(order))
            blocking.sleep(0.03)
            trace.append(charge.call(order))
        except (ActivityError, asyncio.CancelledError) as error:
            trace.append(type(error).__name__)
            trace.append(blocking.shield(blocking.execute_activity, "tidy", result_type=list))
            if isinstance(error, asyncio.CancelledError):
                raise
        return trace


TWINS = [(steps, plain_steps), (Parallel, PlainParallel), (Saga, PlainSaga)]
