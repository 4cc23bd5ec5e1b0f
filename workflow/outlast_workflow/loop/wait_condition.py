"""``workflow.wait_condition``: waiting until a predicate over the workflow's state holds.

Predicates are evaluated in the order of registration whenever nothing else is ready. The first one that holds releases
its waiter, which runs until again nothing is ready. So the predicate holds when ``wait_condition`` returns, even if two
waiters wait for the same thing and the first one takes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from outlast_workflow.loop.futures import DurableFuture
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.loop.read_only import ReadOnlySection

T = TypeVar("T")

_WHAT = "a wait_condition predicate"


class WaitFuture(DurableFuture[T]):
    """A wait that the loop looks at whenever nothing else is ready, with a durable timer if it has a timeout."""

    __slots__ = ("owner", "timer")

    owner: DeterministicLoop
    timer: asyncio.TimerHandle | None

    def check(self) -> bool:
        """Return whether the wait is over, in which case its waiter is ready."""
        raise NotImplementedError

    def expire(self) -> None:
        """Take note that the timeout has passed."""
        raise NotImplementedError

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the wait and its timer."""
        if self.done():
            return False
        self.leave()
        return super().cancel(msg)

    def leave(self) -> None:
        """Wait no longer: the loop forgets this wait, and its timer is cancelled."""
        conditions = self.owner.conditions
        if self in conditions:
            conditions.remove(self)
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.cancel()


class ConditionFuture(WaitFuture[None]):
    """A wait for a predicate."""

    __slots__ = ("context", "predicate")

    def __init__(
        self,
        loop: DeterministicLoop,
        predicate: Callable[[], Any],
        timeout: float | None,
        timeout_summary: str | None = None,
    ) -> None:
        super().__init__(loop.hashes, loop)
        self.owner = loop
        self.predicate = predicate
        self.context = copy_context()
        self.timer = None
        if timeout is not None:
            self.timer = loop.call_later(timeout, self.expire, summary=timeout_summary)
        loop.conditions.append(self)

    def check(self) -> bool:
        """Evaluate the predicate and return whether the wait is over. What it raises is raised in the waiter."""
        section = ReadOnlySection(self.owner, _WHAT)
        try:
            with section:
                held = bool(self.context.run(self.predicate))
        except Exception as error:
            if section.violated is None:
                self.leave()
                self.set_exception(error)
                return True
            held = False
        if section.violated is not None:
            self.owner.log.refuse(section.violated)
            return False
        if held:
            self.leave()
            self.set_result(None)
        return held

    def holds(self) -> bool:
        """Return whether the wait would be over if it was looked at, and leave it as it is."""
        section = ReadOnlySection(self.owner, _WHAT)
        try:
            with section:
                return bool(self.context.run(self.predicate))
        except Exception:
            # The workflow task will raise it where it belongs.
            return True

    def expire(self) -> None:
        """End the wait at its timeout, unless the predicate holds at this moment."""
        self.timer = None
        if not self.done() and not self.check() and self.owner.log.refusal is None:
            self.leave()
            self.set_exception(TimeoutError("the condition did not become true in time"))

    def default_name(self) -> str:
        """Return ``wait_condition``."""
        return "wait_condition"
