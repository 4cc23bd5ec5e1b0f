"""Cron texts: what they say, and when they fire where clocks are put forward and back."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast_schedules.specs.cron import Cron
from outlast_schedules.specs.cron_text import NAMED, read_cron
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.times import from_datetime, from_iso, to_datetime

# Each window holds a change of the clock: New York and London by an hour, Lord Howe by half of one, Apia by a day.
WINDOWS = {
    "America/New_York": ["2026-03-07T12:00Z", "2026-10-31T12:00Z"],
    "Europe/London": ["2026-03-28T12:00Z", "2026-10-24T12:00Z"],
    "Australia/Lord_Howe": ["2026-04-04T00:00Z", "2026-10-03T00:00Z"],
    "Pacific/Apia": ["2011-12-29T00:00Z", "2011-04-01T00:00Z"],
    "UTC": ["2026-02-27T00:00Z", "2026-12-30T12:00Z"],
}
WINDOW = timedelta(days=3)

TEXTS = [
    "* * * * *",
    "*/5 * * * *",
    "*/7 * * * *",
    "7 * * * *",
    "0,15,45 * * * *",
    "10-50/20 * * * *",
    "0 */2 * * *",
    "30 */3 * * *",
    "30 1 * * *",
    "59 1 * * *",
    "0 2 * * *",
    "15 2 * * *",
    "30 2 * * *",
    "45 2 * * *",
    "15,40 2 * * *",
    "30 2,3 * * *",
    "0,30 1-3 * * *",
    "*/10 2 * * *",
    "* 2 * * *",
    "*/15 1-2 * * *",
    "0 3 * * *",
    "0 0 * * *",
    "0 12 * * *",
    "30 0,23 * * *",
    "@hourly",
    "@daily",
    "@weekly",
    "@monthly",
    "@yearly",
    "0 9 * * 1-5",
    "30 1 * * sun",
    "30 1 * * 7",
    "30 2 * * 0",
    "0 0 1 * *",
    "0 0 L * *",
    "15 1 29 * 1",
    "0 0 1,29 * mon",
    "30 2 */2 * *",
    "0 6 * mar,oct sat-sun",
    "20 1 * dec fri",
]


def named(field: str, least: int, most: int, names: str = "") -> set[int]:
    """The values of a field, by other code than the product's."""
    values: set[int] = set()
    words = names.split()
    for item in field.split(","):
        span, _, step = item.partition("/")
        if span == "*":
            first, last = least, most
        else:
            ends = [words.index(end) if end in words else int(end) for end in span.split("-")]
            first, last = ends[0], ends[-1] if len(ends) > 1 or not step else most
            if last < first:
                last += 7
        values.update(range(first, last + 1, int(step or 1)))
    return values


def oracle(text: str, zone_name: str, begin: datetime, end: datetime) -> list[datetime]:
    """The fires of a text, found by looking at each minute of the wall clock."""
    zone = ZoneInfo(zone_name)
    minute, hour, day, month, weekday = NAMED.get(text, text).split()
    minutes, hours = named(minute, 0, 59), named(hour, 0, 23)
    months = named(month, 1, 12, "- jan feb mar apr may jun jul aug sep oct nov dec")
    weekdays = {value % 7 for value in named(weekday, 0, 6, "sun mon tue wed thu fri sat")}
    days_of_month = None if day == "L" else named(day, 1, 31)
    fires: set[datetime] = set()
    midnight = datetime.combine(begin.date() - timedelta(days=2), time())
    while midnight.date() < end.date() + timedelta(days=2):
        today, midnight = midnight, midnight + timedelta(days=1)
        by_day = midnight.day == 1 if days_of_month is None else today.day in days_of_month
        by_weekday = today.isoweekday() % 7 in weekdays
        both = not day.startswith("*") and not weekday.startswith("*")
        if today.month not in months or not (by_day or by_weekday if both else by_day and by_weekday):
            continue
        for wall in [today.replace(hour=one, minute=other) for one in hours for other in minutes]:
            first = wall.replace(tzinfo=zone).astimezone(UTC)
            fires.add(first)
            if hour.startswith("*") and first.astimezone(zone).replace(tzinfo=None) == wall:
                fires.add(wall.replace(tzinfo=zone, fold=1).astimezone(UTC))
    return sorted(fire for fire in fires if begin <= fire < end)


def fires_of(cron: Cron, begin: datetime, end: datetime) -> list[datetime]:
    found = []
    at = from_datetime(begin)
    while (fire := cron.first_from(at)) is not None and fire < from_datetime(end):
        found.append(to_datetime(fire))
        at = fire + 1
    return found


@pytest.mark.parametrize("zone", WINDOWS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_fires_as_looking_at_each_minute_says(text: str, zone: str) -> None:
    for begin in WINDOWS[zone]:
        first = datetime.fromisoformat(begin)
        assert fires_of(Cron(text, zone), first, first + WINDOW) == oracle(text, zone, first, first + WINDOW)


@pytest.mark.parametrize(
    ("text", "zone", "begin", "expected"),
    [
        # The clock jumps from 02:00 to 03:00: once, an hour later.
        ("30 2 * * *", "America/New_York", "2026-03-08T00:00-05:00", "08 03:30-0400, 09 02:30-0400"),
        # Two wall times that come to one instant.
        ("30 2,3 * * *", "America/New_York", "2026-03-08T00:00-05:00", "08 03:30-0400, 09 02:30-0400"),
        # 01:30 comes twice, and counts the first time.
        ("30 1 * * *", "Europe/London", "2026-10-25T00:00+01:00", "25 01:30+0100, 26 01:30+0000"),
        # An interval in disguise goes on.
        ("30 * * * *", "Europe/London", "2026-10-25T01:00+01:00", "25 01:30+0100, 25 01:30+0000"),
        # Half an hour: 02:15 is shifted behind 02:40.
        ("15,40 2 * * *", "Australia/Lord_Howe", "2026-10-04T00:00+10:30", "04 02:40+1100, 04 02:45+1100"),
        # A day that was skipped: its noon falls on the noon of the next.
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00-10:00", "29 12:00-1000, 31 12:00+1400"),
    ],
)
def test_clocks_put_forward_and_back(text: str, zone: str, begin: str, expected: str) -> None:
    cron, at, found = Cron(text, zone), from_iso(begin), []
    for _ in expected.split(", "):
        fire = cron.first_from(at)
        assert fire is not None
        found.append(f"{to_datetime(fire).astimezone(ZoneInfo(zone)):%d %H:%M%z}")
        at = fire + 1
    assert ", ".join(found) == expected


@settings(max_examples=60)
@given(
    text=st.sampled_from([*TEXTS, "*/7 */13 */2 * * *", "30 0 0 29 2 *"]),
    zone=st.sampled_from(sorted(WINDOWS)),
    begin=st.integers(from_iso("2026-01-01T00:00Z"), from_iso("2026-12-01T00:00Z")),
    parts=st.tuples(st.integers(0, 40 * 3600), st.integers(0, 40 * 3600)),
)
def test_fires_do_not_depend_on_where_one_begins_to_look(
    text: str, zone: str, begin: int, parts: tuple[int, int]
) -> None:
    cron = Cron(text, zone)
    first = to_datetime(begin)
    middle, last = first + timedelta(seconds=parts[0]), first + timedelta(seconds=sum(parts))
    if text.startswith("*/7 */13"):
        last = min(last, middle + timedelta(hours=3))
        first = max(first, middle - timedelta(hours=3))
    whole = fires_of(cron, first, last)
    assert whole == fires_of(cron, first, middle) + fires_of(cron, middle, last)
    assert whole == sorted(set(whole))


def test_seconds_come_first_where_there_are_six_fields() -> None:
    cron = Cron("*/20 0 9 * * *")
    assert [f"{fire:%H:%M:%S}" for fire in fires_of(cron, day(1), day(2))] == [
        "09:00:00",
        "09:00:20",
        "09:00:40",
    ]


def day(number: int) -> datetime:
    return datetime(2026, 6, number, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("61 * * * *", "field minute, column 1: '61' is not from 0 to 59"),
        ("0 1 * * mon,tuf", "field day of week, column 13: 'tuf' is no value: its names are sun, mon, tue"),
        ("0 22-2 * * *", "field hour, column 3: '22-2' runs backwards: write two ranges, with a comma"),
        ("0 0 * * fri-mon", "field day of week, column 9: 'fri-mon' runs backwards"),
        ("*/0 * * * *", "field minute, column 3: the step '0' is not from 1 to 59"),
        ("0 0 1, * *", "field day of month, column 7: a value is missing"),
        ("0 0 * 13 *", "field month, column 7: '13' is not from 1 to 12"),
        ("* * * *", "has 4 fields: it must have 5"),
        ("@reboot", "its name must be one of @yearly"),
        ("0 0 l-3 * *", "field day of month, column 5: 'l' is no value"),
        ("0," * 500 + "0 0 * * *", "must have at most 1,000 characters, not 1,009: give several specs"),
    ],
)
def test_a_text_that_cannot_be_read_names_the_field_and_the_column(text: str, message: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        Cron(text)
    assert message in str(caught.value)
    assert caught.value.field == "cron"


def test_a_zone_that_is_not_known_is_refused() -> None:
    zones: list[Any] = ["Europe/Zuerich", "", "../etc/passwd", None, "\x00", [], {}]
    for zone in zones:
        with pytest.raises(InvalidOptionError, match="give the name of an IANA zone"):
            Cron("@daily", zone)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0 0 * * 0", "0 0 * * 7"),
        ("0 0 * * sun", "0 0 * * SUNDAY"),
        ("0 0 * * fri-sun", "0 0 * * 5-7"),
        ("0 0 * * 2/2", "0 0 * * 2,4,6"),
        ("0 0 ? * ?", "@daily"),
        ("*/1 * * * *", "* * * * *"),
        ("10/20 * * * *", "10-59/20 * * * *"),
        ("50/30 * * * *", "50 * * * *"),
        ("1-5/10 * * * *", "1 * * * *"),
        ("0 20/10 * * *", "0 20 * * *"),
        ("0 0 */31 * *", "0 0 1 * *"),
        ("0 0 5 */12 *", "0 0 5 1 *"),
        ("0 0 30 2 mon", "0 0 * 2 mon"),
    ],
)
def test_two_ways_to_write_the_same(text: str, same: str) -> None:
    assert fires_of(Cron(text), day(1), day(15)) == fires_of(Cron(same), day(1), day(15))


def test_weekdays_count_from_sunday() -> None:
    assert read_cron("0 0 * * 1").day_of_week == "mon"
    assert [fire.isoweekday() for fire in fires_of(Cron("0 0 * * 0"), day(1), day(15))] == [7, 7]


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 4,6,9,11 *"])
def test_a_text_that_names_no_day_never_fires(text: str) -> None:
    assert Cron(text).first_from(from_iso("2026-01-01T00:00Z")) is None
