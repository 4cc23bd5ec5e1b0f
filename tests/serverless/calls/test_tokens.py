"""OAuth 2.0 and OpenID Connect: every grant with every authentication of a client, against an authority that checks."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.serverless.calls.authority import GRANTS, ID, PEM, SECRET, Authority, unsigned
from tests.serverless.calls.test_http import Run, fault, run
from tests.serverless.cases import HEAD
from tests.serverless.server import Server, serving

from outlast import Client, Worker
from outlast_serverless import Document, Runtime, Secrets
from outlast_serverless.calls import tokens

METHODS = ("client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt", "none")
TOKEN = {"token": "refresh-1", "type": "urn:x"}
__all__ = ["run", "server"]


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
async def server(authority: Authority) -> AsyncGenerator[Server]:
    async with serving(authority.mount) as made:
        yield made


def policy(
    grant: str = "client_credentials", method: str = "client_secret_post", **more: Any
) -> dict[str, Any]:
    """Return what stands under ``oauth2``."""
    client = {"id": ID, "authentication": method, "secret": PEM if method == "private_key_jwt" else SECRET}
    if method == "none":
        del client["secret"]
    found: dict[str, Any] = {"authority": "SERVER/realm", "grant": grant, "client": client, **more}
    if grant == "password":
        found |= {"username": "ada", "password": "correct-horse"}
    elif grant != "client_credentials":
        found["subject"] = TOKEN
    if "exchange" in grant:
        found["actor"] = {"token": "actor-1", "type": "urn:y"}
    return found


def calls(scheme: str, said: dict[str, Any], times: int = 1, rest: str = "") -> str:
    endpoint = {"uri": "SERVER/guarded", "authentication": {scheme: said}}
    call = {"call": "http", "with": {"method": "get", "endpoint": endpoint}}
    return HEAD + rest + "do: " + orjson.dumps([{f"c{number}": call} for number in range(times)]).decode()


@pytest.mark.parametrize("scheme", ["oauth2", "oidc"])
async def test_every_grant_with_every_authentication(
    sqlite_url: str, server: Server, authority: Authority, scheme: str
) -> None:
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        for grant in GRANTS:
            for method in METHODS:
                authority.method = method
                text = calls(scheme, policy(grant, method)).replace("SERVER", server.url)
                output = await (await runtime.start(Document.parse(text))).result(timeout=20)
                assert output["token"].startswith("e30."), (grant, method)
    assert len(authority.asked) == 25


async def test_a_token_is_kept_until_it_expires(run: Run, authority: Authority) -> None:
    said = policy(scopes=["a", "b"], audiences=["x", "y"])
    await run(calls("oauth2", said, times=3))
    assert [(one["scope"], one["audience"]) for one in authority.asked] == [("a b", ["x", "y"])]
    authority.lifetime = 30
    await run(calls("oauth2", said, times=3))
    assert len(authority.asked) == 4, "one that is good for half a minute is not kept"
    await run(calls("oauth2", {**said, "request": {"encoding": "application/json"}}))
    assert authority.asked[-1]["audience"] == ["x", "y"]


async def test_a_token_whose_end_is_not_said_is_kept_for_a_minute(
    run: Run, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.lifetime = None
    assert tokens._UNSAID_S == 60
    await run(calls("oauth2", policy(), times=2))
    assert len(authority.asked) == 1
    monkeypatch.setattr(tokens, "_UNSAID_S", 0.0)
    await run(calls("oauth2", policy(), times=2))
    assert len(authority.asked) == 3


async def test_a_token_that_is_refused_is_asked_for_again(run: Run, authority: Authority) -> None:
    authority.once = True
    call = calls("oauth2", policy()).partition("do: ")[2]
    retry = "{retry: {limit: {attempt: {count: 1}}}}"
    text = f"{HEAD}do: [{{a: {{do: {call}}}}}, {{b: {{try: {call}, catch: {retry}}}}}]"
    assert (await run(text))["token"] == token(2)
    assert len(authority.asked) == 2


def token(number: int) -> str:
    """Return the token that the authority has given to a request."""
    return unsigned({"iss": "https://issuer", "n": number})


@pytest.mark.parametrize(
    ("scheme", "said", "kind", "why"),
    [
        ("oauth2", policy(method="client_secret_basic"), "authentication", "invalid_client"),
        ("oauth2", {**policy(), "grant": "password"}, "configuration", "needs username"),
        ("oauth2", {**policy(), "grant": "refresh_token"}, "configuration", "needs refresh"),
        ("oauth2", policy(issuers=["https://other"]), "authentication", "https://issuer"),
        ("oauth2", policy(endpoints={"token": "/nowhere"}), "authentication", "404"),
        ("oauth2", {**policy(), "client": {"secret": "x"}}, "configuration", "needs an id"),
        (
            "oauth2",
            {**policy(), "client": {"id": ID, "authentication": "private_key_jwt", "secret": "no-key"}},
            "configuration",
            "no key for private_key_jwt",
        ),
        ("oidc", policy() | {"authority": "SERVER/elsewhere"}, "authentication", "404"),
    ],
)
async def test_a_fault_says_why(run: Run, scheme: str, said: dict[str, Any], kind: str, why: str) -> None:
    error = await fault(run, calls(scheme, said))
    assert error["type"].endswith(kind), error
    assert why in error["detail"]
    assert SECRET not in str(error)


async def test_neither_secrets_nor_tokens_are_written(
    tmp_path: Path, server: Server, authority: Authority
) -> None:
    said = policy(issuers=["https://issuer"])
    said["client"]["secret"] = "${ $secrets.secret }"
    text = calls("oauth2", said, rest="use: {secrets: [secret]}\n").replace("SERVER", server.url)
    text = text.replace('"call": "http"', '"output": {"as": "${ .token | length }"}, "call": "http"')
    file = tmp_path / "o.db"
    async with (
        Client.connect(f"sqlite:///{file}") as client,
        Runtime(client, secrets=Secrets.mapping({"secret": SECRET})) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        await (await runtime.start(Document.parse(text))).result(timeout=20)
        connection = sqlite3.connect(file)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
    assert authority.asked[0]["client_secret"] == SECRET
    assert SECRET.encode() not in written(tmp_path)


def written(folder: Path) -> bytes:
    """Return what the files of a folder hold."""
    return b"".join(file.read_bytes() for file in folder.iterdir())
