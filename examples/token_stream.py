"""Tokens of an agent on their way to a browser: a workflow's stream as server-sent events, in a plain ASGI application.

    python examples/token_stream.py

The workflow goes on whether anybody listens or not. A browser that loses its connection sends the id of the last event
that it got (``Last-Event-ID``), and reads on behind it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from outlast import Client, Worker, activity, workflow

Message = dict[str, Any]


@activity.defn(start_to_close_timeout=300)
async def think(question: str) -> str:
    """Stand for a model that answers token by token."""
    tokens = activity.stream("tokens")
    answer = f"You asked: {question}".split()
    for token in answer:
        tokens.write(token)
        await asyncio.sleep(0.01)
    return " ".join(answer)


@workflow.defn
class Agent:
    @workflow.run
    async def run(self, question: str) -> str:
        answer = await think(question)
        workflow.stream("tokens").close()
        return answer


def application(client: Client) -> Callable[..., Awaitable[None]]:
    """Return an application that serves ``/ID``: the tokens of the workflow with that id."""

    async def app(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        headers = dict(scope["headers"])
        start = int(headers.get(b"last-event-id", b"-1")) + 1
        items = client.handle(scope["path"].strip("/")).stream("tokens", start=start)
        sse = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": sse})
        async for item in items:
            event = f"id: {item.offset}\ndata: {json.dumps(item.value)}\n\n"
            await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"event: end\ndata:\n\n"})

    return app


async def main() -> None:
    """Answer one question, and print what a browser would get."""
    async with Client.connect("sqlite://") as client, Worker(client, workflows=[Agent], activities=[think]):
        await client.start(Agent.run, "what is durable?", id="agent-1")

        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            print(message.get("body", b"").decode(), end="")

        scope = {"type": "http", "path": "/agent-1", "headers": []}
        await application(client)(scope, receive, send)


if __name__ == "__main__":
    asyncio.run(main())
