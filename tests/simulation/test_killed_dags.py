"""DAGs end as they would have, although their worker is killed at every commit.

``python -m tests.simulation.dags.killed --seeds 5000`` is the long run; it prints how far it is.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from tests.simulation.bugs import dags
from tests.simulation.bugs.planting import Plant
from tests.simulation.dags.killed import run_seed

SEEDS, SEEDS_AT_NIGHT = 120, 5_000
WITHIN = 60


def test_a_dag_outlives_its_worker() -> None:
    certain = 0
    for seed in range(SEEDS):
        outcome = run_seed(seed)
        assert not outcome.violations, (seed, outcome.violations)
        certain += outcome.faults["certain"]
    # Of those that could end in one way only, every node was compared.
    assert certain > SEEDS / 4


@pytest.mark.nightly
def test_five_thousand_dags_outlive_their_workers() -> None:
    for seed in range(SEEDS, SEEDS_AT_NIGHT):
        outcome = run_seed(seed)
        assert not outcome.violations, (seed, outcome.violations)


@pytest.mark.parametrize(
    "plant",
    [dags.dags_walk_a_set, dags.dags_follow_the_code, dags.dags_do_not_wait_for_what_they_stop],
)
@pytest.mark.filterwarnings("ignore")
def test_a_planted_bug_is_seen(plant: Plant) -> None:
    with ExitStack() as stack:
        plant(stack)
        assert any(run_seed(seed).violations for seed in range(WITHIN))
