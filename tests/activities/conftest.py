"""A runner on its own: attempts are started, and their ends taken, without a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from holdfast_activities.attempts import AttemptEnd
from holdfast_activities.definitions import ActivityDefinition
from holdfast_activities.heartbeats import Heartbeats
from holdfast_activities.runner import ActivityRunner
from holdfast_activities.task import ActivityTask
from holdfast_store.rows import ActivityRow
from holdfast_workflow.converter import DataConverter
from holdfast_workflow.environment import Environment
from holdfast_workflow.payloads import Payload

START = 1_800_000_000_000_000


class Bench:
    """A runner, what it said, and a hand to feed it."""

    def __init__(self, **given: Any) -> None:
        self.environment: Environment = given.pop("environment", None) or Environment()
        self.converter: DataConverter = given.pop("converter", None) or DataConverter()
        self.heartbeats = Heartbeats(self.converter, self.environment)
        self.definitions: dict[str, ActivityDefinition[..., Any]] = {}
        self.ends: asyncio.Queue[tuple[ActivityTask, Payload | AttemptEnd]] = asyncio.Queue()
        self.given = 0
        options: dict[str, Any] = {"max_concurrent": 10, **given}
        self.runner = ActivityRunner(
            self.definitions,
            converter=self.converter,
            environment=self.environment,
            heartbeats=self.heartbeats,
            on_end=lambda task, outcome: self.ends.put_nowait((task, outcome)),
            **options,
        )

    def task(self, definition: Any, *args: Any, **columns: Any) -> ActivityTask:
        self.definitions[definition.name] = definition
        self.given += 1
        values: dict[str, Any] = {
            "run_id": "run-1",
            "activity_id": self.given,
            "activity_type": definition.name,
            "task_queue": "default",
            "priority": 5,
            "scheduled_seq": 3,
            "status": "running",
            "attempt": 1,
            "uncharged": 0,
            "rescues": 0,
            "scheduled_at": START,
            "available_at": START,
            "claimed_by": "worker-1",
            "started_at": START + 1_000_000,
            "heartbeat_at": None,
            "heartbeat_details": None,
            "options": definition.options.snapshot.json.decode(),
            "last_failure": None,
            "schedule_to_start_deadline_at": None,
            "start_to_close_deadline_at": None,
            "schedule_to_close_deadline_at": None,
            "heartbeat_deadline_at": None,
            "next_deadline_at": None,
            "cancel_requested": False,
            "local": False,
            "closed_at": None,
        }
        row = ActivityRow(**{**values, **columns})
        return ActivityTask(row, self.converter.encode_args(args), "order-1", "Order")

    def start(self, definition: Any, *args: Any, **columns: Any) -> ActivityTask:
        task = self.task(definition, *args, **columns)
        assert self.runner.take()
        self.runner.start(task)
        return task

    def tell(self, task: ActivityTask, reason: str) -> bool:
        return self.runner.tell(*task.key, reason)

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
