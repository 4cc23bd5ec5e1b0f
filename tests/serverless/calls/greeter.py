"""A service of gRPC on loopback. It reads and writes bytes, so that it checks what is sent by no library's mapping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

PROTO = """
syntax = "proto3";
package GreeterApi;
import "google/protobuf/timestamp.proto";
message Hello {
  string name = 1;
  int64 times_said = 2;
  google.protobuf.Timestamp at = 3;
}
message Greeting { string message_text = 1; }
service Greeter {
  rpc SayHello (Hello) returns (Greeting);
  rpc SayOften (Hello) returns (stream Greeting);
  rpc SayToAll (stream Hello) returns (Greeting);
  rpc Chat (stream Hello) returns (stream Greeting);
}
"""


class Greeter:
    """The service.

    Attributes:
        port: Its port.
        calls: The metadata of each call.
        raw: The bytes of the last message.
    """

    def __init__(self) -> None:
        self.port = 0
        self.calls: list[dict[str, Any]] = []
        self.raw = b""

    async def _begin(self, message: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> str:
        self.calls.append(dict(context.invocation_metadata() or ()))
        self.raw = message
        name = text(message)
        if name.startswith("!"):
            await context.abort(grpc.StatusCode[name[1:].partition(":")[0]], name.partition(":")[2])
        if name == "silent":
            await asyncio.Event().wait()
        return name

    async def say(self, message: bytes, context: Any) -> bytes:
        return greeting(f"Hello {await self._begin(message, context)}")

    async def often(self, message: bytes, context: Any) -> AsyncIterator[bytes]:
        name = await self._begin(message, context)
        for number in range(3):
            yield greeting(f"Hello {name} {number}")

    async def to_all(self, messages: AsyncIterator[bytes], context: Any) -> bytes:
        return greeting(" and ".join([await self._begin(one, context) async for one in messages]))

    async def chat(self, messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for one in messages:
            yield greeting(f"Hello {await self._begin(one, context)}")


def text(message: bytes) -> str:
    """Return the first field of a short message, which is a text."""
    return message[2 : 2 + message[1]].decode() if message[:1] == b"\x0a" else ""


def greeting(words: str) -> bytes:
    size = len(words.encode())
    length = bytes((size,)) if size < 128 else bytes((size & 127 | 128, size >> 7))
    return b"\x0a" + length + words.encode()


@asynccontextmanager
async def greeting_service(
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncGenerator[Greeter]:
    """Serve it on a port of 127.0.0.1."""
    made = Greeter()
    server = grpc.aio.server()
    handlers: Any = {
        "SayHello": grpc.unary_unary_rpc_method_handler(made.say),
        "SayOften": grpc.unary_stream_rpc_method_handler(made.often),
        "SayToAll": grpc.stream_unary_rpc_method_handler(made.to_all),
        "Chat": grpc.stream_stream_rpc_method_handler(made.chat),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("GreeterApi.Greeter", handlers),))
    if credentials is None:
        made.port = server.add_insecure_port("127.0.0.1:0")
    else:
        made.port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield made
    finally:
        await server.stop(None)
