"""A burst of calls that are debounced: which calls go together, and how long they wait for one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.start import StartOptions
from outlast_workflow.options.validation import Seconds, duration_seconds, timeout_seconds, validate_name
from outlast_workflow.primitives.times import iso, microseconds


@dataclass(frozen=True, slots=True)
class Burst:
    """What the calls of a burst have in common.

    Attributes:
        key: The caller's key.
        period: How long no further call may come before the workflow begins, in seconds.
        timeout: When it begins at the latest, in seconds after the first call; ``None`` for no limit.
    """

    key: str
    period: int | float
    timeout: int | float | None

    @classmethod
    def checked(
        cls, key: str, period: Seconds, timeout: Seconds | None, options: StartOptions | None
    ) -> Self:
        """Return the burst of a call.

        Args:
            key: The caller's key.
            period: Seconds or a timedelta.
            timeout: Likewise.
            options: What the caller gave to the start.

        Raises:
            InvalidOptionError: One cannot be used, or the options say what the burst decides.
        """
        explicit = options.explicit if isinstance(options, StartOptions) else frozenset()
        for field, why in (
            ("start_delay", "period= is how long it waits"),
            ("duplicate_policy", "the key decides which calls go together"),
        ):
            if field in explicit:
                raise InvalidOptionError(f"a debounced start has no {field}: {why}", field=field)
        found = cls(
            validate_name("key", key),
            timeout_seconds("period", period),
            None if timeout is None else duration_seconds("timeout", timeout),
        )
        if found.timeout is not None and found.timeout < found.period:
            raise InvalidOptionError(
                f"timeout ({found.timeout:g} s) must be at least the period ({found.period:g} s)",
                field="timeout",
            )
        return found

    @property
    def timeout_us(self) -> int | None:
        """The timeout in microseconds."""
        return None if self.timeout is None else microseconds(self.timeout)

    def check_deadline(self, options: StartOptions, now: int) -> None:
        """Refuse a burst that could go on until the workflow has no time left.

        Args:
            options: The options of the start.
            now: Microseconds since the epoch.

        Raises:
            InvalidOptionError: It could.
        """
        left = options.execution_timeout_us
        if options.execution_deadline_us is not None:
            left = options.execution_deadline_us - now
        if left is None:
            return
        if self.timeout_us is None or self.timeout_us >= left:
            raise InvalidOptionError(
                f"calls could delay the workflow until its execution deadline, {iso(now + left)}, which counts from "
                "the first call: give a shorter timeout=",
                field="timeout",
            )
