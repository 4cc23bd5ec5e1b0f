"""Channels over NATS: an address is a subject. It is the core protocol, which keeps no messages."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import Error, MaxPayloadError, SlowConsumerError

from outlast_serverless.calls.asyncapi.channel import (
    ChannelError,
    ChannelTarget,
    InboundMessage,
    OutboundMessage,
)
from outlast_serverless.calls.asyncapi.closing import closed
from outlast_serverless.calls.asyncapi.locations import host_and_port, shown
from outlast_serverless.calls.policy import DeniedError
from outlast_serverless.calls.tls import tls_context

logger = logging.getLogger("outlast.serverless")

_PORTS: Final = {"nats": 4222, "tls": 4222}
_MOST_WAITING: Final = 1_000
_CONNECTING_S: Final = 10
_FAILED_S: Final = 0.5
"""So long may the end of a connection take that did not come about."""


class NatsChannel:
    """Speaks NATS. It has no positions: what nobody is subscribed for is not received.

    The bindings ``nats`` of an operation may name a ``queue``: then each message reaches one subscriber of its group.
    """

    async def publish(self, target: ChannelTarget, message: OutboundMessage) -> None:
        """Publish a message; the server has it when it has answered a ping after it."""
        async with _connected(target) as connection:
            try:
                headers = dict(message.headers) or None
                await connection.client.publish(target.address, message.data, headers=headers)
                await connection.settled()
            except MaxPayloadError:
                raise ChannelError(f"{shown(target.url)} takes no message as long as this one") from None
            except (Error, OSError) as error:
                raise ChannelError(f"{shown(target.url)} did not take the message: {_why(error)}") from None
            connection.check()

    @asynccontextmanager
    async def subscribe(
        self, target: ChannelTarget, position: Any
    ) -> AsyncGenerator[AsyncIterator[InboundMessage]]:
        """Subscribe to a subject, which may have wildcards, and give what comes."""
        queue = target.bindings.get("operation", {}).get("queue")
        async with _connected(target) as connection:
            try:
                subscription = await connection.client.subscribe(
                    target.address,
                    queue=queue if isinstance(queue, str) else "",
                    pending_msgs_limit=_MOST_WAITING,
                )
                await connection.settled()
            except (Error, OSError) as error:
                raise ChannelError(
                    f"{shown(target.url)} cannot be subscribed to: {_why(error)}", again=True
                ) from None
            connection.check()
            yield _messages(target, connection, subscription)


class _Connection:
    """A connection, and what its server has complained about."""

    def __init__(self, target: ChannelTarget) -> None:
        self.client = Client()
        self._target = target
        self._complaint: Exception | None = None

    async def note(self, error: Exception) -> None:
        """Take what the library tells that nobody waits for."""
        if isinstance(error, SlowConsumerError):
            logger.warning(
                "messages of %s were lost: they came faster than they were consumed", self._target.address
            )
        else:
            self._complaint = error

    async def settled(self) -> None:
        """Return when the server has what was sent.

        The library writes a ping at once, and may write what was sent before behind it. The second ping is behind that.
        """
        for _ in range(2):
            await self.client.flush(max(1, int(self._target.timeout)))

    def check(self) -> None:
        """Raise what the server has complained about."""
        if self._complaint is not None:
            raise ChannelError(f"{shown(self._target.url)} refuses: {_why(self._complaint)}")


async def _messages(
    target: ChannelTarget, connection: _Connection, subscription: Subscription
) -> AsyncGenerator[InboundMessage]:
    while True:
        try:
            message = await subscription.next_msg(timeout=None)
        except (Error, OSError) as error:
            raise ChannelError(f"{shown(target.url)} was lost: {_why(error)}", again=True) from None
        if len(message.data) > target.max_message_bytes:
            raise ChannelError(
                f"{shown(target.url)} sent a message of more than {target.max_message_bytes} bytes"
            )
        yield InboundMessage(message.data, None, dict(message.headers or {}))


@asynccontextmanager
async def _connected(target: ChannelTarget) -> AsyncGenerator[_Connection]:
    host, port = host_and_port(target, _PORTS)
    connection = _Connection(target)
    client = connection.client
    secure = target.url.startswith("tls:")

    def told(value: str) -> Any:
        # The library asks for credentials once the connection is encrypted, if it ever is.
        def tell() -> str:
            if secure and not client._server_info.get("tls_required"):
                raise ChannelError(f"{shown(target.url)} does not encrypt", kind="configuration")
            return value

        return tell

    credentials: dict[str, Any] = {}
    known = target.authentication
    if known is not None and known.scheme == "basic":
        credentials = {
            "user": told(str(known.parameters["username"])),
            "password": told(str(known.parameters["password"])),
        }
    elif known is not None and known.scheme == "bearer":
        credentials = {"token": told(str(known.parameters["token"]))}
    elif known is not None:
        raise ChannelError(f"NATS cannot authenticate by {known.scheme}", kind="configuration")
    elif secure:
        credentials = {"token": told("")}
    try:
        address = await target.policy.address(host, port)
        shape = f"[{address}]" if address.version == 6 else str(address)
        await client.connect(
            f"nats://{shape}:{port}",
            error_cb=connection.note,
            # Another server of a cluster would be one that the policy has not looked at.
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=max(1, min(_CONNECTING_S, int(target.timeout))),
            tls=tls_context(),
            tls_hostname=host,
            **credentials,
        )
    except DeniedError as error:
        raise ChannelError(str(error), kind="authorization") from None
    except (Error, OSError) as error:
        await closed(client.close(), _FAILED_S)
        refused = "authorization" in str(error).lower()
        if refused and known is not None and known.refused is not None:
            known.refused()
        raise ChannelError(
            f"{shown(target.url)} cannot be reached: {_why(error)}",
            status=401 if refused else None,
            again=not refused,
        ) from None
    except BaseException:
        await closed(client.close(), _FAILED_S)
        raise
    try:
        yield connection
    finally:
        await closed(client.close())


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
