"""The examples of the specification: each gives its recorded outcome, or is refused and says why."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.serverless.cases import HERE
from tests.serverless.server import serving

from outlast import Client, Worker
from outlast.errors import FaultedError, UnsupportedTaskError
from outlast_serverless import Document, HttpPolicy, ProcessPolicy, Runtime, Secrets

OUTCOMES: dict[str, dict[str, Any]] = YAML(typ="safe").load(HERE / "outcomes.yaml")
EXAMPLES = {file.stem: file for file in sorted((HERE / "examples").glob("*.yaml"))}
KEYCLOAK = "http://keycloak"
SECRETS = Secrets.mapping(
    {
        "mySecret": {
            "authority": f"{KEYCLOAK}/realms/fake-authority",
            "grant": "client_credentials",
            "client": {"id": "workflow-runtime-id", "secret": "workflow-runtime-secret"},
        }
    }
)
REGISTERED = """
document: {dsl: '1.0.3', namespace: test, name: register-customer, version: '0.1.0'}
do: [{s: {set: {registered: '${ .customer }'}}}]
"""


def test_each_example_has_an_outcome() -> None:
    assert OUTCOMES.keys() == EXAMPLES.keys()
    assert len(EXAMPLES) == 68


def with_(*names: str) -> list[str]:
    return [example for example, outcome in OUTCOMES.items() if any(name in outcome for name in names)]


@pytest.mark.parametrize("name", with_("refused"))
async def test_what_does_not_run_yet_is_refused(name: str, sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client:
        with pytest.raises(UnsupportedTaskError, match=OUTCOMES[name]["refused"]):
            await Runtime(client).start(Document.load(EXAMPLES[name]))
        assert await client.count() == 0


async def test_those_that_run_give_their_outcomes(database_url: str) -> None:
    async with serving() as server, Client.connect(database_url) as client:
        texts = "".join(file.read_text() for file in EXAMPLES.values())
        hosts = {*re.findall(r"https://([a-z0-9.-]+)", texts), "swapi.dev"}
        policy = HttpPolicy(
            rewrite={f"https://{host}": f"{server.url}/any/{host}" for host in hosts}
            | {KEYCLOAK: f"{server.url}/any/keycloak"}
        )
        async with (
            Runtime(client, secrets=SECRETS, http=policy, processes=ProcessPolicy(shell=True)) as runtime,
            Worker(client, workflows=runtime.workflows, activities=runtime.activities),
        ):
            await runtime.register(Document.parse(REGISTERED))
            names = [name for name in with_("out", "error") if "waits" not in OUTCOMES[name]]
            # What listens to everything must not hear what others emit.
            names.sort(key=lambda name: "events" in OUTCOMES[name])
            assert len(names) == 46
            found = [
                one
                for listens in (False, True)
                for one in await asyncio.gather(
                    *(outcome(runtime, name) for name in names if ("events" in OUTCOMES[name]) == listens)
                )
            ]
    assert dict(zip(names, found, strict=True)) == {
        name: OUTCOMES[name].get("out", OUTCOMES[name].get("error")) for name in names
    }


async def outcome(runtime: Runtime, name: str) -> Any:
    """What an example gives; of a mapping, only what is recorded."""
    wanted = OUTCOMES[name]
    try:
        run = await runtime.start(Document.load(EXAMPLES[name]), wanted.get("in"))
        for number, event in enumerate(wanted.get("events", ())):
            await run.publish({"id": str(number), "source": "/test", **event})
        found = await run.result()
    except FaultedError as faulted:
        found = faulted.error
    expected = wanted.get("out", wanted.get("error"))
    if isinstance(found, dict) and isinstance(expected, dict):
        return {key: found.get(key) for key in expected}
    return found
