"""The simulation sees: bugs that somebody might write are each caught within 320 seeds."""

from __future__ import annotations

import gc

import pytest
from tests.simulation.bugs import BUGS, WITHIN, planted
from tests.simulation.world import simulate

SEEN_BY = {
    "answers_to_earlier_attempts_count": 21,
    "cascade_in_memory": 14,
    "delays_never_end": 8,
    "early_answers_are_lost": 8,
    "ends_without_looking": 300,
    "failures_after_cancel_are_forgotten": 10,
    "failures_from_outside_after_the_end_are_forgotten": 95,
    "heartbeats_count_from_their_write": 8,
    "heartbeats_not_looked_at_again": 41,
    "late_answers_count": 204,
    "late_results_count": 46,
    "locals_go_to_anyone": 19,
    "no_fence": 20,
    "parents_not_told": 8,
    "partitions_not_counted": 58,
    "queued_runs_are_woken": 8,
    "rescue_without_looking_again": 44,
    "reset_leaves_signals": 51,
    "reset_without_looking_again": 53,
    "retried_after_cancel": 10,
    "retries_forget_the_failure": 9,
    "run_timeouts_count_from_the_start": 11,
    "signals_left_behind": 46,
    "slots_counted_too_early": 8,
    "stale_results_count": 110,
    "taken_over_without_room": 10,
    "unknown_taken_for_lost": 66,
    "woken_for_nothing": 10,
}
"""A seed that has shown a bug: the search begins there. It may be out of date; then all the others are tried."""

pytestmark = pytest.mark.filterwarnings("ignore")


def caught_by(name: str) -> tuple[int, list[str]]:
    """A seed that shows a bug, and what it says."""
    with planted(name):
        for count, seed in enumerate(dict.fromkeys([SEEN_BY.get(name, 0), *range(WITHIN)])):
            found = simulate(seed).violations
            if count % 20 == 19:
                gc.collect()
            if found:
                return seed, found
    pytest.fail(f"{name} was not caught within {WITHIN} seeds")


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_planted_bug_is_caught(name: str) -> None:
    seed, found = caught_by(name)
    print(f"{name}: seed {seed}: {found[0]}")
