"""What one timer, signal, update and the rest cost, exactly: ``python -m benchmarks.costs``.

Each thing is done a number of times and then twice as often, on a virtual clock and a SQLite database in memory. The
difference per thing is the same on every machine and in every run. Nothing shares a commit here that would not share
one in a quiet production system: one caller, one run, one thing after the other.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter as Tally
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness.counting import Counter, Counts
from benchmarks.harness.inputs import TIMEOUT_S, argument
from benchmarks.harness.workloads import add, charge, order, sequence
from outlast import activity, workflow
from outlast.client.client import Client
from outlast.testing import TestEnvironment

TIMES = 20
LONE = 50
HEARTBEAT_S = 10


class Calls:
    """Counts the calls of functions in Outlast's packages while its block is open."""

    def __init__(self) -> None:
        self.of: Tally[str] = Tally()

    def __enter__(self) -> Calls:
        sys.setprofile(self._heard)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.setprofile(None)

    def _heard(self, frame: FrameType, event: str, _what: Any) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith("outlast"):
            code = frame.f_code
            # From Python 3.12 on, comprehensions are no calls.
            if not code.co_name.startswith("<"):
                self.of[f"{frame.f_globals['__name__']}.{code.co_qualname}"] += 1


@workflow.defn
async def naps(count: int) -> None:
    """Timers, one after the other."""
    for _ in range(count):
        await asyncio.sleep(10)


@workflow.defn
async def nothing(number: int) -> int:
    """A workflow that only returns."""
    return number


@workflow.defn
async def families(count: int) -> None:
    """Children, one after the other."""
    for number in range(count):
        await workflow.execute_child(nothing, number)


@activity.defn(start_to_close_timeout=86_400, heartbeat_timeout=HEARTBEAT_S)
async def beats(count: int) -> None:
    """Heartbeats, as far apart as they must be for each to be written."""
    for number in range(count):
        await asyncio.sleep(HEARTBEAT_S * 0.9)
        activity.heartbeat(number)


@activity.defn(start_to_close_timeout=TIMEOUT_S)
async def local(number: int) -> int:
    """One local activity."""
    return number


@workflow.defn
async def locals_(count: int) -> None:
    """Local activities, one after the other."""
    for number in range(count):
        await workflow.execute_local_activity(local, number)


@workflow.defn
async def beating(count: int) -> None:
    """One activity that sends heartbeats."""
    await beats(count)


@workflow.defn
class Told:
    """Adds up the numbers that it is sent, until it is told to stop."""

    def __init__(self) -> None:
        self.total = 0
        self.over = False

    @workflow.run
    async def run(self) -> int:
        """Wait for the end."""
        await workflow.wait_condition(lambda: self.over)
        return self.total

    @workflow.signal
    def tell(self, number: int) -> None:
        """Add."""
        self.total += number

    @workflow.signal
    def publish(self, number: int) -> None:
        """Write to a stream."""
        workflow.stream("told").write(number)

    @workflow.signal
    def stop(self) -> None:
        """End."""
        self.over = True

    @workflow.update
    def ask(self, number: int) -> int:
        """Add, and return the sum."""
        self.total += number
        return self.total

    @workflow.query
    def so_far(self) -> int:
        """Return the sum."""
        return self.total


Work = Callable[[Client, int], Awaitable[object]]


async def _orders(client: Client, count: int) -> None:
    for number in range(count):
        await client.execute(order, argument(number))


async def _told(client: Client, count: int, send: Callable[[Any, int], Awaitable[object]]) -> None:
    handle = await client.start(Told.run)
    for number in range(count):
        await send(handle, number)
    await handle.signal(Told.stop)
    await handle.result()


WORK: dict[str, Work] = {
    "workflow": _orders,
    "activity": lambda client, count: client.execute(sequence, count),
    "local activity": lambda client, count: client.execute(locals_, count),
    "timer": lambda client, count: client.execute(naps, count),
    "child": lambda client, count: client.execute(families, count),
    "signal": lambda client, count: _told(client, count, lambda handle, i: handle.signal(Told.tell, i)),
    "update": lambda client, count: _told(
        client, count, lambda handle, i: handle.execute_update(Told.ask, i)
    ),
    "query": lambda client, count: _told(client, count, lambda handle, _: handle.query(Told.so_far)),
    "heartbeat": lambda client, count: client.execute(beating, count),
}
"""What can be counted, with a function that does a number of them."""

WORKFLOWS = (order, sequence, naps, nothing, families, locals_, beating, Told)
ACTIVITIES = (charge, add, beats, local)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one thing costs; ``reads`` counts those of the statements that only read."""

    commits: float
    statements: float
    rows: float
    bytes: float
    reads: float
    calls: float


async def _counted(work: Work, count: int) -> tuple[Counts, int]:
    """Count a number of things in an environment that has done them before: first statements, then calls."""
    with Counter() as counter:
        async with TestEnvironment(workflows=WORKFLOWS, activities=ACTIVITIES, max_task_failures=0) as env:
            # Who waits looks around every ten seconds, which is no cost of what is waited for.
            env.client.runtime.unserved_waits.close()
            await work(env.client, count)
            with counter.counting() as counts:
                await work(env.client, count)
            with Calls() as calls:
                await work(env.client, count)
    return counts, calls.of.total()


def cost_of(thing: str) -> Cost:
    """Return the cost of one more thing."""
    work = WORK[thing]
    some, some_calls = TestEnvironment.run(_counted, work, TIMES)
    twice, twice_calls = TestEnvironment.run(_counted, work, 2 * TIMES)
    return Cost(
        commits=(twice.commits - some.commits) / TIMES,
        statements=(twice.statements - some.statements) / TIMES,
        rows=(twice.rows - some.rows) / TIMES,
        bytes=(twice.bytes - some.bytes) / TIMES,
        reads=(_reads(twice) - _reads(some)) / TIMES,
        calls=(twice_calls - some_calls) / TIMES,
    )


def _reads(counts: Counts) -> int:
    return sum(number for kind, number in counts.kinds.items() if kind.startswith("SELECT"))


def calls_of_a_lone_workflow() -> float:
    """Return all calls from a start to its result, including those that do not grow with the number of workflows."""
    _, calls = TestEnvironment.run(_counted, WORK["workflow"], LONE)
    return calls / LONE


def main() -> None:
    """Count, and print a table, or the figures by name with ``--json``."""
    if "--json" in sys.argv[1:]:
        costs = {thing: asdict(cost_of(thing)) for thing in WORK}
        print(json.dumps({"costs": costs, "lone": calls_of_a_lone_workflow()}))
        return
    table = Table(
        "one", "commits", "statements", "of them reads", "rows", "bytes of SQL", "Python calls", box=None
    )
    for thing in WORK:
        cost = cost_of(thing)
        values = (cost.commits, cost.statements, cost.reads, cost.rows, cost.bytes, cost.calls)
        table.add_row(thing, *(f"{value:,g}" for value in values))
    Console().print(table)


if __name__ == "__main__":
    main()
