"""Many processes in one thread, everything that can go wrong, and nothing acknowledged is lost.

``make test`` runs the first seeds, and each that has shown a planted bug; ``python -m tests.simulation --seeds 100000
--processes 2`` is the long run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.simulation.running import run_many
from tests.simulation.test_planted_bugs import SEEN_BY

SEEDS = sorted({*range(200), *SEEN_BY.values()})
PROCESSES = min(os.cpu_count() or 1, 4)
ROOT = Path(__file__).parents[2]


def test_nothing_acknowledged_is_lost_and_everything_ends() -> None:
    total = run_many(SEEDS, processes=PROCESSES)
    assert not total.wrong, "\n".join(total.wrong)
    assert total.ran == len(SEEDS)
    print(total)


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
