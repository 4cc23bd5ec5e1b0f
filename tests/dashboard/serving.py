"""The server of `outlast ui` in this process: real sockets, a client that the test holds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

from outlast import Client
from outlast_dashboard import WebSettings, control_plane
from outlast_dashboard.server import Server


@contextlib.asynccontextmanager
async def serving(
    client: Client,
    settings: WebSettings,
    *,
    trusted_proxies: Sequence[str] = (),
    head_timeout: float = 60,
    most_without_head: int = 100,
) -> AsyncGenerator[str]:
    """Serve a client's control plane on a free port; yield the address."""
    server = Server(
        control_plane(client, settings),
        "127.0.0.1",
        0,
        trusted_proxies=trusted_proxies,
        head_timeout=head_timeout,
        most_without_head=most_without_head,
    )
    address = server.listen()
    task = asyncio.create_task(server.serve())
    try:
        yield address
    finally:
        server.stop()
        await task
