"""Replay of a run of activities in sequence by Outlast: ``python own_replay.py <database url> <activities> <rounds>``.

The engine runs it first. What is measured is the restoring from its rows, including the read.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from outlast import Client, Worker, activity, workflow
from outlast_store.reads.histories import read_history
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import replay


@activity.defn(start_to_close_timeout=600)
async def step(number: int) -> int:
    """Return the argument."""
    return number


@workflow.defn
async def sequence(steps: int) -> int:
    """Run a number of steps, one after the other."""
    for number in range(steps):
        await step(number)
    return steps


async def measure(url: str, steps: int, rounds: int) -> dict[str, Any]:
    """Make the run, and restore it a number of times; the first time is not counted."""
    async with Client.connect(url) as client, Worker(client, workflows=[sequence], activities=[step]):
        handle = await client.start(sequence, steps)
        assert await handle.result() == steps
        run_id = handle.run_id
        assert run_id is not None
        took: list[float] = []
        last_seq = 0
        for _ in range(rounds + 1):
            began = time.perf_counter()
            machine = WorkflowMachine(
                definition_of(sequence), run_id, converter=DataConverter(), limits=StructuralLimits()
            )
            with client.runtime.database.reader() as connection:
                replayed = replay(machine, read_history(connection, run_id))
            took.append(time.perf_counter() - began)
            assert replayed.closed
            last_seq = replayed.last_seq
            machine.evict()
    return {"events": last_seq, "seconds": took[1:]}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
