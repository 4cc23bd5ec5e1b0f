"""Where the messages of a subscription go: into the result, or to the run as signals."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Any, Final, Protocol

import orjson

from outlast import Client
from outlast.activity import ActivityInfo
from outlast_serverless.calls.asyncapi.channel import ChannelError
from outlast_serverless.interpreter.messages import MESSAGE, TAKEN
from outlast_workflow.errors import (
    OutlastError,
    PayloadEncodeError,
    RequestTimeoutError,
    StructuralLimitError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)

logger = logging.getLogger("outlast.serverless")

_MOST_COLLECTED: Final = 10_000
_MOST_AHEAD: Final = 100
"""So many messages are sent to a run that has not begun with them."""
_PAUSE_S: Final = 0.5
_ASKING_S: Final = 10.0


class RunEndedError(Exception):
    """The run that messages were sent to has ended."""


class Sink(Protocol):
    """Where messages go."""

    @property
    def count(self) -> int:
        """How many messages there were."""
        ...

    @property
    def consumed(self) -> list[Any]:
        """The messages, where they are kept."""
        ...

    async def add(self, message: dict[str, Any], position: Any) -> None:
        """Take a message.

        Args:
            message: The message.
            position: Its position, if it has one.

        Raises:
            ChannelError: It, or all together, are too large.
            RunEndedError: Nobody wants it any longer.
        """
        ...

    def state(self) -> tuple[dict[str, Any], int]:
        """Return what another worker needs to go on, and how many bytes it has about."""
        ...


class Collected:
    """Messages that become the result.

    Args:
        before: What a worker that died had collected.
        most_bytes: How long they may be together.
    """

    def __init__(self, before: dict[str, Any], most_bytes: int) -> None:
        self.consumed: list[Any] = list(before.get("messages") or ())
        self._most_bytes = most_bytes
        self._bytes = len(orjson.dumps(self.consumed))

    @property
    def count(self) -> int:
        """How many messages there are."""
        return len(self.consumed)

    async def add(self, message: dict[str, Any], position: Any) -> None:
        """Keep a message."""
        self._bytes += len(orjson.dumps(message)) + 1
        if self._bytes > self._most_bytes or len(self.consumed) >= _MOST_COLLECTED:
            raise ChannelError(
                f"the subscription has consumed more than {_MOST_COLLECTED:,} messages, or than {self._most_bytes:,} "
                "bytes: consume fewer, or give it a `foreach`, which takes them one by one",
                kind="runtime",
            )
        self.consumed.append(message)

    def state(self) -> tuple[dict[str, Any], int]:
        """Return the messages."""
        return {"messages": list(self.consumed)}, self._bytes


class Delivered:
    """Messages that are sent to the run, each as a signal.

    Args:
        before: What a worker that died had sent.
        client: The client of the worker.
        info: The activity.
        execution: The execution of the task in the run.
        nonce: What tells the messages of this attempt from those of others.
    """

    consumed: list[Any] = []  # noqa: RUF012  # nobody adds to it

    def __init__(
        self, before: dict[str, Any], client: Client, info: ActivityInfo, execution: str, nonce: str
    ) -> None:
        self.count = int(before.get("sent") or 0)
        self._handle = client.handle(info.workflow_id, run_id=info.run_id)
        self._key = f"{info.run_id}:{info.activity_id}"
        self._execution = execution
        self._nonce = nonce
        self._taken = self.count

    async def add(self, message: dict[str, Any], position: Any) -> None:
        """Send a message, once the run has room for it."""
        if self.count - self._taken >= _MOST_AHEAD:
            await self._room()
        own = f"{self._nonce}:{self.count}" if position is None else _digest(position)
        body = {"execution": self._execution, "message": message}
        told = False
        while True:
            try:
                await self._handle.signal(MESSAGE, body, request_id=f"{self._key}:{own}")
            except (WorkflowClosedError, WorkflowNotFoundError):
                raise RunEndedError from None
            except PayloadEncodeError as error:
                raise ChannelError(f"a message cannot be kept: {error}", kind="runtime") from None
            except StructuralLimitError as error:
                if error.kind != "unhandled_signals":
                    raise ChannelError(f"a message cannot be kept: {error}", kind="runtime") from None
                told = self._wait_told(error, told)
            except OutlastError as error:
                told = self._wait_told(error, told)
            else:
                self.count += 1
                return
            await asyncio.sleep(_PAUSE_S)

    def _wait_told(self, error: OutlastError, told: bool) -> bool:
        if not told:
            logger.warning("a message waits for the run %s: %s", self._key.partition(":")[0], error)
        return True

    async def _room(self) -> None:
        """Wait until the run has begun with enough of what was sent."""
        while True:
            try:
                self._taken = int(await self._handle.query(TAKEN, self._execution, timeout=_ASKING_S))
            except (WorkflowClosedError, WorkflowNotFoundError):
                raise RunEndedError from None
            except RequestTimeoutError:
                continue
            except OutlastError as error:
                logger.debug("the run does not answer how far it is: %s", error)
            if self.count - self._taken < _MOST_AHEAD:
                return
            await asyncio.sleep(_PAUSE_S)

    def state(self) -> tuple[dict[str, Any], int]:
        """Return how many were sent."""
        return {"sent": self.count}, 0


def _digest(position: Any) -> str:
    return hashlib.sha256(orjson.dumps(position, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
