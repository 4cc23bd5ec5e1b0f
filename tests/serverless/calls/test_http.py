"""`call: http` against a real server: requests, answers, authentication, secrets, and what the policy denies."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
import textwrap
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.serverless.cases import whole
from tests.serverless.server import Server, serving

from outlast import Client, Worker
from outlast.errors import FaultedError, FaultedTimeoutError
from outlast_serverless import Document, HttpPolicy, Runtime, Secrets
from outlast_serverless.calls.policy import DeniedError
from outlast_serverless.interpreter.faults import BASE
from outlast_serverless.secrets import MASK, Masking

Run: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
SECRETS = {"token": "tok-en/with=odd~chars", "login": {"username": "ada", "password": "correct-horse"}}


@pytest.fixture
async def server() -> AsyncGenerator[Server]:
    async with serving() as made:
        yield made


@pytest.fixture
def run(database_url: str, server: Server) -> Run:
    """Runs a document whose `SERVER` is the server, and returns its output."""

    async def run(text: str, input: Any = None, policy: HttpPolicy | None = None) -> Any:
        document = Document.parse(whole(text.replace("SERVER", server.url)))
        async with (
            Client.connect(database_url) as client,
            Runtime(client, secrets=Secrets.mapping(SECRETS), http=policy) as runtime,
            Worker(client, workflows=runtime.workflows, activities=runtime.activities),
        ):
            return await (await runtime.start(document, input)).result()

    return run


async def fault(run: Run, *args: Any, **options: Any) -> dict[str, Any]:
    with pytest.raises(FaultedError) as caught:
        await run(*args, **options)
    return caught.value.error


async def test_a_request_is_made_of_its_arguments(run: Run, server: Server) -> None:
    text = """- c:
        call: http
        with:
          method: post
          endpoint: SERVER/echo/{id}/{none}
          headers: {X-One: "1", X-Two: "${ .id }", X-Three: 3}
          query: {q: "${ .q }", list: "${ [1, 2] }", page: 7}
          body: {n: "${ .n + 1 }"}
    """
    said = await run(text, {"id": "a b", "q": "x&y", "n": 1})
    assert (said["method"], said["path"]) == ("POST", "/echo/a b/")
    assert said["query"] == [["q", "x&y"], ["list", "1"], ["list", "2"], ["page", "7"]]
    assert (said["headers"]["x-one"], said["headers"]["x-two"]) == ("1", "a b")
    assert said["headers"]["x-three"] == "3"
    assert said["body"] == '{"n":2}'
    assert "idempotency-key" not in said["headers"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("json", {"a": [1]}),
        ("problem", {"b": 2}),
        ("text", "grüß"),
        ("binary", base64.b64encode(b"\x00\xff").decode()),
        ("empty", None),
        ("broken", "{"),
    ],
)
async def test_the_content_is_read_by_its_type(run: Run, kind: str, expected: Any) -> None:
    call = f"- c: {{call: http, with: {{method: get, endpoint: SERVER/content/{kind}}}}}"
    assert await run(call) == expected


async def test_the_output_may_be_the_whole_answer_or_raw(run: Run, server: Server) -> None:
    call = "- c: {call: http, with: {method: get, endpoint: SERVER/content/json, output: OUT}}"
    assert await run(call.replace("OUT", "raw")) == base64.b64encode(b'{"a": [1]}').decode()
    whole_answer = await run(call.replace("OUT", "response"))
    assert (whole_answer["statusCode"], whole_answer["content"]) == (200, {"a": [1]})
    assert whole_answer["request"]["uri"] == f"{server.url}/content/json"


@pytest.mark.parametrize("status", [404, 401, 403, 500, 304])
async def test_what_is_no_success_is_a_communication_error(run: Run, status: int) -> None:
    error = await fault(run, f"- c: {{call: http, with: {{method: get, endpoint: SERVER/status/{status}}}}}")
    assert (error["type"], error["status"], error["instance"]) == (f"{BASE}communication", status, "/do/0/c")
    assert f"answered {status}" in error["detail"]


async def test_nobody_there_is_a_communication_error(run: Run) -> None:
    error = await fault(
        run, "- c: {call: http, with: {method: get, endpoint: 'http://127.0.0.1:1/x?key=hidden'}}"
    )
    assert (error["type"], error["status"]) == (f"{BASE}communication", 500)
    assert "hidden" not in str(error)


async def test_redirects_are_followed_where_that_is_said(run: Run, server: Server) -> None:
    to = f"SERVER/redirect/STATUS?to={server.url}/echo/x"
    call = f"- c: {{call: http, with: {{method: post, endpoint: '{to}', body: {{a: 1}}, MORE}}}}"
    assert (await fault(run, call.replace("STATUS", "302").replace(", MORE", "")))["status"] == 302
    followed = await run(call.replace("STATUS", "303").replace("MORE", "redirect: true"))
    assert (followed["method"], followed["body"]) == ("GET", "")
    kept = await run(call.replace("STATUS", "307").replace("MORE", "redirect: true"))
    assert (kept["method"], kept["body"]) == ("POST", '{"a":1}')
    to = "SERVER/redirect/302?to=/redirect/302%3Fto=x"
    endless = f"- c: {{call: http, with: {{method: get, endpoint: '{to}', redirect: true}}}}"
    assert (await fault(run, endless))["status"] in (404, 422, 500)


async def test_a_timeout_of_the_task_is_an_error_of_the_task(run: Run) -> None:
    call = "- c: {call: http, with: {method: get, endpoint: SERVER/slow}, timeout: {after: PT0.3S}}"
    with pytest.raises(FaultedTimeoutError) as caught:
        await run(call)
    assert (caught.value.error["status"], caught.value.error["instance"]) == (408, "/do/0/c")


async def test_the_policys_own_limits(run: Run) -> None:
    late = await fault(
        run, "- c: {call: http, with: {method: get, endpoint: SERVER/slow}}", policy=HttpPolicy(timeout=0.3)
    )
    assert (late["type"], late["status"]) == (f"{BASE}communication", 504)
    large = await fault(run, "- c: {call: http, with: {method: get, endpoint: SERVER/content/large}}")
    assert "more than 1048576 bytes" in large["detail"]
    said = await run(
        "- c: {call: http, with: {method: post, endpoint: 'https://gateway.example/echo/x'}}",
        policy=HttpPolicy(rewrite={"https://gateway.example": (await _url(run))}, idempotency_key=True),
    )
    assert "#" not in said["path"]
    assert said["headers"]["idempotency-key"].endswith(":/do/0/c")


async def _url(run: Run) -> str:
    said = await run("- c: {call: http, with: {method: get, endpoint: SERVER/echo/x}}")
    return f"http://{said['headers']['host']}"


@pytest.mark.parametrize("scheme", ["basic", "digest"])
@pytest.mark.parametrize(
    "policy",
    [
        "{SCHEME: {username: ada, password: correct-horse}}",
        "{SCHEME: {use: login}}",
        "{SCHEME: {username: '${ $secrets.login.username }', password: '${ $secrets.login.password }'}}",
        "{use: named}",
    ],
)
async def test_it_authenticates(run: Run, scheme: str, policy: str) -> None:
    text = (
        f"use: {{secrets: [login], authentications: {{named: {{{scheme}: {{use: login}}}}}}}}\n"
        f"do: [{{c: {{call: http, with: {{method: get, endpoint: {{uri: SERVER/{scheme}, "
        f"authentication: {policy.replace('SCHEME', scheme)}}}}}}}}}]"
    )
    assert await run(text) == "welcome"


async def test_secrets_reach_the_server_and_nothing_else(run: Run, server: Server, database_url: str) -> None:
    text = textwrap.dedent("""
        use: {secrets: [token]}
        do:
        - c: {call: http, with: {method: get, endpoint: SERVER/status/200, output: response,
                                 headers: {X-Key: '${ $secrets.token }', X-Auth: '${ "k " + $secrets.token }'}}}
        - t:
            try:
            - d: {call: http, with: {method: get, endpoint: '${ "SERVER/status/500?k=" + $secrets.token }'}}
            catch: {do: [{s: {set: '${ $error }'}}]}
    """)
    error = await run(text)
    assert server.seen[0]["headers"]["x-key"] == SECRETS["token"]
    assert server.seen[1]["query"] == [["k", SECRETS["token"]]]
    assert error["status"] == 500
    if database_url.startswith("sqlite:////"):
        assert not leaks(Path(database_url.removeprefix("sqlite:///")))


def leaks(path: Path) -> bool:
    """Whether any byte of a database holds a secret."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes().decode("latin-1")
    return Masking(SECRETS.values()).text(data) != data


@pytest.mark.parametrize(
    "call",
    [
        "endpoint: SERVER/echo/x, headers: {X: '${ $secrets.token | tonumber }'}",
        "endpoint: SERVER/echo/x, headers: {X: '${ $secrets.token[:9] | error }'}",
        'endpoint: \'${ "ftp://a/" + ("x" * 80) + $secrets.token }\'',
        "endpoint: '${ \"SERVER/long/490?k=\" + ($secrets.token | @uri) }'",
    ],
)
async def test_no_part_of_a_secret_is_told(run: Run, call: str) -> None:
    error = await fault(
        run, f"use: {{secrets: [token]}}\ndo: [{{c: {{call: http, with: {{method: get, {call}}}}}}}]"
    )
    assert str(SECRETS["token"])[:6] not in str(error)


async def test_secrets_are_not_told_to_where_a_server_redirects(run: Run, server: Server) -> None:
    other = server.url.replace("127.0.0.1", "localhost")
    call = (
        "use: {secrets: [token]}\n"
        f"do: [{{c: {{call: http, with: {{method: post, endpoint: 'SERVER/redirect/307?to={other}/echo/x', "
        "redirect: true, headers: {X-Key: '${ $secrets.token }', X-Other: a}, body: {v: BODY}}}}]"
    )
    said = await run(call.replace("BODY", "1"))
    assert (said["headers"].get("x-key"), said["headers"]["x-other"]) == (None, "a")
    error = await fault(run, call.replace("BODY", "'${ $secrets.token }'"))
    assert "which is not told the secrets in the body" in error["detail"]


async def test_headers_are_utf_8(run: Run) -> None:
    policy = HttpPolicy(idempotency_key=True)
    call = 'do: [{"é\\n": {call: http, with: {method: post, endpoint: SERVER/echo/x, headers: {X: "grüß"}}}}]'
    said = await run(call, policy=policy)
    assert said["headers"]["x"].encode("latin-1").decode() == "grüß"
    assert said["headers"]["idempotency-key"].endswith(":/do/0/%C3%A9%0A")
    error = await fault(run, call.replace("grüß", "a\\r\\nEvil: 1"))
    assert "Illegal header value" in error["detail"]


async def test_a_secret_that_may_not_be_used(run: Run) -> None:
    text = (
        "use: {secrets: [token, other]}\n"
        "do: [{c: {call: http, with: {method: get, endpoint: SERVER/echo/x, headers: {X: '${ $secrets.other }'}}}}]"
    )
    error = await fault(run, text)
    assert (error["type"], error["status"]) == (f"{BASE}authorization", 403)
    assert "the secret other cannot be used: it is not there: the mapping does not have it" in error["detail"]


def test_a_secret_that_is_missing_is_said_where_it_was_looked_for(tmp_path: Path) -> None:
    assert Secrets.from_env("APP_").missing("to-ken") == "the worker has no environment variable APP_TO_KEN"
    assert Secrets.from_files(tmp_path).missing("token") == f"there is no file token in {tmp_path}"


_PARTS = (Path(__file__).parent / "addresses.txt").read_text().split("#")
DENIED, PRIVATE = (part.splitlines()[1:] for part in _PARTS[1:])


@pytest.mark.parametrize("host", DENIED)
async def test_addresses_that_are_always_denied(host: str) -> None:
    with pytest.raises(DeniedError):
        await HttpPolicy().address(host, 80)


@pytest.mark.parametrize("host", [*DENIED, *PRIVATE])
async def test_addresses_that_are_denied_as_private(host: str) -> None:
    with pytest.raises(DeniedError):
        await HttpPolicy(deny_private=True).address(host, 80)


async def test_private_and_public_ones_are_allowed_by_default() -> None:
    for host in ("127.0.0.1", "10.0.0.1", "::1", "93.184.216.34", "2606:2800:220:1::1"):
        assert str(await HttpPolicy().address(host, 80)) == host
    assert str(await HttpPolicy(deny_private=True).address("93.184.216.34", 80)) == "93.184.216.34"


async def test_only_allowed_hosts() -> None:
    policy = HttpPolicy(allow=("*.example.com", "127.0.0.1"))
    assert str(await policy.address("127.0.0.1", 80)) == "127.0.0.1"
    with pytest.raises(DeniedError, match="does not allow localhost"):
        await policy.address("localhost", 80)


async def test_a_denied_call_faults_and_a_redirect_is_looked_at(run: Run) -> None:
    direct = await fault(
        run, "- c: {call: http, with: {method: get, endpoint: 'http://169.254.169.254/latest'}}"
    )
    assert (direct["type"], direct["status"]) == (f"{BASE}authorization", 403)
    redirected = await fault(
        run,
        "- c: {call: http, with: {method: get, redirect: true, endpoint: 'SERVER/redirect/302?to=http://169.254.169.254/x'}}",
    )
    assert redirected["status"] == 403


async def test_the_address_that_was_looked_at_is_the_one_that_is_called(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name whose answer changes after the look leads nowhere else: it is resolved once."""
    loop = asyncio.get_running_loop()
    real, asked = loop.getaddrinfo, []

    async def rebinding(host: Any, port: Any, **more: Any) -> Any:
        if host != "rebinding.example":
            return await real(host, port, **more)
        asked.append(host)
        return await real("127.0.0.1" if len(asked) == 1 else "169.254.169.254", port, **more)

    monkeypatch.setattr(loop, "getaddrinfo", rebinding)
    port = (await _url(run)).rpartition(":")[2]
    said = await run(
        f"- c: {{call: http, with: {{method: get, endpoint: 'http://rebinding.example:{port}/echo/x'}}}}"
    )
    assert said["headers"]["host"] == f"rebinding.example:{port}"
    assert asked == ["rebinding.example"]


def test_masking_finds_secrets_in_their_forms() -> None:
    masking = Masking(["a b/c+d", "xyz", {"k": ["longer-secret"]}])
    told = masking.text("a b/c+d a%20b%2Fc%2Bd a+b%2Fc%2Bd YSBiL2MrZA== longer-secret xyz")
    assert told == f"{MASK} {MASK} {MASK} {MASK} {MASK} xyz"
