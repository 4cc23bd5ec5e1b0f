"""A TCP proxy before PostgreSQL's socket, on the loopback only, that loses things.

It cuts connections; it swallows what the server answers, so that a COMMIT is done and nobody hears of it; it swallows
everything, on all connections for a while or for good on those that there are; it delays. It lives on a thread and loop
of its own, because whoever connects may block theirs meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from pathlib import Path

CHUNK = 1 << 16
UNHEARD_S = 2.0
"""How long after a client has given up a silent connection its server hears of that, as if by TCP's keepalives."""


class Proxy:
    """Stands between clients and a server that listens on a Unix socket."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-proxy", daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()
        self._silent: set[asyncio.StreamWriter] = set()
        self.delay_s = 0.0
        self.swallow_answers = False
        self.swallow_requests = False

    def start(self) -> int:
        """Listen; returns the port."""
        self._thread.start()
        listening: Future[int] = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        return listening.result(10)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def stop(self) -> None:
        """Cut everything, and listen no more."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def cut(self) -> None:
        """Cut all connections; of silent ones nobody hears that either."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for writer in self._writers - self._silent:
            writer.transport.abort()

    def silence(self) -> None:
        """From now on nothing passes on the connections that there are, not even their end; new ones are well."""
        self._loop.call_soon_threadsafe(lambda: self._silent.update(self._writers))

    def heal(self) -> None:
        """Pass everything on, at once."""
        self.delay_s, self.swallow_answers, self.swallow_requests = 0.0, False, False

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_unix_connection(self._socket)
        except OSError:  # the server is down
            writer.transport.abort()
            return
        ends = {writer, upstream_writer}
        self._writers |= ends
        both = [
            asyncio.ensure_future(self._pass_on(reader, upstream_writer, answers=False)),
            asyncio.ensure_future(self._pass_on(upstream_reader, writer, answers=True)),
        ]
        try:
            with contextlib.suppress(asyncio.CancelledError):  # the proxy stops
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if writer in self._silent:
                    await asyncio.wait(both[:1])
                    await asyncio.sleep(UNHEARD_S)
        finally:
            for one in both:
                one.cancel()
            self._writers -= ends
            self._silent -= ends
            for end in ends:
                end.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                swallowed = self.swallow_answers if answers else self.swallow_requests
                if not swallowed and writer not in self._silent:
                    writer.write(data)
                    await writer.drain()
