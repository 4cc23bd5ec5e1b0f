"""Polling with continue-as-new: ask another system until a job is done, for months if needed, with a short history."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass

from outlast import Client, StartOptions, Worker, activity, workflow


@dataclass
class Poll:
    job: str
    every: float
    """Seconds between two requests."""
    asked: int = 0


answers: dict[str, int] = {}
"""How many more times each job will say that it is not done."""


@activity.defn(start_to_close_timeout=10)
async def is_done(job: str) -> bool:
    answers[job] = answers.get(job, 0) - 1
    return answers[job] < 0


@workflow.defn
async def wait_for_job(poll: Poll, rounds: int = 100) -> int:
    """Return how often it asked. Each run asks ``rounds`` times; then the next run of the chain continues."""
    for _ in range(rounds):
        poll.asked += 1
        if await is_done(poll.job):
            return poll.asked
        await workflow.sleep(poll.every)
    workflow.continue_as_new(poll, rounds)


WORKFLOWS = [wait_for_job]
ACTIVITIES = [is_done]


async def main(url: str) -> None:
    answers["report"] = 7
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        # Over all runs of the chain.
        options = StartOptions(execution_timeout=3600)
        poll = Poll(job="report", every=0.01)
        handle = await client.start(wait_for_job, poll, 3, id="poll-1", options=options)
        print("asked", await handle.result(), "times in", (await handle.describe()).run.run_number, "runs")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/polling.db"))
