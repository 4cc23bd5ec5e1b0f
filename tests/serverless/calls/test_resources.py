"""External resources: from the network and from files, as far as the policy allows it, with their authentication."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI, Request, Response
from tests.serverless.server import Server, serving

from outlast_serverless import HttpPolicy, Secrets
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.calls.resources import Resource, Resources
from outlast_serverless.calls.tokens import Tokens
from outlast_serverless.interpreter.faults import Fault
from outlast_serverless.jq import Evaluator

SECRET = "a-long-secret"
DENIED = (Path(__file__).parent / "addresses.txt").read_text().split("#")[1].splitlines()[1:]


@pytest.fixture
async def server() -> AsyncGenerator[Server]:
    async with serving() as made:
        yield made


class Fetching:
    """Fetches as an activity does."""

    def __init__(self, **policy: Any) -> None:
        policy_ = HttpPolicy(**policy)
        self.resources = Resources(policy_, Tokens(policy_))

    async def __call__(self, endpoint: Any, data: Any = None, most_bytes: int = 1000) -> Resource:
        deferred = {"value": {"endpoint": endpoint}, "pointer": "/r", "data": data}
        asked = CallRequest("/do/0/x", "n/a:1", "k", None, deferred, ("token",))
        with Evaluator() as evaluator:
            filling = Filling(asked, evaluator, Secrets.mapping({"token": SECRET}))
            try:
                return await self.resources.fetched(
                    deferred["value"], "/r", asked, filling, parse, most_bytes=most_bytes
                )
            except Fault as error:
                raise Fault(filling.masking.json(error.error)) from None


def parse(resource: Resource) -> Resource:
    if resource.content.startswith(b"{\n"):
        raise ValueError("this is no text")
    return resource


async def test_it_is_fetched_and_kept_for_a_while(server: Server) -> None:
    fetching = Fetching()
    for _ in range(3):
        found = await fetching(f"{server.url}/described/{{kind}}", {"kind": "yaml"})
        assert found.media_type == "application/vnd.oai.openapi"
        assert b"openapi:" in found.content
    assert len(server.seen) == 1
    authenticated = {"uri": f"{server.url}/described/yaml", "authentication": {"bearer": {"token": "abcd"}}}
    for _ in range(2):
        await fetching(authenticated)
    assert len(server.seen) == 3, "what needs an authentication is not kept"


async def fault(fetching: Fetching, *args: Any, **more: Any) -> tuple[str, int, str]:
    with pytest.raises(Fault) as caught:
        await fetching(*args, **more)
    error = caught.value.error
    assert error["instance"] == "/do/0/x"
    assert SECRET not in str(error)
    return error["type"].rpartition("/")[2], error["status"], error["detail"]


async def test_what_cannot_be_fetched_says_why(server: Server) -> None:
    fetching = Fetching()
    assert (await fault(fetching, f"{server.url}/status/404"))[:2] == ("communication", 404)
    assert "more than 1000 bytes" in (await fault(fetching, f"{server.url}/content/large"))[2]
    assert (await fault(fetching, "ftp://host/x"))[:2] == ("configuration", 400)
    assert (await fault(fetching, "${ .none }", {}))[:2] == ("configuration", 400)
    assert (await fault(fetching, "http://169.254.169.254/x"))[:2] == ("authorization", 403)
    hidden = '${ "' + server.url + '/status/500?k=" + $secrets.token }'
    assert (await fault(fetching, hidden))[:2] == ("communication", 500)


async def test_a_redirect_is_followed_and_looked_at(server: Server) -> None:
    fetching = Fetching()
    found = await fetching(f"{server.url}/redirect/302?to=/content/json")
    assert found.content == b'{"a": [1]}'
    denied = await fault(fetching, f"{server.url}/redirect/302?to=http://[fd00:ec2::254]/x")
    assert denied[:2] == ("authorization", 403)
    no_file = await fault(Fetching(files=("/",)), f"{server.url}/redirect/302?to=file:///etc/hostname")
    assert no_file[:2] == ("configuration", 400)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_leads_to_an_address_that_is_denied(server: Server, status: int) -> None:
    fetching = Fetching()
    for address in DENIED:
        to = quote(f"http://[{address}]/x" if ":" in address else f"http://{address}/x")
        found = await fault(fetching, f"{server.url}/redirect/{status}?to={to}")
        # The client refuses octal numbers itself.
        refused = ("communication", 500) if address.startswith("0251") else ("authorization", 403)
        assert found[:2] == refused, address


@pytest.mark.parametrize(
    "to",
    [
        "//169.254.169.254/x",
        "http://user:password@169.254.169.254/x",
        "http://169.254.169.254:80/x",
        "http://127.0.0.1@169.254.169.254/x",
        "HTTP://169.254.169.254/x",
        "http://169%2E254%2E169%2E254/x",
        "/redirect/302?to=/redirect/302%3Fto=http://169.254.169.254/x",
        "file:///etc/hostname",
        "ftp://127.0.0.1/x",
        "gopher://127.0.0.1/x",
        "http://[::1/x",
    ],
)
async def test_no_redirect_leads_out_in_disguise(server: Server, to: str) -> None:
    kind, status, _ = await fault(Fetching(files=("/",)), f"{server.url}/redirect/302?to={quote(to)}")
    assert (kind, status) in (("authorization", 403), ("configuration", 400), ("communication", 500))
    assert all(one["path"].startswith("/redirect/") for one in server.seen)


@pytest.mark.parametrize("after", ["127.0.0.1", "169.254.169.254"])
async def test_a_name_is_resolved_once_for_a_fetch(
    server: Server, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    loop = asyncio.get_running_loop()
    real, asked = loop.getaddrinfo, []

    async def rebinding(host: Any, port: Any, **more: Any) -> Any:
        if host == "rebinding.example":
            asked.append(host)
            return await real("127.0.0.1" if len(asked) == 1 else after, port, **more)
        if host == "two.example":
            return [*await real("127.0.0.1", port, **more), *await real("169.254.169.254", port, **more)]
        return await real(host, port, **more)

    monkeypatch.setattr(loop, "getaddrinfo", rebinding)
    port = server.url.rpartition(":")[2]
    found = await Fetching()(f"http://rebinding.example:{port}/content/json")
    assert found.content == b'{"a": [1]}'
    assert asked == ["rebinding.example"]
    several = await fault(Fetching(), f"http://two.example:{port}/content/json")
    assert several[:2] == ("authorization", 403), "all addresses of a name are looked at"
    again = f"http://rebinding.example:{port}/redirect/302?to=http://rebinding.example:{port}/content/json"
    if after == "127.0.0.1":
        assert (await Fetching()(again)).content == b'{"a": [1]}'
    else:
        assert (await fault(Fetching(), again))[:2] == ("authorization", 403), "each hop is looked at"


@pytest.mark.parametrize("scheme", ["bearer", "basic", "digest"])
async def test_credentials_of_one_host_are_not_told_to_another(scheme: str) -> None:
    def demanding(app: FastAPI) -> None:
        @app.get("/private")
        async def private(request: Request) -> Response:
            shown.append(request.headers.get("authorization"))
            challenge = {"www-authenticate": 'Digest realm="r", qop="auth", nonce="n", algorithm=SHA-256'}
            return Response(b"", 401, headers=challenge)

    shown: list[str | None] = []
    said = {"bearer": {"token": "abcd"}}.get(scheme, {"username": "ada", "password": "correct"})
    async with serving(demanding) as other, serving() as server:
        uri = f"{server.url}/redirect/302?to={other.url}/private"
        error = await fault(Fetching(), {"uri": uri, "authentication": {scheme: said}})
    assert error[:2] == ("communication", 401)
    assert shown == [None]


async def test_files_are_read_only_from_folders_that_the_policy_names(tmp_path: Path) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    allowed.mkdir()
    other.mkdir()
    (allowed / "a b.txt").write_text("here")
    (other / "x").write_text("elsewhere")
    (allowed / "link").symlink_to(other / "x")
    (allowed / "back").symlink_to(allowed / "a b.txt")
    fetching = Fetching(files=(allowed,))
    for name in ("a%20b.txt", "back"):
        assert (await fetching(f"file://{allowed}/{name}")).content == b"here"
    for url in (
        f"file://{other}/x",
        f"file://{allowed}/../other/x",
        f"file://{allowed}/%2e%2e/other/x",
        f"file://{allowed}/link",
        f"file://{allowed}/../none",
        f"file://host{allowed}/back",
        "file:relative",
        f"file://{allowed}/a%00",
    ):
        assert (await fault(fetching, url))[:2] == ("authorization", 403), url
    assert (await fault(fetching, f"file://{allowed}/none"))[:2] == ("communication", 500)
    assert (await fault(fetching, f"file://{allowed}"))[:2] == ("configuration", 400)
    assert "more than 3 bytes" in (await fault(fetching, f"file://{allowed}/back", most_bytes=3))[2]
    assert "allows no files" in (await fault(Fetching(), f"file://{allowed}/back"))[2]


async def test_what_cannot_be_read_is_a_configuration_error(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("{\n}")
    assert await fault(Fetching(files=(tmp_path,)), f"file://{tmp_path}/x") == (
        "configuration",
        400,
        "this is no text",
    )


async def test_a_file_may_be_rewritten_to_where_the_policy_allows_it(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("found")
    fetching = Fetching(files=(tmp_path,), rewrite={"file://app": tmp_path.as_uri()})
    assert (await fetching("file://app/text")).content == b"found"
    with pytest.raises(Fault, match="names no file of this machine"):
        await fetching("file://other/text")
