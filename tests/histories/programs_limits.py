"""Runs that limit themselves: with and without a run timeout, several times, past a reset, in a fork."""

from __future__ import annotations

from contextlib import suppress

from outlast import StartOptions, workflow
from outlast.errors import WorkflowTimeoutError
from outlast.testing import TestEnvironment


@workflow.defn
async def patient(rest: float) -> list[float]:
    """Sets three limits, of which the second is no shorter, and says what is left after each."""
    left = []
    for limit in (50, 60, 20):
        workflow.limit(limit)
        remaining = workflow.time_remaining()
        assert remaining is not None
        left.append(remaining.total_seconds())
        await workflow.sleep(2)
    await workflow.sleep(rest)
    return left


@workflow.defn(run_timeout=30)
def plainly() -> float:
    workflow.blocking.limit(40)
    workflow.blocking.limit(10)
    remaining = workflow.blocking.time_remaining()
    assert remaining is not None
    return remaining.total_seconds()


@workflow.defn
async def in_turn(turn: int) -> int:
    workflow.limit(20 - turn)
    await workflow.sleep(1)
    if turn:
        workflow.continue_as_new(turn - 1)
    return turn


WORKFLOWS = [patient, plainly, in_turn]
ACTIVITIES: list[object] = []


async def live(env: TestEnvironment) -> None:
    """Run all of them."""
    client = env.client
    await client.execute(patient, 1.0)
    late = await client.start(patient, 100.0, id="late", options=StartOptions(run_timeout=40))
    with suppress(WorkflowTimeoutError):
        await late.result()
    await env.sleep(100)
    lowered = [event.seq async for event in late.history() if event.type == "WorkflowDeadlineLowered"]
    again = await late.reset(lowered[0] + 1)
    fork = await client.fork("late", lowered[0] + 1, id="fork")
    for handle in (again, fork):
        with suppress(WorkflowTimeoutError):
            await handle.result()
    await client.execute(plainly)
    await client.execute(in_turn, 2)
