from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast_workflow.primitives.times import (
    from_datetime,
    from_iso,
    iso,
    microseconds,
    timedelta_microseconds,
    to_datetime,
)

HUNDRED_YEARS_US = 100 * 31_557_600 * 1_000_000
instants = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)  # the years 1 to 9999


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (1, "1970-01-01T00:00:00.000001+00:00"),
        (1_700_000_000_000_000, "2023-11-14T22:13:20+00:00"),
        (-1, "1969-12-31T23:59:59.999999+00:00"),
    ],
)
def test_an_instant_is_written_in_utc_with_microseconds_only_if_it_has_any(us, text):
    assert iso(us) == text


@given(instants)
def test_an_instant_survives_text_and_datetime(us):
    assert from_iso(iso(us)) == us
    assert from_datetime(to_datetime(us)) == us
    assert to_datetime(us).tzinfo is UTC


@given(st.integers(-6 * 10**16, 2 * 10**17), st.integers(-1439, 1439))
def test_the_offset_of_a_datetime_does_not_matter(us, minutes):
    elsewhere = to_datetime(us).astimezone(timezone(timedelta(minutes=minutes)))
    assert from_datetime(elsewhere) == us
    assert from_iso(elsewhere.isoformat()) == us


def test_a_naive_datetime_names_no_instant():
    with pytest.raises(ValueError, match="time zone"):
        from_datetime(datetime(2024, 1, 1))
    with pytest.raises(ValueError, match="time zone"):
        from_iso("2024-01-01T00:00:00")


@pytest.mark.parametrize(
    ("seconds", "us"),
    [
        (0.1, 100_000),
        (0.3, 300_000),
        (1.1, 1_100_000),
        (5, 5_000_000),
        (1e-9, 1),
        (0.000_000_1, 1),
        (1.000_000_1, 1_000_001),
        (4.35, 4_350_000),
        (10**10, 10**16),
    ],
)
def test_a_duration_is_rounded_up_but_not_because_of_float_noise(seconds, us):
    assert microseconds(seconds) == us


@given(st.integers(0, HUNDRED_YEARS_US))
def test_whole_microseconds_survive_being_a_float_of_seconds(us):
    assert microseconds(us / 1_000_000) == us


@given(st.floats(0, HUNDRED_YEARS_US / 1e6, allow_nan=False))
def test_a_duration_is_never_shorter_than_asked_and_less_than_a_microsecond_longer(seconds):
    asked = Fraction(repr(seconds)) * 1_000_000
    assert asked <= microseconds(seconds) < asked + 1


@given(st.timedeltas())
def test_a_timedelta_is_exact(duration):
    assert timedelta(microseconds=timedelta_microseconds(duration)) == duration
