"""Behind a proxy that terminates TLS: whose word is believed, and what follows from it. A real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.dashboard.conftest import make_tokens
from tests.dashboard.serving import serving

from outlast import Client
from outlast.cli.main import run
from outlast_dashboard import WebSettings

TLS = {"host": "ops.example.com", "x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.9"}
HOSTS = ("127.0.0.1", "ops.example.com")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client.connect("sqlite://") as made:
        yield made


async def test_the_session_cookie_is_secure_if_a_trusted_proxy_says_https(client: Client) -> None:
    tokens, secrets = make_tokens()
    for trusted, secure in (((), False), (("10.0.0.1",), False), (("127.0.0.0/8",), True)):
        settings = WebSettings(tokens=tokens, hosts=HOSTS)
        async with serving(client, settings, trusted_proxies=trusted) as address:
            async with httpx2.AsyncClient(base_url=address) as web:
                plain = await web.post("/login", data={"token": secrets["all"]})
                assert "secure" not in plain.headers["set-cookie"].lower()
                answer = await web.post(
                    "/login",
                    data={"token": secrets["all"]},
                    headers={**TLS, "origin": "https://ops.example.com", "sec-fetch-site": "same-origin"},
                )
                assert answer.status_code == 303
                assert ("secure" in answer.headers["set-cookie"].lower()) is secure, trusted


async def test_a_trusted_proxys_callers_are_counted_apart(client: Client) -> None:
    tokens, _ = make_tokens()
    settings = WebSettings(tokens=tokens, hosts=HOSTS, requests_per_second=0.1, burst=2)
    for trusted, last in ((("127.0.0.1",), 401), ((), 429)):
        async with serving(client, settings, trusted_proxies=trusted) as address:
            async with httpx2.AsyncClient(base_url=address) as web:
                answers = [
                    (
                        await web.get("/api/health", headers={"x-forwarded-for": f"203.0.113.{number}"})
                    ).status_code
                    for number in range(3)
                ]
        assert answers == [401, 401, last], trusted


async def test_without_tokens_nobody_comes_in_by_way_of_a_proxy(client: Client) -> None:
    """A proxy on this machine that passes requests on as its own would let everybody in."""
    for trusted in ((), ("127.0.0.1",)):
        async with serving(client, WebSettings(), trusted_proxies=trusted) as address:
            async with httpx2.AsyncClient(base_url=address) as web:
                assert (await web.get("/api/health")).status_code == 200
                for name in ("x-forwarded-for", "x-forwarded-host", "forwarded", "x-real-ip"):
                    answer = await web.get("/api/health", headers={name: "127.0.0.1"})
                    assert answer.status_code == 403, name


def test_what_is_no_address_of_a_proxy_is_refused(
    sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in ("*", "proxy.example.com", "10.0.0.1/8", ""):
        assert run(["ui", "--url", sqlite_url, "--proxy-headers", wrong]) == 2
        assert "proxy headers" in capsys.readouterr().err
