"""Durations: ISO 8601 texts and objects, in microseconds. A day is 24 hours and a week seven days."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

UNITS_US: Final = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
    "milliseconds": 1_000,
}
LONGEST_US: Final = 100 * 365 * UNITS_US["days"]
"""A hundred years. Instants that are further ahead cannot be kept."""
LOOKS_ISO: Final = re.compile(r"P[0-9TYMWDHS.]*[0-9][YMWDHS]")
_ISO: Final = re.compile(
    r"P(?!$)(?:(\d+(?:\.\d+)?)Y)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?=\d)(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_SCALES: Final = (7 * UNITS_US["days"], *(UNITS_US[unit] for unit in ("days", "hours", "minutes", "seconds")))
_MOST_CHARACTERS: Final = 200


class CalendarUnitError(ValueError):
    """A duration in years or months, whose length depends on the day it begins."""


def microseconds(duration: Any) -> int | None:
    """Return the length of a duration, or ``None`` if it is none.

    Args:
        duration: An ISO 8601 text, or an object of ``days``, ``hours``, ``minutes``, ``seconds`` and ``milliseconds``.

    Raises:
        CalendarUnitError: It has years or months.
    """
    if isinstance(duration, dict):
        if not duration or any(unit not in UNITS_US or not _whole(value) for unit, value in duration.items()):
            return None
        return sum(int(value) * UNITS_US[unit] for unit, value in duration.items())
    if not isinstance(duration, str) or len(duration) > _MOST_CHARACTERS:
        return None
    found = _ISO.fullmatch(duration)
    if found is None:
        return None
    years, months, *others = found.groups()
    if years is not None or months is not None:
        raise CalendarUnitError
    return int(
        sum(Decimal(part) * scale for part, scale in zip(others, _SCALES, strict=True) if part is not None)
    )


def lookback(holder: dict[str, Any]) -> int | None:
    """Return how far back listen tasks look, in microseconds, as the metadata of a task or a document say.

    Args:
        holder: The task or the head of the document; ``metadata.outlast.lookback`` is the duration.
    """
    metadata = holder.get("metadata")
    said = metadata.get("outlast") if isinstance(metadata, dict) else None
    return microseconds(said.get("lookback")) if isinstance(said, dict) else None


def _whole(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or value.is_integer()
