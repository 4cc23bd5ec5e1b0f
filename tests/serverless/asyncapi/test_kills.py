"""A worker that subscribes is killed by SIGKILL: another one goes on, and loses and repeats what the docs say."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.serverless.asyncapi.cases import call, make
from tests.serverless.asyncapi.servers import Servers

from outlast import Client, Worker
from outlast_serverless import DocumentRun, Runtime

FOREACH = "foreach: {do: [{w: {wait: {milliseconds: 2}}}, {s: {set: '${ $item.payload.n }'}}]}"


@asynccontextmanager
async def killed(url: str, *more: str) -> AsyncGenerator[None]:
    """A worker of its own process, which is killed at the end."""
    command = [sys.executable, "-m", "tests.serverless.asyncapi.subscriber", url, *more]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        assert await process.wait() == -signal.SIGKILL


@asynccontextmanager
async def following(client: Client, runtime: Runtime) -> AsyncGenerator[None]:
    async with Worker(client, workflows=runtime.workflows, activities=runtime.activities, lease_duration=1):
        yield


def hear(servers: Servers, protocol: str, consume: str) -> str:
    return call(servers, f"operation: hear, protocol: {protocol}, subscription: {{{consume}}}")


async def recorded(run: DocumentRun, number: int) -> None:
    """Wait until so many messages are in the position of a subscription."""
    while True:
        described = await run.handle.describe()
        found = [one.heartbeat_details[0] for one in described.pending_activities if one.heartbeat_details]
        if found and len(found[0]["messages"]) >= number:
            return
        await asyncio.sleep(0.02)


async def sent(run: DocumentRun, number: int) -> None:
    """Wait until so many messages have reached a run."""
    while True:
        names = [one.payload.get("name") async for one in run.handle.history()]
        if names.count("serverless.message") >= number:
            return
        await asyncio.sleep(0.02)


def numbers(found: list[Any]) -> list[int]:
    return [one["payload"]["n"] for one in found]


async def test_of_a_stream_of_events_nothing_is_lost_and_nothing_repeated(
    servers: Servers, sqlite_url: str
) -> None:
    channel = servers.channel("news")
    async with Client.connect(sqlite_url) as client, Runtime(client) as runtime:
        async with killed(sqlite_url):
            run = await runtime.start(make(hear(servers, "http", "consume: {amount: 5}")))
            for number in (0, 1):
                await channel.add({"n": number})
            await recorded(run, 2)
        for number in (2, 3):
            await channel.add({"n": number})
        async with following(client, runtime):
            await channel.opened(2)
            await channel.add({"n": 4})
            assert numbers(await run.result()) == [0, 1, 2, 3, 4]
    assert channel.asked == [None, "2"]


async def test_of_a_web_socket_only_what_nobody_was_connected_for_is_lost(
    servers: Servers, sqlite_url: str
) -> None:
    async with Client.connect(sqlite_url) as client, Runtime(client) as runtime:
        async with killed(sqlite_url):
            run = await runtime.start(make(hear(servers, "ws", "consume: {amount: 3}")))
            await servers.sockets.say("/news", {"n": 0}, {"n": 1})
            await recorded(run, 2)
        await servers.sockets.connected("/news", 0)
        async with following(client, runtime):
            await servers.sockets.say("/news", {"n": 3})
            assert numbers(await run.result()) == [0, 1, 3]


async def test_each_message_of_a_stream_reaches_the_run_once(servers: Servers, shared_url: str) -> None:
    channel = servers.channel("news")
    async with Client.connect(shared_url) as client, Runtime(client) as runtime:
        # The position is stale, so all messages are read again; their keys tell the run that it has them.
        async with killed(shared_url, "stale"):
            text = hear(servers, "http", f"consume: {{while: '${{ length < 6 }}'}}, {FOREACH}")
            run = await runtime.start(make(text))
            await channel.opened()
            for number in range(3):
                await channel.add({"n": number})
            await sent(run, 3)
        for number in range(3, 5):
            await channel.add({"n": number})
        async with following(client, runtime):
            await channel.opened(2)
            await channel.add({"n": 5})
            assert await run.result() == [0, 1, 2, 3, 4, 5]
    assert channel.asked == [None, None]


async def test_what_was_sent_to_a_run_is_kept_whatever_dies(servers: Servers, sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client, Runtime(client) as runtime:
        async with killed(sqlite_url, "stale"):
            text = hear(servers, "ws", f"consume: {{amount: 4}}, {FOREACH}")
            run = await runtime.start(make(text))
            await servers.sockets.say("/news", {"n": 0}, {"n": 0})
            await sent(run, 2)
        await servers.sockets.connected("/news", 0)
        async with following(client, runtime):
            await servers.sockets.say("/news", {"n": 0}, {"n": 3}, {"n": 4})
            assert await run.result() == [0, 0, 0, 3]
