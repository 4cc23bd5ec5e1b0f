"""The log of a rate, against the definition: no window of the period holds more than the limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast_store.queues.rate_log import BUCKETS, RateLog

LIMITS = st.integers(1, 40)
PERIODS = st.integers(10_000, 3_000_000)
STEPS = st.lists(st.tuples(st.integers(0, 400_000), st.integers(1, 30)), max_size=60)


def _most_in_a_window(admissions: list[tuple[int, int]], per: int) -> int:
    """Return how many admissions the fullest window of a length holds, both of its ends included."""
    return max(
        (sum(count for other, count in admissions if at <= other <= at + per) for at, _ in admissions),
        default=0,
    )


@given(LIMITS, PERIODS, STEPS)
def test_no_window_holds_more_than_the_limit(limit: int, per: int, steps: list[tuple[int, int]]) -> None:
    log, now = RateLog(limit, per), 1_000_000
    admissions: list[tuple[int, int]] = []
    for wait, wanted in steps:
        now += wait
        # Each admission reads the log from its row again.
        log = RateLog.from_json(limit, per, log.to_json())
        count = min(wanted, log.room(now))
        log.add(now, count)
        if count:
            admissions.append((now, count))
        assert len(log.entries) <= BUCKETS + 2
    assert _most_in_a_window(admissions, per) <= limit


@given(LIMITS, PERIODS, st.integers(1, 30))
def test_a_backlog_uses_at_least_99_per_cent_of_the_budget(limit: int, per: int, most: int) -> None:
    log, begin = RateLog(limit, per), 5_000_000
    now, admitted, periods = begin, 0, 40
    while now < begin + periods * per:
        count = min(most, log.room(now))
        log.add(now, count)
        admitted += count
        if count == 0:
            following = log.next_at(now)
            assert following is not None
            assert following > now
            now = following
    # The first period's budget is there at once, so the others are what must be used.
    assert admitted >= 0.99 * limit * (periods - 1)


@given(LIMITS, PERIODS, STEPS)
def test_next_at_is_the_first_instant_with_room(limit: int, per: int, steps: list[tuple[int, int]]) -> None:
    log, now = RateLog(limit, per), 1_000_000
    for wait, wanted in steps:
        now += wait
        log.add(now, min(wanted, log.room(now)))
        following = log.next_at(now)
        if following is None:
            assert log.room(now) > 0
        else:
            again = RateLog(limit, per, log.entries)
            assert again.room(following - 1) == 0
            assert again.room(following) > 0


def test_a_lowered_limit_counts_what_was_admitted_before() -> None:
    log = RateLog(10, 1_000_000)
    log.add(0, 10)
    lowered = RateLog.from_json(3, 1_000_000, log.to_json())
    assert lowered.room(500_000) == 0
    assert lowered.next_at(500_000) == 1_005_000


def test_a_clock_that_is_set_back_costs_one_period() -> None:
    log = RateLog(2, 1_000_000)
    log.add(3_600_000_000, 2)
    assert log.room(0) == 0
    kept = RateLog.from_json(2, 1_000_000, log.to_json())
    assert kept.next_at(0) == 1_005_000
    assert kept.room(1_005_000) == 2


@pytest.mark.parametrize("text", ["{", "5", "null", '"ab"', '[["a", 1]]', "[[1]]", "[[1, 2, 3]]", "[1]"])
def test_a_log_that_cannot_be_read_counts_as_used_up_just_now(text: str) -> None:
    log = RateLog.from_json(2, 1_000_000, text)
    assert log.room(0) == 0
    assert log.brought_back
    following = log.next_at(0)
    assert following is not None
    assert following == 1_000_000 + log.bucket
    assert RateLog.from_json(2, 1_000_000, log.to_json()).room(following) == 2


def test_an_empty_log_is_no_text() -> None:
    log = RateLog(1, 1_000_000)
    assert log.to_json() is None
    log.add(0, 1)
    assert log.empty_at == 1_005_000
    assert log.room(1_005_000) == 1
    assert log.to_json() is None
