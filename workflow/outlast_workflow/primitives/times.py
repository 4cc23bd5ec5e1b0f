"""Instants and durations: integer microseconds inside, ISO 8601 (UTC) outside.

Durations are rounded *up* to the microsecond, so that nothing fires early. A float means the shortest decimal that is
that float: ``0.1`` is 100,000 µs, although the float itself lies a hair above.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Context, Decimal

MICROSECONDS_PER_SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EXACTLY = Context(prec=400, rounding=ROUND_CEILING, traps=[])
"""Wide enough for any float's shortest decimal, times a million; the caller's context is left alone."""


def to_datetime(us: int) -> datetime:
    """The aware datetime (UTC) of microseconds since the epoch."""
    return _EPOCH + timedelta(microseconds=us)


def from_datetime(moment: datetime) -> int:
    """Microseconds since the epoch of an aware datetime, exactly.

    Raises:
        ValueError: If the datetime is naive: it names no instant.
    """
    if moment.tzinfo is None:
        raise ValueError(
            "a datetime without a time zone names no instant: give it one, for example timezone.utc"
        )
    return (moment - _EPOCH) // _MICROSECOND


def iso(us: int) -> str:
    """An instant as ISO 8601 text that ends in ``+00:00``; microseconds are written only if there are any."""
    return to_datetime(us).isoformat()


def from_iso(text: str) -> int:
    """Microseconds since the epoch of ISO 8601 text with an offset.

    Raises:
        ValueError: If the text is not ISO 8601 or has no offset.
    """
    return from_datetime(datetime.fromisoformat(text))


def microseconds(seconds: float) -> int:
    """A duration in whole microseconds, rounded up."""
    if isinstance(seconds, int):
        return seconds * MICROSECONDS_PER_SECOND
    near = round(seconds * MICROSECONDS_PER_SECOND)
    if near / MICROSECONDS_PER_SECOND == seconds:
        return near
    exact = _EXACTLY.multiply(Decimal(repr(seconds)), MICROSECONDS_PER_SECOND)
    return int(_EXACTLY.to_integral_value(exact))


def timedelta_microseconds(duration: timedelta) -> int:
    """A timedelta in microseconds, exactly."""
    return duration // _MICROSECOND


def seconds(microseconds: int | None) -> int | float | None:
    """A duration in seconds, as JSON has it: an integer where it is whole."""
    if microseconds is None:
        return None
    whole, rest = divmod(microseconds, MICROSECONDS_PER_SECOND)
    return microseconds / MICROSECONDS_PER_SECOND if rest else whole
