"""What a worker with nothing to do takes, and how soon it takes over what another process gives it."""

from __future__ import annotations

from benchmarks import handover
from benchmarks.harness.databases import Backend, Databases
from benchmarks.harness.figures import Figure
from benchmarks.harness.measuring import percentile
from benchmarks.harness.processes import measured

MOST_OF_A_CORE = 1.0
MOST_RESIDENT_MIB = 60.0
MOST_HAND_OVER_MS = 30.0


def measure(databases: Databases, backend: Backend, seconds: float, count: int) -> list[Figure]:
    """Measure a program with a worker, then hand-overs to a worker in a process of its own.

    Args:
        databases: Where to.
        backend: The kind of database.
        seconds: How long the worker has nothing to do.
        count: How many workflows another process starts.
    """
    with databases.fresh(backend) as url:
        # The first process makes the tables, which takes Alembic.
        measured("benchmarks.loads.idle_worker", url, 0)
        found = measured("benchmarks.loads.idle_worker", url, seconds)
    with databases.fresh(backend) as url:
        there, back = handover.measure(url, count)
    share = found["share"] * 100
    until = {"CPU ms until it works": found["working_ms"]}
    returned = {"p99 ms": percentile(there, 0.99), "there and back p50 ms": percentile(back, 0.5)}
    took = percentile(there, 0.5)
    words = "a workflow is handed over to an idle worker in another process, p50"
    return [
        Figure("o", backend, "an idle worker's share of a core", share, "%", MOST_OF_A_CORE),
        Figure("o", backend, "its memory", found["resident_mib"], "MiB", MOST_RESIDENT_MIB, details=until),
        Figure("o", backend, words, took, "ms", MOST_HAND_OVER_MS, details=returned),
    ]
