"""From the floor to the engine, one rung at a time: what a workflow and an activity cost, and what adds to it.

``python -m benchmarks.ladder``. Each rung writes the rows that the engine writes, in as few transactions:

1. *floor*: the rows are there before the clock starts.
2. *rows made*: ids, times, events as JSON, and the rows are made as they are needed.
3. *sketch*: callers, workflows and activities are coroutines on asyncio's loop, what has to be durable goes through
   JSON and back, and what is ready together is committed together. It keeps no promise: nothing is replayed, times
   out, is cancelled, refused or taken over, and nothing looks whether another process came first.
4. *Outlast*.

For activities in sequence the floor is *bare commits*, and each rung commits each step by itself.

The rungs take turns, each in a fresh process on a fresh database. A share is the floor's figure by the rung's own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
from collections.abc import Callable, Coroutine, Generator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from benchmarks.harness.databases import BACKENDS, Backend, Databases, opened
from benchmarks.harness.figures import Figure, save, show
from benchmarks.harness.floor import (
    LARGEST_BATCH,
    Plain,
    bare_commits,
    check,
    check_steps,
    floor,
    write,
    write_first_step,
    write_step,
)
from benchmarks.harness.inputs import answer_to, argument
from benchmarks.harness.measuring import Timing, WrongResultError, expect, timed
from benchmarks.harness.processes import measured
from benchmarks.harness.reports import RESULTS, machine
from benchmarks.harness.rows import Begun, Ended, StepRows, begin, end, new_run, step_rows, workflow_rows
from benchmarks.harness.tuning import tune
from benchmarks.harness.workloads import orders, steps
from outlast_workflow.environment import Environment


@dataclass(slots=True)
class Call:
    """An activity that a workflow of the sketch waits for."""

    function: Callable[..., Coroutine[Any, Any, Any]]
    arguments: tuple[Any, ...]

    def __await__(self) -> Generator[Call, Any, Any]:
        answer = yield self
        return answer


Code = Coroutine[Call, Any, Any]
Rows = Begun | Ended | StepRows


async def charge(order: str) -> str:
    """Do as little work as possible."""
    return answer_to(order)


async def order(name: str) -> Any:
    """A workflow with one activity."""
    return await Call(charge, (name,))


async def add(number: int) -> int:
    """One step of a sequence."""
    return number


async def sequence(count: int) -> Any:
    """Activities one after the other."""
    total = 0
    for number in range(count):
        total += await Call(add, (number,))
    return total


class Sketch:
    """The least that an engine of coroutines does to write these rows.

    Args:
        plain: The database.
    """

    def __init__(self, plain: Plain) -> None:
        self._plain = plain
        self._environment = Environment()
        self._worker_id = self._environment.ids.next()
        self._loop = asyncio.get_running_loop()
        self._queue: list[tuple[Rows, Callable[[], None]]] = []
        self._activities: set[asyncio.Task[None]] = set()
        self._sequence = new_run(self._environment, self._worker_id)

    def begin_sequence(self) -> None:
        """Write the first rows of :meth:`run_sequence`."""
        write_first_step(self._plain, self._sequence)

    async def execute(self, workflow: Callable[[Any], Code], value: object) -> Any:
        """Run a workflow from its start to its result."""
        begun = begin(self._environment, self._worker_id, value)
        code = workflow(_again(value))
        first = code.send(None)
        result: asyncio.Future[bytes] = self._loop.create_future()
        self._submit(begun, lambda: self._start(first, begun, code, result))
        return orjson.loads(await result)

    def _start(self, call: Call, begun: Begun, code: Code, result: asyncio.Future[bytes]) -> None:
        task = self._loop.create_task(self._run(call, begun, code, result))
        self._activities.add(task)
        task.add_done_callback(self._activities.discard)

    async def _run(self, call: Call, begun: Begun, code: Code, result: asyncio.Future[bytes]) -> None:
        """Run the activity, then the rest of the workflow."""
        answer = await call.function(*_again(call.arguments))
        try:
            second = code.send(_again(answer))
            raise WrongResultError(f"the sketch runs one activity, not {second} as well")
        except StopIteration as stop:
            payload = orjson.dumps(stop.value)
            self._submit(end(begun, stop.value), lambda: result.set_result(payload))

    async def run_sequence(self, workflow: Callable[[int], Code], count: int) -> Any:
        """Run a workflow of activities in sequence, whose first rows are there, and commit each step."""
        made = step_rows(self._environment, self._sequence)
        code = workflow(count)
        call = code.send(None)
        while True:
            activity = self._loop.create_task(call.function(*_again(call.arguments)))
            answer = _again(await activity)
            written: asyncio.Future[None] = self._loop.create_future()
            try:
                call = code.send(answer)
            except StopIteration as stop:
                result = stop.value
            else:
                result = None
            self._submit(next(made), partial(written.set_result, None))
            await written
            if result is not None:
                return result

    def _submit(self, rows: Rows, then: Callable[[], None]) -> None:
        if not self._queue:
            self._loop.call_soon(self._commit)
        self._queue.append((rows, then))

    def _commit(self) -> None:
        """Commit what is ready, and go on with it."""
        batch, self._queue = self._queue, []
        begun = [rows for rows, _ in batch if isinstance(rows, Begun)]
        ended = [rows for rows, _ in batch if isinstance(rows, Ended)]
        plain = self._plain
        plain.begin()
        if begun:
            plain.many(plain.new_instance, [rows.instance for rows in begun])
            plain.many(plain.new_run, [rows.inserted_run for rows in begun])
            plain.many(plain.new_activity, [rows.inserted_activity for rows in begun])
        for step in (rows for rows, _ in batch if isinstance(rows, StepRows)):
            write_step(plain, step)
        if ended:
            plain.many(plain.end_run, [rows.run_update for rows in ended])
            plain.many(plain.end_activity, [rows.activity_update for rows in ended])
        events = [*(rows.events for rows in begun), *(rows.events for rows in ended)]
        if events:
            plain.many(plain.new_event, list(chain.from_iterable(events)))
        plain.commit()
        for _, then in batch:
            then()


def _again(value: object) -> Any:
    """Return a value as it comes out of a database."""
    return orjson.loads(orjson.dumps(value))


def rows_made(url: str, workflows: int, batch: int) -> Timing:
    """Write what the floor writes, and make the rows meanwhile."""
    environment = Environment()
    worker_id = environment.ids.next()
    with opened(url) as connection:
        plain = Plain(connection)
        with timed(workflows) as timing:
            for start in range(0, workflows, batch):
                numbers = range(start, min(start + batch, workflows))
                write(plain, [workflow_rows(environment, worker_id, number) for number in numbers])
    check(url, workflows)
    return timing


async def sketched(url: str, workflows: int, in_flight: int) -> Timing:
    """Run the workflows on the sketch."""
    with opened(url) as connection:
        engine = Sketch(Plain(connection))
        numbers = iter(range(workflows))

        async def customer() -> None:
            for number in numbers:
                value = argument(number)
                expect("a workflow's result", await engine.execute(order, value), answer_to(value))

        gc.collect()
        with timed(workflows) as timing:
            await asyncio.gather(*(customer() for _ in range(min(in_flight, workflows))))
    check(url, workflows)
    return timing


async def sketched_sequence(url: str, count: int) -> Timing:
    """Run the activities in sequence on the sketch."""
    with opened(url) as connection:
        engine = Sketch(Plain(connection))
        engine.begin_sequence()
        gc.collect()
        with timed(count) as timing:
            found = await engine.run_sequence(sequence, count)
    expect("the sum of the steps", found, count * (count - 1) // 2)
    check_steps(url, count)
    return timing


async def _outlast(url: str, workflows: int, in_flight: int) -> Timing:
    timing, _ = await orders(url, workflows, in_flight)
    return timing


FLOOR = "floor"
RUNGS: dict[str, Callable[[str, int, int], Timing]] = {
    FLOOR: lambda url, count, in_flight: floor(url, count, min(in_flight, LARGEST_BATCH)),
    "rows made": lambda url, count, in_flight: rows_made(url, count, min(in_flight, LARGEST_BATCH)),
    "sketch": lambda url, count, in_flight: asyncio.run(sketched(url, count, in_flight)),
    "Outlast": lambda url, count, in_flight: asyncio.run(_outlast(url, count, in_flight)),
}
IN_SEQUENCE: dict[str, Callable[[str, int], Timing]] = {
    FLOOR: bare_commits,
    "rows made": lambda url, count: bare_commits(url, count, made=False),
    "sketch": lambda url, count: asyncio.run(sketched_sequence(url, count)),
    "Outlast": lambda url, count: asyncio.run(steps(url, count)),
}


def climb(rung: str, url: str, count: int, in_flight: int) -> Timing:
    """Measure one rung: some workflows in flight, or with none activities in sequence."""
    if in_flight:
        return RUNGS[rung](url, count, in_flight)
    return IN_SEQUENCE[rung](url, count)


def compare(databases: Databases, backend: Backend, count: int, in_flight: int, rounds: int) -> list[Figure]:
    """Measure all rungs, in turns."""
    found: dict[str, list[Timing]] = {rung: [] for rung in RUNGS}
    names = list(RUNGS)
    for number in range(rounds):
        turn = number % len(names)
        for rung in names[turn:] + names[:turn]:
            with databases.fresh(backend) as url:
                given = ("--rung", rung, "--url", url, "--count", count, "--in-flight", in_flight)
                timing = measured("benchmarks.ladder", *given)
            found[rung].append(Timing(**timing))
    figures: list[Figure] = []
    for rung, timings in found.items():
        pairs = list(zip(found[FLOOR], timings, strict=True))
        details = {
            "CPU µs": statistics.median(timing.cpu_us for timing in timings),
            "share": statistics.median(one.rate / bare.rate for bare, one in pairs),
            "share of CPU": statistics.median(bare.cpu_us / one.cpu_us for bare, one in pairs),
        }
        rate = statistics.median(timing.rate for timing in timings)
        load = f"{in_flight:,} in flight" if in_flight else "in sequence"
        figures.append(Figure(load, backend, rung, rate, "/s", details=details))
    return figures


def main(argv: list[str] | None = None) -> int:
    """Measure, print and save; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ladder", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how many rounds")
    parser.add_argument("--count", type=int, default=4_000, help="how many workflows a round")
    parser.add_argument(
        "--in-flight", type=int, nargs="+", default=[1_000, 100, 0], help="0 for activities in sequence"
    )
    parser.add_argument("--backend", nargs="+", choices=BACKENDS, default=["sqlite"])
    parser.add_argument("--rung", choices=RUNGS, help="measure one rung in this process, and print JSON")
    parser.add_argument("--url", help="the database of --rung")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args(argv)
    if options.rung is not None:
        tune()
        print(json.dumps(asdict(climb(options.rung, options.url, options.count, options.in_flight[0]))))
        return 0
    console = Console(width=None if sys.stdout.isatty() else 160)
    facts = {"machine": machine()}
    figures: list[Figure] = []
    try:
        with Databases() as databases:
            for backend in options.backend:
                for in_flight in options.in_flight:
                    figures += compare(databases, backend, options.count, in_flight, options.rounds)
    except WrongResultError as error:
        console.print(f"[red]wrong[/]: {error}")
        return 1
    show(console, facts, figures)
    sizes = {"count": options.count, "rounds": options.rounds}
    console.print(f"kept in {save(facts, figures, sizes, options.results, 'ladder')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
