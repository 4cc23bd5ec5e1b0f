"""A runner on its own: attempts are started, and their ends taken, without a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from tests.activities.running import START, running_row

from outlast_activities.attempt_outcome import HandlerOutcome, OutcomeEncoder
from outlast_activities.definitions import ActivityDefinition
from outlast_activities.heartbeats import Heartbeats
from outlast_activities.runner import ActivityRunner
from outlast_activities.stream_buffers import StreamBuffers
from outlast_activities.task import ActivityTask
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.environment import Environment
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.payloads import Payload


class FakeJournal:
    """Takes changes, and settles them when it is told to."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.submitted: list[tuple[Any, Any]] = []

    def submit(self, change: Any, callback: Any) -> None:
        self.submitted.append((change, callback))

    def settle(self, value: Any = None, error: BaseException | None = None) -> list[Any]:
        """Settle everything that was submitted, and return the changes."""
        settled, self.submitted = self.submitted, []
        for _, callback in settled:
            callback(value, error)
        return [change for change, _ in settled]


class Bench:
    """A runner, what it said, and a hand to feed it."""

    def __init__(self, **given: Any) -> None:
        self.lost: list[Any] = []
        self.environment: Environment = given.pop("environment", None) or Environment()
        self.converter: DataConverter = given.pop("converter", None) or DataConverter()
        self.heartbeats = Heartbeats(self.converter, self.environment)
        self.journal = FakeJournal()
        limits = given.get("limits") or StructuralLimits()
        self.streams = StreamBuffers(
            cast("Any", self.journal), OutcomeEncoder(self.converter, limits), self.lost.append
        )
        self.definitions: dict[str, ActivityDefinition[..., Any]] = {}
        self.ends: asyncio.Queue[tuple[ActivityTask, HandlerOutcome]] = asyncio.Queue()
        self.given = 0
        options: dict[str, Any] = {"max_concurrent": 10, **given}
        self.runner = ActivityRunner(
            self.definitions,
            converter=self.converter,
            environment=self.environment,
            heartbeats=self.heartbeats,
            streams=self.streams,
            on_end=lambda task, outcome: self.ends.put_nowait((task, outcome)),
            **options,
        )

    def task(self, definition: Any, *args: Any, **columns: Any) -> ActivityTask:
        self.definitions[definition.name] = definition
        self.given += 1
        given = {"activity_id": self.given, "activity_type": definition.name, "started_at": START + 1_000_000}
        row = running_row(definition.options, **{**given, **columns})
        return ActivityTask(row, self.converter.encode_args(args), "order-1", "Order")

    def start(self, definition: Any, *args: Any, **columns: Any) -> ActivityTask:
        task = self.task(definition, *args, **columns)
        assert self.runner.reserve()
        self.runner.start(task)
        return task

    def tell(self, task: ActivityTask, reason: str) -> bool:
        return self.runner.request_stop(*task.key, reason)

    async def end(self) -> Any:
        """The next end: the plain result, or an AttemptEnd."""
        _, outcome = await self.ends.get()
        return self.converter.decode(outcome) if isinstance(outcome, Payload) else outcome

    async def run(self, definition: Any, *args: Any, **columns: Any) -> Any:
        self.start(definition, *args, **columns)
        return await self.end()


@pytest.fixture
async def new_bench() -> AsyncIterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(**given: Any) -> Bench:
        made.append(Bench(**given))
        return made[-1]

    yield make
    for bench in made:
        bench.runner.close()


@pytest.fixture
async def bench(new_bench: Callable[..., Bench]) -> Bench:
    return new_bench()
