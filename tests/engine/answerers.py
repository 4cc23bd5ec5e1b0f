"""Workflows that answer: queries and updates."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
from tests.engine.programs import add, echo, note

from outlast import workflow
from outlast_workflow.errors import ApplicationError, DurableCallError


class Line(pydantic.BaseModel):
    """A model, to see that arguments and answers are typed."""

    name: str
    count: int = 1


@workflow.defn
class Cart:
    """A cart that is filled by updates and closed by one."""

    @workflow.init
    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.lines: list[Line] = []
        self.closed = False
        self.begun = False

    @workflow.run
    async def run(self, owner: str) -> list[str]:
        self.begun = True
        await workflow.wait_condition(lambda: self.closed)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return [line.name for line in self.lines]

    @workflow.update
    def put(self, line: Line) -> int:
        self.lines.append(line)
        return len(self.lines)

    @put.validator
    def check_put(self, line: Line) -> None:
        if line.count < 1:
            raise ValueError("put at least one")

    @workflow.update(name="pay")
    async def pay_for_it(self, cents: int) -> Line:
        total = await add(cents, len(self.lines))
        return Line(name=f"{self.owner} paid", count=total)

    @workflow.update
    async def wait_for(self, count: int) -> int:
        await workflow.wait_condition(lambda: len(self.lines) >= count)
        return len(self.lines)

    @workflow.update
    async def close(self) -> str:
        self.closed = True
        info = workflow.current_update_info()
        assert info is not None
        return f"{info.name} begun={self.begun}"

    @workflow.update
    async def fail(self) -> None:
        raise ApplicationError("no money", "details", type="Poor")

    @workflow.update
    def crash(self) -> None:
        raise KeyError("typo")

    @workflow.signal
    def drop(self, name: str) -> None:
        self.lines = [line for line in self.lines if line.name != name]

    @workflow.query
    def count(self) -> int:
        return len(self.lines)

    @workflow.query
    def line(self, index: int) -> Line:
        return self.lines[index]

    @workflow.query(name="state")
    def state_of_it(self) -> dict[str, Any]:
        return {"owner": self.owner, "begun": self.begun, "closed": self.closed}

    @workflow.query
    def meddle(self) -> None:
        _ = workflow.start_activity(note, "from a query")

    @workflow.query
    def meddle_quietly(self) -> str:
        try:
            workflow.uuid4()
        except Exception:
            return "nobody saw it"
        return "allowed"


@workflow.defn
class Meddler:
    """Its validators try to change the run."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] | None = None
        self.heard: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        self.done = asyncio.get_running_loop().create_future()
        await self.done
        return self.heard

    @workflow.signal
    def finish(self) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result(None)

    @workflow.update
    def wake(self) -> str:
        return "woken"

    @wake.validator
    def check_wake(self) -> None:
        if self.done is not None:
            self.done.set_result(None)

    @workflow.update
    def sneak(self) -> str:
        return "sneaked"

    @sneak.validator
    def check_sneak(self) -> None:
        try:
            _ = workflow.start_activity(note, "from a validator")
        except Exception:
            pass

    @workflow.update
    def fine(self, word: str) -> str:
        self.heard.append(word)
        return word


@workflow.defn
class Relay:
    """Continues as new on each `next`; remembers what it was told."""

    @workflow.init
    def __init__(self, number: int, told: list[str]) -> None:
        self.number = number
        self.told = told
        self.going = False
        self.ended = False

    @workflow.run
    async def run(self, number: int, told: list[str]) -> list[str]:
        await workflow.wait_condition(lambda: self.going or self.ended)
        if self.ended:
            return self.told
        workflow.continue_as_new(number + 1, self.told)

    @workflow.update
    def tell(self, word: str) -> list[str]:
        self.told.append(word)
        return [f"run {self.number}", *self.told]

    @workflow.update
    async def never(self) -> None:
        await asyncio.sleep(100_000)

    @workflow.signal
    def go_on(self) -> None:
        self.going = True

    @workflow.signal
    def end(self) -> None:
        self.ended = True

    @workflow.query
    def where(self) -> int:
        return self.number


@workflow.defn
class Hasty:
    """Continues as new at once, so many times; its last run says what all were told."""

    @workflow.init
    def __init__(self, rounds: int, told: list[str]) -> None:
        self.told = list(told)

    @workflow.run
    async def run(self, rounds: int, told: list[str]) -> list[str]:
        if rounds:
            workflow.continue_as_new(rounds - 1, self.told)
        await workflow.wait_condition(lambda: len(self.told) >= 3)
        return self.told

    @workflow.update
    def tell(self, word: str) -> int:
        self.told.append(word)
        return len(self.told)


@workflow.defn
class Brief:
    """Ends at once, whatever is asked; says what it was asked before."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        return self.asked

    @workflow.update
    def ask(self, word: str) -> int:
        self.asked.append(word)
        return len(self.asked)


@workflow.defn
class Anything:
    """Takes every update and every query."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @workflow.run
    async def run(self, count: int) -> list[Any]:
        await workflow.wait_condition(lambda: len(self.seen) >= count)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self.seen

    @workflow.update(dynamic=True)
    async def any_update(self, name: str, args: list[Any]) -> str:
        self.seen.append([name, args])
        return str(await echo(name))

    @workflow.query(dynamic=True)
    def any_query(self, name: str, args: list[Any]) -> list[Any]:
        return [name, args, len(self.seen)]


@workflow.defn
class Ordered:
    """Says in which order things happened."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.go = False

    @workflow.run
    async def run(self) -> list[str]:
        self.log.append("run")
        await workflow.wait_condition(lambda: self.go)
        self.log.append("end")
        return self.log

    @workflow.signal
    async def say(self, word: str) -> None:
        self.log.append(f"signal {word}")

    @workflow.update
    async def put(self, word: str) -> list[str]:
        self.log.append(f"update {word}")
        return list(self.log)

    @put.validator
    def check_put(self, word: str) -> None:
        if f"signal {word}" not in self.log:
            raise ValueError(f"no signal before {self.log}")

    @workflow.signal
    def finish(self) -> None:
        self.go = True

    @workflow.update
    async def go_on_as_new(self) -> None:
        workflow.continue_as_new()


@workflow.defn
class Broken:
    """Its task fails after the first workflow task, while this is True."""

    failing = True

    def __init__(self) -> None:
        self.steps = 0

    @workflow.run
    async def run(self) -> int:
        self.steps = 1
        await asyncio.sleep(10)
        self.steps = 2
        if Broken.failing:
            raise DurableCallError("not yet")
        return self.steps

    @workflow.query
    def where(self) -> int:
        return self.steps


@workflow.defn
class Failing:
    """Fails when it is told to."""

    @workflow.run
    async def run(self) -> None:
        await asyncio.sleep(1000)

    @workflow.signal
    def fail(self) -> None:
        raise ApplicationError("told to")


@workflow.defn
class Leaver:
    """Its query and its validator raise what ends programs and tasks."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.query
    def ask(self, how: str) -> str:
        return leave(how)

    @workflow.update
    def tell(self, how: str) -> str:
        return how

    @tell.validator
    def check_tell(self, how: str) -> None:
        leave(how)


def leave(how: str) -> str:
    for leaving in (SystemExit, asyncio.CancelledError, GeneratorExit):
        if leaving.__name__ == how:
            raise leaving
    return how


WORKFLOWS = [value for value in list(globals().values()) if hasattr(value, "__outlast_workflow__")]
