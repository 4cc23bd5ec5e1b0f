"""``python -m tests.simulation --seed N``: one seed with its trace; ``--seeds N``: many, with a summary."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
from collections import Counter

from tests.simulation.world import TAIL, Outcome, simulate


def reproduce(seed: int) -> str:
    """The command that runs a seed again."""
    return f"python -m tests.simulation --seed {seed}"


def report(outcome: Outcome) -> str:
    """What is wrong with a seed, how to see it again, and the end of its trace."""
    tail = outcome.trace[-TAIL:]
    return "\n".join(
        [f"seed {outcome.seed} is wrong: {reproduce(outcome.seed)}", *outcome.violations, "", "…", *tail]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed and print its trace")
    parser.add_argument("--seeds", type=int, default=200, help="run so many seeds")
    parser.add_argument("--first", type=int, default=0, help="beginning with this one")
    parser.add_argument("--minutes", type=float, help="run no new seed after so many")
    parser.add_argument("--trace", action="store_true", help="print the whole trace, not only its end")
    given = parser.parse_args()
    if given.seed is not None:
        outcome = simulate(given.seed)
        print("\n".join(outcome.trace if given.trace else outcome.trace[-TAIL:]))
        print(*outcome.violations, sep="\n")
        print(
            f"{outcome.digest}  {outcome.events} events, {outcome.callbacks} callbacks, {dict(outcome.faults)}"
        )
        return bool(outcome.violations)
    return many(range(given.first, given.first + given.seeds), given.minutes)


def many(seeds: range, minutes: float | None = None) -> int:
    """Run them all, print those that are wrong, and a summary; who is terminated says how far it came."""
    faults: Counter[str] = Counter()
    events = wrong = number = 0
    began = time.perf_counter()
    terminated: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: terminated.append(number))
    for number, seed in enumerate(seeds, 1):
        outcome = simulate(seed)
        faults += outcome.faults
        events += outcome.events
        if outcome.violations:
            wrong += 1
            print(f"{reproduce(seed)}\n    " + "\n    ".join(outcome.violations[:5]), flush=True)
        if number % 20 == 0:
            gc.collect()
        if number % 1000 == 0:
            print(
                f"{number} seeds, {wrong} wrong, {number / (time.perf_counter() - began):.1f}/s", flush=True
            )
        if terminated or (minutes is not None and time.perf_counter() - began > minutes * 60):
            break
    spent = time.perf_counter() - began
    ran = seeds[:number]
    which = f"{len(ran)} seeds ({ran[0]} to {ran[-1]})" if ran else "no seeds"
    print(f"{which} in {spent:.0f} s ({len(ran) / spent:.1f}/s), {events} events, {wrong} wrong")
    print(", ".join(f"{name} {count}" for name, count in sorted(faults.items())))
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
