"""A worker that says that it has started handles the signals that end it."""

from __future__ import annotations

import asyncio
import signal

import pytest

from outlast import Client, Worker, workflow


@pytest.fixture
def anyio_backend() -> str:
    """Real time, and real signals."""
    return "asyncio"


@workflow.defn
async def nothing() -> None:
    """Does nothing."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_worker_can_be_stopped_once_it_has_started(sqlite_url: str, number: signal.Signals) -> None:
    async with Client.connect(sqlite_url) as client:
        worker = Worker(client, workflows=[nothing])
        await asyncio.wait_for(worker.run(started=lambda: signal.raise_signal(number)), 60)
