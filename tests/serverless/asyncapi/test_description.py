"""Descriptions of AsyncAPI 2.x and 3.x: which operation and which server is meant, and what a bad one says."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from outlast_serverless.calls.asyncapi.channel import ChannelError, ChannelTarget, InboundMessage
from outlast_serverless.calls.asyncapi.description import AsyncDescription, family
from outlast_serverless.calls.asyncapi.locations import host_and_port, joined, located
from outlast_serverless.calls.asyncapi.messages import address_of, inbound, outbound
from outlast_serverless.calls.described import DescriptionError
from outlast_serverless.calls.policy import HttpPolicy

URL = "https://a.example.com/asyncapi.yaml"
OLD: dict[str, Any] = {
    "asyncapi": "2.6.0",
    "defaultContentType": "application/json",
    "servers": {
        "production": {
            "url": "{stage}.example.com:{port}/v1",
            "protocol": "wss",
            "variables": {
                "stage": {"enum": ["live", "test"], "default": "live"},
                "port": {"default": "443"},
            },
        },
        "broker": {"$ref": "#/components/servers/broker"},
    },
    "channels": {
        "/notifications": {
            "subscribe": {
                "operationId": "getNotifications",
                "message": {"$ref": "#/components/messages/any"},
            },
        },
        "pets/{petId}/{colour}": {
            "servers": ["broker"],
            "parameters": {
                "petId": {"location": "$message.payload#/pet/id"},
                "colour": {"schema": {"default": "red"}},
            },
            "publish": {
                "operationId": "feed",
                "traits": [{"bindings": {"nats": {"queue": "q"}}}],
                "message": {"payload": {}, "traits": [{"contentType": "application/vnd.x+json"}]},
            },
        },
    },
    "components": {
        "servers": {"broker": {"url": "nats://broker.example.com", "protocol": "nats"}},
        "messages": {
            "any": {
                "oneOf": [
                    {"correlationId": {"location": "$message.header#/correlationId"}},
                    {"correlationId": {"$ref": "#/components/correlationIds/inside"}},
                ]
            }
        },
        "correlationIds": {"inside": {"location": "$message.payload#/meta/0/id"}},
    },
}


def old(**changes: Any) -> AsyncDescription:
    return AsyncDescription({**copy.deepcopy(OLD), **changes}, URL)


def test_an_operation_of_2_x_has_an_id_or_a_channel() -> None:
    for found in (
        old().operation("getNotifications", publishes=False),
        old().channel("/notifications", publishes=False),
    ):
        assert found.address == "/notifications"
        assert [one.name for one in found.servers] == ["production", "broker"]
        assert found.content_type == "application/json"
        assert found.correlations == ("$message.header#/correlationId", "$message.payload#/meta/0/id")
    feed = old().operation("feed", publishes=True)
    assert (feed.content_type, feed.bindings["operation"]) == (
        "application/vnd.x+json",
        {"nats": {"queue": "q"}},
    )


def test_a_server_is_found_by_name_by_protocol_or_by_order() -> None:
    found = old().operation("getNotifications", publishes=False)
    assert found.server(None, None).name == "production"
    assert found.server(None, "ws").name == "production"
    assert found.server(None, "nats").name == "broker"
    assert found.server("broker", "ws").name == "broker"
    assert found.server(None, None).filled({}) == "live.example.com:443/v1"
    assert found.server(None, None).filled({"stage": "test", "port": 8443}) == "test.example.com:8443/v1"
    assert [family(one) for one in ("wss", "HTTPS", "kafka-secure", "secure-mqtt", "nats")] == [
        "ws",
        "http",
        "kafka",
        "mqtt",
        "nats",
    ]


@pytest.mark.parametrize(
    ("protocol", "values", "message", "expected"),
    [
        ("nats", {}, {"payload": {"pet": {"id": 7}}}, "pets/7/red"),
        ("nats", {"petId": "x", "colour": "blue"}, {"payload": {}}, "pets/x/blue"),
        ("wss", {"petId": "a/b c"}, None, "pets/a%2Fb%20c/red"),
    ],
)
def test_an_address_is_filled_in(protocol: str, values: dict[str, Any], message: Any, expected: str) -> None:
    operation = old().operation("feed", publishes=True)
    assert address_of(operation, protocol, values, message) == expected


@pytest.mark.parametrize("value", ["a b", "*", ">", "", "x\r\nPUB y"])
def test_no_value_changes_what_an_address_means(value: str) -> None:
    with pytest.raises(DescriptionError, match="a value that no address may have"):
        address_of(old().operation("feed", publishes=True), "nats", {"petId": value}, None)


def told(made: Any) -> str:
    with pytest.raises(DescriptionError) as caught:
        made()
    return str(caught.value)


def test_what_a_description_lacks_is_told() -> None:
    bad: list[Any] = [None, [], {}, {"asyncapi": 3}, {"asyncapi": "1.2.0"}, {"openapi": "3.1.0"}]
    for document in bad:
        assert "no description of AsyncAPI" in told(lambda document=document: AsyncDescription(document, URL))
    assert "cannot be read" in told(lambda: AsyncDescription.parse(b"a: [", URL))
    assert "did you mean 'feed'?" in told(lambda: old().operation("fed", publishes=True))
    assert "is a `subscribe`: give it a `subscription`" in told(
        lambda: old().operation("getNotifications", publishes=True)
    )
    assert "has no operation `publish`" in told(lambda: old().channel("/notifications", publishes=True))
    assert "did you mean '/notifications'?" in told(lambda: old().channel("notifications", publishes=False))
    found = old().operation("feed", publishes=True)
    assert "there is nats" in told(lambda: found.server(None, "ws"))
    assert "has no server 'brokr': did you mean" in told(lambda: found.server("brokr", None))
    assert "needs the parameter 'petId'" in told(lambda: address_of(found, "nats", {}, None))
    production = old().operation("getNotifications", publishes=False).server("production", None)
    assert "is one of live, test" in told(lambda: production.filled({"stage": "none"}))
    assert "has no server" in told(
        lambda: old(servers={}).operation("getNotifications", publishes=False).server(None, None)
    )
    assert "'#/components/none', which it does not have" in told(
        lambda: old(servers={"a": {"$ref": "#/components/none"}}).operation(
            "getNotifications", publishes=False
        )
    )
    assert "bundle it" in told(
        lambda: old(channels={"c": {"$ref": "./other.yaml"}}).channel("c", publishes=True)
    )


def test_an_operation_of_3_x_has_a_channel() -> None:
    found = AsyncDescription.parse(
        b"""
asyncapi: 3.0.0
servers:
  a: {host: "{h}.example.com", pathname: /base, protocol: https, variables: {h: {default: x}}}
  b: {host: b.example.com, protocol: nats}
channels:
  plain: {address: null}
  users: {address: "users/{id}", servers: [{$ref: "#/servers/b"}], parameters: {id: {default: me}}}
operations:
  ask: {action: send, channel: {$ref: "#/channels/users"}}
  lost: {action: send}
""",
        URL,
    )
    for operation in (
        found.operation("ask", publishes=True),
        found.channel("users", publishes=False),
        found.channel("users/{id}", publishes=True),
    ):
        assert [one.name for one in operation.servers] == ["b"]
        assert address_of(operation, "nats", {}, None) == "users/me"
    plain = found.channel("plain", publishes=True)
    assert plain.server(None, None).filled({}) == "x.example.com/base"
    assert address_of(plain, "https", {}, None) == ""
    assert "has no channel" in told(lambda: found.operation("lost", publishes=True))
    assert "did you mean 'ask'?" in told(lambda: found.operation("asks", publishes=True))


def test_messages_are_written_and_read() -> None:
    operation = old().operation("feed", publishes=True)
    sent = outbound(operation, {"payload": {"a": 1}, "headers": {"x": 1, "gone": None, "t": "text"}})
    assert (sent.data, sent.content_type, sent.headers) == (
        b'{"a":1}',
        "application/vnd.x+json",
        {"x": "1", "t": "text"},
    )
    assert outbound(operation, None).data == b"null"
    heard = old().operation("getNotifications", publishes=False)
    assert inbound(heard, InboundMessage(b'{"meta": [{"id": "m"}]}'))["correlationId"] == "m"
    assert inbound(heard, InboundMessage("1", "text/plain", {"CORRELATIONID": "h"})) == {
        "payload": "1",
        "headers": {"CORRELATIONID": "h"},
        "correlationId": "h",
    }
    document = {**OLD, "defaultContentType": "application/x-avro"}
    avro = AsyncDescription(document, URL).channel("/notifications", publishes=False)
    assert "only JSON can be sent" in told(lambda: outbound(avro, {}))
    for name, value in (("a b", "c"), ("a", "b\nc"), ("a", "\0")):
        assert "cannot be sent" in told(
            lambda name=name, value=value: outbound(operation, {"headers": {name: value}})
        )


@pytest.mark.parametrize(
    ("protocol", "url", "address", "whole", "place"),
    [
        ("ws", "h.example.com", "/chat", "ws://h.example.com/chat", ("h.example.com", 80)),
        ("wss", "wss://h/v1/", "chat", "wss://h/v1/chat", ("h", 443)),
        ("ws", "ws://h:81/v1?k=1", "/", "ws://h:81/v1?k=1", ("h", 81)),
        ("ws", "ws://h:81/v1?k=1", "c", "ws://h:81/v1/c?k=1", ("h", 81)),
    ],
)
def test_a_server_and_an_address_make_a_url(
    protocol: str, url: str, address: str, whole: str, place: tuple[str, int]
) -> None:
    target = ChannelTarget(protocol, located(protocol, url), address, {}, None, HttpPolicy(), 1, 1.0)
    assert (joined(target), host_and_port(target, {"ws": 80, "wss": 443})) == (whole, place)
    odd = ChannelTarget(protocol, "ftp://h", address, {}, None, HttpPolicy(), 1, 1.0)
    with pytest.raises(ChannelError, match="its URL begins with ws:// or wss://"):
        host_and_port(odd, {"ws": 80, "wss": 443})
