"""Bugs of messages: who receives them, and what is sent together."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast.client.workflows import addressed_signals
from outlast_workflow.history.events import SignalReceived
from outlast_workflow.run.mailbox import Mailbox, ReceiveFuture


@bug
def messages_are_taken_at_arrival(stack: ExitStack) -> None:
    """A message leaves the mailbox when it arrives, though its receiver may be cancelled before it runs."""
    right = Mailbox.put

    def wrong(self: Mailbox, number: int, event: SignalReceived) -> None:
        right(self, number, event)
        for waiting in tuple(self._loop.conditions):
            if isinstance(waiting, ReceiveFuture) and waiting.name == event.name:
                waiting.check()
                return

    patch(stack, Mailbox, "put", wrong)


@bug
def signals_are_sent_one_after_the_other(stack: ExitStack) -> None:
    """Signals that are to be sent together are sent in several transactions."""
    right = addressed_signals._send

    async def wrong(context: Any, signals: Any, *, to_forks: bool, connection: Any) -> Any:
        sent: list[str] = []
        for one in signals:
            sent += await right(context, [one], to_forks=to_forks, connection=connection)
        return sent

    patch(stack, addressed_signals, "_send", wrong)
