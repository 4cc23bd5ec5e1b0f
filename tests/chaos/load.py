"""The load: a client that starts workflows, sends signals, waits for results, and keeps a ledger of the answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from tests.chaos.ledger import Ledger
from tests.chaos.programs import Tally, family, laps

from holdfast import Client, StartOptions
from holdfast.errors import StoreError, WorkflowAlreadyStartedError, WorkflowResultError

T = TypeVar("T")

STEPS = 3
SIGNALS = 3
LAPS = 3
CHILDREN = 3
BUSY_S = 0.3


def expected(workflow_id: str) -> Any:
    """What a workflow must return, from its id alone."""
    kind = workflow_id.partition("-")[0]
    if kind == "tally":
        return [sum(range(2 * STEPS)), *range(SIGNALS)]
    return {"laps": 0, "family": sum(range(CHILDREN))}[kind]


class Load:
    """So many workflows at a time, until told to stop; each ends before the load does."""

    def __init__(self, client: Client, ledger: Ledger, rng: random.Random, in_flight: int) -> None:
        self._client = client
        self._ledger = ledger
        self._rng = rng
        self._in_flight = in_flight
        self._number = 0
        self._stopping = False
        self.retries = 0

    def stop(self) -> None:
        """Start nothing more."""
        self._stopping = True

    async def run(self) -> None:
        """Work until :meth:`stop`, and until every workflow has ended."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._in_flight):
                group.create_task(self._customer())

    async def _customer(self) -> None:
        while not self._stopping:
            self._number += 1
            kind = self._rng.choice(["tally", "tally", "laps", "family"])
            await self._one(f"{kind}-{self._number}", kind)

    async def _one(self, workflow_id: str, kind: str) -> None:
        workflow, args = {
            "tally": (Tally.run, (STEPS, SIGNALS)),
            "laps": (laps, (LAPS,)),
            "family": (family, (CHILDREN,)),
        }[kind]
        start: Any = self._client.start

        async def start_once() -> Any:
            try:
                return await start(workflow, *args, id=workflow_id, options=StartOptions.reject_duplicate())
            except WorkflowAlreadyStartedError:  # it was: the answer got lost
                return self._client.handle(workflow_id)

        handle = await self._until_told(start_once)
        self._ledger.note("started", workflow_id)
        if kind == "tally":
            for number in range(SIGNALS):
                await self._until_told(partial(handle.signal, "add", number, request_id=f"s-{number}"))
                self._ledger.note("signalled", workflow_id, number)
        try:
            result = await self._until_told(handle.result)
        except WorkflowResultError as error:
            result = f"{error} ({error.__cause__})"
        self._ledger.note("result", workflow_id, result)

    async def _until_told(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer: every request here bears a key, so asking twice is asking once."""
        while True:
            try:
                return await ask()
            except StoreError:
                self.retries += 1
                await asyncio.sleep(BUSY_S)
