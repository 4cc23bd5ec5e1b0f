"""Calls of one key at the same time, from two connections, make one run: whoever comes second finds it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from outlast import Client

ROUNDS = 12
CALLERS = 3


def test_callers_of_one_key_meet_at_one_run(shared_url: str) -> None:
    # Each has a thread, a loop and a journal of its own.
    together = Barrier(CALLERS, timeout=60)

    async def call() -> list[tuple[str, str | None]]:
        found = []
        async with Client.connect(shared_url) as client:
            for number in range(ROUNDS):
                await asyncio.to_thread(together.wait)
                handle = await client.debounce("Nobody", number, key=f"k{number // 3}", period=3600)
                found.append((handle.workflow_id, handle.run_id))
        return found

    with ThreadPoolExecutor(CALLERS) as threads:
        calls = [threads.submit(asyncio.run, call()) for _ in range(CALLERS)]
        found = [one.result(120) for one in calls]
    for number in range(0, ROUNDS, 3):
        assert len({pair for one in found for pair in one[number : number + 3]}) == 1
    assert len({pair for one in found for pair in one}) == ROUNDS // 3
