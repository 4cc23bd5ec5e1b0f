"""The rounds of a measurement: Outlast and the floor take turns, so that both meet the same noise.

Shared machines are noisy: a single figure says little, and the median of the ratios of neighbouring rounds says most.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.harness.databases import Backend, Databases
from benchmarks.harness.floor import LARGEST_BATCH, bare_commits, floor
from benchmarks.harness.measuring import Timing, percentile
from benchmarks.harness.workloads import Recorded, orders, record_history, replays, steps


@dataclass(frozen=True, slots=True)
class Sizes:
    """The amounts of work that are measured."""

    rounds: int = 5
    in_flight: tuple[int, ...] = (1_000, 100, 1)
    orders: int = 4_000
    orders_alone: int = 200
    steps: int = 1_000
    replayed_events: tuple[int, ...] = (20_000, 1_000)
    growth_events: int = 10_000
    growth_rounds: int = 15
    written_rounds: int = 3

    def orders_at(self, in_flight: int) -> int:
        """Return how many workflows are run with a number of them in flight."""
        return max(in_flight, self.orders_alone if in_flight == 1 else self.orders)


QUICK = Sizes(
    rounds=2,
    orders=1_500,
    orders_alone=100,
    steps=300,
    replayed_events=(5_000, 1_000),
    growth_events=2_000,
    written_rounds=1,
)
"""The sizes for ``--quick``: half a minute, to see that everything works."""


@dataclass(slots=True)
class Measure:
    """One measured thing, round by round, with what it is compared with."""

    backend: Backend
    name: str
    unit: str
    ours: list[Timing] = field(default_factory=list)
    bare: list[Timing] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The median of Outlast's rates per second."""
        return statistics.median(timing.rate for timing in self.ours)

    @property
    def bare_rate(self) -> float | None:
        """The median of the floor's rates."""
        return statistics.median(timing.rate for timing in self.bare) if self.bare else None

    @property
    def ratio(self) -> float | None:
        """The share of the floor's rate that Outlast reaches, as the median of the rounds."""
        if not self.bare:
            return None
        return statistics.median(
            ours.rate / bare.rate for ours, bare in zip(self.ours, self.bare, strict=True)
        )

    @property
    def cpu_us(self) -> float:
        """The median of Outlast's CPU microseconds per thing."""
        return statistics.median(timing.cpu_us for timing in self.ours)

    @property
    def latency_ms(self) -> tuple[float, float] | None:
        """p50 and p99, in milliseconds, over all rounds."""
        if not self.latencies_s:
            return None
        return percentile(self.latencies_s, 0.5) * 1e3, percentile(self.latencies_s, 0.99) * 1e3

    def document(self) -> dict[str, Any]:
        """Return the measure as JSON values."""
        return {
            **asdict(self),
            "latencies_s": None,
            "rate": self.rate,
            "floor_rate": self.bare_rate,
            "ratio": self.ratio,
            "cpu_us": self.cpu_us,
            "latency_p50_p99_ms": self.latency_ms,
        }


def measure(
    databases: Databases, backend: Backend, sizes: Sizes, progress: Callable[[str], None]
) -> list[Measure]:
    """Measure all rounds on one kind of database.

    Raises:
        WrongResultError: Some workflow, step or replay did not do what it should, or rows are missing.
    """
    workflows = {
        number: Measure(backend, f"workflows with one activity, {number:,} in flight", "workflows/s")
        for number in sizes.in_flight
    }
    sequence = Measure(backend, f"{sizes.steps:,} activities in sequence", "activities/s")
    with ExitStack() as stack:
        recorded: dict[int, Recorded] = {}
        for events in sizes.replayed_events:
            progress(f"{backend}: recording a history of {events:,} events")
            url = stack.enter_context(databases.fresh(backend))
            recorded[events] = asyncio.run(record_history(url, events))
        replayed = {
            events: Measure(backend, f"replay of {one.events:,} events, read included", "events/s")
            for events, one in recorded.items()
        }
        for number in range(sizes.rounds):
            progress(f"{backend}: round {number + 1} of {sizes.rounds}")
            ours_first = bool(number % 2)
            for in_flight, one in workflows.items():
                _orders_round(databases, one, sizes.orders_at(in_flight), in_flight, ours_first=ours_first)
            _steps_round(databases, sequence, sizes.steps, ours_first=ours_first)
            for events, one in replayed.items():
                times = max(1, max(sizes.replayed_events) // events)
                one.ours.append(asyncio.run(replays(recorded[events], times)))
    return [*workflows.values(), sequence, *replayed.values()]


def _orders_round(
    databases: Databases, into: Measure, count: int, in_flight: int, *, ours_first: bool
) -> None:
    def ours() -> None:
        with databases.fresh(into.backend) as url:
            timing, seconds = asyncio.run(orders(url, count, in_flight))
        into.ours.append(timing)
        into.latencies_s += seconds

    def bare() -> None:
        with databases.fresh(into.backend) as url:
            into.bare.append(floor(url, count, min(in_flight, LARGEST_BATCH)))

    _both(ours, bare, ours_first=ours_first)


def _steps_round(databases: Databases, into: Measure, count: int, *, ours_first: bool) -> None:
    def ours() -> None:
        with databases.fresh(into.backend) as url:
            into.ours.append(asyncio.run(steps(url, count)))

    def bare() -> None:
        with databases.fresh(into.backend) as url:
            into.bare.append(bare_commits(url, count))

    _both(ours, bare, ours_first=ours_first)


def _both(ours: Callable[[], None], bare: Callable[[], None], *, ours_first: bool) -> None:
    for run in (ours, bare) if ours_first else (bare, ours):
        run()
