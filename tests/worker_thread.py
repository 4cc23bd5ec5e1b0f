"""A worker in a thread of its own, for tests of code that has no event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from outlast import Client, Worker


@contextmanager
def worker_in_a_thread(url: str, **options: Any) -> Generator[None]:
    """Run a worker of these options until the block ends."""
    started = threading.Event()
    over = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def work() -> None:
        async with Client.connect(url) as client, Worker(client, **options):
            loops.append(asyncio.get_running_loop())
            started.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    assert started.wait(30)
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join()
