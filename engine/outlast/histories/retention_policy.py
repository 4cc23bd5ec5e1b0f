"""What is kept of closed workflows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import integer, timeout_seconds
from outlast_workflow.primitives.times import microseconds

DAY_S: Final = 86_400


class RetentionPolicy:
    """What is kept of closed workflows; immutable. Open workflows are always kept, and chains are kept whole.

    Args:
        days: Keep what was closed within this many days (a number, or a timedelta).
        keep_last: Keep this many of the newest closed chains, whatever their age. With ``days``, a chain is deleted
            only if neither keeps it.
        export_to: A folder to which each chain is exported before it is deleted, as ``outlast export`` writes it: one
            file a chain, in a folder for the day on which it was closed.
        interval: Seconds between two passes, or a timedelta; at least 1 second.

    Raises:
        InvalidOptionError: Neither ``days`` nor ``keep_last`` is given, or a value is out of range.
    """

    __slots__ = ("days", "export_to", "interval", "keep_last", "max_age_us")

    def __init__(
        self,
        *,
        days: float | timedelta | None = None,
        keep_last: int | None = None,
        export_to: str | Path | None = None,
        interval: float | timedelta = 3600,
    ) -> None:
        if days is None and keep_last is None:
            raise InvalidOptionError(
                "retention needs days or keep_last (`--older-than`, `--keep-last`): without either all is kept",
                field="days",
            )
        age = None
        if days is not None:
            age = timeout_seconds("days", _seconds(days))
        self.days = days
        self.max_age_us = None if age is None else microseconds(age)
        self.keep_last = None if keep_last is None else integer("keep last", keep_last, 1)
        self.export_to = None if export_to is None else Path(export_to)
        self.interval = timeout_seconds("interval", interval, minimum_seconds=1)


def _seconds(days: Any) -> Any:
    return days * DAY_S if isinstance(days, int | float) and not isinstance(days, bool) else days
