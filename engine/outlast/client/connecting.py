"""A connection in the making: what :meth:`outlast.Client.connect` returns, to be awaited or entered."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, NoReturn, Protocol, TypeVar


class Closable(Protocol):
    """What a connection becomes."""

    async def close(self) -> None:
        """Close it."""
        ...


C = TypeVar("C", bound=Closable)


class Connecting(Generic[C]):
    """What ``Client.connect`` returns: await it, or enter it.

    Args:
        connect: Connects, and returns the client.
    """

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._connect = connect
        self._client: C | None = None

    def __getattr__(self, name: str) -> NoReturn:
        # Only for what it lacks: a client that was not awaited is the first mistake that everybody makes.
        raise AttributeError(
            f"not connected, so there is no {name!r}: write `client = await Client.connect(…)`, or "
            "`async with Client.connect(…) as client`"
        )

    def __await__(self) -> Generator[Any, None, C]:
        return self._connect().__await__()

    async def __aenter__(self) -> C:
        self._client = await self._connect()
        return self._client

    async def __aexit__(self, *exc_info: object) -> None:
        if self._client is not None:
            await self._client.close()
