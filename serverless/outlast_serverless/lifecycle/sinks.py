"""Sinks: the bus, and endpoints that events are posted to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import httpx2
import orjson

from outlast_serverless.calls.policy import DeniedError, HttpPolicy
from outlast_serverless.calls.transport import CheckedTransport
from outlast_serverless.lifecycle.wanted import SinkAwayError, SinkRefusedError

_STRUCTURED: Final = "application/cloudevents+json"
_LONGEST_S: Final = 30.0
_REFUSED: Final = range(400, 500)
_LATER: Final = frozenset({401, 403, 404, 408, 425, 429})
"""Refusals that are not about the event, but about who sends it, or when."""


class BusSink:
    """Publishes events on the bus.

    Args:
        publish: Publishes events, all of them or none.
    """

    def __init__(self, publish: Callable[[Sequence[dict[str, Any]]], Awaitable[int]]) -> None:
        self._publish = publish

    async def send(self, events: Sequence[dict[str, Any]]) -> None:
        """Publish events. Those that are there already stay as they are."""
        await self._publish(events)

    async def close(self) -> None:
        """Nothing is open."""


class HttpSink:
    """Posts events, one after the other.

    Args:
        url: Where to.
        headers: What is sent along.
        policy: What may be reached.
    """

    def __init__(self, url: str, headers: Mapping[str, str], policy: HttpPolicy) -> None:
        self._url = policy.rewritten(url)
        self._seconds = min(policy.timeout, _LONGEST_S)
        self._transport = CheckedTransport(policy)
        self._client = httpx2.AsyncClient(
            transport=self._transport,
            trust_env=False,
            timeout=None,
            follow_redirects=False,
            headers={**headers, "content-type": _STRUCTURED},
        )

    async def send(self, events: Sequence[dict[str, Any]]) -> None:
        """Post events."""
        for event in events:
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await self._client.post(self._url, content=orjson.dumps(event))
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError, TimeoutError, DeniedError) as error:
                raise SinkAwayError(str(error) or type(error).__name__) from None
            if answer.is_success:
                continue
            if answer.status_code in _REFUSED and answer.status_code not in _LATER:
                raise SinkRefusedError(f"it answered {answer.status_code}")
            raise SinkAwayError(f"it answered {answer.status_code}")

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()
