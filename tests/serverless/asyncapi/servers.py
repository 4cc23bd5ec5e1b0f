"""Servers on loopback: one of HTTP with streams of events and a description of all, one of WebSockets, one of NATS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from tests.serverless.server import Server, serving
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request as Handshake
from websockets.http11 import Response as Refusal

NATS = """
listen: "127.0.0.1:-1"
max_payload: 300KB
authorization {
  users: [
    {user: anybody, password: none}
    {user: ada, password: correct-horse}
    {user: deaf, password: correct-horse, permissions: {publish: {deny: ">"}, subscribe: {deny: ">"}}}
  ]
}
no_auth_user: anybody
"""


@dataclass
class NatsServer:
    """A server of NATS: its port, and its process."""

    port: int
    process: subprocess.Popen[str]


@contextmanager
def nats_server(folder: Path, text: str = NATS) -> Generator[NatsServer]:
    config = folder / "nats.conf"
    config.write_text(text)
    program = Path(sys.executable).with_name("nats-server")
    process = subprocess.Popen([program, "-c", config], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = 0
        for line in process.stderr:
            found = re.search(r"client connections on 127\.0\.0\.1:(\d+)", line)
            port = int(found[1]) if found else port
            if "Server is ready" in line:
                break
        assert port
        yield NatsServer(port, process)
    finally:
        process.terminate()
        process.communicate()


class Channel:
    """A channel over HTTP: what was posted to it, and the streams that are open."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.asked: list[str | None] = []
        self.changed = asyncio.Condition()
        self.broken = 0
        self.with_ids = True

    async def add(self, data: Any) -> None:
        async with self.changed:
            self.log.append(data if isinstance(data, str) else json.dumps(data))
            self.changed.notify_all()

    async def break_off(self) -> None:
        """End all streams that are open."""
        async with self.changed:
            self.broken += 1
            self.changed.notify_all()

    async def opened(self, times: int = 1) -> None:
        """Wait until a stream was opened so many times."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.asked) >= times)

    async def events(self, after: str | None) -> AsyncIterator[str]:
        broken = self.broken
        at = int(after) if after else 0 if self.with_ids else len(self.log)
        async with self.changed:
            self.asked.append(after)
            self.changed.notify_all()
        yield ": welcome\n\n"
        while True:
            async with self.changed:
                while at >= len(self.log) and self.broken == broken:
                    await self.changed.wait()
                if self.broken > broken:
                    return
                text = self.log[at]
            at += 1
            lines = "".join(f"data: {line}\n" for line in text.splitlines())
            yield f"event: said\nid: {at}\n{lines}\n" if self.with_ids else f"{lines}\n"


@dataclass
class Sockets:
    """A server of WebSockets: what was received on each path, and who is connected there."""

    port: int = 0
    received: list[tuple[str, Any]] = field(default_factory=list)
    handshakes: list[dict[str, str]] = field(default_factory=list)
    open: dict[str, set[ServerConnection]] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def handle(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        path = connection.request.path
        async with self.changed:
            self.handshakes.append(dict(connection.request.headers.raw_items()))
            self.open.setdefault(path, set()).add(connection)
            self.changed.notify_all()
        try:
            if path == "/refusing":
                await connection.close(1008, "not you")
            async for message in connection:
                self.received.append((path, message))
        finally:
            async with self.changed:
                self.open[path].discard(connection)
                self.changed.notify_all()

    async def connected(self, path: str, number: int = 1) -> None:
        """Wait until so many are connected to a path."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.open.get(path, ())) == number)

    async def gone(self, path: str, connection: ServerConnection) -> None:
        """Wait until a connection is over."""
        async with self.changed:
            await self.changed.wait_for(lambda: connection not in self.open[path])

    async def say(self, path: str, *messages: Any) -> None:
        """Send messages to whoever is connected to a path, once somebody is."""
        async with self.changed:
            await self.changed.wait_for(lambda: bool(self.open.get(path)))
        for message in messages:
            data = message if isinstance(message, str | bytes) else json.dumps(message)
            for connection in tuple(self.open[path]):
                await connection.send(data)


@dataclass
class Servers:
    """All of them."""

    http: Server
    channels: dict[str, Channel]
    sockets: Sockets
    nats: int
    description: dict[str, Any]

    def channel(self, name: str) -> Channel:
        return self.channels.setdefault(name, Channel())


def description(http: str, sockets: int, nats: int) -> dict[str, Any]:
    """A description in 3.x of every channel on every server."""
    return {
        "asyncapi": "3.0.0",
        "servers": {
            "http": {"host": http.removeprefix("http://"), "pathname": "/channels", "protocol": "http"},
            "ws": {"host": f"127.0.0.1:{sockets}", "protocol": "ws"},
            "nats": {"host": f"127.0.0.1:{nats}", "protocol": "nats"},
            "kafka": {"host": "127.0.0.1:9", "protocol": "kafka-secure"},
            # The one of the examples of the specification.
            "staging": {"host": http.removeprefix("http://"), "pathname": "/channels", "protocol": "http"},
        },
        "channels": {
            "news": {
                "address": "news",
                "messages": {"said": {"correlationId": {"location": "$message.header#/correlationId"}}},
            },
            "chat": {"address": "/chat", "servers": [{"$ref": "#/servers/ws"}]},
            "notifications": {"address": "/notifications"},
            "refusing": {"address": "/refusing"},
            "status": {"address": "/status/{code}"},
            "room": {
                "address": "rooms.{room}",
                "messages": {"said": {"correlationId": {"location": "$message.payload#/order/id"}}},
            },
        },
        "operations": {
            "tell": {"action": "send", "channel": {"$ref": "#/channels/news"}},
            "hear": {"action": "receive", "channel": {"$ref": "#/channels/news"}},
            "chat": {"action": "receive", "channel": {"$ref": "#/channels/chat"}},
            "getNotifications": {"action": "receive", "channel": {"$ref": "#/channels/notifications"}},
            "findPetsByStatus": {"action": "send", "channel": {"$ref": "#/channels/notifications"}},
            "put": {
                "action": "send",
                "channel": {"$ref": "#/channels/news"},
                "bindings": {"http": {"method": "put"}},
            },
            "shared": {
                "action": "receive",
                "channel": {"$ref": "#/channels/news"},
                "bindings": {"nats": {"queue": "workers"}},
            },
        },
    }


@asynccontextmanager
async def serving_all(nats: int) -> AsyncGenerator[Servers]:
    channels: dict[str, Channel] = {}
    sockets = Sockets()
    described: dict[str, Any] = {}

    def channel(name: str) -> Channel:
        return channels.setdefault(name, Channel())

    def routes(app: FastAPI) -> None:
        @app.get("/asyncapi.json")
        async def json_description() -> Any:
            return described

        @app.get("/channels/status/{code}")
        @app.post("/channels/status/{code}")
        async def status(code: int) -> Response:
            return Response(b"", code)

        @app.get("/channels/{name}")
        async def stream(name: str, request: Request) -> Response:
            found = channel(name)
            found.headers.append(dict(request.headers))
            after = request.headers.get("last-event-id")
            return StreamingResponse(found.events(after), media_type="text/event-stream")

        @app.post("/channels/{name}")
        @app.put("/channels/{name}")
        async def post(name: str, request: Request) -> Any:
            found = channel(name)
            found.headers.append({"method": request.method, **dict(request.headers)})
            await found.add((await request.body()).decode())
            return {}

    def refuse(connection: ServerConnection, request: Handshake) -> Refusal | None:
        if request.path.startswith("/status/"):
            return connection.respond(int(request.path.rpartition("/")[2]), "no")
        if request.path == "/moved":
            answer = connection.respond(302, "there")
            answer.headers["location"] = f"ws://127.0.0.1:{sockets.port}/chat"
            return answer
        return None

    async with serving(routes) as http:
        async with serve(sockets.handle, "127.0.0.1", 0, process_request=refuse) as server:
            sockets.port = next(iter(server.sockets)).getsockname()[1]
            described |= description(http.url, sockets.port, nats)
            try:
                yield Servers(http, channels, sockets, nats, described)
            finally:
                for found in channels.values():
                    await found.break_off()
                with contextlib.suppress(asyncio.CancelledError):
                    server.close()
