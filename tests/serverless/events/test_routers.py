"""Routers in real time: several at once, in the way of a run that is full, through a codec."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.serverless.events.cases import LISTENS, event, listens, make, waiting
from tests.serverless.server import serving

from outlast import Client, DataConverter, StructuralLimits, Worker
from outlast.testing import check_database
from outlast_serverless import Document, HttpPolicy, Runtime


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_many_routers_keep_the_order(database_url: str) -> None:
    text = "do: [{l: {listen: {to: {any: [{with: {type: t}}], until: length == 60}}}}]"
    async with Client.connect(database_url) as client:
        async with (
            Runtime(client) as one,
            Runtime(client) as two,
            Worker(client, workflows=one.workflows, activities=one.activities),
        ):
            runs = [await one.start(make(text)) for _ in range(3)]
            await asyncio.gather(*map(listens, runs))
            for number in range(60):
                await (one, two)[number % 2].publish(event(number))
            assert await asyncio.gather(*(run.result() for run in runs)) == [list(range(60))] * 3
        assert await client.runtime.read(check_database) == []


async def test_who_cannot_take_more_holds_nobody_up(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    limits = StructuralLimits(unhandled_signals=5)
    text = "do: [{l: {listen: {to: {any: [{with: {type: TYPE}}], until: length == 9}}}}]"
    async with Client.connect(database_url, limits=limits) as client, Runtime(client) as runtime:

        def worker() -> Worker:
            return Worker(client, workflows=runtime.workflows, activities=runtime.activities)

        async with worker():
            full = await runtime.start(make(text.replace("TYPE", "t")))
            await listens(full)
        with caplog.at_level(logging.WARNING, "outlast.serverless"):
            for number in range(9):
                await runtime.publish(event(number))
            await runtime.route()
            assert await waiting(client) >= 4
            assert "cannot take its events" in caplog.text
        async with worker():
            free = await runtime.start(make(text.replace("TYPE", "u").replace("9", "1")))
            await listens(free)
            await runtime.publish(event(1, type="u") | {"source": "/u"})
            assert await free.result() == [1]
            assert await full.result() == list(range(9))


class Reverse:
    """A codec: bytes backwards."""

    name = "reverse"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        return data[::-1]


async def test_events_pass_the_codec(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    async with Client.connect(url, converter=DataConverter(Reverse())) as client, Runtime(client) as runtime:
        async with Worker(client, workflows=runtime.workflows, activities=runtime.activities):
            run = await runtime.start(make(LISTENS.replace("3", "1")))
            await listens(run)
            await runtime.publish(event(1, {"card": "4111-1111"}))
            assert await run.result() == [{"card": "4111-1111"}]
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())  # noqa: ASYNC240  # nothing else runs
    assert b"4111-1111" not in stored


async def test_an_event_that_cannot_be_read_holds_nobody_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    async with Client.connect(url, converter=DataConverter(Reverse())) as client:
        await Runtime(client).publish(event(1))
    async with Client.connect(url) as client, Runtime(client) as runtime:
        async with Worker(client, workflows=runtime.workflows, activities=runtime.activities):
            run = await runtime.start(make(LISTENS.replace("3", "1")))
            await listens(run)
            await runtime.publish(event(2))
            assert await run.result() == [2]
        assert await waiting(client) == 1
    assert caplog.text.count("cannot be read, and waits") == 1


async def test_the_example_that_listens_for_ever(sqlite_url: str) -> None:
    example = Path(__file__).parents[1] / "examples/listen-to-any-forever-foreach.yaml"
    async with serving() as server, Client.connect(sqlite_url) as client:
        host = "fake-chat-api.com"
        policy = HttpPolicy(rewrite={f"https://{host}": f"{server.url}/any/{host}"})
        async with (
            Runtime(client, http=policy) as runtime,
            Worker(client, workflows=runtime.workflows, activities=runtime.activities),
        ):
            run = await runtime.start(Document.load(example))
            await listens(run)
            for number in range(3):
                await runtime.publish(event(number, {"roomId": number}))
            while len(server.seen) < 3:  # noqa: ASYNC110  # the server has no event
                await asyncio.sleep(0.02)
            assert [one["path"] for one in server.seen] == [f"/any/{host}/room/{n}" for n in range(3)]
            assert (await run.describe()).phase in ("waiting", "running")
            await run.cancel()
