"""Who may come in, and what they get to see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.dashboard.conftest import Served

from outlast import Client
from outlast_dashboard import Principal, Scope, Token, TokenFile, WebSettings, control_plane
from outlast_dashboard.api.application import make_api
from outlast_dashboard.notifications import ChangeSignal
from outlast_dashboard.request_limits import Buckets
from outlast_workflow.errors import InvalidOptionError

Route = tuple[str, str]


@pytest.fixture
def database_url() -> str:
    """Nothing here depends on the database."""
    return "sqlite://"


def routes() -> list[Route]:
    """Every route of the OpenAPI document, with something in its holes."""
    found: list[Route] = []
    for path, methods in make_api().openapi()["paths"].items():
        filled = "/api" + path.format(
            workflow_id="w-1",
            schedule_id="s-1",
            name="say",
            action="cancel",
            number=1,
            alert_id="a-1",
            namespace="n",
            version="1.0.0",
        )
        found += [(method.upper(), filled) for method in methods]
    return found


ROUTES = routes()
READS = [route for route in ROUTES if route[0] == "GET"]
OF_A_PAYLOAD = ("GET", "/api/workflows/w-1/memo/say")
"""Its answer is a payload and nothing else, so it needs that scope."""
WRITES = [route for route in ROUTES if route[0] != "GET"]


def test_the_document_has_routes_of_both_kinds() -> None:
    assert len(READS) >= 10
    assert len(WRITES) >= 5


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
async def test_no_route_answers_without_a_token_that_is_known(served: Served, route: Route) -> None:
    for token in ("", "Bearer nonsense", "Basic dTpw", "Bearer "):
        answer = await served.web.request(*route, headers={"authorization": token}, json=_any_body(route))
        assert answer.status_code == 401, (token, answer.text)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["type"] == "urn:outlast:problem:not-authenticated"


async def test_nobody_unknown_is_told_what_is_wrong_with_a_request(served: Served) -> None:
    for path in ("/api/workflows", "/api/count"):
        answer = await served.web.get(f"{path}?where=", headers={"authorization": "Bearer x"})
        assert answer.status_code == 401, path


async def test_a_path_with_a_line_break_is_a_problem_too(served: Served) -> None:
    answer = await served.web.get("/api/workflows/a%0Ab")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_a_method_that_is_not_there_is_told_which_are(served: Served) -> None:
    answer = await served.web.put("/api/workflows")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


@pytest.mark.parametrize("route", WRITES, ids=" ".join)
async def test_a_token_that_only_reads_changes_nothing(served: Served, route: Route) -> None:
    answer = await served.web.request(*route, headers=served.bearing("reader"), json=_any_body(route))
    assert answer.status_code == 403, answer.text
    assert answer.json()["type"] == "urn:outlast:problem:missing-scope"
    assert await served.client.count() == 0


@pytest.mark.parametrize("route", READS, ids=" ".join)
async def test_a_token_that_reads_reads(served: Served, route: Route) -> None:
    answer = await served.web.request(*route, headers=served.bearing("reader"))
    if route == OF_A_PAYLOAD:
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:outlast:problem:missing-scope")
    else:
        assert answer.status_code in (200, 404), answer.text


def _any_body(route: Route) -> dict[str, Any] | None:
    return None if route[0] == "GET" else {}


async def test_payloads_are_hidden_from_those_who_may_not_read_them(served: Served) -> None:
    handle = await served.client.start("Crawling", "s3cret", id="c-1")
    await _heartbeat(served)
    for name, seen in (("reader", False), ("writer", False), ("seer", True)):
        for path in ("", "/history"):
            answer = await served.web.get(f"/api/workflows/c-1{path}", headers=served.bearing(name))
            assert answer.status_code == 200
            assert ("s3cret" in answer.text) is seen, (name, path, answer.text)
    await handle.terminate()
    live = await served.web.get("/api/workflows/c-1/history/live", headers=served.bearing("reader"))
    assert "s3cret" not in live.text
    assert '{"hidden": true}' in live.text


async def _heartbeat(served: Served) -> None:
    async with ChangeSignal(served.client) as changed:
        while not (await served.client.describe("c-1")).pending_activities[0].heartbeat_details:
            await changed.wait()


async def test_a_name_that_is_not_ours_is_turned_away(served: Served) -> None:
    for host in ("evil.example", "localhost.evil.example", "", "127.0.0.1.evil", "[", "localhost:x:y"):
        answer = await served.web.get("/api/health", headers={"host": host})
        assert answer.status_code == 400, host
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:99"):
        assert (await served.web.get("/api/health", headers={"host": host})).status_code == 200, host


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://localhost"},
    ],
)
async def test_a_write_from_another_site_is_turned_away(served: Served, headers: dict[str, str]) -> None:
    answer = await served.web.post("/api/workflows", json={"workflow_type": "Waiting"}, headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:outlast:problem:cross-site")
    assert await served.client.count() == 0


async def test_a_write_from_our_own_page_passes(served: Served) -> None:
    for headers in (
        {"origin": "http://localhost"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ):
        answer = await served.web.post("/api/workflows", json={"workflow_type": "Waiting"}, headers=headers)
        assert answer.status_code == 201


async def test_every_answer_forbids_framing_sniffing_and_foreign_scripts(served: Served) -> None:
    for path in ("/api/health", "/api/nothing", "/nothing"):
        headers = (await served.web.get(path)).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


async def test_a_request_may_be_only_so_large(served: Served) -> None:
    large = b'{"workflow_type": "Waiting", "args": ["' + b"x" * 5_000_000 + b'"]}'

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 100_000):
            yield large[start : start + 100_000]

    bodies: list[bytes | AsyncIterator[bytes]] = [large, pieces()]
    for content in bodies:
        answer = await served.web.post(
            "/api/workflows", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 413, answer.text
    assert await served.client.count() == 0


async def test_who_asks_too_often_is_told_when_to_go_on(sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client:
        app = control_plane(client, WebSettings(requests_per_second=0.1, burst=2))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://localhost"
        ) as web:
            answers = [await web.get("/api/health") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 10


async def test_whoever_makes_tokens_up_is_counted_by_address(sqlite_url: str) -> None:
    token, secret = Token.make("ada", ["read"])
    async with Client.connect(sqlite_url) as client:
        app = control_plane(client, WebSettings(tokens=[token], requests_per_second=0.1, burst=2))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://localhost"
        ) as web:

            async def ask(shown: str) -> int:
                headers = {"authorization": f"Bearer {shown}"}
                return (await web.get("/api/health", headers=headers)).status_code

            assert [await ask(f"outlast_{number}") for number in range(3)] == [401, 401, 429]
            assert await ask(secret) == 200, "whoever has one is counted by it"


def test_a_bucket_fills_again_with_time() -> None:
    class Hand:
        at = 0.0

        def monotonic(self) -> float:
            return self.at

        def now(self) -> int:
            return 0

    clock = Hand()
    buckets = Buckets(clock, per_second=2, burst=2)
    assert [buckets.wait("a") for _ in range(3)] == [0, 0, 0.5]
    assert buckets.wait("b") == 0
    clock.at = 0.5
    assert [buckets.wait("a") for _ in range(2)] == [0, 0.5]


async def test_without_tokens_only_this_machine_is_served(sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client:
        app = control_plane(client, WebSettings(hosts=("localhost", "outlast.example")))

        async def ask(address: str, host: str) -> int:
            transport = httpx2.ASGITransport(app, client=(address, 1))
            async with httpx2.AsyncClient(transport=transport, base_url=f"http://{host}") as web:
                return (await web.get("/api/health")).status_code

        assert await ask("127.0.0.1", "localhost") == 200
        assert await ask("10.0.0.7", "localhost") == 403
        assert await ask("127.0.0.1", "outlast.example") == 403  # through a proxy on this machine


async def test_an_unforeseen_error_tells_nothing_of_itself(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*args: object, **options: object) -> None:
        raise ZeroDivisionError("card " + "-".join(["41", "11"]))

    monkeypatch.setattr(served.client, "describe", broken)
    answer = await served.web.get("/api/workflows/w-1")
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:outlast:problem:internal"
    assert "41-11" not in answer.text + caplog.text
    assert "ZeroDivisionError" in caplog.text
    for sent, decoded in (("%0D", "\r"), ("%1B", "\x1b"), ("%C2%85", "\x85"), ("%E2%80%A8", "\u2028")):
        for root in ("", "/api"):
            await served.web.get(f"{root}/workflows/w-1{sent}ERROR forged")
        assert f"w-1{sent}ERROR%20forged" in caplog.text
        assert decoded not in caplog.text


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_a_token_file_keeps_digests_and_only_its_owner_reads_it(tmp_path: Any) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    assert file.read() == []
    secret = file.add("ci", ["write"])
    assert secret.startswith("outlast_")
    assert secret not in file.path.read_text()
    assert file.path.stat().st_mode & 0o077 == 0
    (token,) = file.read()
    assert token.principal == Principal("ci", frozenset({Scope.WRITE}))
    with pytest.raises(InvalidOptionError, match="there is a token named 'ci'"):
        file.add("ci", ["read"])
    with pytest.raises(InvalidOptionError, match="no token named 'x'"):
        file.remove("x")
    file.remove("ci")
    assert file.read() == []


@pytest.mark.parametrize(
    "text", ["{", "[1]", '[{"name": "x"}]', '[{"name":"x","digest":"y","scopes":["all"]}]']
)
def test_what_is_no_token_file_is_told(tmp_path: Any, text: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(text)
    with pytest.raises(InvalidOptionError):
        TokenFile(path).read()


@pytest.mark.parametrize(
    ("name", "scopes", "words"),
    [("", ["read"], "token name"), ("x", [], "needs a scope"), ("x", ["everything"], "scope must be one of")],
)
def test_a_token_that_can_not_be_is_refused(name: str, scopes: list[str], words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        Token.make(name, scopes)


def test_two_tokens_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="share a name"):
        WebSettings(tokens=[Token.make("a", ["read"])[0], Token.make("a", ["read"])[0]])
