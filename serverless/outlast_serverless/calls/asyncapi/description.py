"""Descriptions of channels: AsyncAPI 2.x and 3.x, and the operations and servers that they have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from outlast_serverless.calls.described import Described, DescriptionError, near

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_FAMILIES: Final = {"https": "http", "wss": "ws"}


def family(protocol: str) -> str:
    """Return a protocol without what says that it is encrypted: ``ws`` for ``wss``, ``kafka`` for ``kafka-secure``."""
    plain = protocol.lower().removesuffix("-secure").removeprefix("secure-")
    return _FAMILIES.get(plain, plain)


@dataclass(frozen=True, slots=True)
class DescribedServer:
    """A server.

    Attributes:
        name: Its name.
        url: Its URL, with variables in braces.
        protocol: Its protocol.
        variables: Its variables.
        bindings: Its bindings, by protocol.
    """

    name: str
    url: str
    protocol: str
    variables: Mapping[str, Mapping[str, Any]]
    bindings: Mapping[str, Any]

    def filled(self, values: Mapping[str, Any]) -> str:
        """Return the URL with its variables filled in.

        Raises:
            DescriptionError: One has no value, or one that it may not have.
        """

        def value(found: re.Match[str]) -> str:
            name = found[1]
            variable = self.variables.get(name, {})
            given = values.get(name, variable.get("default"))
            if given is None:
                raise DescriptionError(
                    f"the server {self.name!r:.100} needs the variable {name!r:.100}: give it under server.variables"
                )
            allowed = variable.get("enum")
            if isinstance(allowed, list) and allowed and given not in allowed:
                raise DescriptionError(
                    f"the variable {name!r:.100} of the server {self.name!r:.100} is one of "
                    f"{', '.join(str(one) for one in allowed)}"
                )
            return str(given)

        return _BRACES.sub(value, self.url)


@dataclass(frozen=True, slots=True)
class ChannelOperation:
    """An operation on a channel.

    Attributes:
        name: What it is called in messages.
        address: The address of the channel, with parameters in braces.
        parameters: What is said of these.
        servers: The servers that have the channel, in order.
        bindings: The bindings of the channel, the operation and its message, each by protocol.
        content_type: The type of its messages, if that is told.
        correlations: Where its messages have their correlation id.
    """

    name: str
    address: str
    parameters: Mapping[str, Mapping[str, Any]]
    servers: tuple[DescribedServer, ...]
    bindings: Mapping[str, Mapping[str, Any]]
    content_type: str | None
    correlations: tuple[str, ...]

    def server(self, name: str | None, protocol: str | None) -> DescribedServer:
        """Return the server of a name, else the first one that speaks a protocol, else the first one.

        Raises:
            DescriptionError: There is none.
        """
        if name is not None:
            for one in self.servers:
                if one.name == name:
                    return one
            known = [one.name for one in self.servers]
            raise DescriptionError(f"{self.name} has no server {name!r:.100}{near(name, known)}")
        for one in self.servers:
            if protocol is None or family(one.protocol) == family(protocol):
                return one
        if protocol is None:
            raise DescriptionError(f"{self.name} has no server")
        spoken = ", ".join(dict.fromkeys(one.protocol for one in self.servers)) or "none"
        raise DescriptionError(f"{self.name} has no server that speaks {protocol}: there is {spoken}")


class AsyncDescription(Described):
    """A description of channels.

    Args:
        document: What it says.
        url: Where it was fetched from.

    Raises:
        DescriptionError: It is none.
    """

    def __init__(self, document: Any, url: str) -> None:
        version = document.get("asyncapi") if isinstance(document, dict) else None
        if not isinstance(version, str) or not version.startswith(("2.", "3.")):
            raise DescriptionError(f"{url} is no description of AsyncAPI 2.x or 3.x")
        super().__init__(document, url)
        self._old = version.startswith("2.")

    def operation(self, name: str, *, publishes: bool) -> ChannelOperation:
        """Return an operation by its name, or its ``operationId`` in 2.x.

        Args:
            name: Its name.
            publishes: Whether it is to publish; 2.x has operations of both kinds on a channel.

        Raises:
            DescriptionError: There is none, or its description is damaged.
        """
        if self._old:
            return self._old_operation(name, publishes)
        operations = self.mapping(self.document.get("operations"))
        if name not in operations:
            raise DescriptionError(f"{self.url} has no operation {name!r:.100}{near(name, operations)}")
        operation = self._whole(operations[name])
        channel = self.mapping(operation.get("channel"))
        if not channel:
            raise DescriptionError(f"the operation {name!r:.100} of {self.url} has no channel")
        address = channel.get("address")
        messages = operation.get("messages") or list(self.mapping(channel.get("messages")).values())
        return self._made(f"the operation {name!r:.100}", address, channel, operation, messages)

    def channel(self, name: str, *, publishes: bool) -> ChannelOperation:
        """Return what is done on a channel, by its name, or its address in 3.x.

        Args:
            name: Its name.
            publishes: Whether it is published to; otherwise it is subscribed to.

        Raises:
            DescriptionError: There is none, that cannot be done on it, or its description is damaged.
        """
        channels = self.mapping(self.document.get("channels"))
        found = channels.get(name)
        if found is None and not self._old:
            found = next((one for one in channels.values() if self.mapping(one).get("address") == name), None)
        if found is None:
            raise DescriptionError(f"{self.url} has no channel {name!r:.100}{near(name, channels)}")
        channel = self.mapping(found)
        if not self._old:
            messages = list(self.mapping(channel.get("messages")).values())
            return self._made(f"the channel {name!r:.100}", channel.get("address"), channel, {}, messages)
        verb = _verb(publishes)
        if not isinstance(channel.get(verb), dict):
            raise DescriptionError(f"the channel {name!r:.100} of {self.url} has no operation `{verb}`")
        operation = self._whole(channel[verb])
        return self._made(
            f"the channel {name!r:.100}", name, channel, operation, self._old_messages(operation)
        )

    def _old_operation(self, name: str, publishes: bool) -> ChannelOperation:
        known: list[str] = []
        for address, written in self.mapping(self.document.get("channels")).items():
            channel = self.mapping(written)
            for verb in ("publish", "subscribe"):
                operation = self._whole(channel.get(verb))
                found = operation.get("operationId")
                if found == name:
                    if verb != _verb(publishes):
                        wanted = "message" if verb == "publish" else "subscription"
                        raise DescriptionError(
                            f"the operation {name!r:.100} of {self.url} is a `{verb}`: give it a `{wanted}`"
                        )
                    messages = self._old_messages(operation)
                    return self._made(f"the operation {name!r:.100}", address, channel, operation, messages)
                if isinstance(found, str):
                    known.append(found)
        raise DescriptionError(f"{self.url} has no operation {name!r:.100}{near(name, known)}")

    def _old_messages(self, operation: dict[str, Any]) -> list[Any]:
        message = self.mapping(operation.get("message"))
        return list(message.get("oneOf") or [message])

    def _made(
        self, name: str, address: Any, channel: dict[str, Any], operation: dict[str, Any], written: list[Any]
    ) -> ChannelOperation:
        messages = [self._whole(one) for one in written]
        kinds = [one["contentType"] for one in messages if isinstance(one.get("contentType"), str)]
        default = self.document.get("defaultContentType")
        correlated = [self.mapping(one.get("correlationId")).get("location") for one in messages]
        first = messages[0] if messages else {}
        return ChannelOperation(
            name,
            address if isinstance(address, str) else "",
            {key: self.mapping(one) for key, one in self.mapping(channel.get("parameters")).items()},
            tuple(self._servers(channel.get("servers"))),
            {
                "channel": self.mapping(channel.get("bindings")),
                "operation": self.mapping(operation.get("bindings")),
                "message": self.mapping(first.get("bindings")),
            },
            kinds[0] if kinds else default if isinstance(default, str) else None,
            tuple(dict.fromkeys(one for one in correlated if isinstance(one, str))),
        )

    def _servers(self, listed: Any) -> Iterator[DescribedServer]:
        servers = self.mapping(self.document.get("servers"))
        names = list(servers)
        if isinstance(listed, list) and listed:
            names = [one if isinstance(one, str) else _last(one) for one in listed]
        for name in names:
            if name not in servers:
                raise DescriptionError(f"{self.url} has no server {name!r:.100}")
            server = self.mapping(servers[name])
            protocol = str(server.get("protocol") or "")
            if self._old:
                url = str(server.get("url") or "")
            else:
                path = str(server.get("pathname") or "")
                url = f"{server.get('host') or ''}{path if path[:1] in ('', '/') else f'/{path}'}"
            variables = {key: self.mapping(one) for key, one in self.mapping(server.get("variables")).items()}
            yield DescribedServer(name, url, protocol, variables, self.mapping(server.get("bindings")))

    def _whole(self, written: Any) -> dict[str, Any]:
        """Return an operation or a message with what its traits add."""
        found = self.mapping(written)
        traits = found.get("traits")
        for trait in traits if isinstance(traits, list) else ():
            found = {**self.mapping(trait), **found}
        return found


def _verb(publishes: bool) -> str:
    return "publish" if publishes else "subscribe"


def _last(reference: Any) -> str:
    """Return the name at the end of a reference to a server."""
    text = reference.get("$ref") if isinstance(reference, dict) else None
    return str(text).rpartition("/")[2].replace("~1", "/").replace("~0", "~")
