"""A run's mailbox: signals without a handler, and the code that waits to receive them.

A message leaves the mailbox when the code that waits for it is about to run. Waits are looked at only when nothing else
of the run is ready, in the order of the calls, and the first whose message is there runs at once. So nothing that
happens in the same workflow task, a timeout or a cancellation, comes between a message and its receiver: either the
code has the message, or the mailbox still does.

No event says that a message was received. It follows from the order of the signals and from the code, as everything
else that a replay rebuilds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import PayloadCodecError, PayloadDecodeError
from outlast_workflow.history.events import SignalReceived
from outlast_workflow.loop.futures import DeterministicTask
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.loop.wait_condition import WaitFuture
from outlast_workflow.primitives.interceptor_chain import Chain
from outlast_workflow.run.intercepted_calls import ReceiveMessage

NO_DEFAULT: Any = object()
"""There is no default: a timeout raises."""


class Mailbox:
    """The signals of one run that have no handler.

    Args:
        loop: The run's loop.
        converter: Decodes what is received.
        interceptors: What stands around what the code receives.

    Attributes:
        received: The names that the code has asked for so far.
    """

    __slots__ = ("_by_name", "_kept", "_loop", "converter", "interceptors", "received")

    def __init__(self, loop: DeterministicLoop, converter: DataConverter, interceptors: Chain) -> None:
        self._loop = loop
        self._kept: dict[int, SignalReceived] = {}
        self._by_name: dict[str, deque[int]] = {}
        self.converter = converter
        self.interceptors = interceptors
        self.received: set[str] = set()

    def put(self, number: int, event: SignalReceived) -> None:
        """Keep a signal.

        Args:
            number: Its number among those that the run was sent.
            event: The signal.
        """
        self._kept[number] = event
        self._by_name.setdefault(event.name, deque()).append(number)

    def unread(self) -> list[SignalReceived]:
        """Return the signals that nobody has received, in the order of arrival."""
        return [self._kept[number] for number in sorted(self._kept)]

    def oldest(self, name: str) -> tuple[int, SignalReceived] | None:
        """Return the oldest signal of a name, with its number; ``None`` if there is none."""
        numbers = self._by_name.get(name)
        return (numbers[0], self._kept[numbers[0]]) if numbers else None

    def after(self, name: str, number: int) -> list[tuple[int, SignalReceived]]:
        """Return the signals of a name that came after one of a number, with theirs, in the order of arrival.

        Args:
            name: The name.
            number: The number.
        """
        return [(one, self._kept[one]) for one in self._by_name.get(name, ()) if one > number]

    def take(self, name: str, number: int) -> None:
        """Remove a signal.

        Args:
            name: Its name.
            number: Its number.
        """
        numbers = self._by_name[name]
        numbers.remove(number)
        del self._kept[number]
        if not numbers:
            del self._by_name[name]

    def receive(
        self,
        name: str,
        timeout: float | None,
        default: Any,
        result_type: Any,
        *,
        accepts: Callable[[Any], bool] | None = None,
        summary: str | None = None,
    ) -> ReceiveFuture:
        """Wait for a signal of a name.

        Args:
            name: The name.
            timeout: How long to wait at most, in seconds.
            default: What to return when the timeout passes; :data:`NO_DEFAULT` to raise.
            result_type: What to read the message as.
            accepts: Whether a message is one to take; by default each is. It must always say the same of a message.
            summary: What the timer is for.
        """
        self.received.add(name)
        return ReceiveFuture(self, self._loop, name, timeout, default, result_type, accepts, summary)


class ReceiveFuture(WaitFuture[Any]):
    """A wait for a message."""

    __slots__ = ("accepts", "context", "default", "expired", "mailbox", "name", "result_type", "seen")

    def __init__(
        self,
        mailbox: Mailbox,
        loop: DeterministicLoop,
        name: str,
        timeout: float | None,
        default: Any,
        result_type: Any,
        accepts: Callable[[Any], bool] | None = None,
        summary: str | None = None,
    ) -> None:
        super().__init__(loop.hashes, loop)
        self.owner = loop
        self.mailbox = mailbox
        self.name = name
        self.default = default
        self.result_type = result_type
        self.accepts = accepts
        self.seen = 0
        self.expired = False
        self.context = _context_of_caller() if mailbox.interceptors else None
        self.timer = None
        if timeout is not None:
            self.timer = loop.call_later(timeout, self.expire, summary=summary or f"receive {name}"[:200])
        loop.conditions.append(self)
        # One that is choosy may wait although there are messages of its name, which is what this list denies.
        if accepts is None:
            loop.receiving.append(name)

    def check(self) -> bool:
        """Take the message if there is one, or else end the wait if its timeout has passed."""
        try:
            found = self._found()
        except (PayloadDecodeError, PayloadCodecError) as error:
            self.owner.log.refuse(error)
            return False
        if found is not None:
            number, event, message = found
            self.mailbox.take(self.name, number)
            self.leave()
            if self.context is None:
                self.set_result(message)
            else:
                self._intercepted(self.context, message, event)
        elif self.expired:
            self.leave()
            if self.default is NO_DEFAULT:
                self.set_exception(TimeoutError(f"no message {self.name!r} came in time"))
            else:
                self.set_result(self.default)
        else:
            return False
        return True

    def _found(self) -> tuple[int, SignalReceived, Any] | None:
        """Return the oldest signal to take, with its number before it and its message behind it."""
        if self.accepts is None:
            oldest = self.mailbox.oldest(self.name)
            return None if oldest is None else (*oldest, self._message(*oldest))
        for number, event in self.mailbox.after(self.name, self.seen):
            message = self._message(number, event)
            if self.accepts(message):
                return number, event, message
            # It is not looked at again.
            self.seen = number
        return None

    def _intercepted(self, context: Context, message: Any, event: SignalReceived) -> None:
        """Hand the message over through the interceptors; what they raise is raised in the code."""
        call = ReceiveMessage(self.name, message, dict(event.headers or {}))
        chain = self.mailbox.interceptors
        try:
            message = context.run(chain.call, "receive_message", call, lambda call: call.message)
        except Exception as error:
            self.set_exception(error)
        else:
            self.set_result(message)

    def _message(self, number: int, event: SignalReceived) -> Any:
        what = f"the message {self.name!r}"
        try:
            return self.mailbox.converter.decode_message(event.input, self.result_type, what)
        except PayloadCodecError:
            # There is nothing wrong with the message.
            raise
        except PayloadDecodeError as error:
            raise PayloadDecodeError(
                f"signal {self.name!r}, number {number} of those that this run was sent, cannot be received: {error}. "
                "It was acknowledged, so it is not dropped: receive it as a wider type and the run continues, or reset "
                "the run with signals=False to leave it behind",
                parameter=error.parameter,
                hint=error.hint,
            ) from None

    def expire(self) -> None:
        """Note that the timeout has passed. The wait ends when nothing else is ready, perhaps with a message."""
        self.timer = None
        self.expired = True

    def leave(self) -> None:
        """Wait no longer, for any message either."""
        super().leave()
        if self.accepts is None:
            self.owner.receiving.remove(self.name)

    def default_name(self) -> str:
        """Return what is waited for, as ``receive status``."""
        return f"receive {self.name}"


def _context_of_caller() -> Context:
    """Return the context of the task that calls, so that the code sees what an interceptor sets there."""
    task = asyncio.current_task()
    return task.context if isinstance(task, DeterministicTask) else copy_context()
