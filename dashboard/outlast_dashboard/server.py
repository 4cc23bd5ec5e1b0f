"""The HTTP server of `outlast ui`: uvicorn, on the caller's event loop.

uvicorn closes connections that are idle between two requests, but waits without end for the rest of a request that has
begun, and for the first one. :func:`impatient_protocol` adds what is missing: a connection that owes the head of a
request for too long is closed, and so is the one that has owed it for longest when too many do. Nobody can therefore
keep others out by opening connections and sending little or nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Sequence
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from outlast_workflow.errors import InvalidOptionError

HEAD_TIMEOUT_S: Final = 15.0
MOST_WITHOUT_HEAD: Final = 500
MOST_HEAD_BYTES: Final = 32 * 1024
"""The largest head of a request: its path, query and headers."""


def impatient_protocol(head_timeout: float, most: int) -> type[H11Protocol]:
    """Return uvicorn's protocol, with a limit on the time and number of connections without the head of a request.

    Args:
        head_timeout: How long a connection may owe it, in seconds.
        most: How many connections may owe it at once.
    """
    # Oldest first.
    owing: dict[Impatient, asyncio.TimerHandle] = {}

    class Impatient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._expect()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._expect()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._settle()

        def _expect(self) -> None:
            if not getattr(self.cycle, "response_complete", True):
                self._settle()
            elif self not in owing and not self.transport.is_closing():
                owing[self] = self.loop.call_later(head_timeout, self._end)
                if len(owing) > most:
                    next(iter(owing))._end()

        def _settle(self) -> None:
            timer = owing.pop(self, None)
            if timer is not None:
                timer.cancel()

        def _end(self) -> None:
            self._settle()
            self.transport.close()

    return Impatient


def proxies(given: Sequence[str]) -> list[str]:
    """Return the addresses and networks of proxies whose headers are believed.

    Raises:
        InvalidOptionError: One of them is neither an address nor a network.
    """
    for one in given:
        try:
            ipaddress.ip_network(one)
        except ValueError as error:
            raise InvalidOptionError(
                f"proxy headers: {one!r:.60} is not the address or network of a proxy, such as 127.0.0.1 or "
                f"10.0.0.0/8 ({error})",
                field="proxy_headers",
            ) from None
    return list(given)


class Server:
    """The HTTP server of one application.

    Args:
        app: The application.
        host: The address to listen on.
        port: The port; 0 for any free one.
        trusted_proxies: From whom ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are believed.
        head_timeout: How long a connection may owe the head of a request, in seconds.
        most_without_head: How many connections may owe it at once.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        trusted_proxies: Sequence[str] = (),
        head_timeout: float = HEAD_TIMEOUT_S,
        most_without_head: int = MOST_WITHOUT_HEAD,
    ) -> None:
        self._host = host
        self._port = port
        application: Any = app
        config = uvicorn.Config(
            application,
            http=impatient_protocol(head_timeout, most_without_head),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
            h11_max_incomplete_event_size=MOST_HEAD_BYTES,
            timeout_graceful_shutdown=3,
        )
        self._server = uvicorn.Server(config)
        self._sockets: list[socket.socket] = []
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)

    def listen(self) -> str:
        """Listen; return the address as a URL. Then serve.

        Raises:
            OSError: The address cannot be listened on.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family)
        self._sockets = [listener]
        host, port = listener.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def serve(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        try:
            await self._server.serve(sockets=self._sockets)
        finally:
            for listener in self._sockets:
                listener.close()

    def stop(self) -> None:
        """Stop serving, as a signal does."""
        self._server.should_exit = True
