"""The bus of a runtime: it publishes, subscribes, and gives a worker the local activities that do so for documents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from outlast import Client, activity
from outlast_serverless.bus.changes import CloseSubscriptions, OpenSubscriptions, PublishEvents
from outlast_serverless.bus.reads import past_events
from outlast_serverless.bus.router import Router
from outlast_serverless.bus.stored import EventStore
from outlast_serverless.events.cloud_events import checked_event
from outlast_serverless.events.interests import Interest
from outlast_serverless.events.names import PUBLISH, SUBSCRIBE, UNSUBSCRIBE


class Bus:
    """Publishes events, and brings them to who listens.

    Args:
        client: The client.
        kept_s: How long routed events are kept, in seconds.
    """

    def __init__(self, client: Client, kept_s: float) -> None:
        self._client = client
        self._store = EventStore(client)
        self.router = Router(client, self._store, kept_s)
        self._routing: asyncio.Task[None] | None = None
        self.activities: list[Any] = [
            activity.defn(name=PUBLISH)(self.publish),
            activity.defn(name=SUBSCRIBE)(self.subscribe),
            activity.defn(name=UNSUBSCRIBE)(self.unsubscribe),
        ]
        """What a worker needs among its activities."""

    def start(self) -> None:
        """Begin to route, if it has not begun."""
        if self._routing is None or self._routing.done():
            self._routing = asyncio.create_task(self.router.run(), name="outlast serverless router")

    async def close(self) -> None:
        """Stop routing. What waits is left to others, or to the next start."""
        routing, self._routing = self._routing, None
        if routing is not None:
            routing.cancel()
            await asyncio.gather(routing, return_exceptions=True)

    async def publish(self, event: dict[str, Any]) -> bool:
        """Publish an event. When this returns, it is kept and will be routed.

        Args:
            event: The event.

        Returns:
            Whether it is new: no other with its ``source`` and ``id`` is kept.

        Raises:
            InvalidOptionError: It is no CloudEvent.
            StructuralLimitError: It is too large.
        """
        return await self.publish_all([event]) == 1

    async def publish_all(self, events: Sequence[dict[str, Any]]) -> int:
        """Publish events in one commit: all of them or none. When this returns, they are kept and will be routed.

        Args:
            events: The events.

        Returns:
            How many are new.

        Raises:
            InvalidOptionError: One is no CloudEvent.
            StructuralLimitError: One is too large.
        """
        checked = [checked_event(one) for one in events]
        change = PublishEvents([(one, self._store.encoded(one)) for one in checked])
        new = await self._client.runtime.journal.apply(change) if checked else 0
        if new:
            self.router.ring()
        return new

    async def subscribe(self, wanted: dict[str, Any]) -> int:
        """Subscribe an execution of a listen task, or narrow what it is subscribed to.

        Args:
            wanted: Its ``workflow_id``, ``first_run_id``, ``execution``, ``interests``, ``lookback`` in microseconds,
                and ``after``, the key of the last event that it does not see, where it goes on with a listen that a
                reset or a fork has taken over.

        Returns:
            The key of the last event that it does not see.
        """
        interests = [Interest(*one) for one in wanted["interests"]]
        workflow_id, first_run_id = str(wanted["workflow_id"]), str(wanted["first_run_id"])
        lookback: int | None = wanted.get("lookback")
        execution = str(wanted["execution"])
        known: int | None = wanted.get("after")
        after = await self._client.runtime.journal.apply(
            OpenSubscriptions(workflow_id, first_run_id, execution, interests, lookback, known)
        )
        if lookback is not None or known is not None:
            # Only now: whoever publishes after the subscription is there is seen by the router.
            await self._look_back(workflow_id, first_run_id, after, interests)
        self.router.ring()
        return after

    async def _look_back(
        self, workflow_id: str, first_run_id: str, after: int, interests: Sequence[Interest]
    ) -> None:
        last, runtime = 0, self._client.runtime
        while page := await runtime.read(past_events, after, interests, self._store.decoded, last):
            for one in page:
                if one.targets:
                    await self.router.send(workflow_id, first_run_id, one.event, one.key)
            last = page[-1].key

    async def unsubscribe(self, wanted: dict[str, Any]) -> None:
        """Close the subscriptions of an execution of a listen task.

        Args:
            wanted: Its ``first_run_id`` and ``execution``.
        """
        change = CloseSubscriptions(str(wanted["first_run_id"]), str(wanted["execution"]))
        await self._client.runtime.journal.apply(change)
