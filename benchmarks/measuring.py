"""What a measurement is: how much was done, in how long, at the cost of how much CPU."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


class WrongResultError(Exception):
    """What was measured did not do its work: the figures mean nothing."""


@dataclass(slots=True)
class Timing:
    """``count`` things done in ``wall_s`` seconds, with ``cpu_s`` seconds of this process's CPU, all threads."""

    count: int
    wall_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        """Things a second."""
        return self.count / self.wall_s

    @property
    def wall_us(self) -> float:
        """Microseconds a thing."""
        return self.wall_s / self.count * 1e6

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU a thing."""
        return self.cpu_s / self.count * 1e6


@contextmanager
def timed(count: int) -> Generator[Timing]:
    """Time the block, which does something ``count`` times."""
    timing = Timing(count)
    wall, cpu = time.perf_counter(), time.process_time()
    yield timing
    timing.wall_s, timing.cpu_s = time.perf_counter() - wall, time.process_time() - cpu


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def expect(what: str, found: object, wanted: object) -> None:
    """Raise where something is not what it must be."""
    if found != wanted:
        raise WrongResultError(f"{what}: {found!r}, not {wanted!r}")
