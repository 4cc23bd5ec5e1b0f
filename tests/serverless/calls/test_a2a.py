"""`call: a2a` against a real agent: requests, streams, errors, where credentials go, and what ends a call."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from fastapi import FastAPI
from tests.serverless.calls.agent import Agent
from tests.serverless.calls.test_http import SECRETS, Run, fault
from tests.serverless.cases import HEAD, whole
from tests.serverless.server import Server, serving

from outlast import Client, Worker
from outlast.errors import FaultedError, FaultedTimeoutError, WorkflowCancelledError
from outlast_serverless import Document, HttpPolicy, Runtime, Secrets
from outlast_serverless.calls import transport
from outlast_serverless.interpreter.faults import BASE


@pytest.fixture
async def agent() -> Agent:
    return Agent()


@pytest.fixture
async def server(agent: Agent) -> AsyncGenerator[Server]:
    async with serving(agent.mount) as made:
        yield made


@pytest.fixture
def run(sqlite_url: str, server: Server) -> Run:
    """Runs a document whose `SERVER` is the server, and returns its output."""

    async def run(text: str, input: Any = None, policy: HttpPolicy | None = None) -> Any:
        document = Document.parse(whole(text.replace("SERVER", server.url)))
        async with (
            Client.connect(sqlite_url) as client,
            Runtime(client, secrets=Secrets.mapping(SECRETS), http=policy) as runtime,
            Worker(client, workflows=runtime.workflows, activities=runtime.activities),
        ):
            return await (await runtime.start(document, input)).result()

    return run


def call(method: str, parameters: Any = None, after: str = "", **where: Any) -> str:
    """Return a document of one call."""
    given = {"method": method, **(where or {"server": "SERVER/agent"})}
    if parameters is not None:
        given["parameters"] = parameters
    return f"- c: {{call: a2a, with: {orjson.dumps(given).decode()}{after}}}"


def says(text: str) -> dict[str, Any]:
    return {"message": {"parts": [{"kind": "text", "text": text}]}}


async def test_a_message_gets_what_it_lacks_and_the_output_is_the_result(run: Run, agent: Agent) -> None:
    first = await run(call("message/send", says("${ .text }")), {"text": "hello"})
    assert (first["role"], first["parts"]) == ("user", [{"kind": "text", "text": "hello"}])
    again = await run(call("message/send", says("hello")))
    assert first["messageId"] != again["messageId"]
    assert len(first["messageId"]) == 36
    given = {"message": {**says("x")["message"], "messageId": "m-1", "role": "agent"}}
    assert (await run(call("message/send", given)))["messageId"] == "m-1"
    assert [one["method"] for one in agent.calls] == ["message/send"] * 3
    assert agent.calls[0]["jsonrpc"] == "2.0"


@pytest.mark.parametrize("method", ["message/stream", "tasks/resubscribe"])
async def test_what_is_streamed_is_an_array_in_its_order(run: Run, method: str) -> None:
    parameters = says("go") if method == "message/stream" else {"id": "t-1"}
    assert await run(call(method, parameters)) == [{"number": 0}, {"number": 1}, {"number": 2}]


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("tasks/list", None),
        ("tasks/cancel", {"id": "t-1"}),
        ("tasks/pushNotificationConfig/set", "${ {taskId: .id} }"),
        ("agent/getAuthenticatedExtendedCard", None),
    ],
)
async def test_every_method_is_sent_with_its_parameters(
    run: Run, agent: Agent, method: str, parameters: Any
) -> None:
    await run(call(method, parameters), {"id": "t-1"})
    expected = {"taskId": "t-1"} if isinstance(parameters, str) else parameters
    assert (agent.calls[0]["method"], agent.calls[0].get("params")) == (method, expected)


async def test_errors_are_runtime_errors_and_what_is_no_answer_is_communication(run: Run) -> None:
    for text, kind, status, told in (
        ("error -32602", "runtime", 400, "message/send failed: no: -32602 (code -32602)"),
        ("error -32004", "runtime", 501, "(code -32004)"),
        ("error 7", "runtime", 500, "(code 7)"),
        ("status 503", "communication", 503, "answered 503: no"),
        ("status 307", "communication", 307, "answered 307"),
        ("text", "communication", 500, "did not answer with JSON-RPC: hello"),
        ("size 2000000", "communication", 500, "more than 1048576 bytes"),
    ):
        error = await fault(run, call("message/send", says(text)))
        assert (error["type"], error["status"], error["instance"]) == (f"{BASE}{kind}", status, "/do/0/c")
        assert told in error["detail"]
    missing = await fault(run, call("tasks/get", {"id": "x"}))
    assert (missing["type"], missing["status"]) == (f"{BASE}runtime", 404)
    late = await fault(run, call("message/stream", says("late")))
    assert late["detail"] == "message/stream failed: late (code -32603)"


async def test_a_call_that_cannot_be_made_is_told(run: Run) -> None:
    for text, kind, told in (
        (call("message/send", "${ 1 }"), "configuration", "the parameters of the call are no object"),
        (call("message/send"), "configuration", "message/send needs `parameters.message`"),
        (call("tasks/list", server="http://169.254.169.254/x"), "authorization", "denies 169.254.169.254"),
        (
            call("tasks/list", server="http://127.0.0.1:1/x?key=hidden"),
            "communication",
            "127.0.0.1:1/x was not",
        ),
        (call("tasks/list", agentCard={"endpoint": "SERVER/content/json"}), "configuration", "names no URL"),
        (call("tasks/list", agentCard={"endpoint": "SERVER/content/text"}), "configuration", "no agent card"),
        (call("tasks/list", agentCard={"endpoint": "SERVER/status/404"}), "communication", "answered 404"),
    ):
        error = await fault(run, text)
        assert (error["type"], told in error["detail"]) == (f"{BASE}{kind}", True), error
        assert "hidden" not in str(error)


CARD = {
    "endpoint": {
        "uri": "SERVER/.well-known/agent-card.json",
        "authentication": {"bearer": {"token": "${ $secrets.token }"}},
    }
}


def guarded(text: str = "hello", token: str = "${ $secrets.token }") -> str:
    parameters = {"message": {"parts": [{"text": text}], "metadata": {"key": token}}}
    return f"use: {{secrets: [token]}}\ndo:\n  {call('message/send', parameters, agentCard=CARD)}\n"


@pytest.mark.parametrize(
    "card",
    [
        {"url": "/agent"},
        {"url": "SERVER/grpc", "preferredTransport": "GRPC", "additionalInterfaces": [
            {"url": "SERVER/rest", "transport": "HTTP+JSON"}, {"url": "SERVER/agent", "transport": "JSONRPC"}]},
        {"supportedInterfaces": [{"url": "SERVER/agent", "protocolBinding": "JSONRPC"}]},
    ],
)  # fmt: skip
async def test_the_card_says_where_the_agent_is(
    run: Run, agent: Agent, server: Server, card: dict[str, Any]
) -> None:
    agent.card = orjson.loads(orjson.dumps(card).decode().replace("SERVER", server.url))
    assert (await run(guarded()))["metadata"] == {"key": "tok-en/with=odd~chars"}
    assert [one["authorization"] for one in agent.headers] == ["Bearer tok-en/with=odd~chars"] * 2


async def test_credentials_go_to_no_other_host_that_a_card_names(
    run: Run, agent: Agent, server: Server
) -> None:
    agent.card = {"url": server.url.replace("127.0.0.1", "localhost") + "/agent"}
    await run(guarded(token="none"))
    assert [one.get("authorization") for one in agent.headers] == ["Bearer tok-en/with=odd~chars", None]


async def test_secrets_are_not_written_and_are_masked(tmp_path: Path, server: Server, agent: Agent) -> None:
    url = f"sqlite:///{tmp_path}/w.db"
    secret = "tok-en/with=odd~chars"
    async with (
        Client.connect(url) as client,
        Runtime(client, secrets=Secrets.mapping({"token": secret})) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        text = whole(guarded("error 1").replace("SERVER", server.url))
        with pytest.raises(FaultedError):
            await (await runtime.start(Document.parse(text))).result()
    assert agent.calls[0]["params"]["message"]["metadata"] == {"key": secret}
    with sqlite3.connect(tmp_path / "w.db") as database:
        assert secret not in "".join(database.iterdump())


async def test_a_goodbye_that_nobody_answers_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def mount(app: FastAPI) -> None:
        @app.delete("/session")
        async def session() -> None:
            await asyncio.sleep(3600)

    monkeypatch.setattr(transport, "_GOODBYE_S", 0.05)
    async with serving(mount) as server:
        sent = transport.CheckedTransport(HttpPolicy())
        async with transport.client_of(sent, None, {}) as client:
            with pytest.raises(httpx2.ReadTimeout):
                await client.delete(f"{server.url}/session")


async def test_a_stream_that_does_not_end_is_ended(run: Run, agent: Agent) -> None:
    endless = call("message/stream", says("never"))
    error = await fault(run, endless, policy=HttpPolicy(timeout=0.3))
    assert (error["type"], error["status"]) == (f"{BASE}communication", 504)
    await agent.left.wait()
    agent.left.clear()
    with pytest.raises(FaultedTimeoutError):
        await run(call("message/stream", says("never"), ", timeout: {after: PT0.3S}"))
    await agent.left.wait()


async def test_a_cancelled_run_leaves_the_agent(sqlite_url: str, server: Server, agent: Agent) -> None:
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        text = whole(call("message/stream", says("never")).replace("SERVER", server.url))
        one = await runtime.start(Document.parse(text))
        await agent.asked.wait()
        await one.cancel()
        with pytest.raises(WorkflowCancelledError):
            await one.result()
        await agent.left.wait()


PROGRAM = """
import asyncio, sys
from outlast import Client, Worker
from outlast_serverless import Document, Runtime

async def main(url, text):
    async with Client.connect(url) as client, Runtime(client) as runtime:
        async with Worker(
            client, workflows=runtime.workflows, activities=runtime.activities, lease_duration=1
        ):
            await (await runtime.start(Document.parse(text), id="a")).result()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_call_whose_worker_was_killed_is_made_again_with_the_same_message(
    tmp_path: Path, server: Server, agent: Agent
) -> None:
    url = f"sqlite:///{tmp_path}/w.db"
    text = HEAD + f"do:\n  {call('message/send', says('never'))}\n".replace("SERVER", server.url)
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, url, text, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    await agent.asked.wait()
    killed.send_signal(signal.SIGKILL)
    await killed.wait()
    agent.asked.clear()
    async with (
        Client.connect(url) as client,
        Runtime(client) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities, lease_duration=1),
    ):
        await agent.asked.wait()
        one = runtime.run("a")
        await one.cancel()
        with pytest.raises(WorkflowCancelledError):
            await one.result()
    first, second = agent.calls
    assert first["params"]["message"]["messageId"] == second["params"]["message"]["messageId"]
