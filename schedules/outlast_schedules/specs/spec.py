"""What all specs can do, and the two that need no calendar: intervals and instants."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta
from typing import Any, Final

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import explained
from outlast_workflow.options.validation import duration_seconds, instant_of, timeout_seconds
from outlast_workflow.primitives.times import iso, microseconds, to_datetime
from outlast_workflow.primitives.value_object import Value

MOST_INSTANTS: Final = 1_000


class Spec(Value):
    """When something fires. Instants are microseconds since the epoch."""

    __slots__ = ()

    def first_from(self, at: int) -> int | None:
        """Return the first instant at ``at`` or later, or ``None`` where there is none."""
        raise NotImplementedError

    def covered_until(self, at: int) -> int | None:
        """Return up to when (that instant not included) an exclusion covers ``at``; ``None`` if it does not."""
        return at + 1 if self.first_from(at) == at else None

    def to_document(self) -> dict[str, Any]:
        """Return the spec as a JSON object."""
        raise NotImplementedError


class Every(Spec):
    """Fires at a fixed interval, counted from 1970-01-01T00:00Z: ``Every(3600)`` fires at each full hour of UTC.

    Clocks that are put forward or back do not matter to it.

    Args:
        period: The interval, in whole or decimal seconds or as a timedelta; at least 1 second.
        offset: How much later than the interval's beginning it fires; shorter than the period.

    Raises:
        InvalidOptionError: A value is out of range.
    """

    __slots__ = ("_offset_us", "_period_us", "offset", "period")
    fields = ("period", "offset")

    period: int | float
    offset: int | float
    _period_us: int
    _offset_us: int

    @explained("Every", "Every(300)")
    def __init__(self, period: float | timedelta, offset: float | timedelta = 0) -> None:
        checked = timeout_seconds("period", period, minimum_seconds=1)
        later = duration_seconds("offset", offset)
        if later >= checked:
            raise InvalidOptionError(
                f"offset ({later:g} s) must be shorter than the period ({checked:g} s)", field="offset"
            )
        self._set(
            {
                "period": checked,
                "offset": later,
                "_period_us": microseconds(checked),
                "_offset_us": microseconds(later),
            }
        )

    def first_from(self, at: int) -> int | None:
        """See :class:`Spec`."""
        return at + (self._offset_us - at) % self._period_us

    def to_document(self) -> dict[str, Any]:
        """See :class:`Spec`."""
        return {"every": self.period, **({"offset": self.offset} if self.offset else {})}

    def __str__(self) -> str:
        return f"every {_in_words(self.period)}{self._since()}"

    def _since(self) -> str:
        """Return what the offset says, in words."""
        if not self.offset:
            return ""
        if self.offset < 60 or self.offset % 60 == 0:
            return f", {_in_words(self.offset)} later"
        if 86_400 % self.period == 0:
            # An offset that nobody chose, such as the time of day when it was made, reads better as a time of day.
            hours, rest = divmod(int(self.offset), 3_600)
            return f" from {hours:02}:{rest // 60:02}:{rest % 60:02} UTC"
        return f", {_in_parts(self.offset)} later"


class At(Spec):
    """Fires once at each of some instants.

    Args:
        *instants: Timezone-aware datetimes, 1 to 1,000; their order does not matter.

    Raises:
        InvalidOptionError: One is no aware datetime, or there are too many or none.
    """

    __slots__ = ("_sorted", "instants")
    fields = ("instants",)

    instants: tuple[datetime, ...]
    _sorted: tuple[int, ...]

    @explained("At", "At(datetime(2027, 1, 1, tzinfo=UTC))")
    def __init__(self, *instants: datetime) -> None:
        if not 1 <= len(instants) <= MOST_INSTANTS:
            raise InvalidOptionError(
                f"At takes 1 to {MOST_INSTANTS:,} instants, not {len(instants):,}", field="instants"
            )
        found = sorted({instant_of("At", instant) for instant in instants})
        self._set({"instants": tuple(to_datetime(at) for at in found), "_sorted": tuple(found)})

    def first_from(self, at: int) -> int | None:
        """See :class:`Spec`."""
        place = bisect_left(self._sorted, at)
        return self._sorted[place] if place < len(self._sorted) else None

    def to_document(self) -> dict[str, Any]:
        """See :class:`Spec`."""
        return {"at": [iso(at) for at in self._sorted]}

    def __str__(self) -> str:
        more = f" and {len(self._sorted) - 1} more" if len(self._sorted) > 1 else ""
        first = to_datetime(next(iter(self._sorted)))
        clock = first.strftime(
            "%Y-%m-%d %H:%M" if first.second == first.microsecond == 0 else "%Y-%m-%d %H:%M:%S"
        )
        return f"at {clock} UTC{more}"

    def __reduce__(self) -> tuple[Any, ...]:
        return At, self.instants


def _in_words(seconds: float) -> str:
    """Return a duration in the largest unit of which it is a multiple."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size:g} {unit}"
    return f"{seconds:g} s"


def _in_parts(seconds: float) -> str:
    """Return a duration in whole seconds, as in ``3 h 28 min 34 s``."""
    parts, rest = [], round(seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)
