"""Channels over TLS: certificates are checked for the name of the server, and no credentials are sent in the clear."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.endpoint import certificate
from tests.serverless.asyncapi.cases import call, fault, make
from tests.serverless.asyncapi.servers import Servers, nats_server
from websockets.asyncio.server import ServerConnection, serve

from outlast import Client, Worker
from outlast_serverless import Runtime
from outlast_serverless.calls.asyncapi import nats_channel, web_socket_channel
from outlast_serverless.interpreter.faults import BASE

TELL = "operation: tell, server: {name: NAME}, message: {payload: {n: 1}}"
BASIC = ", authentication: {basic: {username: ada, password: correct-horse}}"


@pytest.fixture
async def runtime(sqlite_url: str) -> AsyncGenerator[Runtime]:
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client) as made,
        Worker(client, workflows=made.workflows, activities=made.activities),
    ):
        yield made


def trusting(path: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(path))


async def test_a_web_socket_is_encrypted_to_the_server_that_is_named(
    runtime: Runtime, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = []

    async def handle(connection: ServerConnection) -> None:
        async for message in connection:
            received.append(message)

    path, context = certificate(tmp_path, "localhost")
    async with serve(handle, "127.0.0.1", 0, ssl=context) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        for name, host in (("right", "localhost"), ("other", "127.0.0.1")):
            servers.description["servers"][name] = {"host": f"{host}:{port}", "protocol": "wss"}
        unknown = await fault(runtime, call(servers, TELL.replace("NAME", "right")))
        assert (unknown["type"], "certificate verify failed" in unknown["detail"]) == (
            f"{BASE}communication",
            True,
        )
        monkeypatch.setattr(web_socket_channel, "tls_context", lambda: trusting(path))
        assert (
            await (await runtime.start(make(call(servers, TELL.replace("NAME", "right"))))).result() is None
        )
        other = await fault(runtime, call(servers, TELL.replace("NAME", "other")))
        assert "certificate verify failed" in other["detail"]
    assert received == ['{"n":1}']


async def test_nats_gets_credentials_only_where_it_encrypts_if_the_url_says_so(
    runtime: Runtime, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = certificate(tmp_path, "localhost")
    text = f"""
    listen: "127.0.0.1:-1"
    tls {{cert_file: "{path}", key_file: "{path.with_suffix(".key")}"}}
    authorization {{user: ada, password: correct-horse}}
    """
    described = {
        "asyncapi": "2.6.0",
        "servers": {"plain": {"url": f"tls://127.0.0.1:{servers.nats}", "protocol": "nats"}},
        "channels": {"news": {"publish": {"operationId": "tell"}}},
    }
    servers.description.clear()
    servers.description.update(described)
    with nats_server(tmp_path, text) as encrypting:
        servers.description["servers"]["right"] = {
            "url": f"tls://localhost:{encrypting.port}",
            "protocol": "nats",
        }
        right = call(servers, TELL.replace("NAME", "right") + BASIC)
        unknown = await fault(runtime, right)
        assert "certificate verify failed" in unknown["detail"]
        monkeypatch.setattr(nats_channel, "tls_context", lambda: trusting(path))
        assert await (await runtime.start(make(right))).result() is None
        for more in (BASIC, ""):
            plain = await fault(runtime, call(servers, TELL.replace("NAME", "plain") + more))
            assert (plain["type"], "does not encrypt" in plain["detail"]) == (f"{BASE}configuration", True)
