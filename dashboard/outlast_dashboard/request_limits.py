"""How much the server takes at once: requests of a caller, bodies that arrive, streams that stay open.

All of it is per control plane and in memory. What is over a limit is refused at once, and never queued: a queue would
hold the memory that the limit is to save.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from outlast_workflow.environment import Clock

MOST_CALLERS: Final = 10_000
RETRY_AFTER_S: Final = 1


class Buckets:
    """A token bucket for each caller: a burst at once, then a number of requests per second."""

    def __init__(self, clock: Clock, per_second: float, burst: int) -> None:
        self._clock = clock
        self._per_second = per_second
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Take a token of a caller's bucket; return how many seconds to wait if there is none."""
        now = self._clock.monotonic()
        level, at = self._buckets.pop(caller, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._per_second)
        enough = level >= 1
        self._buckets[caller] = (level - 1 if enough else level, now)
        while len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if enough else (1 - level) / self._per_second


class Bodies:
    """The request bodies in flight. Their number counts while they arrive, their bytes until they are answered.

    Args:
        number: How many may arrive at once.
        bytes_each: The size of the largest.
        bytes_together: The size of all of them.
        timeout: How long one may take to arrive, in seconds.
    """

    def __init__(self, number: int, bytes_each: int, bytes_together: int, timeout: float) -> None:
        self.number = number
        self.bytes_each = bytes_each
        self.bytes_together = bytes_together
        self.timeout = timeout
        self.arriving = 0
        self.held = 0


class Body:
    """The body of one request, as its application receives it. Close it once the request is answered.

    Args:
        receive: Where it comes from.
        bodies: The bodies in flight, among which it counts.
        declared: Its size as the request declares it; 0 if it does not.
    """

    def __init__(self, receive: Receive, bodies: Bodies, declared: int) -> None:
        self._receive = receive
        self._bodies = bodies
        self._declared = declared
        self._received = 0
        self._held = 0
        self._until: float | None = None
        self._complete = False

    async def __call__(self) -> Message:
        """Return the next message.

        Raises:
            HTTPException: The body is too large or too slow, or too many others arrive.
        """
        if self._complete:
            return await self._receive()
        if self._until is None:
            self._begin()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(
                408, f"The body took longer than {self._bodies.timeout:g} seconds: send it at once"
            ) from None
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self._bodies.bytes_each:
                raise too_large(self._bodies.bytes_each)
            self._hold(self._received)
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._complete = True
            self._bodies.arriving -= 1
        return message

    def _begin(self) -> None:
        bodies = self._bodies
        if bodies.arriving >= bodies.number:
            raise _busy(f"{bodies.number} other requests are being received")
        self._hold(self._declared)
        bodies.arriving += 1
        self._until = asyncio.get_running_loop().time() + bodies.timeout

    def _hold(self, size: int) -> None:
        more = size - self._held
        if more <= 0:
            return
        if self._bodies.held + more > self._bodies.bytes_together:
            raise _busy("the requests that are being carried out are too large together")
        self._bodies.held += more
        self._held = size

    def close(self) -> None:
        """Let other bodies have its place."""
        if self._until is not None and not self._complete:
            self._complete = True
            self._bodies.arriving -= 1
        self._bodies.held -= self._held
        self._held = 0


def no_body(receive: Receive) -> Receive:
    """Return what an application receives that is not to read the body: an empty one, at once."""
    given = False

    async def receiving() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": b"", "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass
        return message

    return receiving


def too_large(most: int) -> HTTPException:
    """Return the refusal of a body that is larger than it may be."""
    return HTTPException(413, f"A request may have {most} bytes")


def _busy(why: str) -> HTTPException:
    return HTTPException(
        503, f"The server is busy, {why}: try again", headers={"retry-after": str(RETRY_AFTER_S)}
    )


class Streams:
    """The streams that are open, at most a number of them: each reads the database again and again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.open = 0

    def check(self) -> None:
        """Refuse one more stream than there may be.

        Raises:
            HTTPException: There are that many.
        """
        if self.open >= self._most:
            raise HTTPException(
                503,
                f"There are {self._most} open streams and live pages, the most that this server allows: "
                "close some, or set max_streams",
                headers={"retry-after": "10"},
            )
