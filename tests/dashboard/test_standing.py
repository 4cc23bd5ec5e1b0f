"""Whoever loses the right to look sees nothing more, on a stream that is open already too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from starlette.types import ASGIApp, Message

from outlast import Client
from outlast_dashboard import TokenFile, WebSettings, control_plane
from outlast_workflow.errors import InvalidOptionError

STREAMS = ["/workers", "/workflows/w-1", "/api/workflows/w-1/history/live"]


class Stream:
    """An answer that is read as it comes."""

    def __init__(self, app: ASGIApp, path: str, headers: dict[str, str]) -> None:
        self._sent: asyncio.Queue[Message] = asyncio.Queue()
        named = {"host": "localhost", "accept": "text/event-stream", **headers}
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        self._app = app

    async def _receive(self) -> Message:
        await asyncio.Event().wait()  # whoever looks stays
        return {}

    async def _ask(self) -> None:
        await self._app(self._scope, self._receive, self._sent.put)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Ask, and wait for the first fragment."""
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(self._ask())
            begun = await self._sent.get()
            assert begun["status"] == 200
            assert (await self._sent.get())["body"]
            yield

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[Callable[[], Awaitable[str]]]:
        """Ask, and read one piece after the other until the block ends."""
        asking = asyncio.create_task(self._ask())
        try:
            assert (await self._sent.get())["status"] == 200
            yield self._piece
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    async def _piece(self) -> str:
        piece: str = (await self._sent.get())["body"].decode()
        return piece

    async def rest(self) -> bytes:
        """What comes until it ends."""
        rest = bytearray()
        while True:
            message = await self._sent.get()
            rest += message["body"]
            if not message.get("more_body"):
                return bytes(rest)


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("how", ["logout", "the token goes", "its session's token goes"])
async def test_a_stream_ends_with_the_right_to_look(tmp_path: Path, path: str, how: str) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    file.add("somebody else", ["read"])
    secret = file.add("ada", ["read"])
    async with Client.connect("sqlite://") as client:
        handle = await client.start("Nobody", id="w-1")
        app = control_plane(client, WebSettings(tokens=file))
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as web:
            headers = {"authorization": f"Bearer {secret}"}
            if how != "the token goes":
                came = await web.post("/login", data={"token": secret})
                headers = {"cookie": came.headers["set-cookie"].partition(";")[0]}
            stream = Stream(app, path, headers)
            async with stream.open():
                if how == "logout":
                    await web.post("/logout")
                else:
                    file.remove("ada")
                await handle.signal("news", "s3cret")
                assert b"SignalReceived" not in await stream.rest()
            again = await web.get(path, headers={**headers, "accept": "text/event-stream"})
            assert again.status_code == 401
            if not path.startswith("/api"):
                assert again.headers["hx-refresh"] == "true"


async def test_a_file_without_tokens_never_opens_the_door(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    with pytest.raises(InvalidOptionError, match="holds no token, so nobody would have access"):
        WebSettings(tokens=file)
    secret = file.add("ada", ["read"])
    async with Client.connect("sqlite://") as client:
        app = control_plane(client, WebSettings(tokens=file))
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as web:
            known = {"authorization": f"Bearer {secret}"}
            assert (await web.get("/api/health", headers=known)).status_code == 200
            for break_it in (lambda: file.remove("ada"), lambda: file.path.write_text("{"), file.path.unlink):
                break_it()
                for headers in ({}, known):
                    assert (await web.get("/api/health", headers=headers)).status_code == 401
            later = file.add("ada", ["read"])
            found = await web.get("/api/health", headers={"authorization": f"Bearer {later}"})
            assert found.status_code == 200, "a token that is added counts at once"
