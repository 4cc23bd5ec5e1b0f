"""Lifecycle events are posted to a real server, in real time, until it takes them."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request, Response
from tests.serverless.cases import whole
from tests.serverless.server import serving

from outlast import Client, Worker
from outlast_serverless import Document, HttpPolicy, LifecycleEvents, Runtime
from outlast_serverless.lifecycle import exporter


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def test_events_are_posted_until_they_are_taken(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "_PAUSE_S", 0.01)
    taken: dict[str, dict[str, Any]] = {}
    answers = [503, 204, 404]

    def sink(app: FastAPI) -> None:
        @app.post("/sink")
        async def take(request: Request) -> Response:
            assert request.headers["content-type"] == "application/cloudevents+json"
            assert request.headers["authorization"] == "Bearer t"
            status = answers.pop(0) if answers else 204
            if status == 204:
                event = orjson.loads(await request.body())
                taken[event["id"]] = event
            return Response(status_code=status)

    async with serving(sink) as server, Client.connect(sqlite_url) as client:
        to = LifecycleEvents(to="https://sink.example.com/sink", headers={"authorization": "Bearer t"})
        policy = HttpPolicy(rewrite={"https://sink.example.com": server.url})
        async with Runtime(client, lifecycle=[to], http=policy) as runtime:
            async with Worker(client, workflows=runtime.workflows):
                await (await runtime.start(Document.parse(whole("- s: {set: {v: 1}}")), id="w")).result()
            while len(taken) < 5:  # noqa: ASYNC110  # the sink is another party
                await asyncio.sleep(0.01)
    assert [event["type"].removeprefix("io.serverlessworkflow.") for event in taken.values()] == [
        "workflow.started.v1",
        "task.created.v1",
        "task.started.v1",
        "task.completed.v1",
        "workflow.completed.v1",
    ]


async def test_one_that_refuses_an_event_holds_up_its_run_alone(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[str] = []

    def sink(app: FastAPI) -> None:
        @app.post("/sink")
        async def take(request: Request) -> Response:
            event = orjson.loads(await request.body())
            if event["subject"] == "bad":
                return Response(status_code=413)
            taken.append(event["subject"])
            return Response(status_code=204)

    async with serving(sink) as server, Client.connect(sqlite_url) as client:
        runtime = Runtime(client, lifecycle=[LifecycleEvents(to=f"{server.url}/sink")])
        await runtime.export_lifecycle()
        for name in ("bad", "good"):
            await runtime.start(Document.parse(whole("- s: {set: {v: 1}}")), id=name)
        async with Worker(client, workflows=runtime.workflows):
            for name in ("bad", "good"):
                await runtime.run(name).result()
        assert await runtime.export_lifecycle() == 5
        assert await runtime.export_lifecycle() == 0
        assert set(taken) == {"good"}
        assert caplog.text.count("workflow bad wait") == 1
        await runtime.__aexit__(None, None, None)


async def test_addresses_are_under_the_network_policy(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client.connect(sqlite_url) as client:
        to = LifecycleEvents(to="http://169.254.169.254/latest")
        runtime = Runtime(client, lifecycle=[to])
        await runtime.export_lifecycle()
        await runtime.start(Document.parse(whole("- s: {set: {v: 1}}")), id="w")
        await runtime.run("w").handle.terminate()
        assert await runtime.export_lifecycle() == 0
        assert "lifecycle events wait for the sink" in caplog.text
        assert "169.254.169.254" in caplog.text
        await runtime.__aexit__(None, None, None)
