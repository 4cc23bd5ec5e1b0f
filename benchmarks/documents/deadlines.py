"""How late a watchdog alone decides the deadlines of documents whose worker was killed.

A process of its own starts the runs, and is killed before the first deadline passes: of a third of the runs the
workflow has a timeout, of a third a task that waits, of a third a call that nobody makes. Then one watchdog lives, and
nobody else. Lateness is taken from the histories.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.databases import BACKENDS, Backend, Databases
from benchmarks.harness.figures import Figure
from benchmarks.harness.measuring import expect, percentile
from benchmarks.watchdog.lateness import EVENTS, latenesses
from outlast import Client, Worker
from outlast.watchdog import TaskWatchdog
from outlast_serverless import Document, Runtime
from outlast_store.database.sql_text import fetch

KINDS: Final = {
    "runs": "timeout: {after: '${ .left }'}\ndo: [{pause: {wait: PT12H}}]",
    "timers": "do: [{pause: {wait: PT12H, timeout: {after: '${ .left }'}}}]",
    "activities": (
        "do: [{ask: {call: http, with: {method: get, endpoint: 'http://127.0.0.1:9/'},"
        " timeout: {after: '${ .left }'}}}]"
    ),
}
"""A document for each kind of deadline."""
HEAD: Final = "document: {dsl: '1.0.3', namespace: bench, name: NAME, version: '1.0.0'}\n"
TARGET_S: Final = 1.25
A_SECOND: Final = 1_000
"""How many deadlines pass in a second."""
_AT_ONCE: Final = 100
_STARTED_A_SECOND: Final = 150
_PATIENCE_S: Final = 120.0


async def _start(url: str, number: int, first: float, told: Connection) -> None:
    """Start the runs and bring each to its wait; the deadlines pass one after the other from an instant on."""
    async with Client.connect(url) as client:
        runtime = Runtime(client)
        documents = [Document.parse(HEAD.replace("NAME", kind) + text) for kind, text in KINDS.items()]
        async with Worker(client, workflows=runtime.workflows):

            async def begin(index: int) -> None:
                left = first + index / A_SECOND - time.time()
                run = await runtime.start(
                    documents[index % len(documents)], {"left": f"PT{left:.3f}S"}, id=f"run-{index}"
                )
                while not (await run.describe()).open:
                    await asyncio.sleep(0.02)

            for start in range(0, number, _AT_ONCE):
                await asyncio.gather(*map(begin, range(start, min(start + _AT_ONCE, number))))
            told.send("started" if time.time() < first else "too slow: the first deadline has passed")
            await asyncio.Event().wait()


async def _decided(client: Client) -> int:
    marks = ", ".join("?" for _ in EVENTS)
    text = f"SELECT count(*) FROM history_events WHERE type IN ({marks})"
    [(number,)] = await client.runtime.read(fetch, text, tuple(EVENTS.values()))
    return int(number)


async def _watched(url: str, number: int, last: float) -> dict[str, list[float]]:
    """Be the watchdog until all is decided; return how late each deadline was decided, in milliseconds."""
    # It says of each deadline that it passed.
    logging.disable(logging.CRITICAL)
    async with Client.connect(url) as client:
        watchdog = TaskWatchdog(client)
        watchdog.start()
        await asyncio.sleep(max(0.0, last - time.time()))
        async with asyncio.timeout(_PATIENCE_S):
            while await _decided(client) < number:
                await asyncio.sleep(1)
        await watchdog.stop()
        logging.disable(logging.NOTSET)
        return {kind: await latenesses(client, kind) for kind in KINDS}


def _measure(backend: Backend, url: str, number: int) -> Figure:
    lead_s = 5 + number / _STARTED_A_SECOND
    process = multiprocessing.get_context("spawn")
    first = time.time() + lead_s
    ready, told = process.Pipe(duplex=False)
    starter = process.Process(target=_starter, args=(url, number, first, told), daemon=True)
    starter.start()
    told.close()
    try:
        expect(f"whether {number:,} runs were started in {lead_s:g} s", ready.recv(), "started")
    finally:
        starter.kill()
        starter.join()
    found = asyncio.run(_watched(url, number, first + number / A_SECOND))
    late: list[float] = []
    for index, (kind, each) in enumerate(found.items()):
        expect(f"how many {kind} were decided", len(each), len(range(index, number, len(KINDS))))
        expect(f"how many {kind} were early", sum(one < 0 for one in each), 0)
        late += each
    what = f"{number:,} deadlines of documents at {A_SECOND:,} a second, with a watchdog alone: late by, p99"
    details: dict[str, Any] = {"p50 ms": percentile(late, 0.5), "max ms": max(late)}
    return Figure("deadlines", backend, what, percentile(late, 0.99) / 1000, "s", TARGET_S, details=details)


def _starter(url: str, number: int, first: float, told: Connection) -> None:
    asyncio.run(_start(url, number, first, told))


def deadlines(number: int) -> list[Figure]:
    """Measure on each database.

    Args:
        number: How many deadlines.
    """
    with tempfile.TemporaryDirectory() as folder, Databases(Path(folder)) as databases:
        found: list[Figure] = []
        for backend in BACKENDS:
            with databases.fresh(backend) as url:
                found.append(_measure(backend, url, number))
        return found
