"""`call: mcp` over streamable HTTP, against a server made with the SDK: methods, errors, credentials, ends."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request, Response
from tests.serverless.calls.authority import Authority
from tests.serverless.calls.test_a2a import PROGRAM
from tests.serverless.calls.test_http import SECRETS, Run, fault
from tests.serverless.calls.test_tokens import policy
from tests.serverless.cases import HEAD, whole
from tests.serverless.mcp.server import Seen, serving
from tests.serverless.server import serving as serving_more

from outlast import Client, Worker
from outlast.errors import FaultedError, FaultedTimeoutError, UnsupportedTaskError, WorkflowCancelledError
from outlast_serverless import Document, HttpPolicy, Runtime, Secrets
from outlast_serverless.interpreter.faults import BASE


@pytest.fixture
async def seen() -> AsyncGenerator[Seen]:
    async with serving() as made:
        yield made


@pytest.fixture
def run(sqlite_url: str, seen: Seen) -> Run:
    """Runs a document whose `SERVER` is the server, and returns its output."""

    async def run(text: str, input: Any = None, policy: HttpPolicy | None = None) -> Any:
        document = Document.parse(whole(text.replace("SERVER", seen.url)))
        async with (
            Client.connect(sqlite_url) as client,
            Runtime(client, secrets=Secrets.mapping(SECRETS), http=policy) as runtime,
            Worker(client, workflows=runtime.workflows, activities=runtime.activities),
        ):
            return await (await runtime.start(document, input)).result()

    return run


def call(method: str, parameters: Any = None, after: str = "", http: Any = None, **more: Any) -> str:
    """Return a document of one call."""
    given = {"method": method, "transport": {"http": http or {"endpoint": "SERVER/mcp"}}, **more}
    if parameters is not None:
        given["parameters"] = parameters
    return f"- c: {{call: mcp, with: {orjson.dumps(given).decode()}{after}}}"


def tool(name: str, arguments: Any = None, after: str = "", **more: Any) -> str:
    return call("tools/call", {"name": name, "arguments": arguments or {}}, after, **more)


async def test_the_output_of_each_method_is_its_result(run: Run, seen: Seen) -> None:
    tools = (await run(call("tools/list")))["tools"]
    assert {one["name"] for one in tools} >= {"add", "fail"}
    assert tools[0]["inputSchema"]["required"] == ["a", "b"]
    added = await run(tool("add", "${ {a: .x, b: 2} }"), {"x": 40})
    assert added["content"] == [{"type": "text", "text": "42"}]
    assert added["structuredContent"] == {"result": 42}
    assert [one["name"] for one in (await run(call("prompts/list")))["prompts"]] == ["greeting"]
    told = await run(call("prompts/get", {"name": "greeting", "arguments": {"name": "Ada"}}))
    assert told["messages"][0]["content"]["text"] == "Hello, Ada!"
    assert [one["uri"] for one in (await run(call("resources/list")))["resources"]] == ["test://fixed"]
    templates = await run(call("resources/templates/list"))
    assert templates["resourceTemplates"][0]["uriTemplate"] == "test://{word}/text"
    read = await run(call("resources/read", "${ {uri: .uri} }"), {"uri": "test://hello/text"})
    assert read["contents"][0]["text"] == "hello"
    methods = [method for method, _ in seen.requests]
    # Each session is ended.
    assert methods.count("DELETE") == 7


@pytest.mark.parametrize("version", [None, "2024-11-05", "2025-11-25", "2026-07-28"])
async def test_the_version_is_the_one_that_is_asked_for(run: Run, seen: Seen, version: str | None) -> None:
    more = {} if version is None else {"protocolVersion": version}
    found = await run(tool("add", {"a": 1, "b": 1}, client={"name": "c", "version": "1"}, **more))
    assert found["structuredContent"] == {"result": 2}
    told = {headers.get("mcp-protocol-version") for _, headers in seen.requests} - {None}
    assert told == {version or "2025-06-18"}


async def test_errors_are_runtime_errors_with_their_code(run: Run) -> None:
    for text, status, detail in (
        (
            tool("fail", {"text": "do it"}),
            500,
            "the tool 'fail' failed: Error executing tool fail: cannot do it",
        ),
        (call("prompts/get", {"name": "none"}), None, "prompts/get failed: "),
        (call("resources/read", {"uri": 1}), 400, "(code -32602)"),
    ):
        error = await fault(run, text)
        assert (error["type"], error["instance"]) == (f"{BASE}runtime", "/do/0/c"), error
        assert detail in error["detail"], error
        assert status in (None, error["status"]), error


async def test_a_call_that_cannot_be_made_is_told(run: Run) -> None:
    for text, kind, status, told in (
        (call("tools/list", "${ 1 }"), "configuration", 400, "the parameters of the call are no object"),
        (call("tools/list", protocolVersion="1.0"), "configuration", 400, "no version '1.0'"),
        (call("tools/list", http={"endpoint": "http://169.254.169.254/x"}), "authorization", 403, "denies"),
        (call("tools/list", http={"endpoint": "http://127.0.0.1:1/x?k=hidden"}), "communication", 500, "1/x was not"),
        (call("tools/list", http={"endpoint": "SERVER/other"}), "communication", 404, "answered 404"),
        (tool("much", {"size": 2_000_000}), "communication", 500, "1048576"),
    ):  # fmt: skip
        error = await fault(run, text)
        assert (error["type"], error["status"]) == (f"{BASE}{kind}", status), error
        assert told in error["detail"], error
        assert "hidden" not in str(error)


async def test_a_server_that_only_answers_with_json_is_understood(sqlite_url: str) -> None:
    async with (
        serving(json_response=True) as seen,
        Client.connect(sqlite_url) as client,
        Runtime(client) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        text = whole(tool("add", {"a": 1, "b": 2}).replace("SERVER", seen.url))
        found = await (await runtime.start(Document.parse(text))).result()
        assert found["structuredContent"] == {"result": 3}
        text = whole(tool("much", {"size": 2_000_000}).replace("SERVER", seen.url))
        with pytest.raises(FaultedError, match="more than 1048576 bytes"):
            await (await runtime.start(Document.parse(text))).result()


def gateway(app: FastAPI) -> None:
    """Add what stands before a server and lets nobody in, or says nothing that one understands."""

    @app.post("/guard/{status}")
    async def guard(request: Request, status: int) -> Response:
        headers = {"location": "http://169.254.169.254/"} if status == 307 else {}
        return Response(b'{"detail": "no"}', status, headers=headers, media_type="application/json")


async def test_what_is_no_answer_of_the_protocol_is_a_communication_error(run: Run) -> None:
    async with serving_more(gateway) as server:
        for status in (401, 403, 503, 307, 200):
            error = await fault(run, call("tools/list", http={"endpoint": f"{server.url}/guard/{status}"}))
            expected = (f"{BASE}communication", 500 if status == 200 else status)
            assert (error["type"], error["status"]) == expected, error


def guarded(body: str, scheme: Any = None) -> str:
    authentication = scheme or {"bearer": {"token": "${ $secrets.token }"}}
    http = {
        "endpoint": {"uri": "SERVER/mcp", "authentication": authentication},
        "headers": {"X-Key": "${ $secrets.token }", "X-Scheme": "${ $authorization.scheme }"},
    }
    return f"use: {{secrets: [token]}}\ndo:\n  {tool('fail', {'text': body}, http=http)}\n"


async def test_credentials_are_sent_and_not_written(tmp_path: Path, seen: Seen) -> None:
    async with (
        Client.connect(f"sqlite:///{tmp_path}/w.db") as client,
        Runtime(client, secrets=Secrets.mapping({"token": "very-secret-token"})) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        text = whole(guarded("${ $secrets.token }").replace("SERVER", seen.url))
        with pytest.raises(FaultedError) as caught:
            await (await runtime.start(Document.parse(text))).result()
    assert (
        caught.value.error["detail"] == "the tool 'fail' failed: Error executing tool fail: cannot ********"
    )
    for _, headers in seen.requests:
        found = (headers["authorization"], headers["x-key"], headers["x-scheme"])
        assert found == ("Bearer very-secret-token", "very-secret-token", "Bearer")
    with sqlite3.connect(tmp_path / "w.db") as database:
        assert "very-secret-token" not in "".join(database.iterdump())


async def test_a_token_is_asked_for_and_forgotten_where_it_is_refused(run: Run, seen: Seen) -> None:
    authority = Authority()

    def mount(app: FastAPI) -> None:
        authority.mount(app)
        gateway(app)

    async with serving_more(mount) as server:
        grant = {"oauth2": {**policy(), "authority": f"{server.url}/realm"}}

        def at(uri: str) -> Any:
            transport = {"http": {"endpoint": {"uri": uri, "authentication": grant}}}
            return {"call": "mcp", "with": {"method": "tools/list", "transport": transport}}

        refused = {
            "try": [{"r": at(f"{server.url}/guard/401")}],
            "catch": {"errors": {"with": {"status": 401}}},
        }
        tasks = [{"a": at("SERVER/mcp")}, {"b": refused}, {"c": at("SERVER/mcp")}, {"d": at("SERVER/mcp")}]
        assert (await run(HEAD + f"do: {orjson.dumps(tasks).decode()}"))["tools"]
    shown = list(dict.fromkeys(headers["authorization"] for _, headers in seen.requests))
    assert len(authority.asked) == len(shown) == 2
    assert all(one.startswith("Bearer e30.") for one in shown)


async def test_a_call_that_takes_too_long_is_ended(run: Run, seen: Seen) -> None:
    with pytest.raises(FaultedTimeoutError, match=r"not answered within 0\.3 s"):
        await run(tool("never", timeout={"milliseconds": 300}))
    await seen.left.wait()
    seen.left.clear()
    with pytest.raises(FaultedTimeoutError):
        await run(tool("never", after=", timeout: {after: PT0.3S}"))
    await seen.left.wait()
    error = await fault(run, tool("never"), policy=HttpPolicy(timeout=0.3))
    assert (error["type"], error["status"]) == (f"{BASE}communication", 504)


async def test_a_cancelled_run_leaves_the_server(sqlite_url: str, seen: Seen) -> None:
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        one = await runtime.start(Document.parse(whole(tool("never").replace("SERVER", seen.url))))
        await seen.asked.wait()
        await one.cancel()
        with pytest.raises(WorkflowCancelledError):
            await one.result()
        await seen.left.wait()


async def test_a_call_whose_worker_was_killed_is_made_again(tmp_path: Path, seen: Seen) -> None:
    url = f"sqlite:///{tmp_path}/w.db"
    text = HEAD + f"do:\n  {tool('never')}\n".replace("SERVER", seen.url)
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, url, text, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    await seen.asked.wait()
    killed.send_signal(signal.SIGKILL)
    await killed.wait()
    seen.asked.clear()
    async with (
        Client.connect(url) as client,
        Runtime(client) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities, lease_duration=1),
    ):
        await seen.asked.wait()
        one = runtime.run("a")
        await one.cancel()
        with pytest.raises(WorkflowCancelledError):
            await one.result()


async def test_without_its_extra_it_is_refused_and_told(
    sqlite_url: str, seen: Seen, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = Document.parse(whole(tool("add").replace("SERVER", seen.url)))
    async with Client.connect(sqlite_url) as client, Runtime(client) as runtime:
        one = await runtime.start(document)
        # As where it is not installed.
        monkeypatch.setitem(sys.modules, "mcp", None)
        with pytest.raises(UnsupportedTaskError, match=r"pip install '\.\[serverless-mcp\]'"):
            await runtime.start(document)
        assert await client.count() == 1
        async with Worker(client, workflows=runtime.workflows, activities=runtime.activities):
            with pytest.raises(FaultedError, match="needs the extra `serverless-mcp`") as caught:
                await one.result()
        assert caught.value.error["type"] == f"{BASE}configuration"


def test_the_sdk_is_imported_by_the_first_call_alone() -> None:
    code = "import sys; from outlast import Client; from outlast_serverless import Runtime; "
    code += "Runtime(Client.connect('sqlite://')); print('mcp' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
