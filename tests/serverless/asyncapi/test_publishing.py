"""`call: asyncapi` with a message: it reaches the servers as it should, or the task says why it did not."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import nats as nats_library
import pytest
from tests.serverless.asyncapi.cases import PROTOCOLS, call, fault, make
from tests.serverless.asyncapi.servers import Servers, nats_server

from outlast import Client, Worker
from outlast_serverless import HttpPolicy, Runtime, Secrets
from outlast_serverless.interpreter.faults import BASE

SECRETS = Secrets.mapping({"token": "tok-en/with=odd~chars", "wrong": {"username": "ada", "password": "no"}})
TELL = "operation: tell, server: {name: SERVER}, message: {payload: {n: '${ .n + 1 }', at: here}"


@pytest.fixture
async def runtime(sqlite_url: str) -> AsyncGenerator[Runtime]:
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client, secrets=SECRETS, http=HttpPolicy(max_response_bytes=100_000)) as made,
        Worker(client, workflows=made.workflows, activities=made.activities),
    ):
        yield made


async def output(runtime: Runtime, text: str, input: Any = None) -> Any:
    return await (await runtime.start(make(text), input)).result()


async def test_over_http_a_message_is_a_request(runtime: Runtime, servers: Servers) -> None:
    text = call(servers, TELL.replace("SERVER", "http") + ", headers: {X-One: '${ .n }', B: two}}")
    assert await output(runtime, text, {"n": 1}) is None
    channel = servers.channel("news")
    assert [json.loads(one) for one in channel.log] == [{"n": 2, "at": "here"}]
    headers = channel.headers[0]
    wanted = {"method": "POST", "x-one": "1", "b": "two", "content-type": "application/json"}
    assert {name: headers.get(name) for name in wanted} == wanted


async def test_the_bindings_of_an_operation_name_the_method(runtime: Runtime, servers: Servers) -> None:
    text = call(servers, "operation: put, protocol: http, message: {payload: {}}", ", output: {as: '$input'}")
    assert await output(runtime, text, {"kept": True}) == {"kept": True}
    assert servers.channel("news").headers[0]["method"] == "PUT"


async def test_over_web_sockets_a_message_is_a_frame(runtime: Runtime, servers: Servers) -> None:
    text = call(servers, TELL.replace("SERVER", "ws") + ", headers: {X-One: '${ .n }'}}")
    assert await output(runtime, text, {"n": 1}) is None
    assert servers.sockets.received == [("/news", '{"n":2,"at":"here"}')]
    assert servers.sockets.handshakes[0]["X-One"] == "1"


async def test_over_nats_a_message_has_headers(runtime: Runtime, servers: Servers) -> None:
    client = await nats_library.connect(f"nats://127.0.0.1:{servers.nats}")
    try:
        heard = await client.subscribe("news")
        await client.flush()
        text = call(servers, TELL.replace("SERVER", "nats") + ", headers: {X-One: '${ .n }'}}")
        assert await output(runtime, text, {"n": 1}) is None
        message = await heard.next_msg(timeout=10)
    finally:
        await client.close()
    assert (json.loads(message.data), message.headers) == ({"n": 2, "at": "here"}, {"X-One": "1"})


async def test_a_channel_may_be_named_and_its_address_filled_in(runtime: Runtime, servers: Servers) -> None:
    client = await nats_library.connect(f"nats://127.0.0.1:{servers.nats}")
    try:
        heard = await client.subscribe("rooms.*")
        await client.flush()
        text = call(
            servers,
            "channel: room, server: {name: nats, variables: {room: '${ .room }'}}, message: {payload: {}}",
        )
        await output(runtime, text, {"room": "red"})
        assert (await heard.next_msg(timeout=10)).subject == "rooms.red"
        wild = await fault(runtime, text, {"room": ">"})
    finally:
        await client.close()
    assert (wild["type"], wild["instance"]) == (f"{BASE}configuration", "/do/0/c")
    assert "a value that no address may have" in wild["detail"]


@pytest.mark.parametrize(
    ("arguments", "kind", "status", "why"),
    [
        ("operation: tel, message: {payload: {}}", "configuration", 400, "did you mean 'tell'?"),
        ("channel: nows, message: {payload: {}}", "configuration", 400, "did you mean 'news'?"),
        ("operation: tell, server: {name: wss}, message: {payload: {}}", "configuration", 400, "'ws'?"),
        ("operation: chat, protocol: nats, message: {payload: {}}", "configuration", 400, "there is ws"),
        (
            "operation: tell, server: {name: kafka}, message: {payload: {}}",
            "configuration",
            400,
            "Runtime(client, channels={'kafka': …})",
        ),
        (
            "channel: room, protocol: nats, message: {payload: {}}",
            "configuration",
            400,
            "under server.variables",
        ),
        (
            'operation: tell, message: {payload: {}, headers: {a: "b\\r\\nc: d"}}',
            "configuration",
            400,
            "no header has such",
        ),
        (
            "channel: status, protocol: http, server: {name: http, variables: {code: 503}}, message: {payload: {}}",
            "communication",
            503,
            "POST http://127.0.0.1",
        ),
        (
            "channel: status, server: {name: ws, variables: {code: 403}}, message: {payload: {}}",
            "communication",
            403,
            "answered 403",
        ),
        ("operation: refusing, message: {payload: {}}", "configuration", 400, "has no operation 'refusing'"),
        ("channel: refusing, protocol: ws, message: {payload: {}}", "communication", 500, "1008"),
    ],
)
async def test_what_cannot_be_published_says_why(
    runtime: Runtime, servers: Servers, arguments: str, kind: str, status: int, why: str
) -> None:
    error = await fault(runtime, call(servers, arguments), {"n": 1})
    assert (error["type"], error["status"], error["instance"]) == (f"{BASE}{kind}", status, "/do/0/c")
    assert why in error["detail"]


async def test_a_broker_may_refuse_a_message(runtime: Runtime, servers: Servers) -> None:
    text = call(servers, "operation: tell, protocol: nats, message: {payload: {n: '${ . }'}}")
    assert "takes no message as long" in (await fault(runtime, text, "x" * 400_000))["detail"]
    deaf = call(
        servers,
        "operation: tell, protocol: nats, message: {payload: {}},\n"
        "  authentication: {basic: {username: deaf, password: correct-horse}}",
    )
    assert "permissions violation" in (await fault(runtime, deaf))["detail"].lower()


async def test_nobody_there_is_a_communication_error(runtime: Runtime, servers: Servers) -> None:
    for server in servers.description["servers"].values():
        server["host"] = "127.0.0.1:1"
    for protocol in PROTOCOLS:
        text = call(servers, f"operation: tell, protocol: {protocol}, message: {{payload: {{}}}}")
        error = await fault(runtime, text)
        assert (error["type"], error["status"]) == (f"{BASE}communication", 500)
        assert f"{protocol}://127.0.0.1:1" in error["detail"]


async def test_calls_authenticate(runtime: Runtime, servers: Servers) -> None:
    bearer = "authentication: {bearer: {token: '${ $secrets.token }'}}"
    head = "use: {secrets: [token, wrong]}\ndo:\n"
    for protocol in ("http", "ws"):
        text = call(servers, f"operation: tell, protocol: {protocol}, message: {{payload: {{}}}}, {bearer}")
        await output(runtime, head + text)
    assert servers.channel("news").headers[0]["authorization"] == "Bearer tok-en/with=odd~chars"
    assert servers.sockets.handshakes[0]["authorization"] == "Bearer tok-en/with=odd~chars"
    basic = "operation: tell, protocol: nats, message: {payload: {}}, authentication: {basic: POLICY}"
    good = basic.replace("POLICY", "{username: ada, password: correct-horse}")
    await output(runtime, head + call(servers, good))
    error = await fault(runtime, head + call(servers, basic.replace("POLICY", "{use: wrong}")))
    assert (error["type"], error["status"]) == (f"{BASE}communication", 401)
    digest = basic.replace("basic: POLICY", "digest: {username: ada, password: p}")
    for protocol in ("nats", "ws"):
        error = await fault(runtime, call(servers, digest.replace("nats", protocol)))
        assert (error["type"], "by digest" in error["detail"]) == (f"{BASE}configuration", True)


async def test_a_token_authenticates_at_nats(runtime: Runtime, servers: Servers, tmp_path: Path) -> None:
    with nats_server(
        tmp_path, 'listen: "127.0.0.1:-1"\nauthorization {token: "tok-en/with=odd~chars"}'
    ) as other:
        servers.description["servers"]["nats"]["host"] = f"127.0.0.1:{other.port}"
        text = call(
            servers,
            "operation: tell, protocol: nats, message: {payload: {}},\n"
            "  authentication: {bearer: {token: '${ $secrets.token }'}}",
        )
        assert await output(runtime, "use: {secrets: [token]}\ndo:\n" + text) is None


async def test_secrets_of_a_message_are_never_written(
    runtime: Runtime, servers: Servers, sqlite_url: str
) -> None:
    text = call(
        servers,
        "operation: tell, protocol: http,\n"
        "  message: {payload: {k: '${ $secrets.token }'}, headers: {k: '${ $secrets.token }'}}",
    )
    assert await output(runtime, "use: {secrets: [token]}\ndo:\n" + text) is None
    assert json.loads(servers.channel("news").log[0]) == {"k": "tok-en/with=odd~chars"}
    await asyncio.to_thread(_check_no_secret, sqlite_url.removeprefix("sqlite:///"))


def _check_no_secret(path: str) -> None:
    with sqlite3.connect(path) as connection:
        assert "tok-en" not in "\n".join(connection.iterdump())


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_network_policy_looks_at_each_address(
    protocol: str, servers: Servers, sqlite_url: str
) -> None:
    servers.description["servers"][protocol] |= {"host": "nobody.example.com"}
    policy = HttpPolicy(
        rewrite={f"{protocol}://nobody.example.com": f"{protocol}://127.0.0.2"}, allow=("127.0.0.1",)
    )
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client, http=policy) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        text = call(servers, f"operation: tell, protocol: {protocol}, message: {{payload: {{}}}}")
        error = await fault(runtime, text)
    assert (error["type"], error["status"]) == (f"{BASE}authorization", 403)
    assert "does not allow 127.0.0.2" in error["detail"]


async def test_a_redirect_of_a_web_socket_is_not_followed(runtime: Runtime, servers: Servers) -> None:
    servers.description["channels"]["news"]["address"] = "moved"
    error = await fault(runtime, call(servers, "operation: tell, protocol: ws, message: {payload: {}}"))
    assert (error["status"], servers.sockets.received) == (302, [])
