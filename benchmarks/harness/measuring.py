"""Measurements: how much was done, in how much time, with how much CPU."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


class WrongResultError(Exception):
    """The measured code did not do its work, so the figures mean nothing."""


@dataclass(slots=True)
class Timing:
    """``count`` things done in ``wall_s`` seconds, with ``cpu_s`` seconds of this process's CPU, all threads."""

    count: int
    wall_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        """Things per second."""
        return self.count / self.wall_s

    @property
    def wall_us(self) -> float:
        """Microseconds per thing."""
        return self.wall_s / self.count * 1e6

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU per thing."""
        return self.cpu_s / self.count * 1e6


@contextmanager
def timed(count: int) -> Generator[Timing]:
    """Time a block that does something ``count`` times."""
    timing = Timing(count)
    wall, cpu = time.perf_counter(), time.process_time()
    yield timing
    timing.wall_s, timing.cpu_s = time.perf_counter() - wall, time.process_time() - cpu


def percentile(values: list[float], share: float) -> float:
    """Return the value below which a share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def expect(what: str, found: object, wanted: object) -> None:
    """Raise unless a value is what it must be."""
    if found != wanted:
        raise WrongResultError(f"{what}: {found!r}, not {wanted!r}")
