"""Failures of user code, as history records them."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any, ClassVar

from outlast_workflow.errors.options import InvalidOptionError
from outlast_workflow.errors.root import OutlastError, named


class FailureError(OutlastError):
    """A failure that happened elsewhere and was recorded in history."""


class ApplicationError(FailureError):
    """User code failed. Any exception of an activity is seen as this error. Raise it yourself to add details.

    Args:
        message: What went wrong.
        *details: JSON-compatible values for the code that catches the error.
        type: The name by which retry policies and handlers recognise it; by default the class name.
        non_retryable: True if retrying is useless.
        next_retry_delay: Seconds (or a timedelta) until the next attempt, instead of the policy's backoff.

    Raises:
        InvalidOptionError: The delay is negative, not finite, or over 100 years.
    """

    facts: ClassVar[tuple[str, ...]] = (
        "type",
        "details",
        "non_retryable",
        "next_retry_delay",
        "exception_class",
        "exception_types",
    )
    exception_class: str | None = None
    """The qualified name of the class that was raised, if it was another."""
    exception_types: tuple[str, ...] = ()
    """If an exception group was raised: the class names of its exceptions."""

    def __init__(
        self,
        message: str = "",
        *details: Any,
        type: str | None = None,
        non_retryable: bool = False,
        next_retry_delay: float | timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.type = type if type is not None else self.__class__.__name__
        self.details = details
        self.non_retryable = non_retryable
        self.next_retry_delay = None if next_retry_delay is None else _delay_seconds(next_retry_delay)

    def __str__(self) -> str:
        """Return the message; after its type, where that is not the name of the class."""
        return self.message if self.type == type(self).__name__ else named(self.type, self.message)

    @property
    def in_words(self) -> str:
        """The text with the name of its type, unless that is the one that says nothing."""
        if self.type == ApplicationError.__name__:
            return self.message or self.type
        return named(self.type, self.message)


_MAX_DELAY_SECONDS = 100 * 31_557_600
"""100 years in seconds, the limit for any duration."""


def _delay_seconds(delay: float | timedelta) -> float:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not 0 <= seconds < math.inf:
        raise InvalidOptionError("next retry delay must be finite and not negative", field="next_retry_delay")
    if seconds > _MAX_DELAY_SECONDS:
        raise InvalidOptionError("next retry delay must be at most 100 years", field="next_retry_delay")
    return int(seconds) if seconds == int(seconds) else seconds
