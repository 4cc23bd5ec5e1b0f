"""Replaying every run of a test, and the fixtures for those who want them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.engine import programs
from tests.recorded import Recorder

from outlast import workflow
from outlast.errors import NonDeterminismError
from outlast.testing import TestEnvironment

lives: list[int] = []


@workflow.defn
async def fickle() -> int:
    lives.append(1)
    if len(lives) == 1:
        await asyncio.sleep(1)
    return 1


def test_every_run_is_replayed_at_the_end(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "listening", False)

    async def run(replay: bool) -> None:
        lives.clear()
        async with TestEnvironment(
            workflows=[fickle, programs.Sum], activities=programs.ACTIVITIES, replay=replay
        ) as env:
            assert await env.client.execute(programs.Sum.run, [1, 2]) == 3
            assert await env.client.execute(fickle, id="w") == 1

    TestEnvironment.run(run, False)
    with pytest.raises(NonDeterminismError) as caught:
        TestEnvironment.run(run, True)
    assert "workflow 'w'" in caught.value.__notes__[0]


def test_a_test_that_fails_fails_by_its_own_error() -> None:
    async def run() -> None:
        lives.clear()
        async with TestEnvironment(workflows=[fickle], replay=True):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        TestEnvironment.run(run)


SUITE = """
import asyncio
import pytest
from outlast import activity, workflow
from outlast.testing import ActivityEnvironment, TestEnvironment

pytest_plugins = ["outlast.testing.plugin"]
count = []

@activity.defn(start_to_close_timeout=5)
async def one() -> int:
    activity.heartbeat("beat")
    return 1

@workflow.defn
async def steady() -> int:
    await asyncio.sleep(1000)
    return await one()

@workflow.defn
async def fickle() -> None:
    count.append(1)
    if len(count) == 1:
        await asyncio.sleep(1)

def test_steady(outlast_environment, outlast_run):
    async def test():
        async with outlast_environment(workflows=[steady], activities=[one]) as env:
            assert await env.client.execute(steady) == 1
    outlast_run(test)

def test_activity(activity_environment):
    assert asyncio.run(activity_environment.run(one)) == 1
    assert activity_environment.heartbeats == [("beat",)]

def test_fickle(outlast_environment, outlast_run):
    async def test():
        async with outlast_environment(workflows=[fickle]) as env:
            await env.client.execute(fickle)
    outlast_run(test)
"""


def test_the_fixtures_work_in_a_suite_that_asks_for_them(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
        "--rootdir",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    assert "2 passed" in done.stdout, done.stdout
    assert "1 failed" in done.stdout
    assert "FAILED test_suite.py::test_fickle - outlast.errors.NonDeterm" in done.stdout
