"""A fork from every point of generated histories: each one that is possible replays, goes on and ends."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.simulation import programs

from outlast import WorkflowHandle
from outlast.errors import ResetRefusedError, WorkflowResultError
from outlast.testing import TestEnvironment

IN_MEMORY = [one for one in programs.ACTIVITIES if one is not programs.book]
"""Transactional activities need a file, and are not drawn here."""
HISTORIES = 200
SHORT = 4
"""How many of them a usual test forks; the nightly one does the others, too."""


async def events_of(handle: WorkflowHandle[Any]) -> list[str]:
    return [event.type async for event in handle.history()]


async def ended(handle: WorkflowHandle[Any]) -> None:
    try:
        await handle.result(3600)
    except WorkflowResultError:
        pass


async def fork_everywhere(seed: int) -> int:
    rng = random.Random(seed)
    made = 0
    async with TestEnvironment() as env:
        workers = [
            env.new_worker(task_queue=queue, workflows=programs.WORKFLOWS, activities=IN_MEMORY)
            for queue in programs.QUEUES
        ]
        async with workers[0], workers[1]:
            steps = programs.draw(rng, size=4)
            start = env.client.start(
                programs.Program.run, steps, [], [], id="w1", task_queue=programs.QUEUES[0]
            )
            handle = await start
            for number in range(rng.randint(0, 3)):
                await env.sleep(rng.choice((0, 0.1, 1)))
                if await handle.is_open():
                    await env.client.signal("w1", "take", f"s{number}", request_id=f"k{number}")
            await ended(handle)
            last = env.client.handle("w1")
            length = len(await events_of(last))
            for seq in range(1, length + 1):
                try:
                    fork = await last.fork(seq, id=f"f{seq}")
                except ResetRefusedError:
                    continue
                made += 1
                await ended(fork)
                assert "WorkflowTaskFailed" not in await events_of(fork), f"seed {seed}, event {seq}"
                assert not await fork.is_open()
    return made


@pytest.mark.parametrize("seed", range(SHORT))
def test_a_fork_from_any_point_of_a_history_ends(seed: int) -> None:
    assert TestEnvironment.run(fork_everywhere, seed) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SHORT, HISTORIES))
def test_a_fork_from_any_point_of_any_history_ends(seed: int) -> None:
    assert TestEnvironment.run(fork_everywhere, seed) > 0
