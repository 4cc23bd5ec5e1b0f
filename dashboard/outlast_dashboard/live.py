"""Knowing soon that something may have changed.

A :class:`Bell` rings when this process commits, when the notifier says that another did, and after :data:`PATIENCE_S`
in any case: not every change rings (heartbeats don't), and a bell may be lost. Whoever is rung looks and compares.
"""

from __future__ import annotations

import asyncio
from typing import Final, Self

from outlast import Client
from outlast_store.journal.batch import Committed

PATIENCE_S: Final = 0.5
GAP_S: Final = 0.1
"""How long after a ring the next one comes at the earliest: a busy engine rings all the time."""


class Bell:
    """Rings when there may be news in a client's database."""

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

    async def rung(self) -> None:
        """Wait for the next ring."""
        await asyncio.sleep(GAP_S)
        try:
            async with asyncio.timeout(PATIENCE_S - GAP_S):
                await self._notified.wait()
        except TimeoutError:
            pass
        self._notified.clear()
