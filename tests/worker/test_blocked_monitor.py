"""A workflow that blocks is interrupted, counted and shown; its process continues."""

import asyncio
import logging
import subprocess
import sys
from typing import Any

import pytest
from tests.rows import latest_row

from outlast import Client, Worker, workflow
from outlast.worker.blocked_monitor import HERE
from outlast_store.reads.runs import find_failures


@pytest.fixture
def anyio_backend() -> str:
    """Real time."""
    return "asyncio"


@workflow.defn
async def quick() -> str:
    return "done"


@workflow.defn
async def spins() -> None:
    while True:
        pass


@workflow.defn
async def never_waits() -> None:
    while True:  # noqa: ASYNC110
        await asyncio.sleep(0)


@workflow.defn
async def holds_on() -> None:
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


@workflow.defn
def plainly_spins() -> None:
    try:
        while True:
            pass
    except Exception:
        pass


@workflow.defn
def plainly_never_waits() -> None:
    while True:
        workflow.blocking.sleep(0)


@pytest.mark.parametrize("code", [spins, never_waits, holds_on, plainly_spins, plainly_never_waits])
async def test_code_that_blocks_fails_its_task_and_nothing_else(
    sqlite_url: str, code: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client.connect(sqlite_url) as client, Worker(client, workflows=[quick, code]):
        watch = HERE.monitor
        assert watch is not None
        watch._limit_s = 0.3
        with caplog.at_level(logging.ERROR, "outlast.worker"):
            handle = await client.start(code, id="blocks")
            while not (row := await latest_row(handle)).task_failures:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert row.is_open
        assert "test_blocked_monitor.py" in caplog.text, "the log says where"
        (failure, *_) = client.runtime.read_now(find_failures, row.run_id, 10)
        assert failure.exception_class == "WorkflowTaskBlockedError"
        assert await client.execute(quick) == "done"
        await handle.terminate()


PROFILED = """
import sys, threading
from types import SimpleNamespace
from outlast.worker.blocked_monitor import BlockedMonitor, WorkflowTaskInterrupted

interrupted = threading.Event()
machine = SimpleNamespace(
    run_id="r", definition=SimpleNamespace(source="here"), interrupt=lambda error: interrupted.set()
)
watch = BlockedMonitor(limit_s=0.0)
watch.start()
{block}
watch.stop()
calls = []
sys.setprofile(lambda frame, event, argument: calls.append(event))
(lambda: None)()
sys.setprofile(None)
print("call" in calls)
"""
ARRIVED = """
watch.enter(machine)
try:
    while True:
        pass
except WorkflowTaskInterrupted:
    pass
watch.leave()
"""
NOT_ARRIVED = """
watch.enter(machine)
try:
    sys.setswitchinterval(100)
    interrupted.wait()
except WorkflowTaskInterrupted:
    pass
finally:
    try:
        watch.leave()
    except WorkflowTaskInterrupted:
        watch.leave()
"""


@pytest.mark.parametrize("block", [ARRIVED, NOT_ARRIVED], ids=["arrived", "perhaps_not"])
def test_a_profiler_works_in_a_thread_whose_task_was_interrupted(block: str) -> None:
    command = [sys.executable, "-c", PROFILED.replace("{block}", block)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
