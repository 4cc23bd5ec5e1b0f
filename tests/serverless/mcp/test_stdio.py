"""`call: mcp` over stdio: a real server, what the policy denies, and that servers end with whoever asked for them."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.serverless.calls.test_http import Run, fault
from tests.serverless.cases import HEAD, whole
from tests.serverless.mcp import server
from tests.serverless.processes.test_processes import alive, gone, pids

from outlast import Client, Worker
from outlast.errors import FaultedTimeoutError, InvalidOptionError, WorkflowCancelledError
from outlast_serverless import Document, ProcessPolicy, Runtime, Secrets
from outlast_serverless.interpreter.faults import BASE

ALLOWED = ProcessPolicy(stdio=[sys.executable, "sh"], grace=0.5, max_output_bytes=100_000)


@pytest.fixture
def run(sqlite_url: str) -> Run:
    """Runs a document, and returns its output."""

    async def run(text: str, input: Any = None, policy: ProcessPolicy = ALLOWED) -> Any:
        async with (
            Client.connect(sqlite_url) as client,
            Runtime(client, processes=policy, secrets=Secrets.mapping({"key": "very-secret"})) as runtime,
            Worker(client, workflows=runtime.workflows, activities=runtime.activities),
        ):
            return await (await runtime.start(Document.parse(whole(text)), input)).result()

    return run


def call(command: str, arguments: list[str], after: str = "", **more: Any) -> str:
    """Return a document of one call."""
    stdio = {"command": command, "arguments": arguments, "environment": more.pop("environment", {})}
    given = {"method": "tools/list", "transport": {"stdio": stdio}, **more}
    return f"- c: {{call: mcp, with: {orjson.dumps(given).decode()}{after}}}"


def shell(script: str, after: str = "", **more: Any) -> str:
    """Return a document that calls a server which is a shell script."""
    return call("sh", ["-c", script], after, **more)


HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "serverInfo": {"name": "s", "version": "1"},
}


def answers(result: str = '{"tools": []}', before: str = "", after: str = "") -> str:
    """Return a script that is a server, and answers one question."""
    hello = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": HELLO}).decode()
    return f"""{before}
read -r a; echo '{hello}'; read -r b; read -r c
id=$(echo "$c" | sed 's/.*"id":\\([0-9]*\\).*/\\1/')
echo '{{"jsonrpc": "2.0", "id": '$id', "result": {result}}}'
{after}
"""


async def test_a_server_made_with_the_sdk_answers(tmp_path: Path) -> None:
    """It sees its environment, and its secret is not written."""
    parameters = {"name": "environment", "arguments": {"name": "SAID"}}
    text = call(
        sys.executable,
        [str(Path(server.__file__))],
        method="tools/call",
        parameters=parameters,
        environment={"SAID": "${ .said }", "KEY": "${ $secrets.key }", "PATH": "/nowhere"},
    )
    async with (
        Client.connect(f"sqlite:///{tmp_path}/w.db") as client,
        Runtime(client, processes=ALLOWED, secrets=Secrets.mapping({"key": "very-secret"})) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        document = Document.parse(HEAD + f"use: {{secrets: [key]}}\ndo:\n  {text}\n")
        found = await (await runtime.start(document, {"said": "hello"})).result()
    assert found["structuredContent"] == {"result": "hello"}
    with sqlite3.connect(tmp_path / "w.db") as database:
        assert "very-secret" not in "".join(database.iterdump())


async def test_nothing_is_started_that_is_not_named(run: Run) -> None:
    for policy, text, told in (
        (ProcessPolicy(shell=True), shell("exit"), "ProcessPolicy(stdio=['sh'])"),
        (ProcessPolicy(stdio=["sh"]), call("/bin/sh", []), "ProcessPolicy(stdio=['/bin/sh'])"),
        (ProcessPolicy(stdio=["no-such-server"]), call("no-such-server", []), "is not there"),
    ):
        error = await fault(run, text, policy=policy)
        assert (error["type"], error["status"]) == (f"{BASE}configuration", 400)
        assert told in error["detail"]
    with pytest.raises(InvalidOptionError, match="stdio must be a list"):
        ProcessPolicy(stdio="npx")


async def test_a_document_does_not_say_which_executable_a_name_is(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "sh"
    other.write_text("#!/bin/sh\necho 'the wrong one' >&2\n")
    other.chmod(0o755)
    found = await run(shell(answers(), environment={"PATH": f"{tmp_path}:/usr/bin:/bin"}))
    assert found == {"tools": []}


async def test_what_is_no_message_is_passed_over(run: Run) -> None:
    assert await run(shell(answers(before="echo starting; echo; echo '{}'"))) == {"tools": []}


async def test_a_list_is_one_page_and_the_next_call_may_ask_for_another(run: Run) -> None:
    assert (await run(shell(answers('{"tools": [], "nextCursor": "p2"}'))))["nextCursor"] == "p2"
    echoing = answers("""{"tools": [], "asked": '"$c"'}""")
    found = await run(shell(echoing, parameters={"cursor": "p2"}))
    assert found["asked"]["params"]["cursor"] == "p2"


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list"])
async def test_what_a_server_asks_back_is_refused(run: Run, method: str) -> None:
    parameters = {
        "sampling/createMessage": {"messages": [], "maxTokens": 1},
        "elicitation/create": {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}},
        "roots/list": {},
    }[method]
    question = {"jsonrpc": "2.0", "id": 99, "method": method, "params": parameters}
    asking = answers("""{"tools": [], "told": '"$d"'}""").replace(
        "id=$(", f"echo '{orjson.dumps(question).decode()}'; read -r d; id=$("
    )
    told = (await run(shell(asking)))["told"]
    assert told["id"] == 99
    assert "error" in told


async def test_a_server_that_does_not_answer_is_told(run: Run) -> None:
    for script, told in (
        ("echo cannot begin >&2; exit 3", "was not answered: Connection closed: cannot begin"),
        ("yes", "it wrote more than 100000 bytes"),
        (answers('{"tools": 7}'), "what came is no result of tools/list"),
    ):
        error = await fault(run, shell(script))
        assert (error["type"], error["status"]) == (f"{BASE}communication", 500), error
        assert told in error["detail"], error
        assert error["detail"].startswith("tools/list of sh was not answered"), error
    text = shell('echo "it is $K" >&2', environment={"K": "${ $secrets.key }"})
    masked = await fault(run, f"use: {{secrets: [key]}}\ndo:\n  {text}\n")
    assert masked["detail"].endswith("it is ********")


def stubborn(file: Path) -> str:
    """A server that starts others, ignores all requests to end, and says who they are."""
    return f"trap '' TERM; sleep 1000 & echo $$ $! > {file}; while true; do sleep 1000; done"


async def test_a_timeout_ends_it_with_all_that_it_started(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    with pytest.raises(FaultedTimeoutError):
        await run(shell(stubborn(file), timeout={"milliseconds": 500}))
    assert not any(alive(pid) for pid in await pids(file))


async def test_an_answer_ends_it_too(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    assert await run(shell(answers(after=stubborn(file)))) == {"tools": []}
    await gone(await pids(file))


async def test_a_cancelled_run_ends_it(sqlite_url: str, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client, processes=ALLOWED) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        one = await runtime.start(Document.parse(whole(shell(stubborn(file)))))
        found = await pids(file)
        await one.cancel()
        with pytest.raises(WorkflowCancelledError):
            await one.result()
        await gone(found)


PROGRAM = """
import asyncio, sys
from outlast import Client, Worker
from outlast_serverless import Document, ProcessPolicy, Runtime

async def main(url, text):
    policy = ProcessPolicy(stdio=["sh"], grace=0.2)
    async with Client.connect(url) as client, Runtime(client, processes=policy) as runtime:
        async with Worker(client, workflows=runtime.workflows, activities=runtime.activities):
            await (await runtime.start(Document.parse(text))).result()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_it_ends_when_its_worker_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    worker = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path}/w.db", whole(shell(stubborn(file)))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    found = await pids(file)
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    await gone(found)
