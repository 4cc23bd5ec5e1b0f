"""Bells: how a process learns that a transaction which wrote to the outbox has committed.

SQLAlchemy tells of a commit just before it sends it, so the process looks a millisecond later, and again at growing
intervals until it has found something. A watchdog finds what nobody rings for within its interval.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, event

from outlast.runtime.runtime import Runtime
from outlast_watchdog.metrics import MeasuringEventLog, watchdog_metrics
from outlast_watchdog.outbox import Drained, drain
from outlast_workflow.errors import StoreError

logger = logging.getLogger("outlast.client")

LOOKS_AFTER_S: Final = (0.001, 0.004, 0.01, 0.03, 0.1, 0.3)
"""How long after a commit began, and after each look that found nothing, the process looks."""

_bells: WeakKeyDictionary[Runtime, Bell] = WeakKeyDictionary()


class Bell:
    """The drain of one process, which its own callers' commits ring for.

    Args:
        runtime: The database.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._event_log = MeasuringEventLog(watchdog_metrics())
        self._rung = False
        self._running = False
        self._listening: WeakKeyDictionary[Connection, list[bool]] = WeakKeyDictionary()

    async def drain(self) -> Drained:
        """Apply what waits in the outbox now."""
        return await drain(self._runtime, self._event_log)

    def ring_after(self, connection: Connection) -> None:
        """Ring when the transaction of a connection commits, unless it is rolled back.

        Args:
            connection: The connection, which has written to the outbox.
        """
        wrote = self._listening.get(connection)
        if wrote is not None:
            wrote[0] = True
            return
        wrote = self._listening[connection] = [True]
        ring = self._ring_soon

        def committing(_connection: Connection, *_more: object) -> None:
            if wrote[0]:
                wrote[0] = False
                ring()

        def rolling_back(_connection: Connection, *_more: object) -> None:
            wrote[0] = False

        for name in ("commit", "commit_twophase"):
            event.listen(connection, name, committing)
        for name in ("rollback", "rollback_twophase"):
            event.listen(connection, name, rolling_back)

    def _ring_soon(self) -> None:
        """On whichever thread commits."""
        try:
            self._runtime.loop.call_soon_threadsafe(self.ring)
        except RuntimeError:
            logger.debug("the event loop was closed before a commit: a watchdog finds what it wrote")

    def ring(self) -> None:
        """On the loop: look soon, and go on looking until something is found."""
        self._rung = True
        if not self._running:
            self._running = True
            self._runtime.spawn(self._look(), "outlast-outbox")

    async def _look(self) -> None:
        try:
            while self._rung:
                self._rung = False
                for wait_s in LOOKS_AFTER_S:
                    await asyncio.sleep(wait_s)
                    drained = await self.drain()
                    if drained.applied or drained.refused or self._rung:
                        break
        except StoreError as error:
            logger.debug("the outbox could not be drained at once; a watchdog does it: %s", error)
        finally:
            self._running = False


def bell_of(runtime: Runtime) -> Bell:
    """Return the bell of a runtime."""
    bell = _bells.get(runtime)
    if bell is None:
        bell = _bells[runtime] = Bell(runtime)
    return bell
