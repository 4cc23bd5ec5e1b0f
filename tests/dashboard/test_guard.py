"""What is answered before anything is routed: probes, and refusals, which are pages for browsers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.dashboard.conftest import Served, make_tokens

from outlast import Client
from outlast_dashboard import WebSettings, control_plane

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PROBLEM = "application/problem+json"


@pytest.fixture
def database_url() -> str:
    """Nothing here depends on the database."""
    return "sqlite://"


@pytest.fixture
async def strict(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    """Of a control plane that lets nobody ask much; without a token."""
    tokens, _ = make_tokens()
    settings = WebSettings(tokens=tokens, requests_per_second=0.1, burst=2, max_body_bytes=1_024)
    transport = httpx2.ASGITransport(control_plane(served.client, settings))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as web:
        yield web


# --- liveness ---------------------------------------------------------------------------------------------------------


async def test_a_probe_needs_no_token_no_host_name_and_no_patience(strict: httpx2.AsyncClient) -> None:
    for _ in range(20):
        answer = await strict.get("/livez", headers={"host": "10.1.2.3:8080", "x-forwarded-for": "1.2.3.4"})
        assert (answer.status_code, answer.text) == (200, "ok\n")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"].startswith("text/plain")
    head = await strict.head("/livez")
    assert (head.status_code, head.text) == (200, "")
    assert (await strict.get("/api/health")).status_code == 401, "this still needs one"


async def test_a_probe_is_answered_where_there_are_no_tokens_and_while_the_database_is_away(
    served: Served,
) -> None:
    def away() -> Client:
        raise AssertionError("a probe asks no client")

    app = control_plane(away, WebSettings())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app, client=("10.0.0.9", 1))) as web:
        assert (await web.get("http://10.0.0.1/livez")).status_code == 200
        assert (await web.get("http://10.0.0.1/")).status_code == 400


async def test_nothing_else_is_let_through_with_it(strict: httpx2.AsyncClient) -> None:
    for path in ("/livez/", "/livez/x", "/livez%2F..%2Fapi%2Fworkflows", "/api/livez", "//livez"):
        assert (await strict.get(path, headers={"host": "10.1.2.3"})).status_code == 400, path
    assert (await strict.post("/livez", headers={"host": "10.1.2.3"})).status_code == 400


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_a_browser_gets_a_page_and_a_program_problem_details(strict: httpx2.AsyncClient) -> None:
    cases: list[tuple[str, str, dict[str, str], int, str]] = [
        ("GET", "/", {"host": "evil.example"}, 400, "This host name is not served here"),
        ("POST", "/start", {"sec-fetch-site": "cross-site"}, 403, "another site"),
        ("POST", "/start", {"content-length": "9999"}, 413, "1024 bytes"),
    ]
    for method, path, headers, status, words in cases:
        page = await strict.request(method, path, headers={**BROWSER, **headers})
        assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert words in page.text
        assert ("Sign in" in page.text) == (status == 413), "nobody is asked for a token on a strange address"
        for accept, where in (
            ("*/*", path),
            ("application/json", path),
            (BROWSER["accept"], "/api/workflows"),
        ):
            answer = await strict.request(method, where, headers={**headers, "accept": accept})
            assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)


async def test_a_browser_that_asks_too_much_gets_a_page_that_says_when(strict: httpx2.AsyncClient) -> None:
    answers = [await strict.get("/login", headers=BROWSER) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert "Too many requests" in answers[-1].text
    assert int(answers[-1].headers["retry-after"]) > 1
    assert answers[-1].headers["content-security-policy"]


async def test_a_page_for_strangers_says_nothing_of_whoever_is_signed_in(served: Served) -> None:
    page = await served.web.get("/", headers={**BROWSER, "host": "evil.example"})
    assert page.status_code == 400
    for secret in ("all", "in memory", "Sign out", "SQLite"):
        assert f">{secret}<" not in page.text
