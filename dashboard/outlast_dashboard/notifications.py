"""Being notified soon that the database may have changed.

A :class:`ChangeSignal` wakes its waiter when this process commits, when the notifier reports a commit of another
process, and after :data:`PATIENCE_S` in any case, because some changes (heartbeats) notify nobody and a notification
may be lost. The waiter then reads the database and compares.
"""

from __future__ import annotations

import asyncio
from typing import Final, Self

from outlast import Client
from outlast_store.journal.batch import Committed

PATIENCE_S: Final = 0.5
GAP_S: Final = 0.1
"""The shortest time between two wake-ups: a busy engine commits all the time."""


class ChangeSignal:
    """Wakes a waiter when a client's database may have changed."""

    def __init__(self, client: Client) -> None:
        self._runtime = client.runtime
        self._notified = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._runtime.journal.subscribe(self._on_commit)
        self._runtime.subscribe(self._notified.set)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._runtime.unsubscribe(self._notified.set)
        self._runtime.journal.unsubscribe(self._on_commit)

    def _on_commit(self, _: Committed) -> None:
        self._notified.set()

    async def wait(self) -> None:
        """Wait for the next notification, for :data:`PATIENCE_S` at most."""
        await asyncio.sleep(GAP_S)
        try:
            async with asyncio.timeout(PATIENCE_S - GAP_S):
                await self._notified.wait()
        except TimeoutError:
            pass
        self._notified.clear()
