"""The shortest way through the whole house: one run that does a bit of everything, on each store and in both modes."""

from __future__ import annotations

import asyncio

from tests.engine.conftest import MakeEnvironment
from tests.engine.programs import add

from outlast import workflow


@workflow.defn
class Part:
    """A child."""

    @workflow.run
    async def run(self, number: int) -> int:
        return await add(number, number)


@workflow.defn
class Whole:
    """Activities, a timer, a child, a signal, and a second run of its chain."""

    def __init__(self) -> None:
        self.word = ""

    @workflow.run
    async def run(self, number: int, left: int) -> str:
        doubled = await workflow.execute_child(Part.run, number)
        total = sum(await asyncio.gather(*[add(doubled, other) for other in range(3)]))
        await asyncio.sleep(60)
        if left:
            workflow.continue_as_new(total, left - 1)
        await workflow.wait_condition(lambda: self.word)
        return f"{self.word} {total}"

    @workflow.signal
    def say(self, word: str) -> None:
        self.word = word


async def test_a_run_that_does_a_bit_of_everything_comes_to_its_end(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Part, Whole]) as env:
        handle = await env.client.start(Whole.run, 1, 1, id="whole")
        await env.sleep(90)
        await env.client.signal("whole", Whole.say, "at last")
        assert await handle.result() == "at last 57"
        runs = [run.status async for run in env.client.list(workflow_id="whole")]
        assert runs == ["completed", "continued_as_new"]
