"""Parsing durations, instants, JSON and retry policies that people type."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.options import RetryPolicy, timeout_seconds
from outlast_workflow.options.queues import Rate

_UNITS_S: Final = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def duration(field: str, text: str | None) -> float | None:
    """Return a duration in seconds.

    The option that takes the duration checks its range.

    Args:
        field: The name of the option in an error, in words.
        text: A number of seconds, or a number with a unit (``90s``, ``5m``, ``2h``).

    Raises:
        InvalidOptionError: The text is neither.
    """
    if text is None:
        return None
    stripped = text.strip()
    number = stripped.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = stripped[len(number) :] if number else "s"
    try:
        # `float` accepts words such as inf and nan; the check of the range refuses them.
        value = float(number) if number else float(stripped)
        seconds = value * _UNITS_S[unit or "s"]
    except (KeyError, ValueError):
        raise InvalidOptionError(
            f"{field} must be a number of seconds, or like 90s, 5m, 2h or 1d, not {text!r:.40}",
            field=field.replace(" ", "_"),
        ) from None
    return int(seconds) if math.isfinite(seconds) and seconds == int(seconds) else seconds


def limit(field: str, text: str) -> int | None:
    """Return a limit, or ``None`` for the word ``none``.

    The option that takes the limit checks its range.

    Args:
        field: The name of the option.
        text: A whole number, or ``none``.

    Raises:
        InvalidOptionError: The text is neither.
    """
    if text.strip().lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidOptionError(
            f"{field} must be a whole number, or none for no limit, not {text!r:.40}", field=field
        ) from None


def rate(field: str, text: str) -> Rate | None:
    """Return a rate, or ``None`` for the word ``none``.

    Args:
        field: The name of the option.
        text: A number, a slash and a duration (``20/s``, ``100/5m``), the same in the words in which rates are shown
            (``20 per hour``, ``100 per 5 minutes``), or ``none``.

    Raises:
        InvalidOptionError: The text is neither, or the rate is out of range.
    """
    if text.strip().lower() == "none":
        return None
    number, slash, per = re.sub(r"\s+per\s+", "/", text.strip(), count=1).partition("/")
    per = re.sub(r"\s*(second|minute|hour|day|week)s?$", lambda word: word[1][0], per.strip())
    try:
        seconds = duration(field, per if per[:1].isdigit() or per[:1] == "." else f"1{per}")
        if not slash or not per or seconds is None:
            raise ValueError
        most = int(number.replace(",", ""))
    except ValueError:
        raise InvalidOptionError(
            f"{field} must be like 20/s, 100/5m, 1000/day or none, not {text!r:.40}", field=field
        ) from None
    return Rate(most, seconds)


def waiting_time(text: str | None) -> float | None:
    """Return how long a command waits at most, in seconds. Commands call this before they do anything.

    Raises:
        InvalidOptionError: The text is not a duration, or the duration is out of range.
    """
    seconds = duration("timeout", text)
    return None if seconds is None else timeout_seconds("timeout", seconds)


def moment(field: str, text: str | None, now: datetime, *, ahead: bool = False) -> datetime | None:
    """Return an instant, in UTC.

    Args:
        field: The name of the option in an error, in words.
        text: ISO 8601 with an offset, or a duration: that long before now.
        now: The current time.
        ahead: Whether a duration means that long after now instead.

    Raises:
        InvalidOptionError: The text is neither, or it has no offset.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            distance = timedelta(seconds=duration(field, text) or 0)
            return now + distance if ahead else now - distance
        except (InvalidOptionError, OverflowError, ValueError):
            raise InvalidOptionError(
                f"{field} must be a time like 2026-01-31T12:00:00+00:00, or a distance from now like 2h, "
                f"not {text!r:.40}",
                field=field.replace(" ", "_"),
            ) from None
    return _aware(field, text, found)


def instant(field: str, text: str | None) -> datetime | None:
    """Return an instant, in UTC, from ISO 8601 text with an offset.

    Args:
        field: The name of the option in an error, in words.
        text: The text.

    Raises:
        InvalidOptionError: It is something else, or has no offset.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOptionError(
            f"{field} must be a time like 2026-01-31T12:00:00+00:00, not {text!r:.40}",
            field=field.replace(" ", "_"),
        ) from None
    return _aware(field, text, found)


def _aware(field: str, text: str, found: datetime) -> datetime:
    if found.tzinfo is None:
        raise InvalidOptionError(
            f"{field} {text!r:.40} has no offset, so it names no instant: add one, as in 2026-01-31T12:00:00+00:00",
            field=field.replace(" ", "_"),
        )
    return found.astimezone(UTC)


def json_value(what: str, text: str, *, hint: str = "text needs its own quotes, as in '\"o-1\"'") -> Any:
    """Return the value of a JSON text.

    Args:
        what: The name of the value in an error; its first word is the error's field.
        text: The JSON.
        hint: What the error advises.

    Raises:
        InvalidOptionError: The text is not JSON.
    """
    try:
        return orjson.loads(text)
    except ValueError:
        raise InvalidOptionError(
            f"{what} is not JSON: {text!r:.60}; {hint}", field=what.partition(" ")[0]
        ) from None


def json_object(what: str, text: str | None, example: str = '{"customer": "c-7"}') -> dict[str, Any] | None:
    """Return the value of a JSON object.

    Args:
        what: The name of the value in an error.
        text: The JSON.
        example: An object that would do, for the error.

    Raises:
        InvalidOptionError: The text is not a JSON object.
    """
    if text is None:
        return None
    hint = f"must be a JSON object, as in '{example}'"
    value = json_value(what, text, hint=f"it {hint}")
    if not isinstance(value, dict):
        raise InvalidOptionError(f"{what} {hint}", field=what)
    return value


def retry_policy_of(text: str | None) -> RetryPolicy | None:
    """Return the retry policy of a JSON object, whose intervals are in seconds.

    Raises:
        InvalidOptionError: The text is not a JSON object, or a field is unknown or out of range.
    """
    document = json_object("retry policy", text, '{"max_attempts": 3}')
    if document is None:
        return None
    for name in document.keys() - set(RetryPolicy.fields):
        raise InvalidOptionError(
            f"retry policy has no {name!r}: it has {', '.join(RetryPolicy.fields)}", field="retry_policy"
        )
    return RetryPolicy(**document)
