"""A run that is evicted at every workflow task leaves the same history as one that never is.

Large histories and payloads work as well.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment
from tests.rows import latest_row

from outlast.client.client import Client
from outlast.testing import TestEnvironment
from outlast_store.reads.runs import find_run
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.errors import WorkflowCancelledError, WorkflowFailedError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import RetryPolicy, StartOptions

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Told = list[tuple[str, str, Any]]

PROGRAMS: list[tuple[Any, tuple[Any, ...], StartOptions]] = [
    (programs.Sum.run, ([1, 2, 3],), StartOptions()),
    (programs.Countdown.run, (3, []), StartOptions(execution_timeout=100, run_timeout=50)),
    (programs.third_time, (), StartOptions(retry_policy=RetryPolicy())),
    (programs.retrying, ("key", 2), StartOptions()),
    (programs.resuming, (6,), StartOptions()),
    (programs.refused, ("non_retryable",), StartOptions()),
    (programs.crashing, ("by zero",), StartOptions()),
    (programs.with_gather, (), StartOptions()),
    (programs.with_wait, (), StartOptions()),
    (programs.with_wait_for, (), StartOptions()),
    (programs.with_timeout, (), StartOptions()),
    (programs.with_task_group, (), StartOptions()),
    (programs.with_failing_group, (), StartOptions()),
    (programs.with_as_completed, (), StartOptions()),
    (programs.with_queue_and_lock, (), StartOptions()),
    (programs.deterministic_values, (), StartOptions()),
    (programs.many, (200,), StartOptions()),
    (programs.Careful.run, (1000,), StartOptions(run_timeout=30)),
    (programs.waiting, (1000,), StartOptions(execution_timeout=20)),
]


async def tell(client: Client, run_id: str | None) -> Told:
    """Return all events of a chain without their ids, which differ from run to run."""
    told: Told = []
    while run_id is not None:
        async for event in client.handle("w", run_id=run_id).history():
            payload = UUID.sub("an-id", str(event.payload))
            told.append((event.type, event.recorded_at.isoformat(), payload))
        row = await client.runtime.read(find_run, run_id)
        assert row is not None
        run_id = row.next_run_id
    return told


async def history_of(make: MakeEnvironment, program: Any, **options: Any) -> Told:
    programs.calls.clear()
    async with make(**options) as env:
        workflow, args, start_options = program
        handle = await env.client.start(workflow, *args, id="w", options=start_options)
        await asyncio.gather(handle.result(), return_exceptions=True)
        await env.settle()
        return await tell(env.client, handle.run_id)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: definition_of(program[0]).name)
async def test_never_cached_is_as_always_cached(in_memory: MakeEnvironment, program: Any) -> None:
    cached = await history_of(in_memory, program)
    replayed = await history_of(in_memory, program, max_cached_workflows=0)
    assert replayed == cached


async def test_the_same_seed_gives_the_same_history(in_memory: MakeEnvironment) -> None:
    histories = [
        await history_of(in_memory, (programs.deterministic_values, (), StartOptions()), seed=seed)
        for seed in (1, 1, 2)
    ]
    assert histories[0] == histories[1]
    assert histories[0] != histories[2]


async def test_cancelling_is_the_same_with_and_without_a_cache(in_memory: MakeEnvironment) -> None:
    async def cancelled(max_cached: int) -> Told:
        programs.calls.clear()
        async with in_memory(max_cached_workflows=max_cached) as env:
            handle = await env.client.start(programs.Careful.run, 1000, id="w")
            await env.sleep(3)
            await handle.cancel("stop")
            with pytest.raises(WorkflowCancelledError):
                await handle.result()
            return await tell(env.client, handle.run_id)

    assert await cancelled(1000) == await cancelled(0)


# --- large ----------------------------------------------------------------------------------------------------------


async def test_ten_thousand_activities_in_one_gather(in_memory: MakeEnvironment, database_url: str) -> None:
    async with in_memory(url=database_url) as env:
        assert await env.client.execute(programs.many, 10_000, id="w") == 10_000 * 10_001 // 2
        assert programs.calls["add"] == 10_000


async def test_ten_thousand_activities_on_a_few_slots(in_memory: MakeEnvironment) -> None:
    async with in_memory(max_concurrent_activities=7) as env:
        assert await env.client.execute(programs.many, 1000, id="w") == 1000 * 1001 // 2
        assert programs.calls["add"] == 1000


async def test_a_history_of_twenty_thousand_events_replays(in_memory: MakeEnvironment) -> None:
    steps = 6_700  # three events each
    async with in_memory(limits=StructuralLimits(history_events=0)) as env:
        handle = await env.client.start(programs.long_story, steps, id="w")
        await _until_so_long(env, handle.run_id, steps * 3 - 100)
        await env.worker.stop()
        row = await latest_row(handle)
        assert row.is_open
        assert row.last_seq > 20_000
        ran = programs.calls["add"]
        async with env.new_worker(workflows=programs.WORKFLOWS, activities=programs.ACTIVITIES):
            assert await handle.result() == steps
        assert programs.calls["add"] == steps, f"nothing of the first {ran} is done again"


async def _until_so_long(env: TestEnvironment, run_id: str | None, events: int) -> None:
    """Let the loop go round until a run's history has a number of events."""
    assert run_id is not None
    while True:
        row = await env.client.runtime.read(find_run, run_id)
        assert row is not None
        if row.last_seq >= events:
            return
        for _ in range(50):
            await asyncio.sleep(0)


async def test_a_history_over_its_limit_ends_the_run(in_memory: MakeEnvironment) -> None:
    async with in_memory(limits=StructuralLimits(history_events=100)) as env:
        handle = await env.client.start(programs.long_story, 1000, id="w")
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        assert type(caught.value.__cause__).__name__ == "StructuralLimitError"
        row = await latest_row(handle)
        assert row.last_seq <= 110
