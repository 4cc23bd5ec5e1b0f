"""Intervals, instants, and the calendar of a schedule."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import given
from hypothesis import strategies as st

from outlast_schedules.specs.calendar import Calendar, spec_from
from outlast_schedules.specs.cron import Cron
from outlast_schedules.specs.spec import At, Every, Spec
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.times import from_datetime, from_iso, iso, to_datetime

WRONG: Any = "@daily"
JUNE = from_iso("2026-06-01T00:00:00Z")


def slots(calendar: Calendar, number: int, after: int = JUNE) -> list[str]:
    return [iso(slot)[5:19] for slot in islice(calendar.slots(after), number)]


def test_an_interval_counts_from_the_epoch() -> None:
    assert slots(Calendar(Every(3600, offset=60)), 2) == ["06-01T00:01:00", "06-01T01:01:00"]
    assert Every(timedelta(minutes=5)) == Every(300)


@given(st.integers(0, 2**52), st.integers(1, 10**6), st.floats(0, 0.99))
def test_an_interval_fires_at_multiples_only(at: int, period: int, part: float) -> None:
    offset = int(period * part)
    fire = Every(period, offset=offset).first_from(at)
    assert fire is not None
    assert at <= fire < at + period * 1_000_000
    assert fire % (period * 1_000_000) == offset * 1_000_000


def test_instants_fire_once_each_in_order() -> None:
    first, second = datetime(2026, 6, 2, tzinfo=UTC), datetime(2026, 6, 3, tzinfo=UTC)
    assert slots(Calendar(At(second, first, first)), 5) == ["06-02T00:00:00", "06-03T00:00:00"]


def test_several_specs_add_their_slots() -> None:
    calendar = Calendar([Cron("0 0 * * *"), Cron("0 */12 * * *"), At(datetime(2026, 6, 1, 13, tzinfo=UTC))])
    assert slots(calendar, 3) == ["06-01T12:00:00", "06-01T13:00:00", "06-02T00:00:00"]


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        ("* * 2 6 *", ["06-01T22:00:00", "06-01T23:00:00", "06-03T00:00:00"]),
        ("* 22-23 * * *", ["06-01T21:00:00", "06-02T00:00:00", "06-02T01:00:00"]),
        ("0 23 * * *", ["06-01T22:00:00", "06-02T00:00:00", "06-02T01:00:00"]),
        ("30 0 23 * * *", ["06-01T22:00:00", "06-01T23:00:00", "06-02T00:00:00"]),
    ],
)
def test_an_exclusion_covers_what_its_fields_name(exclude: str, left: list[str]) -> None:
    calendar = Calendar(Cron("@hourly"), exclude=Cron(exclude))
    assert slots(calendar, 3, from_iso(f"2026-{left[0]}Z") - 1) == left


def test_a_day_of_seconds_is_excluded_at_once() -> None:
    calendar = Calendar(Cron("* * * * * *"), exclude=[Cron("* * * * 1-6")])
    assert slots(calendar, 2) == ["06-07T00:00:00", "06-07T00:00:01"]


def test_a_calendar_that_excludes_everything_has_no_slot() -> None:
    assert Calendar(Cron("@daily"), exclude=Cron("* * * * *")).slot_after(JUNE) is None
    assert Calendar(Cron("0 0 30 2 *")).slot_after(JUNE) is None


def test_a_text_that_names_no_day_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CronTrigger, "get_next_fire_time", None)
    assert slots(Calendar([Cron("0 0 30 2 *"), Every(86_400)]), 1) == ["06-02T00:00:00"]


def test_a_search_that_passes_over_too_much_says_where_to_go_on() -> None:
    calendar = Calendar(Cron("0-30 * * * * *"), exclude=Cron("0-30 * 9-17 * * *"))
    nine = from_iso("2026-06-01T09:00:00Z")
    # 500 slots, 31 of each minute
    assert calendar.search(nine - 1) == (None, from_iso("2026-06-01T09:16:04Z"))
    assert slots(calendar, 1, nine - 1) == ["06-01T18:00:00"]


def test_the_first_slots_are_looked_for_only_so_far() -> None:
    calendar = Calendar(Cron("0-30 * * * * *"), exclude=Cron("0-30 * 9-17 * * *"))
    before = from_iso("2026-06-01T08:59:00Z")
    found, on_from = calendar.first_slots(before - 1, 1_000)
    assert found == list(islice(calendar.slots(before - 1), 31))
    # 2,500 slots, 31 of each minute
    assert on_from == from_iso("2026-06-01T10:19:20Z")
    assert calendar.first_slots(before - 1, 31) == (found, None)
    assert Calendar(At(to_datetime(before))).first_slots(before - 1, 5) == ([before], None)


def test_nothing_fires_after_the_year_9999() -> None:
    end = datetime.max.replace(tzinfo=UTC)
    assert len(list(Calendar(Every(timedelta(days=36_000))).slots(JUNE))) < 100
    calendar = Calendar(At(end), exclude=Cron("* * * * *", "Asia/Tokyo"), jitter=100_000)
    assert calendar.fire_at("s", from_datetime(end)) == from_datetime(end) == calendar.slot_after(JUNE)


def test_slots_lie_between_start_and_end() -> None:
    start, end = datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 7, 2, tzinfo=UTC)
    calendar = Calendar(Cron("@daily"), start_at=start, end_at=end)
    assert slots(calendar, 5) == ["07-01T00:00:00", "07-02T00:00:00"]


@given(st.integers(1, 7200), st.integers(0, 200))
def test_jitter_is_the_same_everywhere_and_keeps_the_order(jitter: int, number: int) -> None:
    calendar = Calendar(Every(60), jitter=jitter)
    slot = JUNE + number * 60_000_000
    fire = calendar.fire_at("a", slot)
    assert fire == Calendar(Every(60), jitter=jitter).fire_at("a", slot)
    assert slot <= fire < slot + min(jitter, 60) * 1_000_000
    assert fire < calendar.fire_at("a", slot + 60_000_000)


def test_schedules_with_the_same_slots_spread() -> None:
    calendar = Calendar(Every(3600), jitter=600)
    assert len({calendar.fire_at(f"s-{number}", JUNE) for number in range(50)}) > 45


@pytest.mark.parametrize(
    "calendar",
    [
        Calendar(Cron("30 2 * * 1-5", time_zone="Europe/Zurich")),
        Calendar(
            [Every(90.5, offset=1), At(datetime(2026, 1, 1, 0, 0, 0, 7, tzinfo=UTC))], exclude=Cron("@hourly")
        ),
        Calendar(
            Cron("@daily"),
            start_at=datetime(2026, 1, 1, tzinfo=UTC),
            end_at=datetime(2027, 1, 1, tzinfo=UTC),
            jitter=60,
        ),
    ],
)
def test_a_calendar_comes_back_from_its_json(calendar: Calendar) -> None:
    assert Calendar.from_json(calendar.to_json()) == calendar
    assert pickle.loads(pickle.dumps(calendar)) == calendar
    assert hash(calendar) == hash(Calendar.from_json(calendar.to_json()))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (Every(21_600), "every 6 h"),
        (Every(21_600, 600), "every 6 h, 10 min later"),
        (Every(21_600, 12_513.961), "every 6 h from 03:28:33 UTC"),
        (Every(25_200, 12_513.961), "every 7 h, 3 h 28 min 34 s later"),
        (Every(90, 1.5), "every 90 s, 1.5 s later"),
    ],
)
def test_an_interval_reads_well(spec: Every, words: str) -> None:
    assert str(spec) == words


def test_a_calendar_of_a_later_version_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="a form that this version does not read"):
        Calendar.from_json('{"version": 2, "specs": []}')


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        "x",
        {"cron": "@daily", "zone": "UTC"},
        {"cron": "@daily", "time_zone": []},
        {"at": "now"},
        {"at": ["now"]},
        {"at": ["0001-01-01T00:00:00+14:00"]},
    ],
)
def test_what_is_no_spec_is_refused(document: Any) -> None:
    with pytest.raises(InvalidOptionError):
        spec_from(document)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Every(0.5),
        lambda: Every(True),
        lambda: Every(60, offset=60),
        lambda: At(),
        lambda: At(datetime(2026, 1, 1)),
        lambda: At(WRONG),
        lambda: Calendar([]),
        lambda: Calendar(WRONG),
        lambda: Calendar([Cron("@daily")] * 101),
        lambda: Calendar(Spec()),
        lambda: Calendar(Cron("@daily"), start_at=datetime(2026, 1, 1)),
        lambda: Calendar(Every(60), jitter=-1),
        lambda: Calendar(
            Every(60), start_at=datetime(2026, 1, 2, tzinfo=UTC), end_at=datetime(2026, 1, 1, tzinfo=UTC)
        ),
    ],
)
def test_what_cannot_be_used_is_refused(make: Any) -> None:
    with pytest.raises(InvalidOptionError):
        make()
