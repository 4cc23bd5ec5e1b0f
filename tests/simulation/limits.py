"""Limits of a simulation: programs that bring the deadline of their own run nearer, now and then several times.

One seed in eight has them, drawn from a source of its own, so that the other seeds are as they were.
"""

from __future__ import annotations

import random
from typing import Any

Action = dict[str, Any]


def add_limits(seed: int, plan: list[Action]) -> None:
    """Let the programs of a plan limit themselves."""
    if seed % 8 != 5:
        return
    rng = random.Random(f"limits of {seed}: {len(plan)}")
    for action in plan:
        if action["do"] == "start":
            for _ in range(rng.randint(1, 3)):
                step = {"do": "lower", "for": rng.choice((1, 2, 5, 10, 30))}
                action["steps"].insert(rng.randint(0, len(action["steps"])), step)
