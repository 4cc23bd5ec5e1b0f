"""Workflows that are spoken to: signals, queries and updates."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.engine.programs import add, echo, note

from outlast import workflow
from outlast_workflow.errors import ApplicationError


@workflow.defn
class Approval:
    """Waits for an approval; says who gave it, and what it was told before."""

    @workflow.init
    def __init__(self, order_id: str) -> None:
        self.heard: list[str] = [f"made for {order_id}"]
        self.by: str | None = None

    @workflow.run
    async def run(self, order_id: str) -> list[str]:
        self.heard.append("begun")
        await workflow.wait_condition(lambda: self.by is not None)
        return [*self.heard, f"approved by {self.by}"]

    @workflow.signal
    def approve(self, by: str = "nobody") -> None:
        self.by = by

    @workflow.signal(name="note")
    async def take_note(self, text: str) -> None:
        self.heard.append(text)


@workflow.defn
class Patient:
    """Waits for a word at most so long."""

    def __init__(self) -> None:
        self.word = ""

    @workflow.run
    async def run(self, seconds: float) -> str:
        try:
            await workflow.wait_condition(lambda: self.word, timeout=seconds)
        except TimeoutError:
            return "nothing"
        return self.word

    @workflow.signal
    def say(self, word: str) -> None:
        self.word = word


@workflow.defn
class Mutex:
    """Several wait for one thing: each has it to itself."""

    def __init__(self) -> None:
        self.free = True
        self.log: list[str] = []

    @workflow.run
    async def run(self, names: list[str]) -> list[str]:
        await asyncio.gather(*[self.use(name) for name in names])
        return self.log

    async def use(self, name: str) -> None:
        await workflow.wait_condition(lambda: self.free)
        self.free = False
        self.log.append(f"{name} in")
        await echo(name)
        self.log.append(f"{name} out")
        self.free = True


@workflow.defn
class Collector:
    """Handles signals with activities, in order, until it is told to stop."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.stopped = False

    @workflow.run
    async def run(self) -> list[int]:
        await workflow.wait_condition(lambda: self.stopped)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self.seen

    @workflow.signal
    async def take(self, number: int) -> None:
        self.seen.append(number)
        await add(number, 0)

    @workflow.signal
    def stop(self) -> None:
        self.stopped = True


@workflow.defn
class Relay:
    """Continues as new at once; its last run says what all have heard."""

    @workflow.init
    def __init__(self, rounds: int, heard: list[str]) -> None:
        self.heard = list(heard)

    @workflow.run
    async def run(self, rounds: int, heard: list[str]) -> list[str]:
        if rounds:
            workflow.continue_as_new(rounds - 1, self.heard)
        await workflow.wait_condition(lambda: len(self.heard) >= 3)
        return self.heard

    @workflow.signal
    def hear(self, word: str) -> None:
        self.heard.append(word)


@workflow.defn
class Catchall:
    """Takes every signal."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @workflow.run
    async def run(self, count: int) -> list[Any]:
        await workflow.wait_condition(lambda: len(self.seen) >= count)
        return self.seen

    @workflow.signal(dynamic=True)
    def anything(self, name: str, args: list[Any]) -> None:
        self.seen.append([name, args])


@workflow.defn(name="Rolling")
class Rolling:
    """Continues as new for each signal; the last run has a handler for what the first had none for."""

    @workflow.init
    def __init__(self, left: int, seen: list[str]) -> None:
        self.seen = list(seen)
        self.news: list[str] = []

    @workflow.run
    async def run(self, left: int, seen: list[str]) -> list[str]:
        await workflow.wait_condition(lambda: self.news)
        self.seen += self.news
        if left <= 1:
            return self.seen
        workflow.continue_as_new(left - len(self.news), self.seen)

    @workflow.signal
    def tell(self, text: str) -> None:
        self.news.append(text)


@workflow.defn
class Deaf:
    """Has no handler; goes on as what it is told."""

    @workflow.run
    async def run(self, seconds: float) -> list[Any]:
        await asyncio.sleep(seconds)
        workflow.continue_as_new(seconds)


@workflow.defn
class Messenger:
    """Signals other workflows, and says how that went."""

    @workflow.run
    async def run(self, workflow_ids: list[str]) -> list[str]:
        said: list[str] = []
        for workflow_id in workflow_ids:
            try:
                await workflow.external(workflow_id).signal(Approval.approve, workflow.info().workflow_id)
                said.append("sent")
            except Exception as error:
                said.append(type(error).__name__)
        return said


@workflow.defn
class FireAndForget:
    """Signals as its last act."""

    @workflow.run
    async def run(self, workflow_id: str) -> str:
        self.parting = workflow.external(workflow_id).signal("approve", "parting")
        return "gone"


@workflow.defn
class Fragile:
    """Its handler raises."""

    @workflow.run
    async def run(self) -> None:
        await asyncio.sleep(1000)

    @workflow.signal
    async def break_it(self) -> None:
        raise ApplicationError("broken", type="Broken")


@workflow.defn
class Busy:
    """Ends at its first signal, after an activity; counts those that came."""

    def __init__(self) -> None:
        self.count = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_condition(lambda: self.count > 0)
        await note("busy")
        return self.count

    @workflow.signal
    def ping(self) -> None:
        self.count += 1


WORKFLOWS = [value for value in list(globals().values()) if hasattr(value, "__outlast_workflow__")]
