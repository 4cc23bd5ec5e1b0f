"""Streams between processes: a reader hears of what another one writes; code without an event loop; child processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from tests.engine.process import ROOT
from tests.engine.stream_process import Echo, say_elsewhere, says_elsewhere
from tests.worker_thread import worker_in_a_thread

from outlast import Client, Worker, blocking
from outlast.errors import StreamTimeoutError
from outlast.runtime import notifier

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def worker_elsewhere(url: str) -> Generator[None]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "tests.engine.stream_process", url]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, cwd=ROOT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


async def test_a_reader_elsewhere_hears_of_an_item_without_a_poll(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody looks by themselves for an hour: what comes sooner was announced.
    monkeypatch.setattr(notifier, "POLL_INTERVAL_S", 3600.0)
    async with Client.connect(shared_url) as client:
        handle = await client.start(Echo.run, id="echo")
        with worker_elsewhere(shared_url):
            items = handle.stream("words", timeout=60, item_type=str)
            for number in range(20):
                waiting = asyncio.ensure_future(anext(items))
                await asyncio.sleep(0)
                await handle.signal(Echo.say, f"word {number}")
                item = await waiting
                assert (item.offset, item.value) == (number, f"word {number}")
            waiting = asyncio.ensure_future(anext(items))
            await handle.signal(Echo.say, "")
            with pytest.raises(StopAsyncIteration):
                await waiting


def test_code_without_an_event_loop_reads(shared_url: str) -> None:
    with worker_in_a_thread(shared_url, workflows=[Echo]), blocking.Client.connect(shared_url) as client:
        handle = client.start(Echo.run, id="echo")
        items = handle.stream("words", timeout=60, item_type=str)
        for number in range(3):
            handle.signal(Echo.say, f"word {number}")
            item = next(items)
            assert (item.offset, item.value) == (number, f"word {number}")
        with pytest.raises(StreamTimeoutError) as caught:
            next(handle.stream("words", start=3, timeout=0.01))
        assert caught.value.offset == 3
        handle.signal(Echo.say, "")
        assert list(items) == []
        handle.result()
        assert [item.value for item in handle.stream("words", start=1)] == ["word 1", "word 2"]


async def test_an_activity_in_a_process_of_its_own_publishes(shared_url: str) -> None:
    words = [f"word {number}" for number in range(250)]
    async with Client.connect(shared_url) as client:
        async with Worker(client, workflows=[says_elsewhere], activities=[say_elsewhere]):
            handle = await client.start(says_elsewhere, words, id="w")
            found = [item async for item in handle.stream("words", timeout=60)]
            pid = await handle.result()
    assert pid != os.getpid()
    assert [item.value for item in found] == [[word, pid] for word in words]
    assert {(item.activity_id, item.attempt) for item in found} == {(1, 1)}
