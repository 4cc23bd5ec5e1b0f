"""Running seeds: many of them, by one process or by several, with a sum of what became of them."""

from __future__ import annotations

import gc
import signal
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context
from types import FrameType

from tests.simulation.world import TAIL, Outcome, simulate

TOLD = 5
"""So many violations of a seed are printed."""


def reproduce(seed: int) -> str:
    """The command that runs a seed again."""
    return f"python -m tests.simulation --seed {seed}"


def report(outcome: Outcome) -> str:
    """What is wrong with a seed, how to see it again, and the end of its trace."""
    tail = outcome.trace[-TAIL:]
    return "\n".join(
        [f"seed {outcome.seed} is wrong: {reproduce(outcome.seed)}", *outcome.violations, "", "…", *tail]
    )


@dataclass
class Sum:
    """What became of many seeds."""

    ran: int = 0
    last: int = -1
    events: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Of each seed that is wrong: how to run it again, and what is."""

    def add(self, other: Sum) -> None:
        """Add what another process has run meanwhile."""
        self.ran += other.ran
        self.last = max(self.last, other.last)
        self.events += other.events
        self.seconds = max(self.seconds, other.seconds)
        self.faults += other.faults
        self.wrong += other.wrong

    def __str__(self) -> str:
        rate = self.ran / self.seconds if self.seconds else 0.0
        return (
            f"{self.ran} seeds (up to {self.last}) in {self.seconds:.0f} s ({rate:.1f}/s), {self.events} events, "
            f"{len(self.wrong)} wrong\n"
            + ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        )


def run_many(seeds: Sequence[int], minutes: float | None = None, processes: int = 1) -> Sum:
    """Run seeds, and print those that are wrong. Time and SIGTERM end it: no new seed is begun then.

    Args:
        seeds: Which.
        minutes: How long at the most.
        processes: How many at a time; each takes every so-many-th seed.
    """
    if processes == 1:
        return _run(seeds, minutes)
    total = Sum()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        parts = [pool.submit(_run, seeds[number::processes], minutes) for number in range(processes)]
        before = signal.signal(signal.SIGTERM, _end_all)
        try:
            for part in parts:
                total.add(part.result())
        finally:
            signal.signal(signal.SIGTERM, before)
    return total


def _end_all(number: int, frame: FrameType | None) -> None:
    for child in active_children():
        child.terminate()


def _run(seeds: Sequence[int], minutes: float | None) -> Sum:
    total = Sum()
    began = time.perf_counter()
    terminated: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: terminated.append(number))
    gc.collect()
    gc.freeze()  # what is there by now stays, and need not be looked at again and again
    try:
        for seed in seeds:
            _add(total, simulate(seed))
            total.seconds = time.perf_counter() - began
            if total.ran % 20 == 0:
                gc.collect()
            if total.ran % 1000 == 0:
                print(total, flush=True)
            if terminated or (minutes is not None and total.seconds > minutes * 60):
                break
    finally:
        gc.unfreeze()
        signal.signal(signal.SIGTERM, before)
    return total


def _add(total: Sum, outcome: Outcome) -> None:
    total.ran += 1
    total.last = outcome.seed
    total.events += outcome.events
    total.faults += outcome.faults
    if outcome.violations:
        text = "\n    ".join([reproduce(outcome.seed), *outcome.violations[:TOLD]])
        total.wrong.append(text)
        print(text, flush=True)
