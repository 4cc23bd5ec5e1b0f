"""``python -m tests.simulation --seed N``: one seed with its trace; ``--seeds N``: many, with a summary.
``--bugs``: a seed that shows each planted bug.
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.bugs import BUGS
from tests.simulation.running import run_many
from tests.simulation.world import TAIL, simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed and print its trace")
    parser.add_argument("--seeds", type=int, default=200, help="run so many seeds")
    parser.add_argument("--first", type=int, default=0, help="beginning with this one")
    parser.add_argument("--minutes", type=float, help="run no new seed after so many")
    parser.add_argument("--processes", type=int, default=1, help="so many at a time")
    parser.add_argument("--trace", action="store_true", help="print the whole trace, not only its end")
    parser.add_argument("--bugs", action="store_true", help="print a seed that shows each planted bug")
    given = parser.parse_args()
    if given.bugs:
        return print_bugs()
    if given.seed is None:
        total = run_many(range(given.first, given.first + given.seeds), given.minutes, given.processes)
        print(total)
        return bool(total.wrong)
    outcome = simulate(given.seed)
    print("\n".join(outcome.trace if given.trace else outcome.trace[-TAIL:]))
    print(*outcome.violations, sep="\n")
    print(f"{outcome.digest}  {outcome.events} events, {outcome.callbacks} callbacks, {dict(outcome.faults)}")
    return bool(outcome.violations)


def print_bugs() -> int:
    """Print what belongs into ``SEEN_BY``; returns 1 if there is a bug that no seed shows."""
    from tests.simulation.test_planted_bugs import SEEN_BY, caught_by

    missing = 0
    for name in sorted(BUGS):
        found = caught_by(name)
        missing += found is None
        seed = None if found is None else found[0]
        print(f'    "{name}": {seed},' + ("" if seed == SEEN_BY.get(name, 0) else "  # new"), flush=True)
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
