"""The router: it brings published events to the runs that listen to them.

Each process that has a runtime has a router. It is told at once of what its own process publishes, and looks for what
others have published every second while anybody listens. An event reaches a run as a signal whose key is the event's
identity, and is noted as routed after that. So any number of routers may work at once, and one that dies in between
loses nothing: the signal that another sends again changes nothing. Events of a run keep their order, because each
router sends them one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any, Final

from outlast import Client
from outlast_serverless.bus.changes import DropEvents, DropSubscriptions, NoteRouted
from outlast_serverless.bus.reads import WaitingEvent, anybody_listens, ended_chains, waiting_events
from outlast_serverless.bus.stored import EventStore
from outlast_serverless.events.cloud_events import identity
from outlast_serverless.events.names import EVENT
from outlast_workflow.errors import (
    JournalClosedError,
    OutlastError,
    StoreError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)

logger = logging.getLogger("outlast.serverless")

_BUSY_S: Final = 1.0
_IDLE_S: Final = 10.0
_SWEEP_S: Final = 60.0
_AT_A_SWEEP: Final = 1_000
_AT_ONCE: Final = 200
"""So many runs are sent signals at once."""


class Router:
    """Brings published events to the runs that listen to them.

    Args:
        client: The client.
        store: Reads stored events.
        kept_s: How long routed events are kept, in seconds.
    """

    def __init__(self, client: Client, store: EventStore, kept_s: float) -> None:
        self._client = client
        self._store = store
        self._kept_us = int(kept_s * 1_000_000)
        self._rung = asyncio.Event()
        self._listened = False
        self._swept_at = 0.0
        self._swept_to = ""
        self._stuck: set[str] = set()
        self._unreadable: set[int] = set()

    def ring(self) -> None:
        """Look at once: an event was published, or somebody begins to listen."""
        self._rung.set()

    async def run(self) -> None:
        """Route until the client is closed."""
        while True:
            try:
                await self.route()
                await self._sweep()
            except JournalClosedError:
                return
            except StoreError as error:
                logger.warning("events were not routed, and will be tried again: %s", error)
                await asyncio.sleep(_BUSY_S)
            except Exception:
                logger.exception("events were not routed, and will be tried again")
                await asyncio.sleep(_IDLE_S)
            await self._pause()

    async def _pause(self) -> None:
        # Unlike `wait_for`, which may lose a cancellation that comes together with the ring.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BUSY_S if self._listened else _IDLE_S):
                await self._rung.wait()

    async def route(self) -> int:
        """Route what waits now.

        Returns:
            How many events were routed. One that a run cannot take yet waits, and so do later ones for that run.

        Raises:
            StoreError: The database cannot be read or written.
        """
        self._rung.clear()
        runtime = self._client.runtime
        held: dict[str, str] = {}
        after, routed = 0, 0
        while page := await runtime.read(waiting_events, after, self._store.decoded):
            ended: set[str] = set()
            unrouted = await self._deliver(page, held, ended)
            if ended:
                await runtime.journal.apply(DropSubscriptions(sorted(ended)))
            keys = [one.key for one in page if one.key not in unrouted]
            if keys:
                routed += await runtime.journal.apply(NoteRouted(keys))
            after = page[-1].key
        self._tell(held)
        self._listened = bool(held) or await runtime.read(anybody_listens)
        return routed

    async def _deliver(self, page: Sequence[WaitingEvent], held: dict[str, str], ended: set[str]) -> set[int]:
        """Send events to who listens; return the keys of those that not everybody got."""
        by_chain: dict[str, tuple[str, list[WaitingEvent]]] = {}
        for one in page:
            for target in one.targets:
                by_chain.setdefault(target.first_run_id, (target.workflow_id, []))[1].append(one)
        unrouted = {one.key for one in page if one.problem}
        for one in page:
            if one.problem and one.key not in self._unreadable:
                self._unreadable.add(one.key)
                logger.error(
                    "event %d cannot be read, and waits for a router that can: %s", one.key, one.problem
                )
        room = asyncio.Semaphore(_AT_ONCE)

        async def send(first_run_id: str, workflow_id: str, events: list[WaitingEvent]) -> None:
            async with room:
                for one in events:
                    if workflow_id not in held:
                        try:
                            await self.send(workflow_id, first_run_id, one.event, one.key)
                            continue
                        except (WorkflowClosedError, WorkflowNotFoundError):
                            ended.add(first_run_id)
                            return
                        except (JournalClosedError, StoreError):
                            raise
                        except OutlastError as error:
                            held[workflow_id] = str(error)
                    unrouted.add(one.key)

        await asyncio.gather(
            *(
                send(first_run_id, workflow_id, events)
                for first_run_id, (workflow_id, events) in by_chain.items()
            )
        )
        return unrouted

    async def send(self, workflow_id: str, first_run_id: str, event: dict[str, Any], key: int) -> None:
        """Send an event to a run, once.

        Args:
            workflow_id: Its workflow id.
            first_run_id: The first run of its chain.
            event: The event.
            key: Its key.

        Raises:
            WorkflowClosedError: The run has ended.
            OutlastError: The run cannot take it now.
        """
        handle = self._client.handle(workflow_id, run_id=first_run_id)
        await handle.signal(EVENT, {"key": key, "event": event}, request_id=identity(event))

    def _tell(self, held: dict[str, str]) -> None:
        """Log which runs cannot take their events: when that begins, not in each pass."""
        for workflow_id, why in held.items():
            if workflow_id not in self._stuck:
                logger.warning("workflow %s cannot take its events; they wait for it: %s", workflow_id, why)
        self._stuck = set(held)

    async def _sweep(self) -> None:
        """Once a minute, close subscriptions of runs that have ended, and forget old events."""
        now = asyncio.get_running_loop().time()
        if self._swept_at and now - self._swept_at < _SWEEP_S:
            return
        self._swept_at = now
        runtime = self._client.runtime
        ended, last = await runtime.read(ended_chains, self._swept_to, _AT_A_SWEEP)
        self._swept_to = last or ""
        if ended:
            await runtime.journal.apply(DropSubscriptions(ended))
        await runtime.journal.apply(DropEvents(self._kept_us, _AT_A_SWEEP))
