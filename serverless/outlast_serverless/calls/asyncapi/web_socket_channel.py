"""Channels over WebSockets: each message is a frame of text or bytes. Headers go with the handshake."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, PayloadTooBig, WebSocketException

from outlast_serverless.calls.asyncapi.channel import (
    ChannelError,
    ChannelTarget,
    InboundMessage,
    OutboundMessage,
)
from outlast_serverless.calls.asyncapi.closing import closed
from outlast_serverless.calls.asyncapi.locations import host_and_port, joined, shown
from outlast_serverless.calls.policy import DeniedError
from outlast_serverless.calls.tls import tls_context

_PORTS: Final = {"ws": 80, "wss": 443}
_TOO_BIG: Final = 1009
_CLOSING_S: Final = 5.0


class _Connect(connect):
    """Connects to one address, and goes nowhere else."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow no redirect: the policy has not looked at where it leads."""
        return exc


class WebSocketChannel:
    """Speaks the WebSocket protocol. It has no positions: what nobody is connected for is not received."""

    async def publish(self, target: ChannelTarget, message: OutboundMessage) -> None:
        """Send a message; the server has it when it has answered the end of the connection."""
        async with _connected(target, message.headers) as connection:
            try:
                await connection.send(message.data.decode())
                await connection.close()
            except ConnectionClosed as error:
                raise _lost(target, error) from None
            if connection.close_code not in (1000, 1001, 1005):
                code = connection.close_code
                raise ChannelError(f"{shown(target.url)} did not take the message: it ended with {code}")

    @asynccontextmanager
    async def subscribe(
        self, target: ChannelTarget, position: Any
    ) -> AsyncGenerator[AsyncIterator[InboundMessage]]:
        """Connect, and give what comes."""
        async with _connected(target, {}) as connection:
            yield _messages(target, connection)


async def _messages(target: ChannelTarget, connection: ClientConnection) -> AsyncGenerator[InboundMessage]:
    while True:
        try:
            data = await connection.recv()
        except ConnectionClosed as error:
            raise _lost(target, error) from None
        yield InboundMessage(data)


@asynccontextmanager
async def _connected(target: ChannelTarget, headers: Mapping[str, str]) -> AsyncGenerator[ClientConnection]:
    host, port = host_and_port(target, _PORTS)
    told = shown(joined(target))
    given = dict(headers)
    known = target.authentication
    if known is not None:
        if known.authorization is None:
            raise ChannelError("a WebSocket cannot authenticate by digest", kind="configuration")
        authorization = known.authorization
        given.setdefault("authorization", f"{authorization['scheme']} {authorization['parameter']}")
    encrypted: dict[str, Any] = {"ssl": tls_context()} if target.url.startswith("wss:") else {}
    try:
        address = await target.policy.address(host, port)
        connection = await _Connect(
            joined(target),
            additional_headers=given,
            proxy=None,
            open_timeout=target.timeout,
            close_timeout=_CLOSING_S,
            max_size=target.max_message_bytes,
            **encrypted,
            host=str(address),
            port=port,
        )
    except DeniedError as error:
        raise ChannelError(str(error), kind="authorization") from None
    except InvalidStatus as error:
        status = error.response.status_code
        if status == 401 and known is not None and known.refused is not None:
            known.refused()
        raise ChannelError(f"{told} answered {status}", status=status, again=status >= 500) from None
    except TimeoutError:
        detail = f"{told} was not answered within {target.timeout:g} s"
        raise ChannelError(detail, status=504, again=True) from None
    except (WebSocketException, OSError, ValueError) as error:
        raise ChannelError(f"{told} cannot be reached: {error}", again=True) from None
    try:
        yield connection
    finally:
        await closed(connection.close())


def _lost(target: ChannelTarget, error: ConnectionClosed) -> ChannelError:
    ours = error.sent
    if isinstance(error.__cause__, PayloadTooBig) or (ours is not None and ours.code == _TOO_BIG):
        return ChannelError(
            f"{shown(target.url)} sent a message of more than {target.max_message_bytes} bytes"
        )
    told = error.rcvd
    why = "" if told is None else f" with {told.code}{f' ({told.reason:.100})' if told.reason else ''}"
    return ChannelError(f"{shown(target.url)} ended the connection{why}", again=True)
