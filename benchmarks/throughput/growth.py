"""Whether an activity costs the same late in a long history as early in a short one.

Two runs take turns, a window of activities each: one whose history is long, and one that has just started. Each
activity waits at a :class:`Gate`, so a window is an exact number of steps, each with its commit. What reaches the
database must be equal byte for byte, except for the length of numbers. For the time, the median of the ratios of
neighbouring windows counts.
"""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.counting import Counter, Counts
from benchmarks.harness.databases import Databases
from benchmarks.harness.inputs import TIMEOUT_S
from benchmarks.harness.measuring import Timing, timed
from outlast import activity, workflow
from outlast.client.client import Client
from outlast.worker.worker import Worker

WINDOW = 10
EVENTS_A_STEP = 3
ENDLESS = 1_000_000


class Gate:
    """Lets the activities of one run pass, a number at a time."""

    def __init__(self) -> None:
        self._left = 0
        self._open = asyncio.Event()
        self._arrived = asyncio.Event()

    async def passed(self) -> None:
        """Wait until this activity may continue."""
        if not self._left:
            self._arrived.set()
            self._open.clear()
            await self._open.wait()
        self._left -= 1

    async def arrival(self) -> None:
        """Wait until an activity is at the gate."""
        await self._arrived.wait()

    async def let(self, steps: int) -> None:
        """Let a number of activities pass, and wait until the next one is at the gate."""
        self._left = steps
        self._arrived.clear()
        self._open.set()
        await self._arrived.wait()


_gates: dict[str, Gate] = {}


@activity.defn(start_to_close_timeout=TIMEOUT_S)
async def gated_step(gate: str) -> str:
    """Wait at the gate, and return the argument."""
    await _gates[gate].passed()
    return gate


@workflow.defn
async def gated_sequence(gate: str) -> None:
    """Steps without end."""
    for _ in range(ENDLESS):
        await gated_step(gate)


@dataclass(slots=True)
class Growth:
    """What an activity costs early and late; ``counts`` are equal or the benchmark fails."""

    events: int
    early: Counts
    late: Counts
    window: int
    wall_ratio: float
    cpu_ratio: float

    def document(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "events": self.events,
            "window": self.window,
            "early": self.early.document(),
            "late": self.late.document(),
            "wall_ratio": self.wall_ratio,
            "cpu_ratio": self.cpu_ratio,
        }

    @property
    def flat(self) -> bool:
        """Return whether statements, rows, bytes and commits are the same."""
        return self.early.written == self.late.written


async def growth(url: str, counter: Counter, events: int, rounds: int) -> Growth:
    """Compare windows of activities after ``events`` of history with windows at the start of a run.

    ``counter`` must be opened before the database.
    """
    async with Client.connect(url) as client:
        worker = Worker(
            client, workflows=[gated_sequence], activities=[gated_step], graceful_shutdown_timeout=0
        )
        async with worker:
            old = await _begin(client, name_of(0))
            await old.let(max(1, events // EVENTS_A_STEP))
            ratios: list[tuple[float, float]] = []
            new = old
            for number in range(1, rounds + 1):
                new = await _begin(client, name_of(number))
                await new.let(WINDOW // EVENTS_A_STEP)
                first, second = (old, new) if number % 2 else (new, old)
                one, two = await _window(first), await _window(second)
                late, early = (one, two) if first is old else (two, one)
                ratios.append((late.wall_s / early.wall_s, late.cpu_s / early.cpu_s))
            counts = [await _counted(gate, counter) for gate in (new, old)]
    return Growth(
        events,
        counts[0],
        counts[1],
        WINDOW,
        statistics.median(wall for wall, _ in ratios),
        statistics.median(cpu for _, cpu in ratios),
    )


def name_of(number: int) -> str:
    """Return the name of a gate: letters, all names equally long, so that each adds the same to what is written."""
    return "gate-" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:04}")


async def _begin(client: Client, name: str) -> Gate:
    gate = _gates[name] = Gate()
    await client.start(gated_sequence, name)
    await gate.arrival()
    return gate


async def _window(gate: Gate) -> Timing:
    with timed(WINDOW) as timing:
        await gate.let(WINDOW)
    return timing


async def _counted(gate: Gate, counter: Counter) -> Counts:
    with counter.counting() as counts:
        await gate.let(WINDOW)
    return counts


def measure_growth(databases: Databases, events: int, rounds: int) -> Growth:
    """Measure on a SQLite file of its own."""
    with databases.fresh("sqlite") as url, Counter() as counter:
        return asyncio.run(growth(url, counter, events, rounds))
