"""What tests of events have in common."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.serverless.cases import whole

from outlast import Client
from outlast_serverless import Document, DocumentRun
from outlast_store.database.sql_text import fetch

LISTENS = "do: [{l: {listen: {to: {any: [{with: {type: t}}], until: length == 3}}}}]"


def make(text: str) -> Document:
    return Document.parse(whole(text))


def event(id: int, data: Any = None, type: str = "t") -> dict[str, Any]:
    return {"id": str(id), "source": "/s", "type": type, "data": id if data is None else data}


async def signals(run: DocumentRun) -> int:
    return len([one async for one in run.handle.history() if one.type == "SignalReceived"])


async def subscriptions(client: Client) -> int:
    rows = await client.runtime.read(fetch, "SELECT COUNT(*) FROM serverless_subscriptions", ())
    return int(rows[0][0])


async def waiting(client: Client) -> int:
    text = "SELECT COUNT(*) FROM serverless_events WHERE routed_at IS NULL"
    return int((await client.runtime.read(fetch, text, ()))[0][0])


async def listens(run: DocumentRun) -> None:
    """Wait until a run listens."""
    while not any(one.kind == "listen" for one in (await run.describe()).open):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
