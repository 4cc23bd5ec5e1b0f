"""What it costs to wake many sleeping runs that have left memory: a few statements for all of them, not for each."""

from __future__ import annotations

import asyncio

from benchmarks.harness.counting import Counter, Counts

from outlast import StartOptions, workflow
from outlast.testing import TestEnvironment

RUNS = 40


@workflow.defn
async def sleeps() -> str:
    await asyncio.sleep(3600)
    return "awake"


async def count_waking() -> Counts:
    """Forty runs sleep until the same time, none of them in memory."""
    with Counter() as counter:
        async with TestEnvironment(workflows=[sleeps], max_cached_workflows=0) as env:
            deadline = StartOptions(run_timeout=7200)
            handles = [await env.client.start(sleeps, options=deadline) for _ in range(RUNS)]
            await env.sleep(3599)
            with counter.counting() as counts:
                await env.sleep(2)
                assert [await handle.result() for handle in handles] == ["awake"] * RUNS
    return counts


def test_runs_that_wake_together_are_fired_read_and_ended_together() -> None:
    counts = TestEnvironment.run(count_waking)
    assert counts.commits == 2  # all timers fire; all runs go on, and end
    assert counts.kinds["SELECT history_events"] == 1


def test_a_run_that_was_read_back_knows_that_it_has_nothing_open() -> None:
    counts = TestEnvironment.run(count_waking)
    assert counts.kinds["SELECT activity_executions"] == 0
