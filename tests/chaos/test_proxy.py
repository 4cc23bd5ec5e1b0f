"""The proxy that loses things: what silence is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.chaos.proxy import Proxy


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


async def test_silence_is_for_good_on_the_connections_that_there_are_and_no_end_is_heard(
    tmp_path: Path,
) -> None:
    server = await asyncio.start_unix_server(echo, tmp_path / "socket")
    proxy = Proxy(tmp_path / "socket")
    port = proxy.start()
    try:
        old_reader, old_writer = await asyncio.open_connection("127.0.0.1", port)
        old_writer.write(b"before")
        assert await old_reader.read(100) == b"before"
        proxy.silence()
        new_reader, new_writer = await asyncio.open_connection("127.0.0.1", port)
        old_writer.write(b"after")
        new_writer.write(b"another")
        assert await new_reader.read(100) == b"another"
        proxy.heal()
        proxy.cut()
        assert await new_reader.read(100) == b""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(old_reader.read(100), 0.1)
        old_writer.close()
        new_writer.close()
    finally:
        await asyncio.to_thread(proxy.stop)
        server.close()
