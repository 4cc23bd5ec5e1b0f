"""Which adapter speaks which protocol, and what is to be installed for one that nobody speaks."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from outlast_serverless.calls.asyncapi.channel import ChannelAdapter
from outlast_serverless.calls.asyncapi.description import family
from outlast_workflow.errors import InvalidOptionError

_MODULES: Final = {"http": "httpx2", "ws": "websockets", "nats": "nats"}
"""What each protocol that is built in needs."""


class Channels:
    """The adapters of a runtime.

    Args:
        adapters: Those of the program, by protocol. One for a protocol that is built in takes its place.

    Raises:
        InvalidOptionError: One of them is none.
    """

    def __init__(self, adapters: Mapping[str, ChannelAdapter] | None = None) -> None:
        if adapters is not None and not isinstance(adapters, Mapping):
            raise InvalidOptionError("channels must be adapters by protocol", field="channels")
        given: Mapping[Any, Any] = adapters or {}
        for name, adapter in given.items():
            if not isinstance(name, str) or not all(
                callable(getattr(adapter, verb, None)) for verb in ("publish", "subscribe")
            ):
                raise InvalidOptionError(
                    f"channels[{name!r}] must be an adapter, with the methods publish and subscribe",
                    field="channels",
                )
        self._adapters: dict[str, ChannelAdapter] = {name.lower(): adapter for name, adapter in given.items()}

    def trouble(self, protocol: str) -> str:
        """Return why nobody speaks a protocol here, and what to do about it; empty if somebody does."""
        plain = family(protocol)
        if protocol.lower() in self._adapters or plain in self._adapters:
            return ""
        module = _MODULES.get(plain)
        if module is None:
            return (
                f"nobody speaks the protocol {protocol!r:.40} here: give the runtime an adapter, "
                f"Runtime(client, channels={{{plain!r:.40}: …}})"
            )
        if find_spec(module) is None:
            return (
                f"the protocol {protocol!r:.40} needs the extra `serverless-asyncapi`: in a clone, "
                "pip install '.[serverless-asyncapi]'"
            )
        return ""

    def adapter(self, protocol: str) -> ChannelAdapter:
        """Return what speaks a protocol for which there is no trouble."""
        plain = family(protocol)
        found = self._adapters.get(protocol.lower(), self._adapters.get(plain))
        if found is not None:
            return found
        # A library is loaded by the first call that needs it.
        if plain == "http":
            from outlast_serverless.calls.asyncapi.http_channel import HttpChannel

            return HttpChannel()
        if plain == "ws":
            from outlast_serverless.calls.asyncapi.web_socket_channel import WebSocketChannel

            return WebSocketChannel()
        from outlast_serverless.calls.asyncapi.nats_channel import NatsChannel

        return NatsChannel()
