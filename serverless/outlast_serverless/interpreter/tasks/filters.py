"""Filters of events: whether an event is meant, and what the router can know of that beforehand.

What a filter cannot make sense of it does not take: an event from outside must not fault a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from outlast import workflow
from outlast_serverless.events.interests import Interest, interest, is_pattern, lookup_path, same
from outlast_serverless.interpreter.faults import Fault
from outlast_serverless.interpreter.scope import Interpreting
from outlast_serverless.plan.model import Constant, EventFilter, Expression, Strategy, Value

_ATTRIBUTE: Final = re.compile(r"[a-z0-9]+")
_FULL_MATCH: Final = 'test("\\\\A(?:" + $pattern + ")\\\\z")'


class Filters:
    """The filters of a strategy, while it consumes events once.

    Correlations without ``expect`` take the first value that they see, which holds until it has consumed enough.

    Args:
        interpreter: Evaluates.
        variables: What their expressions see.
        data: What ``.`` is to what correlations expect.
        pointer: The task whose fault a failure is.
    """

    def __init__(
        self, interpreter: Interpreting, variables: Mapping[str, Any], data: Any, pointer: str
    ) -> None:
        self._interpreter = interpreter
        self._variables = variables
        self._data = data
        self._pointer = pointer
        self._expected: dict[tuple[str, str], Any] = {}
        self._first: dict[str, Any] = {}

    def expect(self, strategy: Strategy) -> None:
        """Evaluate what correlations expect; it holds for as long as the task listens.

        Raises:
            Fault: An expression failed.
        """
        for one in strategy.filters:
            for correlation in one.correlate:
                if correlation.expect is not None:
                    self._expected[one.pointer, correlation.key] = self._interpreter.evaluate(
                        correlation.expect, self._data, self._variables, self._pointer
                    )
        if isinstance(strategy.until, Strategy):
            self.expect(strategy.until)

    @property
    def keys(self) -> dict[str, Any]:
        """The values of correlations, by their names."""
        return {**{key: value for (_, key), value in self._expected.items()}, **self._first}

    @property
    def state(self) -> dict[str, Any]:
        """What the filters have learned, as JSON, for the next run of the chain."""
        return {
            "expected": [[*place, value] for place, value in self._expected.items()],
            "first": self._first,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what the filters had learned.

        Args:
            state: What ``state`` was.
        """
        self._expected = {(pointer, key): value for pointer, key, value in state["expected"]}
        self._first = dict(state["first"])

    def interests(self, strategy: Strategy) -> Iterator[Interest]:
        """Yield what the router looks up for a strategy."""
        if not strategy.filters:
            yield interest(None, {})
        for one in strategy.filters:
            known: dict[str, Any] = {}
            for name, value in one.attributes.items():
                text = _plain_text(value)
                if text is not None and name != "type" and name != "data" and _ATTRIBUTE.fullmatch(name):
                    known[f".{name}"] = text
            for correlation in one.correlate:
                value = self._wanted(one, correlation.key, expects=correlation.expect is not None)
                if value is not None and lookup_path(correlation.source.text) is not None:
                    known[correlation.source.text.strip()] = value
            yield interest(_plain_text(one.attributes.get("type")), known)
        if isinstance(strategy.until, Strategy) and strategy.kind == "any":
            yield from self.interests(strategy.until)

    def _wanted(self, one: EventFilter, key: str, *, expects: bool) -> Any:
        return self._expected[one.pointer, key] if expects else self._first.get(key)

    def takes(self, one: EventFilter, event: dict[str, Any]) -> bool:
        """Return whether a filter takes an event."""
        try:
            if not all(self._attribute(value, event.get(name)) for name, value in one.attributes.items()):
                return False
            return self._correlates(one, event)
        except Fault as error:
            detail = error.error.get("detail")
            workflow.logger.warning("event %s is not taken at %s: %s", event["id"], one.pointer, detail)
            return False

    def _attribute(self, wanted: Value, found: Any) -> bool:
        if isinstance(wanted, Expression):
            result = self._evaluate(wanted, found)
            return result if isinstance(result, bool) else result is not None and same(result, found)
        value = self._evaluate(wanted, found)
        if isinstance(value, str) and isinstance(found, str) and value != found and is_pattern(value):
            return self._matches(value, found)
        return _includes(value, found)

    def _matches(self, pattern: str, text: str) -> bool:
        """Return whether a whole text matches a pattern. A pattern that would never end costs jq's helper, not us."""
        program = Expression(_FULL_MATCH, self._pointer)
        return bool(self._interpreter.evaluate(program, text, {"pattern": pattern}, self._pointer))

    def _correlates(self, one: EventFilter, event: dict[str, Any]) -> bool:
        seen: dict[str, Any] = {}
        for correlation in one.correlate:
            value = self._evaluate(correlation.source, event)
            if value is None:
                return False
            expects = correlation.expect is not None
            if not expects and correlation.key not in self._first:
                seen[correlation.key] = value
            elif not same(value, self._wanted(one, correlation.key, expects=expects)):
                return False
        self._first |= seen
        return True

    def _evaluate(self, value: Value, data: Any) -> Any:
        return self._interpreter.evaluate(value, data, self._variables, self._pointer)


def _plain_text(value: Value | None) -> str | None:
    """Return the text that an attribute must be; ``None`` if it is anything else, or a pattern."""
    if isinstance(value, Constant) and isinstance(value.value, str) and not is_pattern(value.value):
        return value.value
    return None


def _includes(wanted: Any, found: Any) -> bool:
    """Return whether a value is what is wanted; an object may have more members than are asked for."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(name in found and _includes(value, found[name]) for name, value in wanted.items())
    return same(wanted, found)
