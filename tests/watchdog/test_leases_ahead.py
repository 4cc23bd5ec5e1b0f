"""Leases that end further ahead than they last: which of them are over."""

from __future__ import annotations

from outlast_watchdog.leases_ahead import LeasesAhead
from outlast_watchdog.scans import LeaseAhead

THIRTY_S = 30_000_000


def lease(worker_id: str, expires_at: int = 1000, duration: int = THIRTY_S) -> LeaseAhead:
    return LeaseAhead(worker_id, expires_at, duration)


def test_one_is_over_when_it_was_observed_for_half_its_duration() -> None:
    ahead = LeasesAhead()
    assert ahead.not_renewed([lease("a")], 100.0) == []
    assert ahead.not_renewed([lease("a")], 114.9) == []
    assert ahead.not_renewed([lease("a"), lease("new")], 115.0) == [lease("a")]


def test_each_renewal_begins_anew_even_one_that_moves_the_end_back() -> None:
    ahead = LeasesAhead()
    ahead.not_renewed([lease("a", 1000)], 100.0)
    assert ahead.not_renewed([lease("a", 900)], 114.0) == []
    assert ahead.not_renewed([lease("a", 900)], 128.0) == []
    assert ahead.not_renewed([lease("a", 900)], 129.0) == [lease("a", 900)]


def test_each_lease_has_its_own_duration() -> None:
    ahead = LeasesAhead()
    short, long = lease("short", duration=2_000_000), lease("long", duration=200_000_000)
    ahead.not_renewed([short, long], 100.0)
    assert ahead.not_renewed([short, long], 101.0) == [short]
    assert ahead.not_renewed([short, long], 200.0) == [short, long]


def test_what_is_not_seen_or_forgotten_is_observed_anew() -> None:
    ahead = LeasesAhead()
    ahead.not_renewed([lease("a")], 100.0)
    ahead.not_renewed([], 110.0)
    assert ahead.not_renewed([lease("a")], 120.0) == []
    ahead.forget()
    assert ahead.not_renewed([lease("a")], 140.0) == []
