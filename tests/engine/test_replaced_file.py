"""A SQLite file that is taken away under the processes that have it open: each of them says so, and stops."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Client, Worker, activity, workflow
from outlast.watchdog import TaskWatchdog
from outlast_workflow.errors import StoreReplacedError


@pytest.fixture
def anyio_backend() -> str:
    """Real time."""
    return "asyncio"


@activity.defn(start_to_close_timeout=60)
async def hang() -> None:
    await asyncio.Event().wait()


@workflow.defn
async def hangs() -> None:
    await hang()


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_suffix(".old"))


def restore(path: Path) -> None:
    """A backup is moved over it."""
    backup = path.with_suffix(".backup")
    shutil.copy(path, backup)
    os.replace(backup, path)


HAPPENS = pytest.mark.parametrize("happens", [delete, move, restore])


@HAPPENS
async def test_nothing_is_written_or_read_any_more(tmp_path: Path, happens: Callable[[Path], None]) -> None:
    path = tmp_path / "orders.db"
    async with Client.connect(f"sqlite:///{path}") as client:
        handle = await client.start(hangs, id="before")
        watchdog = TaskWatchdog(client)
        await watchdog.run_pass()
        happens(path)
        with pytest.raises(StoreReplacedError, match="restart this process"):
            await client.start(hangs, id="after")
        with pytest.raises(StoreReplacedError):
            await handle.describe()
        with pytest.raises(StoreReplacedError):
            await watchdog.run_pass()


@HAPPENS
@pytest.mark.parametrize("own_thread", [False, True], ids=["own loop", "own thread"])
@pytest.mark.parametrize("after_s", [None, 0, 0.003, 0.01, 0.02, 0.2])
async def test_a_worker_stops_and_says_why(
    tmp_path: Path, happens: Callable[[Path], None], own_thread: bool, after_s: float | None
) -> None:
    """Whether it has begun to work, or is about to."""
    path = tmp_path / "orders.db"
    url = f"sqlite:///{path}"
    async with Client.connect(url) as client:
        await client.start(hangs, id="before")
        worker = Worker(client, workflows=[hangs], activities=[hang], own_thread=own_thread)
        running = asyncio.ensure_future(worker.run())
        if after_s is not None:
            await asyncio.sleep(after_s)
        happens(path)
        with pytest.raises(StoreReplacedError, match="nothing is written any more"):
            async with asyncio.timeout(60):
                await running
