"""``call: grpc`` against a real service: messages, streams, credentials, statuses, and what the policy denies."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.serverless.calls.authority import ID, Authority
from tests.serverless.calls.authority import SECRET as SECRET_THERE
from tests.serverless.calls.greeter import PROTO, Greeter, greeting_service
from tests.serverless.server import serving

from outlast import Client, Worker
from outlast.errors import FaultedError, UnsupportedTaskError
from outlast_serverless import Document, HttpPolicy, Runtime, Secrets
from outlast_serverless.calls.grpc.proto import Protos
from outlast_serverless.calls.resources import Resource
from outlast_serverless.interpreter.faults import BASE

SECRET = "a-very-long-secret"
BEARER = {"bearer": {"token": "${ $secrets.key }"}}


class Calls:
    """Runs documents that call the service."""

    def __init__(self, runtime: Runtime, greeter: Greeter, proto: Path) -> None:
        self.runtime = runtime
        self.greeter = greeter
        self.proto = proto

    def document(self, **more: Any) -> Document:
        service = {"name": "GreeterApi.Greeter", "host": "127.0.0.1", "port": self.greeter.port}
        given = {
            "proto": {"endpoint": self.proto.as_uri()},
            "method": "SayHello",
            "arguments": {"name": "${ .name }"},
            **more,
            "service": service | more.get("service", {}),
        }
        head = {"dsl": "1.0.3", "namespace": "n", "name": "a", "version": "0.1.0"}
        tasks = [{"greet": {"call": "grpc", "with": given}}]
        return Document.parse(json.dumps({"document": head, "use": {"secrets": ["key"]}, "do": tasks}))

    async def __call__(self, name: str = "Ada", **more: Any) -> Any:
        return await (await self.runtime.start(self.document(**more), {"name": name})).result()

    async def fault(self, name: str = "Ada", **more: Any) -> dict[str, Any]:
        with pytest.raises(FaultedError) as caught:
            await self(name, **more)
        return caught.value.error


@asynccontextmanager
async def calling(url: str, greeter: Greeter, folder: Path, **policy: Any) -> AsyncGenerator[Calls]:
    proto = folder / "greet.proto"
    proto.write_text(PROTO)
    http = HttpPolicy(files=(folder,), **policy)
    async with (
        Client.connect(url) as client,
        Runtime(client, http=http, secrets=Secrets.mapping({"key": SECRET})) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        yield Calls(runtime, greeter, proto)


@pytest.fixture
async def greeter() -> AsyncGenerator[Greeter]:
    async with greeting_service() as made:
        yield made


@pytest.fixture
async def calls(sqlite_url: str, greeter: Greeter, tmp_path: Path) -> AsyncGenerator[Calls]:
    async with calling(sqlite_url, greeter, tmp_path) as made:
        yield made


async def test_a_message_goes_and_comes_as_json(calls: Calls) -> None:
    assert await calls() == {"messageText": "Hello Ada"}
    assert calls.greeter.raw == b"\x0a\x03Ada"
    arguments = {"name": "Ada", "timesSaid": "3", "at": "1970-01-01T00:00:05Z"}
    assert await calls(arguments=arguments, service={"name": "Greeter"}) == {"messageText": "Hello Ada"}
    assert calls.greeter.raw == b"\x0a\x03Ada\x10\x03\x1a\x02\x08\x05"


async def test_streams_are_arrays(calls: Calls) -> None:
    assert await calls(method="SayOften") == [{"messageText": f"Hello Ada {number}"} for number in range(3)]
    messages = {"messages": [{"name": "${ .name }"}, {"name": "Bob"}]}
    assert await calls(method="SayToAll", arguments=messages) == {"messageText": "Ada and Bob"}
    assert await calls(method="Chat", arguments=messages) == [
        {"messageText": "Hello Ada"},
        {"messageText": "Hello Bob"},
    ]
    assert await calls(method="Chat", arguments={"messages": []}) == []


async def test_credentials_are_sent_and_stay_out_of_the_database(
    calls: Calls, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await calls(service={"authentication": BEARER})
    assert calls.greeter.calls[-1]["authorization"] == f"Bearer {SECRET}"
    await calls(service={"authentication": {"basic": {"username": "ada", "password": "${ $secrets.key }"}}})
    assert calls.greeter.calls[-1]["authorization"].startswith("Basic ")
    await calls(
        service={"authentication": BEARER}, arguments={"name": '${ $authorization.scheme + " " + .name }'}
    )
    assert calls.greeter.raw == b"\x0a\x0aBearer Ada"
    error = await calls.fault(arguments={"name": '${ "!INTERNAL:not " + $secrets.key }'})
    assert error["detail"].endswith("answered INTERNAL: not ********")
    digest = {"digest": {"username": "a", "password": "b"}}
    assert "of HTTP alone" in (await calls.fault(service={"authentication": digest}))["detail"]
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as database:
        assert SECRET not in "\n".join(database.iterdump())
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [
        ("UNAUTHENTICATED", "authentication", 401),
        ("PERMISSION_DENIED", "authorization", 403),
        ("NOT_FOUND", "communication", 404),
        ("DEADLINE_EXCEEDED", "communication", 504),
        ("UNAVAILABLE", "communication", 503),
        ("DATA_LOSS", "communication", 500),
    ],
)
async def test_a_status_is_an_error(calls: Calls, code: str, kind: str, status: int) -> None:
    error = await calls.fault(f"!{code}:so it is", service={"authentication": BEARER})
    assert (error["type"], error["status"], error["instance"]) == (BASE + kind, status, "/do/0/greet")
    where = f"GreeterApi.Greeter.SayHello at grpc://127.0.0.1:{calls.greeter.port}"
    assert error["detail"] == f"{where} answered {code}: so it is"


async def test_what_does_not_fit_the_proto_is_told_before_anything_is_sent(calls: Calls) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"service": {"name": "Greeting"}}, "has no service Greeting: it has GreeterApi.Greeter"),
        ({"method": "SayHi"}, "has no method SayHi: it has SayHello, SayOften, SayToAll, Chat"),
        ({"arguments": {"nam": "x"}}, "are no GreeterApi.Hello"),
        ({"arguments": {"name": 1}}, "are no GreeterApi.Hello"),
        ({"method": "SayToAll"}, "takes a stream"),
    ]
    for more, word in wrong:
        error = await calls.fault(**more)
        assert (error["type"], error["status"]) == (f"{BASE}configuration", 400)
        assert word in error["detail"]
    calls.proto.write_text("syntax = 'proto3';\nmessage {")
    assert "service.proto:2:9" in (await calls.fault())["detail"]
    calls.proto.write_text("syntax = 'proto3';\nimport '/etc/passwd';\nimport '../x.proto';")
    assert "cannot be compiled" in (await calls.fault())["detail"]
    assert calls.greeter.calls == []


async def test_a_token_that_is_refused_is_asked_for_again(calls: Calls) -> None:
    authority = Authority()
    async with serving(authority.mount) as server:
        client = {"id": ID, "secret": SECRET_THERE, "authentication": "client_secret_post"}
        oauth2 = {"authority": f"{server.url}/realm", "grant": "client_credentials", "client": client}
        service = {"authentication": {"oauth2": oauth2}}
        for _ in range(2):
            await calls(service=service)
        assert len(authority.asked) == 1
        await calls.fault("!UNAUTHENTICATED:no", service=service)
        await calls(service=service)
        assert len(authority.asked) == 2
    assert len({call["authorization"] for call in calls.greeter.calls}) == 2


async def test_what_nobody_serves_is_not_answered(calls: Calls) -> None:
    error = await calls.fault(service={"port": 1})
    assert (error["type"], error["status"]) == (f"{BASE}communication", 503)


async def test_the_policy_holds(sqlite_url: str, greeter: Greeter, tmp_path: Path) -> None:
    async with calling(sqlite_url, greeter, tmp_path, deny_private=True) as calls:
        error = await calls.fault()
        assert (error["type"], error["status"]) == (f"{BASE}authorization", 403)
        assert "the network policy denies 127.0.0.1" in error["detail"]
    assert greeter.calls == []
    async with calling(sqlite_url, greeter, tmp_path, max_response_bytes=60) as calls:
        assert await calls("A" * 30)
        error = await calls.fault("A" * 60)
        assert (error["type"], error["status"]) == (f"{BASE}communication", 500)
        # Each message is short enough; all of them together are not.
        error = await calls.fault("A" * 20, method="SayOften")
        assert "answered with more than 60 bytes" in error["detail"]
    async with calling(sqlite_url, greeter, tmp_path, timeout=0.3) as calls:
        assert (await calls.fault("silent"))["status"] == 504


async def test_the_connection_goes_to_the_address_that_was_looked_at(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = asyncio.base_events.BaseEventLoop.getaddrinfo
    names: list[Any] = []

    async def getaddrinfo(self: Any, host: Any, port: Any, **options: Any) -> Any:
        names.append(host)
        return await resolved(self, "127.0.0.1" if host == "greeter.test" else host, port, **options)

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", getaddrinfo)
    # No other resolver knows the name.
    assert await calls(service={"host": "greeter.test"}) == {"messageText": "Hello Ada"}
    assert names.count("greeter.test") == 1


async def test_over_tls_the_certificate_is_that_of_the_name(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = certificate_of("localhost")
    (tmp_path / "roots.pem").write_bytes(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots.pem"))
    credentials = grpc.ssl_server_credentials([(key, certificate)])
    async with greeting_service(credentials) as greeter:
        url = f"grpcs://localhost:{greeter.port}"
        rewrite = {
            "grpcs://localhost:443": url,
            "grpcs://other.test:443": f"grpcs://127.0.0.1:{greeter.port}",
        }
        async with calling(sqlite_url, greeter, tmp_path, rewrite=rewrite) as calls:
            assert await calls(service={"host": "localhost", "port": 443}) == {"messageText": "Hello Ada"}
            error = await calls.fault(service={"host": "other.test", "port": 443})
            assert (error["type"], error["status"]) == (f"{BASE}communication", 503)
            assert len(greeter.calls) == 1


def certificate_of(name: str) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, made.public_bytes(pem)


def test_a_proto_is_compiled_once() -> None:
    protos = Protos()
    one = protos.compiled(Resource("file:///a.proto", PROTO.encode()))
    assert protos.compiled(Resource("file:///b.proto", PROTO.encode())) is one
    assert protos.compiled(Resource("file:///a.proto", PROTO.encode() + b"\n")) is not one


async def test_without_the_extra_a_document_is_refused(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    document = calls.document()
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    with pytest.raises(UnsupportedTaskError, match="needs the extra `serverless-grpc`"):
        await calls.runtime.start(document)
    # A worker may lack what the one that started the run has.
    monkeypatch.setattr("outlast_serverless.starting.support.lacking", lambda protocol: "")
    error = await calls.fault()
    assert (error["type"], error["status"]) == (f"{BASE}configuration", 400)
    assert "pip install '.[serverless-grpc]'" in error["detail"]


async def test_a_plain_runtime_loads_nothing_of_the_extra() -> None:
    text = (
        "import sys\nfrom outlast import Client\nfrom outlast_serverless import Runtime\n"
        "Runtime(Client.connect('sqlite:///unused.db'))\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('grpc', 'grpc_tools', 'google')])"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", text, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert output == b"[]\n"
