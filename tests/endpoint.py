"""An endpoint that takes webhooks on loopback, and behaves as it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def alerts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = orjson.loads(self.body)["alerts"]
        return found


@dataclass
class Endpoint:
    """What it is told: for each request a status, or ``hang``, ``close``, ``drip``, ``flood``, ``garbage``, ``early``.

    The last one is for all further requests.
    """

    port: int = 0
    behaviours: Sequence[str] = ("200",)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    taken: list[Request] = field(default_factory=list)
    _serving: set[asyncio.Task[Any]] = field(default_factory=set)

    def url(self, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}/hooks?token=hidden"

    def wait(self, found: Callable[[Request], bool], timeout: float = 60) -> None:
        """Wait, in another thread than the endpoint's, until a request is there that is meant."""
        deadline = time.monotonic() + timeout
        while not any(found(request) for request in tuple(self.requests)):
            assert time.monotonic() < deadline, f"none of {len(self.requests)} requests is the one"
            time.sleep(0.05)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = min(self.connections, len(self.behaviours) - 1)
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._answer(self.behaviours[place], reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._serving.discard(task)

    async def stop(self) -> None:
        for task in [*self._serving]:
            task.cancel()
        while self._serving:
            await asyncio.wait([*self._serving])

    async def _answer(
        self, behaviour: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *rest = head.strip().split("\r\n")
        headers = dict(one.split(": ", 1) for one in rest)
        body = await reader.readexactly(int(headers["content-length"]))
        request = Request(line, headers, body)
        self.requests.append(request)
        if behaviour == "hang":
            await reader.read()
        elif behaviour == "close":
            return
        elif behaviour == "drip":
            while not writer.is_closing():
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(0.05)
        elif behaviour == "flood":
            writer.write(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000)
        elif behaviour == "garbage":
            writer.write(b"SSH-2.0-hello\r\n\r\n")
        elif behaviour == "endless":
            self.taken.append(request)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while not writer.is_closing():
                writer.write(b"x" * 65_536)
                await writer.drain()
        else:
            status, _, more = behaviour.partition(" ")
            if status.startswith("2"):
                self.taken.append(request)
            interim = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
            writer.write(f"{interim}HTTP/1.1 {status} Said\r\n{more}\r\ncontent-length: 2\r\n\r\nok".encode())
            await writer.drain()


@asynccontextmanager
async def endpoint(*behaviours: str, context: ssl.SSLContext | None = None) -> AsyncGenerator[Endpoint]:
    """Serve one on loopback.

    Args:
        *behaviours: How it behaves.
        context: Its certificate, if it speaks TLS.
    """
    made = Endpoint(behaviours=behaviours or ("200",))
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context, limit=1 << 24)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.stop()


def certificate(folder: Path, host: str) -> tuple[Path, ssl.SSLContext]:
    """Return the file to trust, and the context of a server that is called so."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    try:
        alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        alternative = x509.DNSName(host)
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, secret = folder / f"{host}.pem", folder / f"{host}.key"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, secret)
    return file, context
