"""A server of MCP, made with the SDK of the protocol: over streamable HTTP, or over stdio if this is run as a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError


class Seen:
    """What a server has seen.

    Attributes:
        requests: The method and the headers of each request.
        asked: Is set when a tool is called that never answers.
        left: Is set when whoever called it has left.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.url = ""


def served(seen: Seen) -> MCPServer:
    server = MCPServer("tests", version="7")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def fail(text: str) -> str:
        """Fail."""
        raise ToolError(f"cannot {text}")

    @server.tool()
    def much(size: int) -> str:
        """Say much."""
        return "x" * size

    @server.tool()
    def environment(name: str) -> str:
        """Say what a variable of the environment is."""
        return os.environ.get(name, "unset")

    @server.tool()
    async def never() -> str:
        """Never answer."""
        seen.asked.set()
        try:
            await asyncio.sleep(3600)
        finally:
            seen.left.set()
        return ""

    @server.tool()
    def conversations_add_message(channel_id: str, thread_ts: str, payload: str, content_type: str) -> str:
        """Do what the server of the specification's example does."""
        return f"{channel_id}: {payload}"

    @server.prompt()
    def greeting(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"

    @server.resource("test://fixed")
    def fixed() -> str:
        """Say something."""
        return "something"

    @server.resource("test://{word}/text")
    def text(word: str) -> str:
        """Say a word."""
        return word

    return server


@asynccontextmanager
async def serving(**options: Any) -> AsyncGenerator[Seen]:
    """Serve over streamable HTTP."""
    seen = Seen()
    inner = served(seen).streamable_http_app(**options)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            seen.requests.append((scope["method"], headers))
        await inner(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    task = asyncio.create_task(server.serve([listener]))
    while not server.started:  # noqa: ASYNC110  # it offers no event
        await asyncio.sleep(0.01)
    seen.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield seen
    finally:
        server.should_exit = server.force_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await task


if __name__ == "__main__":
    sys.stderr.write("ready")
    served(Seen()).run("stdio")
