"""DAGs of every kind of nodes, whose worker is killed whenever their histories have grown.

The outcome must be the one that an undisturbed run has: each node ends as it would have, whatever was under way when
the worker died. ``python -m tests.chaos.dags --work URL`` is one worker.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tests.chaos.transfers import LEASE_S, Workers

from outlast import Client, RetryPolicy, StructuralLimits, Worker, activity, workflow
from outlast.errors import OutlastError
from outlast_activities import attempts
from outlast_dag import (
    DagDefinition,
    approval,
    approve,
    child,
    dag,
    each,
    last,
    or_else,
    plan,
    repeat,
    sleep,
    step,
    wait_for,
)

MANY: Final = 10_000
OFTEN: Final = RetryPolicy(initial_interval=0.05, max_interval=0.2, max_attempts=100)
OPTIONS: Final = {
    "start_to_close_timeout": 5,
    "retry_policy": {"initial_interval": 0.05, "max_attempts": 100},
}


@activity.defn(start_to_close_timeout=5, retry_policy=OFTEN)
async def plus(number: int, other: int = 1) -> int:
    # Long enough for somebody to see that the history has grown.
    await asyncio.sleep(0.1)
    return number + other


@dataclass
class Count:
    number: int
    done: bool


@activity.defn(start_to_close_timeout=5, retry_policy=OFTEN)
async def counted(before: int) -> Count:
    return Count(before + 1, before + 1 == 3)


@activity.defn(start_to_close_timeout=5, retry_policy=OFTEN)
async def planner(number: int) -> dict[str, Any]:
    one = {
        "id": "a",
        "kind": "task",
        "type": "plus",
        "args": [{"is": number}, {"is": 10}],
        "options": OPTIONS,
    }
    two = {"id": "b", "kind": "task", "type": "plus", "args": [{"of": "a"}, {"is": 100}], "options": OPTIONS}
    return {"nodes": [one, two]}


@activity.defn(start_to_close_timeout=5)
async def broken(number: int) -> int:
    raise ValueError(number)


@workflow.defn(execution_timeout=300)
async def doubles(number: int) -> int:
    await workflow.sleep(0.05)
    return await plus(number, number)


@dag(timeout=7200, reserve=10)
def everything(number: int) -> dict[str, Any]:
    pause = sleep(0.1)
    counts = repeat(
        counted, timeout=5, until=lambda count: count.done, max_iterations=9, delay=0.05, retry=OFTEN
    )(last(number))
    told = wait_for("told", result=int, timeout=300, match=lambda value: value == 7)
    silent = wait_for("silence", result=str, timeout=0.2, on_timeout="nobody")
    agreed = approval("agreed", timeout=300, after=[pause])
    rows = each(
        plus, id="rows", timeout=5, max_items=4, concurrency=2, retry=OFTEN, run_when=agreed.approved
    )([1, 2, 3, 4])
    parts = each(plus, id="parts", timeout=5, max_items=4, chunks_of=2, retry=OFTEN)([1, 2, 3])
    twice = child(doubles)(number)
    planned = plan(planner, timeout=5, allow=[plus], run_timeout=300, retry=OFTEN)(number)
    mended = step(
        broken,
        timeout=5,
        retry=1,
        on_failure=lambda failure: step(plus, id="instead", timeout=5, retry=OFTEN)(number, 1000),
    )(number)
    skipped = step(plus, id="skipped", timeout=5, skip_when=agreed.approved, retry=OFTEN)(number)
    return {
        "counts": counts.number,
        "told": told,
        "silent": silent,
        "rows": or_else(rows, []),
        "parts": parts,
        "twice": twice,
        "planned": planned,
        "mended": mended,
        "skipped": or_else(skipped, None),
    }


EXPECTED: Final = {
    "counts": 3,
    "told": 7,
    "silent": "nobody",
    "rows": [2, 3, 4, 5],
    "parts": [2, 3, 4],
    "twice": 4,
    "planned": 112,
    "mended": 1002,
    "skipped": None,
}
"""What :data:`everything` returns for 2."""


@dag(timeout=7200, reserve=10)
def undone(number: int) -> int:
    paid = step(
        plus,
        id="paid",
        timeout=5,
        retry=OFTEN,
        compensate=lambda paid: step(plus, id="refund", timeout=5)(paid),
    )(number)
    pause = sleep(0.1, after=[paid])
    return step(broken, timeout=5, retry=1, after=[pause])(paid)


DAGS: Final[list[DagDefinition[..., Any]]] = [everything, undone]


async def killed_at_commits(url: str, *, every: int) -> tuple[list[str], int]:
    """Run the DAGs, and kill their worker whenever their histories have grown; return what is wrong, and the kills.

    Args:
        url: The database.
        every: By how many events they must have grown.
    """
    crew = Workers(url, 1, "tests.chaos.dags")
    try:
        async with await Client.connect(url) as client:
            await client.start(everything, 2, id="everything")
            await client.start(undone, 2, id="undone")
            return await _watched(client, crew, every), crew.kills
    finally:
        crew.close()


async def _watched(client: Client, crew: Workers, every: int) -> list[str]:
    rng = random.Random(1)
    talking = asyncio.create_task(_talk(client))
    seen = 0
    while True:
        runs = [run async for run in client.list()]
        if all(run.closed_at is not None for run in runs):
            break
        events = sum([(await client.describe(run.workflow_id)).run.history_length for run in runs])
        if events >= seen + every:
            seen = events
            crew.kill(rng)
        await asyncio.sleep(0.01)
    # Who decided may never have learned that it was done.
    talking.cancel()
    wrong = []
    found = await client.handle("everything").result()
    if found != EXPECTED:
        wrong.append(f"{found} is not {EXPECTED}")
    outcome = (await client.describe("undone")).run
    if outcome.search_attributes.get("outlast_dag_outcome") != "compensated":
        wrong.append(f"undone is {outcome.status}, and its outcome {outcome.search_attributes}")
    return wrong


async def _talk(client: Client) -> None:
    """Send a signal that does not fit, then one that does, perhaps before the DAG waits for it; then decide."""
    await client.signal("everything", "told", 6)
    await client.signal("everything", "told", 7)
    while True:
        with suppress(OutlastError):
            await approve(client.handle("everything"), "agreed", by="ada", timeout=5)
            return
        await asyncio.sleep(0.1)


async def work(url: str) -> None:
    """Be the worker, without a limit of deaths: too many end an activity or a run, which is not what this is about."""
    attempts.MOST_RESCUES = MANY
    async with await Client.connect(url, limits=StructuralLimits(owner_losses=MANY)) as client:
        worker = Worker(
            client,
            workflows=[*DAGS, doubles],
            activities=[plus, counted, planner, broken],
            lease_duration=LEASE_S,
            watchdog_interval=0.1,
        )
        await worker.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", metavar="URL", required=True)
    from tests.chaos import dags

    asyncio.run(dags.work(parser.parse_args(sys.argv[1:]).work))
