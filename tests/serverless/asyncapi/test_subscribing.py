"""`call: asyncapi` with a subscription: what is consumed, when that is enough, and what ends it early."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import nats as nats_library
import pytest
from tests.serverless.asyncapi.cases import PROTOCOLS, call, fault, make, subscribed
from tests.serverless.asyncapi.servers import Servers
from tests.serverless.cases import continue_everywhere

from outlast import Client, Worker
from outlast.errors import FaultedError, FaultedTimeoutError, WorkflowCancelledError
from outlast_serverless import DocumentRun, HttpPolicy, Runtime, Secrets
from outlast_serverless.interpreter.faults import BASE

HEAR = "operation: hear, protocol: PROTOCOL, subscription: {CONSUME}"


@asynccontextmanager
async def running(url: str) -> AsyncGenerator[Runtime]:
    secrets, policy = Secrets.mapping({"word": "open"}), HttpPolicy(max_response_bytes=10_000)
    async with (
        Client.connect(url) as client,
        Runtime(client, secrets=secrets, http=policy) as made,
        Worker(client, workflows=made.workflows, activities=made.activities),
    ):
        yield made


@pytest.fixture
async def runtime(sqlite_url: str) -> AsyncGenerator[Runtime]:
    async with running(sqlite_url) as made:
        yield made


@pytest.fixture
async def on_each_database(database_url: str) -> AsyncGenerator[Runtime]:
    async with running(database_url) as made:
        yield made


def hear(servers: Servers, protocol: str, consume: str, after: str = "") -> str:
    return call(servers, HEAR.replace("PROTOCOL", protocol).replace("CONSUME", consume), after)


async def say(servers: Servers, protocol: str, *messages: Any, headers: dict[str, str] | None = None) -> None:
    """Send messages to the channel `news`."""
    if protocol == "http":
        for message in messages:
            await servers.channel("news").add(message)
    elif protocol == "ws":
        await servers.sockets.say("/news", *messages)
    else:
        client = await nats_library.connect(f"nats://127.0.0.1:{servers.nats}")
        for message in messages:
            data = message.encode() if isinstance(message, str) else json.dumps(message).encode()
            await client.publish("news", data, headers=headers)
        await client.drain()


async def started(runtime: Runtime, text: str, input: Any = None) -> DocumentRun:
    """Start a document, and wait until it is subscribed."""
    run = await runtime.start(make(text), input)
    await subscribed(run)
    return run


def payloads(found: list[dict[str, Any]]) -> list[Any]:
    return [one["payload"] for one in found]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_amount_of_messages_is_consumed(runtime: Runtime, servers: Servers, protocol: str) -> None:
    text = hear(servers, protocol, "filter: '${ .payload.n != 2 }', consume: {amount: 3}")
    run = await started(runtime, text)
    await say(servers, protocol, *({"n": number} for number in range(6)))
    assert payloads(await run.result()) == [{"n": 0}, {"n": 1}, {"n": 3}]


@pytest.mark.parametrize(
    ("consume", "count"),
    [
        ("while: '${ length < 2 }'", 2),
        ("until: '${ .[-1].payload.n == 1 }'", 2),
        ("until: '${ length == 0 }'", 0),
        ("while: '${ false }'", 1),
        ("while: '${ .[0].payload.n == $context and length < $input.most }'", 1),
        ("amount: 9, for: {milliseconds: 1}", 0),
    ],
)
async def test_a_condition_sees_what_was_consumed(
    runtime: Runtime, servers: Servers, consume: str, count: int
) -> None:
    text = hear(servers, "http", f"consume: {{{consume}}}")
    for number in range(4):
        await servers.channel("news").add({"n": number})
    found = await (await runtime.start(make(text), {"most": 3})).result()
    assert payloads(found) == [{"n": number} for number in range(count)]


async def test_messages_have_headers_and_correlation_ids(runtime: Runtime, servers: Servers) -> None:
    run = await started(runtime, hear(servers, "nats", "consume: {amount: 1}"))
    await say(servers, "nats", {"a": 1}, headers={"CorrelationId": "c-1", "X": "y"})
    assert await run.result() == [
        {"payload": {"a": 1}, "headers": {"CorrelationId": "c-1", "X": "y"}, "correlationId": "c-1"}
    ]
    text = call(
        servers,
        "channel: room, server: {name: ws, variables: {room: a/b}}, subscription: {consume: {amount: 4}}",
    )
    run = await runtime.start(make(text))
    await servers.sockets.say("/rooms.a%2Fb", {"order": {"id": 7}}, "plain", b"\xff\x00", "")
    assert await run.result() == [
        {"payload": {"order": {"id": 7}}, "headers": {}, "correlationId": "7"},
        {"payload": "plain", "headers": {}},
        {"payload": "/wA=", "headers": {}},
        {"payload": None, "headers": {}},
    ]
    await servers.channel("news").add("one\ntwo")
    found = await (await runtime.start(make(hear(servers, "http", "consume: {amount: 1}")))).result()
    assert found == [{"payload": "one\ntwo", "headers": {"event": "said", "id": "1"}}]


async def test_a_filter_may_see_secrets_and_the_input(
    runtime: Runtime, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = ".payload.word == $secrets.word and .payload.who == $workflow.input.who and .payload.n + 1 > 0"
    task = hear(servers, "http", f"filter: '${{ {wanted} }}', consume: {{amount: 1}}")
    text = f"use: {{secrets: [word]}}\ndo:\n{task}"
    told = {"word": "open", "who": "ada"}
    for message in ({"word": "shut"}, {**told, "n": [1]}, {**told, "n": 3}):
        await servers.channel("news").add(message)
    found = await (await runtime.start(make(text), {"who": "ada"})).result()
    assert payloads(found) == [{**told, "n": 3}]
    assert "a message is not taken at /do/0/c/with/subscription/filter" in caplog.text
    assert "open" not in caplog.text


async def test_a_condition_that_fails_faults_the_task(runtime: Runtime, servers: Servers) -> None:
    await servers.channel("news").add({"n": 1})
    error = await fault(runtime, hear(servers, "http", "consume: {while: '${ .n }'}"))
    assert (error["type"], error["instance"]) == (f"{BASE}expression", "/do/0/c")
    assert "/do/0/c/with/subscription/consume/while" in error["detail"]


@pytest.mark.parametrize("foreach", ["", ", foreach: {item: m}"])
async def test_a_length_of_time_ends_a_subscription(runtime: Runtime, servers: Servers, foreach: str) -> None:
    text = hear(servers, "ws", f"consume: {{amount: 9, for: PT1S}}{foreach}")
    run = await runtime.start(make(text))
    await servers.sockets.say("/news", {"n": 1})
    assert payloads(await run.result()) == [{"n": 1}]
    await servers.sockets.connected("/news", 0)


@pytest.mark.parametrize("foreach", ["", ", foreach: {item: m, do: [{s: {set: x}}]}"])
async def test_a_timeout_ends_a_subscription(
    on_each_database: Runtime, servers: Servers, foreach: str
) -> None:
    text = hear(servers, "ws", f"consume: {{amount: 9}}{foreach}", ", timeout: {after: PT1S}")
    run = await on_each_database.start(make(text))
    with pytest.raises(FaultedTimeoutError) as caught:
        await run.result()
    assert (caught.value.error["status"], caught.value.error["instance"]) == (408, "/do/0/c")
    await servers.sockets.connected("/news", 0)


@pytest.mark.parametrize("foreach", ["", ", foreach: {item: m, do: [{s: {set: x}}]}"])
async def test_a_cancellation_ends_a_subscription(runtime: Runtime, servers: Servers, foreach: str) -> None:
    run = await runtime.start(make(hear(servers, "ws", f"consume: {{amount: 9}}{foreach}")))
    await servers.sockets.say("/news", {"n": 1})
    await run.cancel()
    with pytest.raises(WorkflowCancelledError):
        await run.result()
    await servers.sockets.connected("/news", 0)


# --- foreach ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_tasks_run_for_each_message_in_its_order(
    on_each_database: Runtime, servers: Servers, protocol: str
) -> None:
    foreach = """
      foreach:
        item: message
        at: place
        do:
          - pause: {wait: {milliseconds: 2}}
          - say: {set: {n: '${ $message.payload.n }', at: '${ $place }', seen: '${ $context | length }'}}
        output: {as: '${ .n * 10 + .at }'}
        export: {as: '${ ($context // []) + [$message.payload.n] }'}
    """
    text = "- c:\n    call: asyncapi\n    with:\n" + "\n".join(
        (
            f"      document: {{endpoint: {servers.http.url}/asyncapi.json}}",
            f"      operation: hear\n      protocol: {protocol}\n      subscription:",
            "        filter: '${ .payload.n > 0 }'",
            "        consume: {while: '${ ($context | length) < 3 and (. | length) < 9 }'}",
            *(f"  {line}" for line in foreach.splitlines()[1:]),
            "- after: {set: {context: '${ $context }', out: '${ . }'}}",
        )
    )
    run = await started(on_each_database, text)
    await say(servers, protocol, *({"n": number} for number in range(6)))
    assert await run.result() == {"context": [1, 2, 3], "out": [10, 21, 32]}
    if protocol == "ws":
        await servers.sockets.connected("/news", 0)


async def test_a_subscription_that_has_enough_ends_while_its_run_goes_on(
    runtime: Runtime, servers: Servers
) -> None:
    foreach = "consume: {while: '${ length < 1 }'}, foreach: {item: m}"
    run = await runtime.start(make(hear(servers, "ws", foreach) + "\n- w: {wait: {hours: 1}}"))
    await servers.sockets.say("/news", {"n": 1})
    await servers.sockets.connected("/news", 0)
    assert (await run.describe()).phase in ("running", "waiting")
    await run.cancel()


async def test_a_run_continues_as_new_before_and_after_a_subscription_not_within(
    runtime: Runtime, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    continue_everywhere(monkeypatch)
    tasks = "[{a: {set: '${ .payload.n }'}}, {b: {set: '${ . + 1 }'}}]"
    heard = hear(servers, "ws", f"consume: {{while: '${{ length < 3 }}'}}, foreach: {{do: {tasks}}}")
    text = f"- s: {{set: {{n: 1}}}}\n{heard}\n- t: {{set: '${{ . }}'}}"
    run = await runtime.start(make(text))
    await servers.sockets.say("/news", {"n": 1}, {"n": 2}, {"n": 3})
    assert await run.result() == [2, 3, 4]
    assert len(servers.sockets.handshakes) == 1


async def test_an_iterator_needs_no_tasks_and_an_amount_ends_it(runtime: Runtime, servers: Servers) -> None:
    foreach = "consume: {amount: 2}, foreach: {output: {as: '${ .payload.n + $index }'}}"
    run = await started(runtime, hear(servers, "nats", foreach))
    await say(servers, "nats", *({"n": number} for number in range(6)))
    assert await run.result() == [0, 2]
    until = "consume: {until: '${ length == 2 }'}, foreach: {output: {as: '${ $item.payload.n }'}}"
    run = await started(runtime, hear(servers, "nats", until))
    await say(servers, "nats", {"n": 7}, {"n": 8}, {"n": 9})
    assert await run.result() == [7, 8]
    never = "consume: {until: '${ length == 0 }'}, foreach: {item: m}"
    assert await (await runtime.start(make(hear(servers, "nats", never)))).result() == []


async def test_what_a_task_of_an_iterator_faults_with_ends_the_subscription(
    runtime: Runtime, servers: Servers
) -> None:
    foreach = "foreach: {do: [{r: {raise: {error: {type: 'https://x.example/no', status: 418}}}}]}"
    run = await runtime.start(make(hear(servers, "ws", f"consume: {{amount: 9}}, {foreach}")))
    await servers.sockets.say("/news", {"n": 1})
    with pytest.raises(FaultedError) as caught:
        await run.result()
    assert caught.value.error["status"] == 418
    await servers.sockets.connected("/news", 0)


async def test_a_channel_that_fails_faults_the_task_once_its_messages_are_worked_off(
    runtime: Runtime, servers: Servers
) -> None:
    foreach = (
        "foreach: {do: [{w: {wait: {milliseconds: 2}}}, {e: {emit: {event: {with: {source: /s, type: t}}}}}]}"
    )
    run = await runtime.start(make(hear(servers, "ws", f"consume: {{amount: 9}}, {foreach}")))
    await servers.sockets.say("/news", {"n": 1}, {"n": 2}, "x" * 20_000)
    with pytest.raises(FaultedError) as caught:
        await run.result()
    assert "a message of more than 10000 bytes" in caught.value.error["detail"]
    labels = [str(one.payload.get("summary")) async for one in run.handle.history()]
    assert [one for one in labels if one.startswith("emit")] == [
        f"emit /do/0/c/with/subscription/foreach/do/1/e#message={number}" for number in range(2)
    ]


async def test_no_more_messages_are_sent_than_a_run_has_begun_with_and_a_hundred(
    runtime: Runtime, servers: Servers
) -> None:
    foreach = "consume: {amount: 300}, foreach: {do: [{s: {set: '${ .payload.n }'}}]}"
    run = await started(runtime, hear(servers, "http", foreach))
    await run.suspend()
    await say(servers, "http", *({"n": number} for number in range(320)))
    while await signals(run) < 100:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    assert await signals(run) <= 102
    await run.resume()
    assert await run.result() == list(range(300))


async def signals(run: DocumentRun) -> int:
    names = [one.payload.get("name") async for one in run.handle.history()]
    return names.count("serverless.message")


# --- connections that are lost, and limits ----------------------------------------------------------------------------


async def test_a_stream_that_breaks_off_is_taken_up_where_it_was(runtime: Runtime, servers: Servers) -> None:
    channel = servers.channel("news")
    run = await started(runtime, hear(servers, "http", "consume: {amount: 4}"))
    await say(servers, "http", {"n": 1}, {"n": 2})
    while "2" not in str(await positions(run)):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    await channel.break_off()
    await say(servers, "http", {"n": 3})
    await channel.opened(2)
    await say(servers, "http", {"n": 4})
    assert payloads(await run.result()) == [{"n": number} for number in range(1, 5)]
    assert channel.asked == [None, "2"]


async def positions(run: DocumentRun) -> list[Any]:
    described = await run.handle.describe()
    return [one.heartbeat_details for one in described.pending_activities]


async def test_a_web_socket_that_is_lost_is_connected_again(runtime: Runtime, servers: Servers) -> None:
    run = await started(runtime, hear(servers, "ws", "consume: {amount: 2}"))
    await servers.sockets.say("/news", {"n": 1})
    (connection,) = servers.sockets.open["/news"]
    await connection.close(1012)
    await servers.sockets.gone("/news", connection)
    await servers.sockets.say("/news", {"n": 2})
    assert payloads(await run.result()) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_message_that_is_too_long_faults_the_task(
    runtime: Runtime, servers: Servers, protocol: str
) -> None:
    run = await started(runtime, hear(servers, protocol, "consume: {amount: 2}"))
    await say(servers, protocol, "x" * 20_000)
    with pytest.raises(FaultedError) as caught:
        await run.result()
    assert caught.value.error["type"] == f"{BASE}communication"
    assert "10000 byte" in caught.value.error["detail"]


async def test_what_is_collected_has_a_limit(runtime: Runtime, servers: Servers) -> None:
    for _ in range(20):
        await servers.channel("news").add("x" * 900)
    error = await fault(runtime, hear(servers, "http", "consume: {amount: 20}"))
    assert (error["type"], "give it a `foreach`" in error["detail"]) == (f"{BASE}runtime", True)


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        ("channel: status, server: {name: http, variables: {code: 200}}", 500, "not with a stream of events"),
        ("channel: status, server: {name: http, variables: {code: 401}}", 401, "answered 401"),
        ("channel: status, server: {name: ws, variables: {code: 500}}", 500, "answered 500"),
        (
            "operation: hear, protocol: nats, authentication: {basic: {username: deaf, password: correct-horse}}",
            500,
            "permissions violation",
        ),
    ],
)
async def test_what_cannot_be_subscribed_to_says_why(
    runtime: Runtime, servers: Servers, arguments: str, status: int, why: str
) -> None:
    error = await fault(runtime, call(servers, f"{arguments}, subscription: {{consume: {{amount: 1}}}}"))
    assert (error["type"], error["status"]) == (f"{BASE}communication", status)
    assert why in error["detail"].lower()


async def test_subscribers_of_one_queue_share_its_messages(runtime: Runtime, servers: Servers) -> None:
    text = call(servers, "operation: shared, protocol: nats, subscription: {consume: {amount: 2}}")
    runs = [await started(runtime, text) for _ in range(2)]
    numbers = iter(range(1_000))
    waiting = [asyncio.ensure_future(run.result()) for run in runs]
    while not all(one.done() for one in waiting):
        await say(servers, "nats", {"n": next(numbers)})
    found = [message["payload"]["n"] for one in waiting for message in await one]
    assert len(set(found)) == 4
