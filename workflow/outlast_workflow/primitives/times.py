"""Instants and durations: integer microseconds internally, ISO 8601 (UTC) externally.

Durations are rounded *up* to the microsecond, so that nothing fires early. A float means the shortest decimal that
denotes it: ``0.1`` is 100,000 µs, although the float itself lies slightly above.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Context, Decimal

MICROSECONDS_PER_SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LAST_INSTANT = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The last microsecond of the year 9999, after which no instant can be written as text."""
_EXACTLY = Context(prec=400, rounding=ROUND_CEILING, traps=[])
"""Wide enough for any float's shortest decimal, times a million. The caller's context stays untouched."""


def to_datetime(us: int) -> datetime:
    """Return the aware datetime (UTC) of microseconds since the epoch."""
    return _EPOCH + timedelta(microseconds=us)


def later(instant: int, duration: int) -> int:
    """Return the instant a duration later, or the last one that can be written (all in microseconds)."""
    return min(instant + duration, LAST_INSTANT)


def from_datetime(moment: datetime) -> int:
    """Return the exact microseconds since the epoch of an aware datetime.

    Raises:
        ValueError: The datetime is naive, so it names no instant.
    """
    if moment.tzinfo is None:
        raise ValueError(
            "a datetime without a time zone names no instant: give it one, for example timezone.utc"
        )
    return (moment - _EPOCH) // _MICROSECOND


def iso(us: int) -> str:
    """Return an instant as ISO 8601 text that ends in ``+00:00``. Microseconds appear only if they are not zero."""
    return to_datetime(us).isoformat()


def from_iso(text: str) -> int:
    """Return the microseconds since the epoch of ISO 8601 text with an offset.

    Raises:
        ValueError: The text is not ISO 8601, or has no offset.
    """
    return from_datetime(datetime.fromisoformat(text))


def microseconds(seconds: float) -> int:
    """Return a duration in whole microseconds, rounded up."""
    if isinstance(seconds, int):
        return seconds * MICROSECONDS_PER_SECOND
    near = round(seconds * MICROSECONDS_PER_SECOND)
    if near / MICROSECONDS_PER_SECOND == seconds:
        return near
    exact = _EXACTLY.multiply(Decimal(repr(seconds)), MICROSECONDS_PER_SECOND)
    return int(_EXACTLY.to_integral_value(exact))


def timedelta_microseconds(duration: timedelta) -> int:
    """Return the exact microseconds of a timedelta."""
    return duration // _MICROSECOND


def seconds(microseconds: int | None) -> int | float | None:
    """Return a duration in seconds, as JSON holds it: an integer if it is whole."""
    if microseconds is None:
        return None
    whole, rest = divmod(microseconds, MICROSECONDS_PER_SECOND)
    return microseconds / MICROSECONDS_PER_SECOND if rest else whole
