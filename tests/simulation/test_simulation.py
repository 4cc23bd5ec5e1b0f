"""Many processes in one thread, everything that can go wrong, and nothing acknowledged is lost.

``make test`` runs as many seeds as fit a minute; ``python -m tests.simulation --seeds 100000`` runs the long one.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.simulation.__main__ import report
from tests.simulation.world import simulate

BUDGET_S = 60.0
MOST_SEEDS = 2000
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore")  # what crashes leaves coroutines behind that nobody awaits
def test_nothing_acknowledged_is_lost_and_everything_ends() -> None:
    until = time.monotonic() + BUDGET_S
    ran = 0
    for seed in range(MOST_SEEDS):
        outcome = simulate(seed)
        assert not outcome.violations, report(outcome)
        ran += 1
        if seed % 20 == 0:
            gc.collect()
        if time.monotonic() > until:
            break
    print(f"{ran} seeds")


def test_a_seed_gives_the_same_trace_whatever_the_hash_seed() -> None:
    program = (
        "from tests.simulation.world import simulate; print([simulate(seed).digest for seed in range(12)])"
    )
    traces = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(traces) == 1
    assert len(traces.pop()) > 100
