"""The simulation sees: bugs that somebody might write are each caught within 200 seeds."""

from __future__ import annotations

import gc

import pytest
from tests.simulation.bugs import BUGS, planted
from tests.simulation.world import simulate

WITHIN = 200

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


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_planted_bug_is_caught(name: str) -> None:
    seed, found = first_caught(name)
    print(f"{name}: seed {seed}: {found[0]}")
