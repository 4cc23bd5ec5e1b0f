"""Channels: what an adapter of a protocol is given, and what it gives back.

A runtime speaks ``http``, ``ws`` and ``nats`` by itself. Any other protocol needs an adapter, an object as
:class:`ChannelAdapter` has it: ``Runtime(client, channels={"kafka": MyKafka()})``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from outlast_serverless.calls.authentication import Authentication
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.interpreter.faults import Kind


class ChannelError(Exception):
    """A channel cannot be used, or was lost. It faults the task, unless connecting again may help.

    Args:
        detail: What happened.
        kind: The kind of error that the task faults with.
        status: Its status, where another one fits better than the standard one.
        again: Whether connecting again may help. A subscription that stood before does so a few times.
    """

    def __init__(
        self, detail: str, *, kind: Kind = "communication", status: int | None = None, again: bool = False
    ) -> None:
        self.detail = detail
        self.kind: Kind = kind
        self.status = status
        self.again = again
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class ChannelTarget:
    """A channel of a server, as the description and the task have it.

    Attributes:
        protocol: The protocol as the description names it: ``wss``.
        url: The server, its variables filled in. It may lack a scheme where the description does.
        address: The channel on it: a path, a subject, a topic.
        bindings: What the description says to this protocol, by ``server``, ``channel``, ``operation`` and
            ``message``.
        authentication: How the call authenticates, if it does.
        policy: What may be reached: an adapter connects to what ``await policy.address(host, port)`` returns.
        max_message_bytes: How long a message may be.
        timeout: Seconds that connecting, and publishing, may take.
    """

    protocol: str
    url: str
    address: str
    bindings: Mapping[str, Mapping[str, Any]]
    authentication: Authentication | None
    policy: HttpPolicy
    max_message_bytes: int
    timeout: float


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """A message that is published.

    Attributes:
        data: Its payload, as JSON.
        content_type: The type of that.
        headers: Its headers.
    """

    data: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """A message that was received.

    Attributes:
        data: Its payload.
        content_type: The type of that, if it is told.
        headers: Its headers.
        position: Where a subscription goes on after this message, as JSON, and what tells it from all others of the
            channel; ``None`` where the protocol knows no such thing. With it, a subscription whose worker died loses
            nothing and repeats nothing.
    """

    data: bytes | str
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    position: Any = None


class ChannelAdapter(Protocol):
    """What speaks a protocol. Both methods may raise :class:`ChannelError`; an ``OSError`` counts as one."""

    async def publish(self, target: ChannelTarget, message: OutboundMessage) -> None:
        """Publish a message. When this returns, the server has it.

        Args:
            target: Where to.
            message: The message.
        """
        ...

    def subscribe(
        self, target: ChannelTarget, position: Any
    ) -> AbstractAsyncContextManager[AsyncIterator[InboundMessage]]:
        """Subscribe to a channel. Once the context is entered, no message is missed.

        Args:
            target: Which channel.
            position: That of the last message that was consumed, by this worker or by one that died; ``None`` to begin
                with what comes from now on.
        """
        ...
