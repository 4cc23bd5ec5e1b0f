"""Adapters of other protocols, and what is told where nobody speaks one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.serverless.asyncapi.cases import call, fault, make, subscribed
from tests.serverless.asyncapi.servers import Servers

from outlast import Client, Worker
from outlast.errors import FaultedError, InvalidOptionError, UnsupportedTaskError
from outlast_serverless import (
    ChannelError,
    ChannelTarget,
    InboundMessage,
    OutboundMessage,
    Runtime,
)
from outlast_serverless.calls.asyncapi import channels
from outlast_serverless.calls.asyncapi.channels import Channels
from outlast_serverless.interpreter.faults import BASE


class Log:
    """A protocol with positions: each topic is a list, and an offset is a position."""

    def __init__(self) -> None:
        self.topics: dict[str, list[OutboundMessage]] = {}
        self.targets: list[ChannelTarget] = []
        self.changed = asyncio.Condition()

    async def publish(self, target: ChannelTarget, message: OutboundMessage) -> None:
        self.targets.append(target)
        if target.address == "full":
            raise ChannelError("the topic is full", status=507)
        async with self.changed:
            self.topics.setdefault(target.address, []).append(message)
            self.changed.notify_all()

    @asynccontextmanager
    async def subscribe(
        self, target: ChannelTarget, position: Any
    ) -> AsyncGenerator[AsyncIterator[InboundMessage]]:
        if target.address == "gone":
            raise OSError("no such broker")
        yield self._messages(target.address, 0 if position is None else position)

    async def _messages(self, topic: str, at: int) -> AsyncIterator[InboundMessage]:
        while True:
            async with self.changed:
                while len(self.topics.get(topic, ())) <= at:
                    await self.changed.wait()
            message = self.topics[topic][at]
            at += 1
            yield InboundMessage(message.data, message.content_type, message.headers, position=at)


async def test_another_protocol_has_an_adapter(servers: Servers, sqlite_url: str) -> None:
    log = Log()
    servers.description["channels"] |= {"full": {"address": "full"}, "gone": {"address": "gone"}}
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client, channels={"Kafka": log}) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        text = call(servers, "operation: hear, protocol: kafka, subscription: {consume: {amount: 2}}")
        run = await runtime.start(make(text))
        await subscribed(run)
        tell = (
            "operation: tell, protocol: kafka, message: {payload: {n: 1}, headers: {correlationId: c}},\n"
            "  authentication: {bearer: {token: abcd}}"
        )
        for _ in range(2):
            assert await (await runtime.start(make(call(servers, tell)))).result() is None
        message = {"payload": {"n": 1}, "headers": {"correlationId": "c"}, "correlationId": "c"}
        assert await run.result() == [message, message]
        target = log.targets[0]
        place = (target.protocol, target.url, target.address)
        assert place == ("kafka-secure", "kafka-secure://127.0.0.1:9", "news")
        assert target.authentication is not None
        assert target.authentication.parameters == {"token": "abcd"}
        full = call(servers, "channel: full, protocol: kafka, message: {payload: {}}")
        error = await fault(runtime, full)
        assert (error["type"], error["status"]) == (f"{BASE}communication", 507)
        assert error["detail"] == "the topic is full"
        gone = call(servers, "channel: gone, protocol: kafka, subscription: {consume: {amount: 1}}")
        error = await fault(runtime, gone)
        assert (error["type"], "no such broker" in error["detail"]) == (f"{BASE}communication", True)


async def test_a_protocol_that_nobody_speaks_is_refused_at_the_start(
    servers: Servers, sqlite_url: str
) -> None:
    async with Client.connect(sqlite_url) as client:
        text = call(servers, "operation: tell, protocol: amqp, message: {payload: {}}")
        with pytest.raises(UnsupportedTaskError, match=r"Runtime\(client, channels=\{'amqp': …\}\)"):
            await Runtime(client).start(make(text))
        assert await client.count() == 0
        await Runtime(client, channels={"amqp": Log()}).start(make(text))


@pytest.mark.parametrize("protocol", ["ws", "nats"])
async def test_a_missing_extra_is_named(
    servers: Servers, sqlite_url: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "find_spec", lambda name: None)
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        arguments = "operation: tell, WHERE, message: {payload: {}}"
        with pytest.raises(UnsupportedTaskError, match="the extra `serverless-asyncapi`"):
            await runtime.start(make(call(servers, arguments.replace("WHERE", f"protocol: {protocol}"))))
        # Where only the description names the protocol, the task says it.
        named = call(servers, arguments.replace("WHERE", f"server: {{name: {protocol}}}"))
        with pytest.raises(FaultedError) as caught:
            await (await runtime.start(make(named))).result()
        assert caught.value.error["type"] == f"{BASE}configuration"
        assert "pip install '.[serverless-asyncapi]'" in caught.value.error["detail"]


@pytest.mark.parametrize("given", [[], {"kafka": object()}, {3: Log}])
def test_what_is_no_adapter_is_refused(given: Any) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        Channels(given)
    assert caught.value.field == "channels"
