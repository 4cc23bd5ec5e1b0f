"""What one caller can take from the others: bodies, half-sent requests, streams. Real servers, real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Thread

import httpx2
import pytest
from tests.dashboard.browsing import process, served
from tests.dashboard.conftest import make_tokens
from tests.dashboard.serving import serving

from outlast import Client
from outlast_dashboard import WebSettings

MIB = 1024 * 1024
BODY = 4 * MIB


def resident_bytes(pid: int) -> int:
    """How much memory a process holds."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the process is gone")


def connected(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").rsplit(":", 1)
    made = socket.create_connection((host, int(port)))
    made.settimeout(60)
    return made


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def status(connection: socket.socket) -> int:
    """The status of the next answer."""
    received = b""
    while b"\r\n" not in received:
        more = connection.recv(4096)
        assert more, "the server closed the connection without an answer"
        received += more
    return int(received.split()[1])


@pytest.fixture
def migrated(sqlite_url: str) -> str:
    with process("-m", "outlast", "migrate", "--url", sqlite_url) as made:
        made.communicate()
        assert made.returncode == 0
    return sqlite_url


def test_the_bodies_of_unknown_callers_take_no_memory(migrated: str, tmp_path: Path) -> None:
    """Forty bodies of 4 MB are sent but for their end: a server that read them would hold them all."""
    kinds = [
        ("/api/workflows", "application/json", False),
        ("/api/workflows", "application/json", True),
        ("/start", "application/x-www-form-urlencoded", False),
        ("/workflows/w-1/signal", "multipart/form-data; boundary=x", True),
    ]
    with served(migrated, tmp_path, tokens=True) as (address, secret):
        pid = _server_pid(address)
        with httpx2.Client(base_url=address, headers={"authorization": f"Bearer {secret}"}) as known:
            assert known.get("/api/health").status_code == 200
            before = resident_bytes(pid)
            for path, kind, chunked in kinds:
                length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {BODY}"
                begun = head("POST", path, f"Content-Type: {kind}", length)
                connections = [connected(address) for _ in range(40)]
                senders = [Thread(target=_send, args=(one, begun, chunked)) for one in connections]
                for sender in senders:
                    sender.start()
                answers = {status(one) for one in connections}
                assert known.get("/api/health").status_code == 200
                for sender in senders:
                    sender.join()
                grown = resident_bytes(pid) - before
                assert known.get("/api/health").status_code == 200
                for one in connections:
                    one.close()
                assert answers == {401 if path.startswith("/api") else 303}
                assert grown < 40 * MIB, f"{path}: {grown / MIB:.0f} MiB"


def _send(connection: socket.socket, start: bytes, chunked: bool) -> None:
    piece = b"x" * 65536
    with contextlib.suppress(OSError):
        connection.sendall(start)
        for _ in range(BODY // len(piece) - 1):
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)


def _server_pid(address: str) -> int:
    """The process that listens there."""
    port = int(address.rsplit(":", 1)[1])
    inodes = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    }
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                for link in (folder / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        if link.readlink().name in {f"socket:[{inode}]" for inode in inodes}:
                            return int(folder.name)
    raise AssertionError("nobody listens there")


# --- on a server in this process --------------------------------------------------------------------------------------


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client.connect("sqlite://") as made:
        yield made


async def test_the_answer_to_an_unknown_caller_waits_for_no_body(client: Client) -> None:
    tokens, _ = make_tokens()
    async with serving(client, WebSettings(tokens=tokens)) as address:
        for path, expected in (("/api/workflows", 401), ("/start", 303), ("/workflows/w/cancel", 303)):
            for length in ("Content-Length: 1000", "Transfer-Encoding: chunked"):
                with connected(address) as connection:
                    connection.sendall(head("POST", path, length, "Content-Type: application/json"))
                    assert await asyncio.to_thread(status, connection) == expected, (path, length)


async def test_a_body_that_never_ends_is_given_up(client: Client) -> None:
    tokens, secrets = make_tokens()
    bearer = f"Authorization: Bearer {secrets['all']}"
    async with serving(client, WebSettings(tokens=tokens, body_timeout=0.2)) as address:
        for path, kind in (
            ("/api/workflows", "application/json"),
            ("/start", "application/x-www-form-urlencoded"),
            ("/start", "multipart/form-data; boundary=x"),
        ):
            for length in ("Content-Length: 1000", "Transfer-Encoding: chunked"):
                with connected(address) as connection:
                    connection.sendall(head("POST", path, length, bearer, f"Content-Type: {kind}"))
                    assert await asyncio.to_thread(status, connection) == 408, (path, length, kind)


async def test_only_so_many_bodies_arrive_at_once(client: Client) -> None:
    tokens, secrets = make_tokens()
    bearer = f"Authorization: Bearer {secrets['all']}"
    begun = head("POST", "/api/workflows", "Content-Length: 1000", bearer, "Content-Type: application/json")
    async with serving(client, WebSettings(tokens=tokens, max_bodies=2)) as address:
        with connected(address) as first, connected(address) as second, connected(address) as third:
            for one in (first, second):
                one.sendall(begun)
                await _health(address, secrets["all"])  # once this is answered, the body is expected
            third.sendall(begun)
            assert await asyncio.to_thread(status, third) == 503
            await _health(address, secrets["all"])
        await _until_answered(address, begun + b"x" * 1000)


async def test_bodies_in_flight_have_only_so_many_bytes_together(client: Client) -> None:
    tokens, secrets = make_tokens()
    bearer = f"Authorization: Bearer {secrets['all']}"
    settings = WebSettings(tokens=tokens, max_body_bytes=10_000, max_bodies_bytes=15_000)
    begun = head("POST", "/api/workflows", "Content-Length: 9000", bearer, "Content-Type: application/json")
    async with serving(client, settings) as address:
        with connected(address) as first, connected(address) as second:
            first.sendall(begun)
            await _health(address, secrets["all"])
            second.sendall(begun)
            assert await asyncio.to_thread(status, second) == 503
        await _until_answered(address, begun + b"x" * 9000)


async def _until_answered(address: str, request: bytes) -> None:
    """Send a request again until its body is taken: those who left have freed their places."""
    while True:
        with connected(address) as connection:
            connection.sendall(request)
            answer = await asyncio.to_thread(status, connection)
        if answer == 422:
            return
        assert answer == 503


async def _health(address: str, secret: str) -> None:
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {secret}"}) as web:
        assert (await web.get(f"{address}/api/health")).status_code == 200


async def test_the_sign_in_form_takes_a_token_and_no_more(client: Client) -> None:
    tokens, secrets = make_tokens()
    async with serving(client, WebSettings(tokens=tokens)) as address:
        async with httpx2.AsyncClient(base_url=address) as web:
            right = await web.post("/login", data={"token": secrets["all"]})
            assert (right.status_code, "outlast_session" in right.cookies) == (303, True)
        async with httpx2.AsyncClient(base_url=address) as web:
            assert (await web.post("/login", data={"token": "x" * 20_000})).status_code == 413


async def test_half_sent_requests_are_closed(client: Client) -> None:
    async with serving(client, WebSettings(), head_timeout=0.3) as address:
        whole = head("GET", "/api/health")
        for begun in (b"", b"GET /api/he", whole[:-2]):
            with connected(address) as connection:
                connection.sendall(begun)
                assert await asyncio.to_thread(connection.recv, 100) == b"", begun
        with connected(address) as connection:
            connection.sendall(whole + b"GET /api/he")
            answer = b""
            while more := await asyncio.to_thread(connection.recv, 65536):
                answer += more
            assert answer.startswith(b"HTTP/1.1 200")


async def test_a_request_that_takes_longer_than_its_head_may_is_answered(client: Client) -> None:
    """Only what the client owes is limited, not what the server does."""
    await client.start("Nobody", id="w-1")
    async with serving(client, WebSettings(), head_timeout=0.1) as address:
        async with httpx2.AsyncClient(base_url=address) as web:
            assert (await web.get("/api/workflows/w-1/result?wait_seconds=0.5")).status_code == 202


async def test_connections_that_send_nothing_keep_nobody_out(client: Client) -> None:
    async with serving(client, WebSettings(), most_without_head=5) as address:
        idle = [connected(address) for _ in range(20)]
        try:
            async with httpx2.AsyncClient(base_url=address) as web:
                assert (await web.get("/api/health")).status_code == 200
            for one in idle[:14]:
                assert await asyncio.to_thread(one.recv, 1) == b"", "the oldest are closed"
        finally:
            for one in idle:
                one.close()


async def test_only_so_many_streams_are_open(client: Client) -> None:
    await client.start("Nobody", id="w-1")
    pieces: list[AsyncIterator[bytes]] = []  # one that nobody holds closes its stream
    async with serving(client, WebSettings(max_streams=2)) as address:
        async with httpx2.AsyncClient(base_url=address) as web, contextlib.AsyncExitStack() as stack:
            for path in ("/api/workflows/w-1/history/live", "/"):
                opened = await stack.enter_async_context(
                    web.stream("GET", path, headers={"accept": "text/event-stream"})
                )
                assert opened.status_code == 200
                pieces.append(opened.aiter_bytes())
                await anext(pieces[-1])
            for path in ("/api/workflows/w-1/history/live", "/", "/workers", "/workflows/w-1"):
                refused = await web.get(path, headers={"accept": "text/event-stream"})
                assert refused.status_code == 503, path
                assert "max_streams" in refused.text
                assert refused.headers["retry-after"]
            assert (await web.get("/")).status_code == 200, "pages themselves are shown"
        async with httpx2.AsyncClient(base_url=address) as web:
            for _ in range(2):
                while True:
                    async with web.stream("GET", "/", headers={"accept": "text/event-stream"}) as again:
                        if again.status_code == 200:
                            break


async def test_a_body_with_two_lengths_is_refused(client: Client) -> None:
    async with serving(client, WebSettings()) as address:
        with connected(address) as connection:
            connection.sendall(
                head("POST", "/api/workflows", "Content-Length: 2", "Transfer-Encoding: chunked")
            )
            assert await asyncio.to_thread(status, connection) == 400


async def test_heads_are_only_so_large(client: Client) -> None:
    lines: list[bytes] = [
        head("GET", "/api/workflows?id_prefix=" + "x" * 1_000_000),
        head("GET", "/" + "x" * 1_000_000),
        head("GET", "/api/health", "Cookie: " + "; ".join(f"c{number}=x" for number in range(100_000))),
        head("GET", "/api/health", *(f"X-{number}: x" for number in range(100_000))),
    ]
    async with serving(client, WebSettings()) as address:
        for request in lines:
            with connected(address) as connection:
                connection.sendall(request)
                assert await asyncio.to_thread(status, connection) in (400, 431)
        async with httpx2.AsyncClient(base_url=address) as web:
            assert (await web.get("/api/health")).status_code == 200


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No request of these leaves a traceback."""
    yield
    assert "Traceback" not in caplog.text
