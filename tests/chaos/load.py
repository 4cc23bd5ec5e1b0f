"""The load: a client that starts workflows, asks things of them, and keeps a ledger of what it is told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.chaos.ledger import Ledger
from tests.chaos.programs import Tally, Till, brief, errand, family, laps, patience, questions, vigil
from tests.chaos.queues import CHANGED, PARTITIONS, QUEUES

from outlast import Client, StartOptions, WorkflowHandle
from outlast.errors import (
    AttemptNotRunningError,
    NoWorkerError,
    RequestError,
    RequestTimeoutError,
    StoreError,
    WorkflowAlreadyStartedError,
    WorkflowCancelledError,
    WorkflowClosedError,
    WorkflowResultError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast_activities.task_token import read_token

T = TypeVar("T")

STEPS = SIGNALS = LAPS = CHILDREN = UPDATES = 3
QUESTIONS = 2
OVERDUE_S = 1.0
ASK_S = 2.0
BUSY_S = 0.3
REASON = "enough"
UNTOLD = (StoreError, NoWorkerError, RequestTimeoutError)
"""Nobody can know what came of a request, or nobody is there to answer it: it is to be made again."""

PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "tally": (Tally.run, (STEPS, SIGNALS)),
    "till": (Till.run, (UPDATES, [])),
    "laps": (laps, (LAPS,)),
    "family": (family, (CHILDREN,)),
    "cancelled": (vigil, (CHILDREN,)),
    "terminated": (laps, (LAPS,)),
    "overdue": (vigil, (CHILDREN,)),
    "patience": (patience, ()),
    "errand": (errand, (QUESTIONS,)),
    "brief": (brief, ()),
}
"""What is started, by the first word of its workflow id."""

ENDS: dict[str, list[list[Any]]] = {
    "tally": [["completed", [sum(range(2 * STEPS)), *range(SIGNALS)]]],
    "till": [["completed", list(range(UPDATES))]],
    "laps": [["completed", 0]],
    "family": [["completed", sum(range(CHILDREN))]],
    "cancelled": [["cancelled", REASON]],
    "terminated": [["terminated", REASON], ["completed", 0]],  # it may have come to its end before
    "overdue": [["timed_out", "run_timeout"]],
    "patience": [["completed", "start_to_close"]],
    "errand": [["completed", ["yes"] * (QUESTIONS + 2)]],
    "brief": [["completed", "brief"]],
}
BRIEF_IN_QUEUES = 4
"""Where all goes through queues, this many of five are brief: who only waits makes no news for the gates."""


def ends(workflow_id: str) -> list[list[Any]]:
    """How a workflow may end, from its id alone: its status, and what it returned or by what it was ended."""
    return ENDS[workflow_id.partition("-")[0]]


class Load:
    """So many workflows at a time, of each kind in turn, until told to stop; all have ended before the load does."""

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        rng: random.Random,
        in_flight: int,
        questions: Path,
        *,
        queued: bool = False,
    ) -> None:
        self._queued = queued
        self._questions = questions
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
            if self._queued:
                group.create_task(self._operator())
        await self.until_all_have_ended()

    async def until_all_have_ended(self) -> None:
        """Children, too, that their parents' ends have to end."""
        while await self._until_told(partial(self._client.count, open=True)):  # noqa: ASYNC110
            await asyncio.sleep(BUSY_S)

    async def _customer(self) -> None:
        kinds = list(PROGRAMS)
        while not self._stopping:
            self._number += 1
            kind = kinds[self._number % len(kinds)]
            if self._queued and self._rng.randrange(5) < BRIEF_IN_QUEUES:
                kind = "brief"
            await self.one(f"{kind}-{self._number}")

    async def _operator(self) -> None:
        """Change the limits of a queue, pause it and resume it, again and again."""
        queue = next(one for one in QUEUES if one.name == CHANGED)
        assert queue.concurrency is not None
        assert queue.worker_concurrency is not None
        while not self._stopping:
            await asyncio.sleep(self._rng.uniform(0.1, 0.5))
            most = self._rng.randint(1, queue.concurrency)
            worker = self._rng.randint(1, queue.worker_concurrency)
            change = partial(
                self._client.queues.update,
                queue.name,
                concurrency=most,
                worker_concurrency=min(worker, most),
            )
            await self._until_told(change)
            if self._rng.random() < 0.3:
                await self._until_told(partial(self._client.queues.pause, queue.name, "for a moment"))
                await asyncio.sleep(self._rng.uniform(0, 0.2))
                await self._until_told(partial(self._client.queues.resume, queue.name))

    async def one(self, workflow_id: str) -> None:
        """Start one workflow, ask of it what is asked of its kind, and wait for its end."""
        kind = workflow_id.partition("-")[0]
        handle = await self._until_told(partial(self._start, workflow_id, kind))
        self._ledger.note("started", workflow_id)
        if kind == "tally":
            for number in range(SIGNALS):
                await self._until_told(partial(handle.signal, "add", number, request_id=f"s-{number}"))
                self._ledger.note("signalled", workflow_id, number)
        elif kind == "till":
            await asyncio.gather(*[self._put(handle, number) for number in range(UPDATES)])
        elif kind in ("cancelled", "terminated"):
            await asyncio.sleep(self._rng.uniform(0, 0.5))
            await self._end(handle, kind)
        outside = asyncio.create_task(self._answer(workflow_id)) if kind == "errand" else None
        self._ledger.note("result", workflow_id, await self._until_told(partial(_end_of, handle)))
        if outside is not None:
            outside.cancel()
            await asyncio.wait([outside])
            if not outside.cancelled():
                outside.result()
        if kind == "till":
            await self._update(handle, 0)  # again: the answer is there to stay

    async def _start(self, workflow_id: str, kind: str) -> WorkflowHandle[Any]:
        workflow, args = PROGRAMS[kind]
        options = StartOptions(
            duplicate_policy="reject_duplicate", run_timeout=OVERDUE_S if kind == "overdue" else None
        )
        if self._queued:
            number = int(workflow_id.rpartition("-")[2])
            queue, partition = QUEUES[number % len(QUEUES)], PARTITIONS[number % len(PARTITIONS)]
            options = options.with_queue(queue.name, partition)
        start: Any = self._client.start
        try:
            handle: WorkflowHandle[Any] = await start(workflow, *args, id=workflow_id, options=options)
        except WorkflowAlreadyStartedError:  # it was: the answer got lost
            handle = self._client.handle(workflow_id)
        return handle

    async def _put(self, handle: WorkflowHandle[Any], number: int) -> None:
        """An update; then a query, which must know of it."""
        await self._update(handle, number)
        seen = await self._until_told(lambda: handle.query(Till.seen, timeout=ASK_S))
        self._ledger.note("queried", handle.workflow_id, [number, seen])

    async def _answer(self, workflow_id: str) -> None:
        """Answer what a workflow asks: mostly yes, at once; sometimes with a failure, or not at all."""
        answered = 0
        while True:
            found = questions(self._questions, workflow_id)
            for token in found[answered:]:
                await self._answer_one(token)
            answered = len(found)
            await asyncio.sleep(0.02)

    async def _answer_one(self, token: str) -> None:
        run_id, activity_id, attempt = read_token(token)
        chance = self._rng.random()
        if chance < 0.1:
            return
        complete = partial(self._client.complete_activity, token, ["yes", attempt])
        fail = partial(self._client.fail_activity, token, "no")
        what, verb = ("failed", fail) if chance < 0.2 else ("completed", complete)
        if await self._verb(verb):
            self._ledger.note(what, run_id, [activity_id, attempt])
            # Once more, as by a webhook that is delivered twice: whatever is taken now is one too many.
            if await self._verb(complete):
                self._ledger.note("completed", run_id, [activity_id, attempt])

    async def _verb(self, verb: Callable[[], Awaitable[None]]) -> bool:
        """Carry out a verb; return whether it was acknowledged at the first try, so that what it did is known."""
        tries = 0
        while True:
            tries += 1
            try:
                await verb()
            except AttemptNotRunningError:
                return False
            except UNTOLD:
                self.retries += 1
                await asyncio.sleep(BUSY_S)
            else:
                return tries == 1

    async def _update(self, handle: WorkflowHandle[Any], number: int) -> None:
        key = f"u-{number}"
        try:
            answer: Any = await self._until_told(
                lambda: handle.execute_update(Till.put, number, id=key, timeout=ASK_S)
            )
        except (RequestError, WorkflowClosedError) as error:
            answer = f"{error} ({error.__cause__})"
        self._ledger.note("answered", handle.workflow_id, [key, answer])

    async def _end(self, handle: WorkflowHandle[Any], how: str) -> None:
        ask = handle.cancel if how == "cancelled" else handle.terminate
        try:
            await self._until_told(partial(ask, REASON))
        except WorkflowClosedError:
            return  # by itself, or by this very request, whose answer got lost
        self._ledger.note(how, handle.workflow_id)

    async def _until_told(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer: every request here bears a key or can be made twice, so that is asking once."""
        while True:
            try:
                return await ask()
            except UNTOLD:
                self.retries += 1
                await asyncio.sleep(BUSY_S)


async def _end_of(handle: WorkflowHandle[Any]) -> list[Any]:
    """How a workflow has ended, in the words of :func:`ends`."""
    try:
        return ["completed", await handle.result()]
    except WorkflowCancelledError as error:
        return ["cancelled", error.reason]
    except WorkflowTerminatedError as error:
        return ["terminated", error.reason]
    except WorkflowTimeoutError as error:
        return ["timed_out", error.timeout_kind]
    except WorkflowResultError as error:
        return ["failed", f"{error} ({error.__cause__})"]
