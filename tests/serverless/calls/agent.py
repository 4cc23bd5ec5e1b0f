"""An agent of A2A on loopback, which does what the text of a message says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse


class Agent:
    """What an agent has seen, and what happens to it.

    Attributes:
        calls: The requests of JSON-RPC, in their order.
        headers: The headers of each.
        asked: Is set when the agent is asked for something that it never finishes.
        left: Is set when whoever asked has left.
        card: What its card says beside its name.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.card: dict[str, Any] = {"url": "/agent"}

    def mount(self, app: FastAPI) -> None:
        """Add what it answers to."""

        @app.get("/.well-known/agent-card.json")
        async def card(request: Request) -> Any:
            self.headers.append(dict(request.headers))
            return {"name": "agent", "protocolVersion": "0.3.0", **self.card}

        @app.post("/agent")
        async def agent(request: Request) -> Response:
            asked = orjson.loads(await request.body())
            self.calls.append(asked)
            self.headers.append(dict(request.headers))
            message = (asked.get("params") or {}).get("message") or {}
            text = "".join(part.get("text", "") for part in message.get("parts", ()))
            word, _, rest = text.partition(" ")
            if word == "status":
                return Response(b"no", int(rest))
            if word == "error" or asked["method"] == "tasks/get":
                error = {"code": int(rest or -32001), "message": f"no: {rest}"}
                answer = {"jsonrpc": "2.0", "id": asked["id"], "error": error}
                return Response(orjson.dumps(answer), 400 if rest else 200, media_type="application/json")
            if word == "text":
                return Response(b"hello", media_type="text/plain")
            if asked["method"] in ("message/stream", "tasks/resubscribe"):
                return StreamingResponse(self.stream(asked, word, rest), media_type="text/event-stream")
            if word == "never":
                self.asked.set()
                await asyncio.sleep(3600)
            size = int(rest) if word == "size" else 0
            return Response(
                orjson.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {**message, "x": "x" * size}}),
                media_type="application/json",
            )

    async def stream(self, asked: dict[str, Any], word: str, rest: str) -> AsyncGenerator[bytes]:
        """Yield events."""
        try:
            yield b": a comment\n\n"
            for number in range(3):
                answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"number": number}}
                yield b"id: %d\ndata: %s\n\n" % (number, orjson.dumps(answer))
            if word == "late":
                error = {"code": -32603, "message": "late"}
                yield b"data: %s\n\n" % orjson.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error})
            if word == "never":
                self.asked.set()
                while True:
                    yield b": still there\n\n"
                    await asyncio.sleep(0.02)
        finally:
            self.left.set()
