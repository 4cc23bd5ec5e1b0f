"""Real processes that fire schedules, and are killed while they do: each slot starts one workflow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from tests.engine.process import until_so

from outlast import Client, Every, Schedule
from outlast_schedules.action import slot_workflow_id
from outlast_workflow.primitives.times import from_datetime

PROCESSES = 8
KILLED = 2


@contextmanager
def watchdog(url: str) -> Generator[subprocess.Popen[bytes]]:
    """A process that only watches; whatever becomes of it, it does not outlive the test."""
    command = [sys.executable, "-m", "outlast", "watchdog", "--url", url]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("schedules", "slots"), [(5, 6), pytest.param(100, 60, marks=pytest.mark.nightly)])
async def test_of_eight_processes_of_which_two_are_killed_one_fires_each_slot(
    shared_url: str, schedules: int, slots: int
) -> None:
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    end = begin + timedelta(seconds=slots - 1)
    ids = [f"s-{number}" for number in range(schedules)]
    async with Client.connect(shared_url) as client:
        await client.schedules.apply(
            [
                # Nobody runs the workflows, so each is open when the next slot comes.
                Schedule(
                    one, "nobody_runs_this", spec=Every(1), start_at=begin, end_at=end,
                    overlap="allow_all", catch_up="all",
                )
                for one in ids
            ]
        )  # fmt: skip
        with ExitStack() as stack:
            processes = [stack.enter_context(watchdog(shared_url)) for _ in range(PROCESSES)]

            async def some_are_started(part: int) -> bool:
                return await client.count() >= part * schedules * slots // 4

            async def all_are_over() -> bool:
                looks = [one.next_look_at async for one in client.schedules.list(next=0)]
                return looks == [None] * schedules

            for part, victim in enumerate(processes[:KILLED], 1):
                await until_so(partial(some_are_started, part), within_s=60)
                victim.kill()
            await until_so(all_are_over, within_s=60 + 2 * slots)
        described = [one async for one in client.schedules.list(next=0)]
        assert [(one.started, one.skipped, one.missed) for one in described] == [(slots, 0, 0)] * schedules
        expected = {
            slot_workflow_id(one, from_datetime(begin + timedelta(seconds=number)))
            for one in ids
            for number in range(slots)
        }
        found = [run.workflow_id async for run in client.list(page_size=1000)]
        assert len(found) == len(expected)
        assert set(found) == expected
