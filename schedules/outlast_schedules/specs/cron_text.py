"""Reading a cron text: five fields, or six with seconds first, or a name such as ``@daily``.

Each field is a list of ``*``, ``*/n``, ``a``, ``a-b``, ``a-b/n`` and ``a/n`` (from ``a`` to the end, every ``n``).
Months and weekdays have names too. Sunday is 0 and 7. ``L`` as the day of the month is its last day. ``?`` is ``*``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from outlast_workflow.errors import InvalidOptionError

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

MOST_CHARACTERS: Final = 1_000
_LONGEST_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a cron text: its name in messages, its bounds, and the names of its values."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    """Names of the values, from ``first_named`` on."""
    first_named: int = 0


_SECOND: Final = _Field("second", 0, 59)
_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("day of week", 0, 7, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class CronFields:
    """The fields of a cron text, as lists that APScheduler reads; ``second`` is ``None`` where there are five."""

    second: str | None
    minute: str
    hour: str
    day: str
    month: str
    day_of_week: str
    every_hour: bool
    """Whether the hour field is ``*`` or ``*/n``, which makes the text an interval in disguise."""
    either_day: bool
    """Whether both day fields say something: then cron takes a day that either of them names."""
    has_day: bool
    """Whether the day of the month ever comes in one of the months; 30 February does not."""


def read_cron(text: Any) -> CronFields:
    """Return the fields of a cron text.

    Raises:
        InvalidOptionError: It cannot be read; the message names the field and the column.
    """
    if not isinstance(text, str):
        raise InvalidOptionError(f"a cron text must be text, not {type(text).__name__}", field="cron")
    if len(text) > MOST_CHARACTERS:
        raise InvalidOptionError(
            f"a cron text must have at most {MOST_CHARACTERS:,} characters, not {len(text):,}: give several specs",
            field="cron",
        )
    written = text.strip()
    if written.startswith("@"):
        if written.lower() not in NAMED:
            known = ", ".join(NAMED)
            raise InvalidOptionError(
                f"cron text {text!r:.100}: its name must be one of {known}", field="cron"
            )
        written, offset = NAMED[written.lower()], 0
    else:
        offset = len(text) - len(text.lstrip())
    words = [(found[0], found.start() + offset + 1) for found in re.finditer(r"\S+", written)]
    if len(words) not in (5, 6):
        raise InvalidOptionError(
            f"cron text {text!r:.100} has {len(words)} fields: it must have 5 (minute, hour, day of month, month, "
            "day of week), or 6 with the second first",
            field="cron",
        )
    fields = _FIELDS if len(words) == 5 else (_SECOND, *_FIELDS)
    read = [
        _Reading(text, field, column).read(word) for field, (word, column) in zip(fields, words, strict=True)
    ]
    minute, hour, day, month, day_of_week = read[-5:]
    free = [word.startswith(("*", "?")) for word, _ in words[-5:]]
    return CronFields(
        None if len(words) == 5 else read[0],
        minute,
        hour,
        day,
        month,
        day_of_week,
        every_hour=free[1],
        either_day=not free[2] and not free[4],
        has_day=_earliest_day(day) <= max(_LONGEST_MONTH[number - 1] for number in _months(month)),
    )


def _earliest_day(days: str) -> int:
    """Return the first day of a month that a list names; each month has a last one, as it has a first one."""
    firsts = [item.partition("-")[0] for item in days.split(",")]
    return min(int(first) if first.isdigit() else 1 for first in firsts)


def _months(months: str) -> set[int]:
    """Return the months that a list names."""
    found: set[int] = set()
    for item in months.split(","):
        span, _, step = item.partition("/")
        first, _, last = ("1", "-", "12") if span == "*" else span.partition("-")
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


class _Reading:
    """One field of a text while it is read.

    Args:
        text: The whole text, for messages.
        field: The field.
        column: Where it begins in the text, from 1.
    """

    def __init__(self, text: str, field: _Field, column: int) -> None:
        self.text = text
        self.field = field
        self.column = column

    def read(self, word: str) -> str:
        """Return the field as APScheduler reads it."""
        items: list[str] = []
        column = self.column
        for item in word.split(","):
            items.append(self._item(item, column))
            column += len(item) + 1
        if "*" in items:
            return "*"
        if self.field.name != "day of week":
            return ",".join(dict.fromkeys(items))
        # APScheduler counts weekdays from Monday; their names mean the same to everybody.
        days = {int(day) % 7 for item in items for day in item.split(",")}
        return ",".join(_WEEKDAYS[day] for day in sorted(days))

    def _item(self, item: str, column: int) -> str:
        field = self.field
        if item in ("*", "?"):
            return "*"
        if item.upper() == "L" and field.name == "day of month":
            return "last"
        span, slash, every = item.partition("/")
        step = self._number(every, column + len(span) + 1) if slash else 1
        if slash and not 1 <= step <= field.most:
            raise self._bad(f"the step {every!r:.20} is not from 1 to {field.most}", column + len(span) + 1)
        if span in ("*", "?"):
            if step == 1:
                return "*"
            if field.name == "day of week":
                return self._days(0, 6, step)
            # APScheduler refuses a step beyond the end, which names the first value alone.
            return f"*/{step}" if step <= field.most - field.least else str(field.least)
        first, dash, last = span.partition("-")
        least = self._value(first, column)
        most = self._value(last, column + len(first) + 1) if dash else (field.most if slash else least)
        if field.name == "day of week":
            if slash and not dash:
                most = max(least, 6)
            # Sunday ends a week as well as it begins one: fri-sun.
            if dash and most == 0 and least > 0:
                most = 7
        if most < least:
            raise self._bad(f"{span!r:.40} runs backwards: write two ranges, with a comma", column)
        if field.name == "day of week":
            return self._days(least, most, step)
        if step > most - least:
            return str(least)
        return f"{least}-{most}" if step == 1 else f"{least}-{most}/{step}"

    @staticmethod
    def _days(least: int, most: int, step: int) -> str:
        return ",".join(str(day) for day in range(least, most + 1, step))

    def _value(self, word: str, column: int) -> int:
        field = self.field
        name = word.lower()[:3] if len(word) >= 3 and word.isalpha() else word.lower()
        if name in field.names and word.lower() in _long_names(field):
            return field.names.index(name) + field.first_named
        value = self._number(word, column)
        if not field.least <= value <= field.most:
            raise self._bad(f"{word!r:.20} is not from {field.least} to {field.most}", column)
        return value

    def _number(self, word: str, column: int) -> int:
        if not (word.isascii() and word.isdigit() and len(word) <= 4):
            what = f"{word!r:.20} is no value" if word else "a value is missing"
            if word.isalpha() and self.field.names:
                what += f": its names are {', '.join(self.field.names)}"
            raise self._bad(what, column)
        return int(word)

    def _bad(self, what: str, column: int) -> InvalidOptionError:
        return InvalidOptionError(
            f"cron text {self.text!r:.100}, field {self.field.name}, column {column}: {what}", field="cron"
        )


_FULL_MONTHS: Final = "january february march april may june july august september october november december"
_FULL_WEEKDAYS: Final = "sunday monday tuesday wednesday thursday friday saturday"


def _long_names(field: _Field) -> set[str]:
    full = _FULL_MONTHS if field.names is _MONTHS else _FULL_WEEKDAYS
    return {*field.names, *full.split()}
