"""Events that reach runs which correlate: how many a second, and whether that depends on how many wait.

Many runs listen to one type of events, each to those of its own order. Their worker has stopped, so what is timed is
the router alone: it reads what was published, finds out who listens, and sends each run its event as a signal. Two
databases take turns, one where few runs wait and one where many do.
"""

from __future__ import annotations

import asyncio
import statistics
from contextlib import AsyncExitStack

from benchmarks.harness.figures import Figure
from benchmarks.harness.measuring import Timing, expect, timed
from outlast import Client, Worker
from outlast_serverless import Document, Runtime

LISTEN = """
document: {dsl: '1.0.3', namespace: bench, name: listen, version: '1.0.0'}
do:
  - paid:
      listen:
        to:
          one:
            with: {type: order.paid}
            correlate: {order: {from: .data.order, expect: '${ .id }'}}
"""
_AT_ONCE = 200
_WINDOWS = 10
"""How many windows the events are published in; few enough for the smaller database to have a run for each."""


async def _filled(client: Client, runtime: Runtime, waiting: int) -> None:
    """Start runs that wait, each for its order."""
    document = Document.parse(LISTEN)
    async with Worker(client, workflows=runtime.workflows, activities=runtime.activities):
        for first in range(0, waiting, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, waiting))
            runs = await asyncio.gather(
                *(runtime.start(document, {"id": number}, id=f"o-{number}") for number in numbers)
            )
            for run in runs:
                while not (await run.describe()).open:
                    await asyncio.sleep(0.02)


async def _window(client: Client, runtime: Runtime, orders: range, name: str) -> Timing:
    given = [
        {"id": f"{name}-{order}", "source": "/bench", "type": "order.paid", "data": {"order": order}}
        for order in orders
    ]
    expect("how many events are new", await runtime.publish_all(given), len(given))
    with timed(len(given)) as timing:
        routed = await runtime.route()
    expect("how many events were routed", routed, len(given))
    handle = client.handle(f"o-{orders[-1]}")
    signals = [one async for one in handle.history() if one.type == "SignalReceived"]
    expect("whether the last run got its event", bool(signals), True)
    return timing


async def _routing(waiting: tuple[int, int], events: int) -> list[Figure]:
    found: list[list[Timing]] = [[], []]
    async with AsyncExitStack() as stack:
        sides = []
        for count in waiting:
            client = await stack.enter_async_context(Client.connect("sqlite://"))
            # Nobody else routes: it is not entered.
            runtime = Runtime(client)
            await _filled(client, runtime, count)
            sides.append((client, runtime))
        size = min(events // _WINDOWS, waiting[0])
        for number in range(_WINDOWS + 1):
            order = range(2) if number % 2 else range(1, -1, -1)
            for side in order:
                client, runtime = sides[side]
                # Each window reaches other runs, as far as there are some.
                first = number * size % (waiting[side] - size + 1)
                timing = await _window(client, runtime, range(first, first + size), f"w{number}")
                if number:
                    found[side].append(timing)
    few, many = found
    rate = sum(one.count for one in many) / sum(one.cpu_s for one in many)
    ratio = statistics.median(late.cpu_s / early.cpu_s for early, late in zip(few, many, strict=True))
    by_time = sum(one.count for one in many) / sum(one.wall_s for one in many)
    return [
        Figure(
            "events",
            "sqlite",
            f"events routed in a second of CPU, {waiting[1]:,} runs waiting",
            rate,
            "/s",
            1_000,
            at_least=True,
            details={"by time /s": by_time},
        ),
        Figure(
            "events",
            "sqlite",
            f"an event where {waiting[1]:,} runs wait to one where {waiting[0]:,} do, CPU",
            ratio,
            "×",
            1.2,
        ),
    ]


def routing(waiting: tuple[int, int], events: int) -> list[Figure]:
    """Measure the router.

    Args:
        waiting: How many runs wait, in the smaller and in the larger database.
        events: How many events are routed.
    """
    return asyncio.run(_routing(waiting, events))
