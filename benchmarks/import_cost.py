"""What imports cost, compared with ``import sqlalchemy``: ``python -m benchmarks.import_cost``.

CPU time (user and system) of a fresh process that does one import, minus that of ``python -c pass``. The imports take
turns, round by round, so what else the machine does hits all of them; the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from typing import Final

ROUNDS: Final = 15
NOTHING: Final = "pass"
YARDSTICK: Final = "import sqlalchemy"
STATEMENTS: Final = {
    "import outlast": 1.0,
    "from outlast import Client, Worker, workflow, activity": 1.5,
}
"""What is imported, and how many times the yardstick it may cost at most."""


def cpu_s(statement: str) -> float:
    """Return the CPU seconds of a fresh process that runs a statement."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", statement], os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{statement!r} ended with status {status}")
    return usage.ru_utime + usage.ru_stime


def measure(rounds: int) -> dict[str, float]:
    """Return the median CPU seconds of each import, above those of a process that imports nothing.

    Args:
        rounds: How often each is measured.
    """
    every = [NOTHING, YARDSTICK, *STATEMENTS]
    taken: dict[str, list[float]] = {statement: [] for statement in every}
    for statement in every:
        # Bytecode is compiled before the first round.
        _ = cpu_s(statement)
    for _ in range(rounds):
        for statement in every:
            taken[statement].append(cpu_s(statement))
    nothing = statistics.median(taken.pop(NOTHING))
    return {statement: statistics.median(times) - nothing for statement, times in taken.items()}


def main() -> None:
    """Measure, and print each import's share of the yardstick."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    costs = measure(parser.parse_args().rounds)
    yardstick = costs.pop(YARDSTICK)
    print(f"{yardstick * 1000:7.1f} ms         {YARDSTICK}")
    for statement, cost in costs.items():
        ratio, most = cost / yardstick, STATEMENTS[statement]
        verdict = "" if ratio <= most else f"  more than {most}"
        print(f"{cost * 1000:7.1f} ms  {ratio:5.2f}  {statement}{verdict}")


if __name__ == "__main__":
    main()
