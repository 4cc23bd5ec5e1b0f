"""Subscriptions: messages are consumed, one after the other, until that is enough.

Where the task has no ``foreach``, they are collected, and are the result. With it each is sent to the run as a signal;
the run decides when it has enough, and then cancels the activity.

What was consumed, and where it goes on, is the *position*. It is written with heartbeats of its own, at most half a
second after a message. When a worker dies, another one begins at the position. What was consumed after it was written
is consumed again where messages have positions of their own (the ids of server-sent events, or those of an adapter).
Where they have none it is lost, like everything that comes while nobody is connected. Signals are durable at once: what
was sent is never lost, and what has a position is never sent twice, because that is the key of its signal.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Final, cast

from outlast import Client, activity
from outlast_serverless.calls.asyncapi.channel import (
    ChannelAdapter,
    ChannelError,
    ChannelTarget,
    InboundMessage,
)
from outlast_serverless.calls.asyncapi.description import ChannelOperation
from outlast_serverless.calls.asyncapi.locations import shown
from outlast_serverless.calls.asyncapi.messages import inbound
from outlast_serverless.calls.asyncapi.position import PositionWriter
from outlast_serverless.calls.asyncapi.sinks import Collected, Delivered, RunEndedError, Sink
from outlast_serverless.calls.heartbeats import beating
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.jq import Evaluator, ExpressionFailed
from outlast_serverless.plan.model import Expression

logger = logging.getLogger("outlast.serverless")

_MOST_FAILURES: Final = 5
_FIRST_PAUSE_S: Final = 0.5
_STEADY_S: Final = 30.0
"""A connection that stood so long has not failed at once."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a subscription is to consume, as the interpreter asks for it.

    Attributes:
        filter: Which messages.
        amount: How many.
        holds: While this is true of what was consumed.
        until: Until this is true of it.
        ends_at: Until when, in seconds since the epoch.
        variables: What these expressions see.
        execution: The execution of the task that each message is sent to; ``None`` where they are collected.
    """

    filter: Expression | None
    amount: int | None
    holds: Expression | None
    until: Expression | None
    ends_at: float | None
    variables: dict[str, Any] = field(default_factory=dict)
    execution: str | None = None

    @classmethod
    def of(cls, request: dict[str, Any]) -> Wanted:
        """Return what the interpreter asks for."""

        def expression(name: str) -> Expression | None:
            found = request.get(name)
            return None if found is None else Expression(found["text"], found["pointer"])

        return cls(
            expression("filter"),
            request.get("amount"),
            expression("while"),
            expression("until"),
            request.get("ends_at"),
            request.get("variables") or {},
            request.get("execution"),
        )


class Subscription:
    """One subscription, or what another worker left of it.

    Args:
        request: What is to be consumed, as the interpreter asks for it.
        operation: The operation.
        adapter: What speaks the protocol.
        target: The channel.
        asked: The call.
        filling: Fetches the secrets that the filter names.
        evaluator: Evaluates expressions.
    """

    def __init__(
        self,
        request: dict[str, Any],
        operation: ChannelOperation,
        adapter: ChannelAdapter,
        target: ChannelTarget,
        asked: CallRequest,
        filling: Filling,
        evaluator: Evaluator,
    ) -> None:
        self._wanted = Wanted.of(request)
        self._variables: dict[str, Any] = {}
        self._operation = operation
        self._adapter = adapter
        self._target = target
        self._asked = asked
        self._filling = filling
        self._evaluator = evaluator
        client, info = cast("Client", activity.client()), activity.info()
        environment = client.runtime.environment
        self._clock = environment.clock
        before = info.heartbeat_details[0] if info.heartbeat_details else {}
        self._position: Any = before.get("position")
        self._stood = bool(before)
        self._sink: Sink
        if self._wanted.execution is None:
            self._sink = Collected(before, target.max_message_bytes)
        else:
            nonce = environment.ids.next()
            self._sink = Delivered(before, client, info, self._wanted.execution, nonce)
        self._writer = PositionWriter(client, info.task_token, self._state)

    async def consume(self) -> list[Any]:
        """Consume messages until it is enough; return those that were collected.

        Raises:
            ChannelError: The channel cannot be used, or was lost, or there was too much.
            Fault: An expression failed.
        """
        ends_at = self._wanted.ends_at
        left = None if ends_at is None else ends_at - self._now()
        limit = asyncio.timeout(left)
        writing = asyncio.create_task(self._writer.run())
        try:
            async with beating(self._asked.timeout), limit:
                self._variables = await self._bound()
                if not self._enough(before=True):
                    await self._connected()
        except TimeoutError:
            if not limit.expired():
                raise
        except RunEndedError:
            pass
        finally:
            writing.cancel()
        return self._sink.consumed

    async def _connected(self) -> None:
        """Receive messages, and connect again where the connection is lost."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began, count = loop.time(), self._sink.count
            try:
                if await self._received():
                    return
                lost = ChannelError(f"{shown(self._target.url)} ended the subscription", again=True)
            except ChannelError as error:
                lost = error
            except OSError as error:
                lost = ChannelError(f"{shown(self._target.url)} was lost: {error}", again=True)
            if self._sink.count > count or loop.time() - began > _STEADY_S:
                failures = 0
            failures += 1
            if not lost.again or not self._stood or failures > _MOST_FAILURES:
                raise lost
            logger.info("a subscription connects again: %s", self._filling.masking.text(lost.detail))
            await asyncio.sleep(_FIRST_PAUSE_S * 2 ** (failures - 1))

    async def _received(self) -> bool:
        """Receive messages; return whether that was enough, or the connection came to its end."""
        async with self._adapter.subscribe(self._target, self._position) as messages:
            if not self._stood:
                # From now on it is known to have stood, also to another worker.
                self._stood = True
                self._writer.change()
            async for message in messages:
                if await self._take(message):
                    return True
        return False

    async def _take(self, message: InboundMessage) -> bool:
        """Consume a message, if it is meant; return whether that is enough."""
        if len(message.data) > self._target.max_message_bytes:
            raise ChannelError(
                f"{shown(self._target.url)} sent a message of more than {self._target.max_message_bytes} bytes"
            )
        read = inbound(self._operation, message)
        taken = self._meant(read)
        if taken:
            await self._sink.add(read, message.position)
        if message.position is not None:
            self._position = message.position
        if taken or message.position is not None:
            self._writer.change()
        return taken and self._enough()

    def _now(self) -> float:
        return self._clock.now() / 1_000_000

    def _state(self) -> tuple[dict[str, Any], int]:
        state, size = self._sink.state()
        return {"position": self._position, **state}, size

    # --- what is meant, and when it is enough -------------------------------------------------------------------------

    async def _bound(self) -> dict[str, Any]:
        """Return what the filter sees, secrets too."""
        wanted = self._wanted.filter
        secrets = {} if wanted is None else await self._filling.fetched(wanted)
        return {**self._wanted.variables, "secrets": secrets}

    def _meant(self, message: dict[str, Any]) -> bool:
        """Return whether the filter takes a message. One that it cannot make sense of it does not take."""
        wanted = self._wanted.filter
        if wanted is None:
            return True
        try:
            found = self._evaluator.evaluate(wanted, message, self._variables, self._now())
        except ExpressionFailed as error:
            why = self._filling.told(error, wanted)
            logger.warning("a message is not taken at %s: %s", error.pointer, why)
            return False
        return found is not None and found is not False

    def _enough(self, *, before: bool = False) -> bool:
        """Return whether what was consumed is enough; of one that delivers only the number is known here.

        Args:
            before: Whether nothing was consumed since the last time: ``while`` is asked after a message.
        """
        wanted = self._wanted
        if wanted.amount is not None:
            return self._sink.count >= wanted.amount
        if wanted.until is not None:
            return self._holds(wanted.until)
        return wanted.holds is not None and not before and not self._holds(wanted.holds)

    def _holds(self, expression: Expression) -> bool:
        try:
            found = self._evaluator.evaluate(
                expression, self._sink.consumed, self._wanted.variables, self._now()
            )
        except ExpressionFailed as error:
            raise fault("expression", f"{error.message} at {error.pointer}", self._asked.pointer) from None
        return found is not None and found is not False
