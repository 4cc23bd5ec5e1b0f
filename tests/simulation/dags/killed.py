"""DAGs whose worker is killed at every commit: whatever was under way, they end as the oracle says.

There is one process, which is there again soon after it has died. How it dies the seed decides: after each commit that
writes history, around commits, or at any callback and statement. Each process serves another version of the DAG; the
run goes on by the one that it began with. ``python -m tests.simulation.dags.killed --seeds 5000``.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Iterable
from time import perf_counter
from typing import Any
from unittest.mock import patch

from tests.simulation.dags.drawn import draw_dag, expected, is_certain
from tests.simulation.dags.stories import Dags
from tests.simulation.faults import Rates
from tests.simulation.process import Process, Role
from tests.simulation.world import CALM_S, Outcome, World, simulate

from outlast import StructuralLimits
from outlast.testing.invariants import activities
from outlast_activities import attempts
from outlast_dag.description.fold import DagFold
from outlast_store.reads.histories import read_history
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import NonDeterminismError

HOW = ("each", "each", "some", "around", "yields")
LATEST_S = 20 * CALM_S
MOST_KILLS = 400
"""A seed is calm after so many: a process that dies too soon to get anywhere proves nothing."""
MANY = 1_000_000


class KilledWorld(World):
    """See the module."""

    def __init__(self, seed: int, shared: Any) -> None:
        super().__init__(seed, shared)
        rng = random.Random(f"killed dags of {seed}")
        self.how = rng.choice(HOW)
        self.rates = Rates(
            crash=rng.choice((0.01, 0.003, 0.001)) if self.how == "yields" else 0.0,
            crash_at_commit=0.4 if self.how == "around" else 0.0,
        )
        self.limits = StructuralLimits(owner_losses=MANY)
        self.hop_s, self.skew_us, self.poll_s = 0.0, 0, 1.0
        self.dags = Dags(seed, [draw_dag(rng, f"dag-{seed}", patient=True)])
        self.kills = 0
        self.rng = rng

    def wrote(self, process: Process, what: str, events: Iterable[tuple[str, str]]) -> None:
        """Kill who has written history."""
        told = list(events)
        super().wrote(process, what, told)
        kills = self.how == "each" or (self.how == "some" and self.rng.random() < 0.3)
        if told and kills and not self.calm:
            self.counts["kill"] += 1
            process.crash("after it has written history")

    def gone(self, process: Process) -> None:
        """Begin again, soon."""
        self.processes.remove(process)
        self.loop.graveyard.append(process)
        self.kills += 1
        self.calm = self.calm or self.kills >= MOST_KILLS
        later = self.rng.choice((0.0, 0.1, 1.5))
        self.loop.call_later(later, self._come_back, process.role, context=self.loop.world.context.copy())

    def spawn(self, role: Role) -> Process:
        process = super().spawn(role)
        if self.calm:
            process.calm()
        return process

    async def run(self) -> None:
        """Let them die until the DAGs have ended."""
        self.spawn(
            Role(
                "worker",
                worker=True,
                watchdog=True,
                queues=("main",),
                cached=self.rng.choice((0, 1000)),
                lease=1.0,
                interval=0.5,
                scripts=[self.dags.run],
            )
        )
        began_at = self.loop.time()
        while not self._all_over():
            if self.loop.time() - began_at > LATEST_S:
                self.violations.append(f"after {LATEST_S:g} s not everything has ended")
                break
            await asyncio.sleep(0.25)
        self.calm = True
        self.look()
        self.violations += self.dags.check(self.shared.plain)
        self.violations += self._compared()

    def _all_over(self) -> bool:
        text = "SELECT COUNT(*), COUNT(closed_at) FROM workflow_runs"
        runs, closed = self.shared.real.execute(text).fetchone()
        return bool(runs) and runs == closed

    def _compared(self) -> list[str]:
        """What the run that nothing disturbs would have had."""
        (dag,) = self.dags.dags
        text = "SELECT run_id, status FROM workflow_runs WHERE workflow_type = ?"
        found = self.shared.real.execute(text, (dag.spec.name,)).fetchall()
        if len(found) != 1:
            return [f"there are {len(found)} runs of the DAG"]
        ((run_id, status),) = found
        fold = DagFold(run_id, dag.spec.name, DataConverter())
        try:
            fold.feed(read_history(self.shared.plain, run_id))
        except NonDeterminismError as error:
            return [f"the history of run {run_id} cannot be followed: {error}"]
        spec, states = fold.spec, dict(fold.states)
        fold.close()
        if spec is None:
            return [f"run {run_id} is {status}, and has not begun"]
        oracle = expected(dag, spec)
        assert oracle.verdict is not None
        if status != oracle.verdict[0]:
            return [f"the DAG is {status}, and undisturbed it is {oracle.verdict[0]}"]
        if not is_certain(spec):
            return []
        self.counts["certain"] += 1
        wanted = {
            name: "skipped" if how == "waiting" and name in oracle.owners else how
            for name, how in oracle.state.items()
        }
        return [
            f"node {name} is {states[name]}, and undisturbed it is {how}"
            for name, how in wanted.items()
            if states[name] != how
        ]


def run_seed(seed: int) -> Outcome:
    """Run a seed."""
    # Each death is one too many for what runs meanwhile, and here nothing else happens.
    with patch.object(attempts, "MOST_RESCUES", MANY), patch.object(activities, "MOST_RESCUES", MANY):
        return simulate(seed, KilledWorld)


def main() -> int:
    """Run seeds, and print those that are wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.dags.killed", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--trace", action="store_true", help="print the trace of those that are wrong")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong, began = 0, perf_counter()
    for number, seed in enumerate(range(given.first, given.first + given.seeds), 1):
        outcome = run_seed(seed)
        counts += outcome.faults
        counts["events"] += outcome.events
        if outcome.violations:
            wrong += 1
            lines = outcome.trace if given.trace else []
            print("\n    ".join([f"seed {seed} is wrong", *lines, *outcome.violations[:5]]), flush=True)
        if number % 500 == 0 or number == given.seeds:
            print(
                f"{number} seeds in {perf_counter() - began:.0f} s, {wrong} wrong: {dict(counts)}", flush=True
            )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
