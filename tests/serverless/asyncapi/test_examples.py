"""The examples of the specification that call channels: each consumes and publishes what is recorded."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.serverless.asyncapi.servers import Servers
from tests.serverless.calls.test_examples import EXAMPLES, OUTCOMES, TRACES, traced

from outlast import Client, Worker
from outlast.errors import WorkflowCancelledError
from outlast_serverless import Document, DocumentRun, HttpPolicy, Runtime

NAMES = [name for name in EXAMPLES if name.startswith("call-asyncapi-")]


def test_each_is_recorded() -> None:
    assert len(NAMES) == 5
    assert all(OUTCOMES[name].keys() & {"publishes", "consumes"} for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
async def test_it_gives_its_outcome(servers: Servers, sqlite_url: str, name: str) -> None:
    wanted, channel = OUTCOMES[name], servers.channel("notifications")
    policy = HttpPolicy(rewrite={"https://fake.com/docs": servers.http.url})
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client, http=policy) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(Document.load(EXAMPLES[name]), wanted.get("in"))
        if "publishes" in wanted:
            assert await run.result() is None
            assert [json.loads(one) for one in channel.log] == [wanted["publishes"]]
            assert channel.headers[0]["authorization"] == f"Bearer {wanted['in']['token']}"
            assert await traced(client, run.id) == TRACES[name]
            return
        messages = [{"n": number} for number in range(wanted["messages"])]
        for message in messages:
            await channel.add(message)
        if "waits" not in wanted:
            # It names the protocol ws.
            await servers.sockets.say("/notifications", *messages)
            found = await run.result()
            assert [one["payload"] for one in found] == messages[: wanted["consumes"]]
            assert await traced(client, run.id) == TRACES[name]
            return
        while await consumed(run) < wanted["consumes"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert (await run.describe()).phase == "running"
        await run.cancel()
        with pytest.raises(WorkflowCancelledError):
            await run.result()
        assert await traced(client, run.id) == TRACES[name]


async def consumed(run: DocumentRun) -> int:
    """Return how many messages a run has consumed so far: those in its position, or those that it has emitted."""
    labels = [str(one.payload.get("summary")) async for one in run.handle.history()]
    emitted = sum(one.startswith("emit") for one in labels)
    described = await run.handle.describe()
    kept = [one.heartbeat_details[0] for one in described.pending_activities if one.heartbeat_details]
    return max(emitted, *(len(one.get("messages", ())) for one in kept), 0)
