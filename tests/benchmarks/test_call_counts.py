"""How many calls of Holdfast's own Python functions a workflow and an activity take: where processor time goes.

On a virtual clock, in one thread, the number is the same on every machine. If a rise is worth it, change the figure
here; if a figure fell, lower it here, so that it stays low.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from benchmarks.costs import Calls
from benchmarks.inputs import argument
from benchmarks.workloads import add, charge, order, sequence

from holdfast import Client
from holdfast.testing import TestEnvironment

STEPS = 100
WORKFLOWS = 50


async def calls_of(work: Callable[[Client], Awaitable[object]]) -> int:
    async with TestEnvironment(workflows=[order, sequence], activities=[charge, add]) as env:
        await work(env.client)
        with Calls() as calls:
            await work(env.client)
    return calls.of.total()


def test_an_activity_takes_so_many_calls() -> None:
    async def short(client: Client) -> None:
        await client.execute(sequence, STEPS)

    async def long(client: Client) -> None:
        await client.execute(sequence, 2 * STEPS)

    one, other = TestEnvironment.run(calls_of, short), TestEnvironment.run(calls_of, long)
    assert other - one <= 209 * STEPS


def test_a_lone_workflow_takes_so_many_calls() -> None:
    async def some(client: Client) -> None:
        for number in range(WORKFLOWS):
            await client.execute(order, argument(number))

    assert TestEnvironment.run(calls_of, some) <= 422 * WORKFLOWS
