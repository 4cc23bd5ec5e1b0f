"""What tests of messages have in common."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.serverless.asyncapi.servers import Servers
from tests.serverless.cases import whole

from outlast.errors import FaultedError
from outlast_serverless import Document, DocumentRun, Runtime

PROTOCOLS = ("http", "ws", "nats")


def call(servers: Servers, arguments: str, after: str = "") -> str:
    """A task that calls a channel."""
    described = f"document: {{endpoint: {servers.http.url}/asyncapi.json}}"
    return f"- c: {{call: asyncapi, with: {{{described}, {arguments}}}{after}}}"


def make(text: str) -> Document:
    return Document.parse(whole(text))


async def fault(runtime: Runtime, text: str, input: Any = None) -> dict[str, Any]:
    with pytest.raises(FaultedError) as caught:
        await (await runtime.start(make(text), input)).result()
    return caught.value.error


async def subscribed(run: DocumentRun, number: int = 1) -> None:
    """Wait until the subscriptions of a run stand: then their positions are written."""
    while True:
        described = await run.handle.describe()
        if sum(bool(one.heartbeat_details) for one in described.pending_activities) >= number:
            return
        await asyncio.sleep(0.02)
