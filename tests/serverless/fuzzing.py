"""Fuzz the reader of documents for as long as you like: ``python -m tests.serverless.fuzzing --minutes 120``.

Each input is read as the tests read it (:mod:`tests.serverless.test_fuzzing`), and must take at most a second of the
processor. At the end it says how many inputs there were, the longest time that one took, and the most memory that the
process held.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from hypothesis import given, seed, settings
from hypothesis import strategies as st
from tests.serverless.test_fuzzing import (
    MOST_MEGABYTES,
    TEXTS,
    judged,
    mutated,
    peak_megabytes,
    quick,
    taken,
    values,
    yaml_text,
)

MOST_S = 1.0
"""What one input may take of the processor, in seconds."""
A_ROUND = 2_000
"""Examples between two looks at the clock."""


class Fuzzing:
    """What has been read so far, and how long it took."""

    def __init__(self) -> None:
        self.inputs = 0
        self.longest_s = 0.0

    def take(self, text: str | bytes) -> None:
        """Read an input, and look at the clock."""
        began = time.process_time()
        taken(text)
        took = time.process_time() - began
        self.inputs += 1
        self.longest_s = max(self.longest_s, took)
        assert took <= MOST_S, f"{took:.2f} s: {text!r}"

    def round(self, number: int) -> None:
        """Read some thousand inputs of all kinds."""

        @seed(number)
        @given(st.integers(0, 2**62), st.binary(max_size=2_000), yaml_text, values)
        @settings(quick, max_examples=A_ROUND, database=None)
        def fuzz(chance: int, data: bytes, thrown: str, value: Any) -> None:
            definition = mutated(chance)
            self.take(json.dumps(definition))
            judged(definition)
            self.take(data)
            self.take(thrown)
            text = TEXTS[chance % len(TEXTS)]
            at = chance // len(TEXTS) % len(text)
            self.take(text[:at] + thrown + text[at:])
            self.take(text[:at] + text[at + len(thrown) :])
            self.take(json.dumps({"do": value, "use": value, "document": value, "timeout": value}))

        fuzz()


def main() -> int:
    """Fuzz, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1, help="how long, by the clock")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first round")
    asked = parser.parse_args()
    fuzzing, number = Fuzzing(), asked.first
    before = peak_megabytes()
    until = time.monotonic() + asked.minutes * 60
    while time.monotonic() < until:
        fuzzing.round(number)
        number += 1
    grown = peak_megabytes() - before
    print(
        f"{fuzzing.inputs:,} inputs in {number - asked.first} rounds of {A_ROUND:,} examples, "
        f"{time.process_time():,.0f} s of the processor; the longest {fuzzing.longest_s:.2f} s; "
        f"{grown:.0f} MiB beyond the {before:.0f} at the start"
    )
    return 0 if grown <= MOST_MEGABYTES else 1


if __name__ == "__main__":
    sys.exit(main())
