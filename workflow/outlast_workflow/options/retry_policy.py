"""When to retry, and after how long."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Never, Self

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import MAX_SECONDS, integer, number, timeout_seconds
from outlast_workflow.primitives.times import microseconds, seconds
from outlast_workflow.primitives.value_object import Value


class RetryPolicy(Value):
    """How failed attempts are retried: capped exponential backoff.

    Args:
        initial_interval: The first wait, in seconds or a timedelta.
        backoff_coefficient: The factor by which each wait exceeds the one before; at least 1.
        max_interval: The longest wait, in seconds or a timedelta; ``None`` is 100 times the first.
        max_attempts: The number of attempts in all; 0 is unlimited.
        jitter: The fraction (0 to 1) by which a wait is spread at random, both ways, never beyond ``max_interval``.
        non_retryable_error_types: Class names (or classes) of errors that are not retried.

    Raises:
        InvalidOptionError: A field is out of range.
    """

    __slots__ = (
        "backoff_coefficient",
        "initial_interval",
        "initial_us",
        "jitter",
        "max_attempts",
        "max_interval",
        "max_us",
        "non_retryable_error_types",
    )
    fields = (
        "initial_interval",
        "backoff_coefficient",
        "max_interval",
        "max_attempts",
        "jitter",
        "non_retryable_error_types",
    )

    initial_interval: int | float
    backoff_coefficient: int | float
    max_interval: int | float
    max_attempts: int
    jitter: int | float
    non_retryable_error_types: tuple[str, ...]
    initial_us: int
    max_us: int

    def __init__(
        self,
        *,
        initial_interval: float | timedelta = 1,
        backoff_coefficient: float = 2,
        max_interval: float | timedelta | None = None,
        max_attempts: int = 0,
        jitter: float = 0,
        non_retryable_error_types: Iterable[str | type[BaseException]] = (),
        **unknown: Never,
    ) -> None:
        if unknown:
            refuse_unknown("RetryPolicy", unknown, self.fields)
        initial = timeout_seconds("retry initial interval", initial_interval)
        longest = (
            _usual_cap(initial)
            if max_interval is None
            else timeout_seconds("retry max interval", max_interval)
        )
        if longest < initial:
            raise InvalidOptionError(
                f"retry max interval ({longest:g} s) must be at least the initial interval ({initial:g} s): "
                "give a longer one, or none for 100 times the initial interval",
                field="retry_max_interval",
            )
        self._fill(
            initial,
            number("retry backoff coefficient", backoff_coefficient, 1),
            longest,
            integer("retry max attempts", max_attempts, 0),
            number("retry jitter", jitter, 0, 1),
            _type_names(non_retryable_error_types),
        )

    def _fill(
        self,
        initial: float,
        coefficient: float,
        longest: float,
        attempts: int,
        jitter: float,
        types: tuple[str, ...],
    ) -> None:
        self._set(
            {
                "initial_interval": initial,
                "backoff_coefficient": coefficient,
                "max_interval": longest,
                "max_attempts": attempts,
                "jitter": jitter,
                "non_retryable_error_types": types,
                "initial_us": microseconds(initial),
                "max_us": microseconds(longest),
            }
        )

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, validated as a whole; a usual cap follows the initial interval."""
        if "initial_interval" in changes and self.max_interval == _usual_cap(self.initial_interval):
            changes.setdefault("max_interval", None)
        return super().replace(**changes)

    def allows(self, attempt_just_made: int) -> bool:
        """Return whether another attempt may follow this one (counted from 1)."""
        return self.max_attempts == 0 or attempt_just_made < self.max_attempts

    def is_non_retryable(self, failure: dict[str, Any]) -> bool:
        """Return whether a failure document forbids another attempt, by its own flag or by its type."""
        if failure.get("non_retryable"):
            return True
        listed = self.non_retryable_error_types
        return bool(listed) and (failure.get("type") in listed or failure.get("class") in listed)

    def delay_us(self, attempt: int, jitter_unit: float) -> int:
        """Return how long to wait after an attempt, in microseconds.

        Args:
            attempt: The attempt that just ended, counted from 1.
            jitter_unit: A random number from 0 to 1, used only if the policy has jitter.
        """
        try:
            grown = self.initial_us * float(self.backoff_coefficient) ** (max(attempt, 1) - 1)
        except OverflowError:
            grown = math.inf
        delay = min(grown, self.max_us)
        if self.jitter:
            low = delay * (1 - self.jitter)
            high = min(delay * (1 + self.jitter), self.max_us)
            delay = low + (high - low) * jitter_unit
        return math.ceil(delay)

    def to_document(self) -> dict[str, Any]:
        """Return the policy as a JSON document, with intervals in seconds."""
        document = self.given()
        document["non_retryable_error_types"] = list(self.non_retryable_error_types)
        return document

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Return the policy that :meth:`to_document` wrote, without validating it again."""
        policy = cls.__new__(cls)
        policy._fill(
            document["initial_interval"],
            document["backoff_coefficient"],
            document["max_interval"],
            document["max_attempts"],
            document["jitter"],
            tuple(document["non_retryable_error_types"]),
        )
        return policy


def _usual_cap(initial: float) -> int | float:
    """Return the longest wait of a policy that names none, in seconds: as in Temporal, 100 times the first."""
    return min(seconds(100 * microseconds(initial)) or 0, MAX_SECONDS)


def _type_names(types: Iterable[str | type[BaseException]]) -> tuple[str, ...]:
    field = "retry non retryable error types"
    if isinstance(types, str):
        raise InvalidOptionError(
            f"{field} must be a list of names, not one text", field=field.replace(" ", "_")
        )
    names = []
    for entry in types:
        name = entry.__name__ if isinstance(entry, type) else entry
        if not name or not isinstance(entry, str | type):
            raise InvalidOptionError(f"{field} must be class names or classes", field=field.replace(" ", "_"))
        names.append(name)
    return tuple(names)


DEFAULT_RETRY_POLICY = RetryPolicy()
"""The policy of an activity that names none: 1 s, doubling up to 100 s, unlimited."""
