"""A program as users write it, compared with the fastest form: what is left in the hands of users.

*As written*: a worker with its defaults in a process as Python starts it, options where the activity is called, and
``client.start`` before ``handle.result``. *Tuned*: the same with the one documented call, ``outlast.tune_process()``.
*Fastest*: :mod:`benchmarks.harness.workloads` in a tuned process, as the throughput is measured.

``python -m benchmarks.throughput.as_written FORM URL COUNTS STEPS`` measures one form in this process and prints
seconds as JSON; ``COUNTS`` is ``in flight:workflows``, separated by commas. The forms take turns, each in a fresh
process on a fresh database, and the ratio is the median of the rounds' own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from benchmarks.harness import workloads
from benchmarks.harness.databases import Backend, Databases
from benchmarks.harness.inputs import answer_to, argument
from benchmarks.harness.measuring import Timing, expect, timed
from benchmarks.harness.processes import measured
from outlast import Client, Worker, activity, tune_process, workflow

FASTEST: Final = "fastest"
FORMS: Final = {"as written": False, "as written, tuned": True, FASTEST: True}
"""The forms, and whether the process is tuned."""
WANTED: Final = 0.9
"""The share of the fastest form's rate that a program as users write it is to reach."""
SEQUENCE: Final = "sequence"
_WARM: Final = 20


@activity.defn
async def charge(order: str) -> str:
    """Do as little work as possible."""
    return answer_to(order)


@activity.defn
async def add(number: int) -> int:
    """One step of a sequence."""
    return number


@workflow.defn
async def order(name: str) -> str:
    """A workflow with one activity."""
    return await workflow.execute_activity(charge, name, start_to_close_timeout=60)


@workflow.defn
async def sequence(count: int) -> int:
    """Activities one after the other."""
    total = 0
    for number in range(count):
        total += await workflow.execute_activity(add, number, start_to_close_timeout=60)
    return total


async def _start_and_wait(client: Client, name: str) -> str:
    handle = await client.start(order, name)
    return await handle.result()


async def _as_written(url: str, counts: dict[int, int], steps: int) -> dict[str, Timing]:
    async with Client.connect(url) as client:
        async with Worker(client, workflows=[order, sequence], activities=[charge, add]):
            return await _all(
                lambda name: _start_and_wait(client, name), lambda: _sum_of(client, steps), counts, steps
            )


async def _sum_of(client: Client, steps: int) -> int:
    handle = await client.start(sequence, steps)
    return await handle.result()


async def _fastest(url: str, counts: dict[int, int], steps: int) -> dict[str, Timing]:
    async with workloads.engine(url) as client:
        return await _all(
            lambda name: client.execute(workloads.order, name),
            lambda: client.execute(workloads.sequence, steps),
            counts,
            steps,
        )


async def _all(
    run: Callable[[str], Coroutine[Any, Any, str]],
    run_sequence: Callable[[], Coroutine[Any, Any, int]],
    counts: dict[int, int],
    steps: int,
) -> dict[str, Timing]:
    """Measure all workloads, one after the other, on one database."""
    await _orders(run, _WARM, _WARM)
    found: dict[str, Timing] = {}
    for in_flight, count in counts.items():
        gc.collect()
        with timed(count) as timing:
            await _orders(run, count, in_flight)
        found[str(in_flight)] = timing
    gc.collect()
    with timed(steps) as timing:
        expect("the sum of the steps", await run_sequence(), steps * (steps - 1) // 2)
    found[SEQUENCE] = timing
    return found


async def _orders(run: Callable[[str], Coroutine[Any, Any, str]], count: int, in_flight: int) -> None:
    numbers = iter(range(count))

    async def customer() -> None:
        for number in numbers:
            value = argument(number)
            expect("a workflow's result", await run(value), answer_to(value))

    await asyncio.gather(*(customer() for _ in range(min(in_flight, count))))


@dataclass(slots=True)
class Compared:
    """One workload in all forms, round by round."""

    backend: Backend
    name: str
    rates: dict[str, list[float]] = field(default_factory=lambda: {form: [] for form in FORMS})
    cpu_us: dict[str, list[float]] = field(default_factory=lambda: {form: [] for form in FORMS})

    def rate(self, form: str) -> float:
        """Return the median of a form's rates per second."""
        return statistics.median(self.rates[form])

    def share(self, form: str) -> float:
        """Return the share of the fastest form's rate that another one reaches, as the median of the rounds."""
        pairs = zip(self.rates[form], self.rates[FASTEST], strict=True)
        return statistics.median(one / fastest for one, fastest in pairs)

    def cpu_share(self, form: str) -> float:
        """Return the same of processor time, which other programs on the machine change less."""
        pairs = zip(self.cpu_us[form], self.cpu_us[FASTEST], strict=True)
        return statistics.median(fastest / one for one, fastest in pairs)

    def document(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {**asdict(self), "shares": {form: self.share(form) for form in FORMS}}


def compare(
    databases: Databases,
    backend: Backend,
    counts: dict[int, int],
    steps: int,
    rounds: int,
    progress: Callable[[str], None],
) -> list[Compared]:
    """Measure all forms in turns.

    Args:
        databases: Where to.
        backend: The kind of database.
        counts: How many workflows run, by the number of them in flight.
        steps: How many activities run in sequence.
        rounds: How often.
        progress: Is told what is under way.

    Raises:
        WrongResultError: A result is not what it must be.
    """
    found = {str(number): Compared(backend, f"workflows, {number:,} in flight") for number in counts}
    found[SEQUENCE] = Compared(backend, f"{steps:,} activities in sequence")
    given = ",".join(f"{in_flight}:{count}" for in_flight, count in counts.items())
    forms = list(FORMS)
    for number in range(rounds):
        progress(f"{backend}: as users write it, round {number + 1} of {rounds}")
        turn = number % len(forms)
        for form in forms[turn:] + forms[:turn]:
            with databases.fresh(backend) as url:
                timings = measured("benchmarks.throughput.as_written", form, url, given, steps)
            for name, timing in timings.items():
                one = Timing(**timing)
                found[name].rates[form].append(one.rate)
                found[name].cpu_us[form].append(one.cpu_us)
    return list(found.values())


def main() -> None:
    """Measure one form in this process."""
    form, url, given, steps = sys.argv[1:]
    pairs = (pair.split(":") for pair in given.split(","))
    counts = {int(in_flight): int(count) for in_flight, count in pairs}
    if FORMS[form]:
        tune_process()
    run = _fastest if form == FASTEST else _as_written
    timings = asyncio.run(run(url, counts, int(steps)))
    print(json.dumps({name: asdict(timing) for name, timing in timings.items()}))


if __name__ == "__main__":
    main()
