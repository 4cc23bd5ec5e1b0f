"""Consuming: which events of a strategy are still wanted, what was consumed, and when that is enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

from outlast_serverless.events.interests import Interest
from outlast_serverless.interpreter.scope import Interpreting
from outlast_serverless.interpreter.tasks.filters import Filters
from outlast_serverless.plan.model import EventFilter, Expression, Strategy


class Offered(Enum):
    """What becomes of an event that is offered."""

    REFUSED = "refused"
    CONSUMED = "consumed"
    ENDING = "ending"
    """It was meant for ``until``."""


class _Wanted:
    """What is still wanted of the events of a strategy."""

    def __init__(self, strategy: Strategy, filters: Filters) -> None:
        self._strategy = strategy
        self._filters = filters
        self._open = list(strategy.filters)
        self.done = False

    @property
    def state(self) -> list[Any]:
        """The positions of the filters that want an event, and whether that is enough."""
        return [[self._strategy.filters.index(one) for one in self._open], self.done]

    def restore(self, state: list[Any]) -> None:
        """Take up a state."""
        positions, self.done = state
        self._open = [self._strategy.filters[one] for one in positions]

    def takes(self, event: dict[str, Any]) -> bool:
        """Return whether an event is consumed."""
        taken = next((one for one in self._open if self._filters.takes(one, event)), None)
        if taken is None and self._strategy.filters:
            return False
        if self._strategy.kind == "all" and taken is not None:
            self._open.remove(taken)
            self.done = not self._open
        else:
            self.done = True
        return True


class Consuming:
    """Consumes the events of a strategy, once.

    Args:
        interpreter: Evaluates.
        strategy: The strategy.
        variables: Returns what its expressions see.
        data: What ``.`` is to what correlations expect.
        pointer: The task whose fault a failure is.
        state: What ``state`` was in the run before, where this one goes on.

    Attributes:
        consumed: What was consumed, as it was read.

    Raises:
        Fault: What a correlation expects cannot be worked out.
    """

    def __init__(
        self,
        interpreter: Interpreting,
        strategy: Strategy,
        variables: Callable[[], Mapping[str, Any]],
        data: Any,
        pointer: str,
        state: dict[str, Any] | None = None,
    ) -> None:
        self._interpreter = interpreter
        self._strategy = strategy
        self._variables = variables
        self._pointer = pointer
        self._filters = Filters(interpreter, variables(), data, pointer)
        if state is None:
            self._filters.expect(strategy)
        self._wanted = _Wanted(strategy, self._filters)
        until = strategy.until if strategy.kind == "any" else None
        self._condition = until if isinstance(until, Expression) else None
        self._ending = _Wanted(until, self._filters) if isinstance(until, Strategy) else None
        self.consumed: list[Any] = []
        if state is not None:
            self._filters.restore(state["filters"])
            self._wanted.restore(state["wanted"])
            if self._ending is not None:
                self._ending.restore(state["ending"])

    @property
    def state(self) -> dict[str, Any]:
        """What is still wanted, as JSON, for the next run of the chain; not what was consumed."""
        return {
            "filters": self._filters.state,
            "wanted": self._wanted.state,
            "ending": None if self._ending is None else self._ending.state,
        }

    @property
    def endless(self) -> bool:
        """Whether nothing is ever enough, so that nobody sees what was consumed: ``until: ${ false }``."""
        return self._condition is not None and self._condition.text.strip() in ("false", "null")

    @property
    def looks_at_consumed(self) -> bool:
        """Whether a condition looks at what was consumed."""
        return self._condition is not None and not self.endless

    def offer(self, event: dict[str, Any]) -> Offered:
        """Take an event, or refuse it. What is consumed is to be added to ``consumed``."""
        if self._ending is not None and self._ending.takes(event):
            return Offered.ENDING
        return Offered.CONSUMED if self._wanted.takes(event) else Offered.REFUSED

    def means(self, event: dict[str, Any]) -> bool:
        """Return whether a filter takes an event, also one that has had its event already."""
        filters: tuple[EventFilter, ...] = self._strategy.filters
        return not filters or any(self._filters.takes(one, event) for one in filters)

    def enough(self) -> bool:
        """Return whether what was taken is enough."""
        if self.endless:
            return False
        if self._condition is not None:
            return self._interpreter.holds(self._condition, self.consumed, self._variables(), self._pointer)
        return self._wanted.done if self._ending is None else self._ending.done

    @property
    def correlates(self) -> bool:
        """Whether a filter correlates."""
        return any(one.correlate for one in self._strategy.filters)

    @property
    def keys(self) -> dict[str, Any]:
        """The values by which events were correlated, by their names."""
        return self._filters.keys

    def interests(self) -> Iterator[Interest]:
        """Yield what the router looks up."""
        return self._filters.interests(self._strategy)
