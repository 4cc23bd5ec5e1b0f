"""A thousand of everything at once, on the threads of a program that does nothing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import outlast
from outlast import Client, Worker, WorkflowHandle, activity, workflow

MANY = 1000
MOST_THREADS = 42
running = 0
all_run = asyncio.Event()


@activity.defn(start_to_close_timeout=600)
async def step(number: int) -> int:
    """Ends once all of them run at the same time, and their event was read by another workflow's caller."""
    global running
    running += 1
    if running == MANY:
        all_run.set()
    await all_run.wait()
    return number


@workflow.defn
async def patient(number: int) -> int:
    await workflow.sleep(0.01)
    workflow.upsert_memo({"asleep": False})
    found = await workflow.receive("go", result_type=int)
    return found + await step(number)


def test_a_thousand_workflows_and_steps_need_few_threads(tmp_path: Path) -> None:
    async def main() -> int:
        url = f"sqlite:///{tmp_path}/file.db"
        most = 0
        async with Client.connect(url) as client:
            worker = Worker(client, workflows=[patient], activities=[step], max_concurrent_activities=MANY)
            async with worker:
                handles: list[WorkflowHandle[int]] = [
                    await client.start(patient, number, id=f"p{number}") for number in range(MANY)
                ]
                read = await asyncio.gather(*[handle.memo_value("asleep") for handle in handles])
                assert read == [False] * MANY
                most = max(most, threading.active_count())
                await client.signal_many(
                    [outlast.SignalTo(handle.workflow_id, "go", MANY) for handle in handles]
                )
                await all_run.wait()
                most = max(most, threading.active_count())
                first = await outlast.wait_first(handles)
                assert await first.result() >= MANY
                assert sorted([await handle.result() for handle in handles]) == list(range(MANY, 2 * MANY))
        return most

    assert asyncio.run(main()) <= MOST_THREADS
