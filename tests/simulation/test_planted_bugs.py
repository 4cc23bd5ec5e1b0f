"""The simulation sees: bugs that somebody might write are each caught within 200 seeds."""

from __future__ import annotations

import gc

import pytest
from tests.simulation.bugs import BUGS, planted
from tests.simulation.world import simulate

WITHIN = 200
SOON = (
    "deadline_moves_with_retries",
    "deleted_before_exported",
    "heartbeats_not_looked_at_again",
    "lease_not_looked_at_again",
    "lease_not_renewed",
    "no_deduplication",
    "parents_not_told",
    "reset_without_looking_again",
    "signals_after_the_end",
    "timers_fire_unseen",
    "unknown_taken_for_done",
    "unknown_taken_for_lost",
    "woken_for_nothing",
)
"""Those that show within a few seeds; the others have the night."""

pytestmark = pytest.mark.filterwarnings("ignore")


def first_caught(name: str) -> tuple[int, list[str]]:
    """The first seed that shows a bug, and what it says."""
    with planted(name):
        for seed in range(WITHIN):
            found = simulate(seed).violations
            if seed % 20 == 19:
                gc.collect()
            if found:
                return seed, found
    pytest.fail(f"{name} was not caught within {WITHIN} seeds")


@pytest.mark.parametrize("name", SOON)
def test_a_planted_bug_is_caught(name: str) -> None:
    seed, found = first_caught(name)
    print(f"{name}: seed {seed}: {found[0]}")


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(BUGS.keys() - set(SOON)))
def test_every_other_planted_bug_is_caught_too(name: str) -> None:
    seed, found = first_caught(name)
    print(f"{name}: seed {seed}: {found[0]}")
