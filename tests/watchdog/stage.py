"""A database with rows as the engine writes them, and a clock that stands still until it is told to move.

No worker, no client, no user code: each step is one change handed to the journal, so a test says exactly what was there
when the watchdog came.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import orjson

from outlast.runtime.runtime import Runtime
from outlast_activities.attempts import AttemptEnd, request_cancel, schedule
from outlast_activities.changes import ClaimActivities, CompleteAttempt, EndAttempt
from outlast_activities.deadlines import passed
from outlast_activities.heartbeats import beat
from outlast_runs.claims import RegisterWorker
from outlast_runs.start import StartRun
from outlast_store.database.sql_text import columns_of, fetch
from outlast_store.database.urls import DatabaseUrl
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.reads.histories import read_history
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow, AttemptRow, FailureRow, RunRow, WorkerRow
from outlast_store.transitions.new_runs import first_run, new_seed, started_event
from outlast_watchdog.watchdog import TaskWatchdog
from outlast_workflow.environment import Environment
from outlast_workflow.history.events import (
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityScheduled,
    Event,
    TimerScheduled,
    WorkflowTaskCompleted,
    from_json,
)
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions
from outlast_workflow.primitives.enums import AttemptOutcome, RunStatus
from outlast_workflow.primitives.payloads import Payload

START = 1_767_225_600_000_000
SECOND = 1_000_000
FAILURE = {"category": "application", "type": "Flaky", "message": "not this time"}


class StillClock:
    """Time that moves only when told to."""

    def __init__(self) -> None:
        self.us = START
        self.monotonic_s = 1000.0

    def now(self) -> int:
        return self.us

    def monotonic(self) -> float:
        return self.monotonic_s

    def advance(self, seconds: float) -> None:
        self.advance_us(round(seconds * SECOND))

    def advance_us(self, us: int) -> None:
        self.us += us
        self.monotonic_s += us / SECOND

    def advance_to(self, us: int) -> None:
        self.advance_us(us - self.us)


class Decide(BaseChange):
    """A workflow task, as far as the rows can tell: some commands, recorded and carried out."""

    def __init__(
        self, run_id: str, commands: Sequence[Event], options: ActivityOptions, claimed_by: str | None
    ) -> None:
        self.runs = (run_id,)
        self.activities = tuple(
            (run_id, command.command_id)
            for command in commands
            if isinstance(command, ActivityCancelRequested)
        )
        self.commands = commands
        self.options = options
        self.claimed_by = claimed_by

    def apply(self, batch: Batch) -> None:
        run = batch.run(self.runs[0])
        assert run is not None
        batch.append(
            run,
            WorkflowTaskCompleted(
                through=run.last_seq,
                own=0,
                at=batch.now,
                commands=len(self.commands),
                history_events=run.last_seq,
                history_bytes=run.history_bytes,
                python=11,
            ),
        )
        for command in self.commands:
            seq = batch.append(run, command)
            if isinstance(command, ActivityScheduled):
                schedule(batch, run, seq, command, self.options, self.claimed_by)
            elif isinstance(command, TimerScheduled):
                batch.add_timer(run.run_id, command.command_id, command.fire_at)
            elif isinstance(command, ActivityCancelRequested):
                request_cancel(batch, run, batch.activity(run.run_id, command.command_id))
        run.status = RunStatus.RUNNING.value
        run.started_at = run.started_at or batch.now
        run.wake_at = None


class Beat(BaseChange):
    """A heartbeat, as the ticker writes it: under the lock, unless the deadline came first."""

    def __init__(self, run_id: str, activity_id: int, details: Any, ago_us: int = 0) -> None:
        self.activities = ((run_id, activity_id),)
        self.details = details
        self.ago_us = ago_us

    def apply(self, batch: Batch) -> bool:
        row = batch.activity(*self.activities[0])
        if row is None or row.status != "running" or passed(row, batch.now) is not None:
            return False
        details = orjson.dumps(self.details).decode() if self.details is not None else None
        beat(row, details, batch.now, batch.now - self.ago_us)
        return True


class Sql(BaseChange):
    """Whatever else a test wants written."""

    def __init__(self, text: str, values: tuple[Any, ...]) -> None:
        self.text = text
        self.values = values

    def apply(self, batch: Batch) -> int:
        return batch.execute(self.text, self.values)


class Stage:
    """A runtime, a clock, a watchdog, and short words for what happens in a test."""

    def __init__(self, runtime: Runtime, clock: StillClock | Any) -> None:
        self.runtime = runtime
        self.clock: Any = clock
        self.limits = StructuralLimits()
        self.watchdog = TaskWatchdog(self)
        self._commands: dict[str, int] = {}
        self._runs = 0

    @classmethod
    async def open(cls, url: str, clock: Any = None, *, threads: bool = False, seed: int = 1) -> Stage:
        """On a clock that stands still if none is given."""
        clock = clock or StillClock()
        environment = Environment(clock, rng=random.Random(seed), threads=threads)
        return cls(await Runtime.open(DatabaseUrl.parse(url), environment), clock)

    async def close(self) -> None:
        await self.watchdog.stop()
        await self.runtime.leave()

    async def apply(self, change: Any) -> Any:
        return await self.runtime.journal.apply(change)

    async def sql(self, text: str, *values: Any) -> int:
        changed: int = await self.apply(Sql(text, values))
        return changed

    async def wipe(self) -> None:
        """Leave nothing behind: what a test has spoiled on purpose is no violation of the engine's."""
        for table in (
            "workflow_runs",
            "activity_executions",
            "timers",
            "schedules",
            "alert_timers",
            "outlast_outbox",
            "history_events",
            "workflow_instances",
        ):
            await self.sql(f"DELETE FROM {table}")
        for table in ("activity_attempts", "workflow_failures"):
            await self.sql(f"DELETE FROM {table}")

    # --- runs -------------------------------------------------------------------------------------------------------

    async def start(
        self,
        options: StartOptions | None = None,
        *,
        owner_id: str | None = None,
        workflow_id: str | None = None,
    ) -> str:
        self._runs += 1
        environment = self.runtime.environment
        run = first_run(
            run_id=environment.ids.next(),
            workflow_id=workflow_id or f"workflow-{self._runs}",
            workflow_type="Order",
            task_queue="default",
            options=options or StartOptions(),
            memo=None,
            now=self.clock.now(),
            owner_id=owner_id,
        )
        policy = (options or StartOptions()).duplicate_policy
        started = started_event(run, input=Payload.of([]), seed=7)
        return str((await self.apply(StartRun(run, started, policy))).run_id)

    async def decide(
        self,
        run_id: str,
        *commands: Event,
        options: ActivityOptions | None = None,
        claimed_by: str | None = None,
    ) -> None:
        await self.apply(Decide(run_id, commands, options or ActivityOptions(), claimed_by))

    def command_id(self, run_id: str) -> int:
        self._commands[run_id] = self._commands.get(run_id, 0) + 1
        return self._commands[run_id]

    # --- activities and timers --------------------------------------------------------------------------------------

    async def schedule(
        self,
        run_id: str,
        options: ActivityOptions,
        *,
        number: int = 1,
        queue: str = "default",
        claimed_by: str | None = None,
    ) -> int:
        """Schedule activities; returns the id of the last."""
        commands = [
            ActivityScheduled(
                command_id=self.command_id(run_id),
                activity_type="charge",
                task_queue=queue,
                input=Payload.of([]),
                options=options.snapshot,
                priority=5,
            )
            for _ in range(number)
        ]
        await self.decide(run_id, *commands, options=options, claimed_by=claimed_by)
        return commands[-1].command_id

    async def claim(
        self, *, worker_id: str = "worker-1", queue: str = "default", limit: int = 10
    ) -> list[ActivityRow]:
        change = ClaimActivities(worker_id, [queue], frozenset(["charge"]), limit)
        return [claimed.row for claimed in await self.apply(change)]

    async def beat(self, run_id: str, activity_id: int, details: Any = None, *, ago_us: int = 0) -> bool:
        return bool(await self.apply(Beat(run_id, activity_id, details, ago_us)))

    async def fail(self, row: ActivityRow, **facts: Any) -> bool:
        end = AttemptEnd(AttemptOutcome.FAILED, {**FAILURE, **facts})
        return bool(await self.apply(EndAttempt(row.run_id, row.activity_id, row.attempt, end)))

    async def complete(self, row: ActivityRow) -> bool:
        event = ActivityCompleted(row.activity_id, Payload.of("done"), row.charged_attempt)
        return bool(await self.apply(CompleteAttempt(row.run_id, row.activity_id, row.attempt, event)))

    async def cancel(self, run_id: str, activity_id: int) -> None:
        await self.decide(run_id, ActivityCancelRequested(activity_id))

    async def set_timer(self, run_id: str, seconds: float, *, number: int = 1) -> int:
        fire_at = self.clock.now() + round(seconds * SECOND)
        commands = [TimerScheduled(self.command_id(run_id), fire_at) for _ in range(number)]
        await self.decide(run_id, *commands)
        return commands[-1].command_id

    # --- workers ----------------------------------------------------------------------------------------------------

    async def register(self, worker_id: str, lease: float = 30) -> None:
        row = WorkerRow(worker_id, "host", 1, "[]", "{}", None, 0, 0)
        await self.apply(RegisterWorker(row, round(lease * SECOND)))

    async def renew(self, worker_id: str, lease: float = 30) -> int:
        expires_at = self.clock.now() + round(lease * SECOND)
        return await self.sql(
            "UPDATE workers SET lease_expires_at = ? WHERE worker_id = ?", expires_at, worker_id
        )

    async def prove_connection(self) -> None:
        """Let the watchdog reach the database for half a lease, so that it may declare others dead."""
        await self.watchdog.run_pass(0)
        self.clock.advance(15)
        await self.watchdog.run_pass(0)

    # --- looking ----------------------------------------------------------------------------------------------------

    def rows(self, table: str, where: str = "1 = 1", *values: Any) -> list[tuple[Any, ...]]:
        columns = ", ".join(columns_of(tables.metadata.tables[table]))
        text = f"SELECT {columns} FROM {table} WHERE {where} ORDER BY 1, 2"
        return self.runtime.read_now(fetch, text, values)

    def run(self, run_id: str) -> RunRow:
        return RunRow(*self.rows("workflow_runs", "run_id = ?", run_id)[0])

    def activity(self, run_id: str, activity_id: int) -> ActivityRow:
        where = "run_id = ? AND activity_id = ?"
        return ActivityRow(*self.rows("activity_executions", where, run_id, activity_id)[0])

    def attempts(self, run_id: str, activity_id: int) -> list[AttemptRow]:
        where = "run_id = ? AND activity_id = ?"
        found = self.rows("activity_attempts", where, run_id, activity_id)
        return sorted((AttemptRow(*row) for row in found), key=lambda row: row.attempt)

    def failures(self, run_id: str) -> list[FailureRow]:
        return [FailureRow(*row) for row in self.rows("workflow_failures", "run_id = ?", run_id)]

    def history(self, run_id: str) -> list[Event]:
        return [from_json(kind, payload) for _, kind, payload in self.runtime.read_now(read_history, run_id)]

    def types(self, run_id: str) -> list[str]:
        return [event.type for event in self.history(run_id)]

    def last_event(self, run_id: str) -> Any:
        return self.history(run_id)[-1]


POLICY = RetryPolicy(initial_interval=10, backoff_coefficient=1, max_interval=10, max_attempts=3)


async def turns(number: int = 10) -> None:
    """Let the loop go round."""
    for _ in range(number):
        await asyncio.sleep(0)


__all__ = ["POLICY", "SECOND", "START", "Stage", "StillClock", "new_seed", "turns"]
