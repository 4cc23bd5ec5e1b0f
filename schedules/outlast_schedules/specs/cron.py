"""Cron texts in a time zone. APScheduler finds the wall times; this module makes instants of them.

APScheduler's own handling of clocks that are put forward or back fires some wall times twice, so it is given wall times
as if they were UTC, and never sees a zone. The rules:

- A wall time that does not exist fires once, later by the gap: 02:30 at 03:30.
- A wall time that comes twice fires the first time. Where the hour field is ``*`` or ``*/n`` it fires both times,
  because such a text is an interval in disguise.
- Fires rise strictly: two wall times that come to one instant fire once.

**How.** Time is walked in segments with one offset from UTC. In a segment, wall times and instants differ by a
constant, so the next match of the text is the next fire. Two things are added where a segment begins: wall times that
the clock jumped over (they fire in the segment, by the offset before it), and wall times that it repeats (they are
passed over).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from outlast_schedules.specs.cron_text import CronFields, read_cron
from outlast_schedules.specs.spec import Spec
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import explained
from outlast_workflow.primitives.times import from_datetime, to_datetime

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
LARGEST_JUMP: Final = 26 * HOUR
"""More than any clock was ever put forward or back."""
STEP: Final = 6 * DAY
"""No zone changes its offset and changes it back in less: Gaza does in an hour less than a week, in 2054."""
FIRST_INSTANT: Final = 2 * DAY
LAST: Final = datetime(2300, 1, 1, tzinfo=UTC)
"""Nothing fires later. A text that names no day at all is found out by a search up to here."""
LAST_INSTANT: Final = from_datetime(LAST)


class Cron(Spec):
    """Fires at the wall times of a cron text: ``Cron("30 2 * * 1-5", time_zone="Europe/Zurich")``.

    A text has five fields (minute, hour, day of month, month, day of week), or six with the second first, or is one of
    ``@yearly``, ``@monthly``, ``@weekly``, ``@daily`` and ``@hourly``. Sunday is 0 and 7. Where both day fields say
    something, either suffices. A wall time that comes twice fires once (unless the hour is ``*`` or ``*/n``), and one
    that is jumped over fires later by the gap.

    As an exclusion, it covers the whole minute, hour or day that its fields name: ``Cron("* * 25 12 *")`` covers
    Christmas.

    Args:
        text: The cron text.
        time_zone: The name of an IANA time zone, UTC by default.

    Raises:
        InvalidOptionError: The text cannot be read or the zone is unknown; the message names the field and the column.
    """

    __slots__ = ("_fields", "_zone", "text", "time_zone")
    fields = ("text", "time_zone")

    text: str
    time_zone: str
    _fields: CronFields
    _zone: ZoneInfo

    @explained("Cron", "Cron('0 2 * * *', time_zone='Europe/Zurich')")
    def __init__(self, text: str, time_zone: str = "UTC") -> None:
        read = read_cron(text)
        self._set(
            {
                "text": str(text).strip(),
                "time_zone": time_zone,
                "_fields": read,
                "_zone": _zone_named(time_zone),
            }
        )

    def first_from(self, at: int) -> int | None:
        """See :class:`Spec`."""
        at = max(at, FIRST_INSTANT)
        while at < LAST_INSTANT:
            offset = self._offset(at)
            found = self._in_segment(at, offset)
            # Only an end of the segment can bring a fire forward, so where nothing is found there is none at all.
            end = self._segment_end(at, offset, at + LARGEST_JUMP if found is None else found)
            if end is None:
                return found
            at = end
        return None

    def covered_until(self, at: int) -> int | None:
        """See :class:`Spec`."""
        if not FIRST_INSTANT <= at < LAST_INSTANT:
            return None
        fields = self._fields
        size = SECOND
        if fields.second in (None, "*"):
            size = MINUTE
            if fields.minute == "*":
                size = DAY if fields.hour == "*" else HOUR
        offset = self._offset(at)
        begin = (at + offset) // size * size
        if self._match(begin) != begin:
            return None
        return max(at + 1, begin + size - self._offset(begin + size - offset))

    def to_document(self) -> dict[str, Any]:
        """See :class:`Spec`."""
        return {"cron": self.text, "time_zone": self.time_zone}

    def __str__(self) -> str:
        return f"{self.text} ({self.time_zone})"

    def _in_segment(self, at: int, offset: int) -> int | None:
        """Return the first fire from ``at`` on, as if the offset that holds then held for ever."""
        begin, before = self._segment_begin(at, offset)
        wall = at + offset
        if before > offset and not self._fields.every_hour:
            # The clock was put back: what is passed over has fired before.
            wall = max(wall, begin + before)
        match = self._match(wall)
        fires = [] if match is None else [match - offset]
        if before < offset:
            jumped = self._match(at + before)
            if jumped is not None and jumped < begin + offset:
                fires.append(jumped - before)
        return min(fires, default=None)

    def _segment_begin(self, at: int, offset: int) -> tuple[int, int]:
        """Return when the offset that holds at ``at`` began and the one before it, if that was not long ago."""
        if self._offset(at - LARGEST_JUMP) == offset:
            return at, offset
        begin = self._change(at - LARGEST_JUMP, at)
        return begin, self._offset(begin - 1)

    def _segment_end(self, at: int, offset: int, until: int) -> int | None:
        """Return when the offset changes after ``at``; ``None`` if it does not up to ``until``."""
        probe = at
        while probe < until:
            ahead = min(probe + STEP, until)
            if self._offset(ahead) != offset:
                return self._change(probe, ahead)
            probe = ahead
        return None

    def _change(self, low: int, high: int) -> int:
        """Return the first second with the offset of ``high``, given that of ``low`` is another."""
        offset = self._offset(high)
        below, above = low // SECOND, high // SECOND
        while above - below > 1:
            middle = (below + above) // 2
            if self._offset(middle * SECOND) == offset:
                above = middle
            else:
                below = middle
        return above * SECOND

    def _offset(self, at: int) -> int:
        """Return how far the zone's wall time is ahead of UTC, in microseconds."""
        found = to_datetime(at).astimezone(self._zone).utcoffset()
        assert found is not None, "a zone has an offset at each instant"
        return found // timedelta(microseconds=1)

    def _match(self, wall: int) -> int | None:
        """Return the first wall time from ``wall`` on that the text names, as if it were an instant in UTC."""
        moment = to_datetime(wall)
        found = [
            fire
            for trigger in _triggers(self._fields)
            if (fire := trigger.get_next_fire_time(None, moment)) is not None
        ]
        return from_datetime(min(found)) if found else None


def _zone_named(name: Any) -> ZoneInfo:
    try:
        return _zone(name)
    except Exception:
        raise InvalidOptionError(
            f"time zone {name!r:.60} is not known: give the name of an IANA zone, such as 'Europe/Zurich'",
            field="time_zone",
        ) from None


_zone = lru_cache(64)(ZoneInfo)


@lru_cache(1024)
def _triggers(fields: CronFields) -> tuple[Any, ...]:
    """Return APScheduler's triggers for a text: two where a day may match either day field, none where no day can."""
    # Slow to load, and not needed to declare a schedule.
    from apscheduler.triggers.cron import CronTrigger

    times = {
        "second": fields.second or "0",
        "minute": fields.minute,
        "hour": fields.hour,
        "month": fields.month,
    }
    days = [{"day": fields.day, "day_of_week": fields.day_of_week}] if fields.has_day else []
    if fields.either_day:
        weekdays = {"day": "*", "day_of_week": fields.day_of_week}
        days = [*({**day, "day_of_week": "*"} for day in days), weekdays]
    return tuple(CronTrigger(**times, **day, timezone=UTC, end_date=LAST) for day in days)
