"""A workflow that a test leads through heartbeats, a failure, a timeout and continue-as-new, by a file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from outlast import RetryPolicy, activity, workflow
from outlast_dag import DagBuilder


@activity.defn(
    # Long enough for a busy machine; one test waits until the heartbeat's is over.
    start_to_close_timeout=3600,
    heartbeat_timeout=5,
    retry_policy=RetryPolicy(initial_interval=0.1, max_attempts=5),
)
async def import_rows(total: int) -> int:
    """Does what the file says: a number is a heartbeat, ``fail 1`` fails the first attempt, ``hang 2`` the second."""
    control = Path(os.environ["CONTROL"])
    while True:
        word, _, attempt = control.read_text().partition(" ")  # noqa: ASYNC240  # a few bytes
        if word == "done":
            return total
        if word.isdecimal():
            activity.heartbeat(int(word), total)
        elif word == "fail" and activity.info().attempt == int(attempt):
            raise RuntimeError("the source hung up")
        elif word == "hang" and activity.info().attempt == int(attempt):
            await asyncio.sleep(3600)
        await asyncio.sleep(0.05)


@workflow.defn
class Journey:
    """Imports, waits for a word, begins anew."""

    def __init__(self) -> None:
        self.word = ""

    @workflow.run
    async def run(self, turn: int) -> str:
        if turn == 0:
            await import_rows(10)
        await workflow.wait_condition(lambda: self.word != "")
        if self.word == "again":
            workflow.continue_as_new(turn + 1)
        return self.word

    @workflow.signal
    def say(self, word: str) -> None:
        self.word = word


@activity.defn(start_to_close_timeout=30)
async def listed(pages: int) -> list[int]:
    return list(range(pages))


@activity.defn(start_to_close_timeout=30, retry_policy=RetryPolicy(initial_interval=3600, max_attempts=3))
async def scanned(page: int) -> int:
    if page == 2:
        raise RuntimeError("the scanner is out of paper")
    return page


@activity.defn(start_to_close_timeout=30)
async def bound(pages: list[int], decision: object) -> int:
    return len(pages)


flow = DagBuilder("Book", timeout=14_400)
_pages = flow.task("listed", listed, flow.input.pages)
_scans = flow.each("scanned", scanned, _pages, max_items=10)
_decision = flow.approval("release", timeout=3600).after(_pages)
flow.task("bound", bound, _scans, _decision)
Book = flow.build()
