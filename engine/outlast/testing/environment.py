"""The whole engine on a virtual clock: client, worker and watchdog in one thread, the database in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from outlast.alerts.channels import AlertChannel
from outlast.checking.checker import StaticChecks
from outlast.client.client import Client
from outlast.client.interceptors import Interceptor
from outlast.testing.clock import EPOCH, MICROSECOND, VirtualClock, VirtualLoop
from outlast.testing.replayer import Replayer
from outlast.testing.stuck_runs import StuckRuns
from outlast.worker.worker import Worker
from outlast_migrations import current_revision
from outlast_runs.task_failure import FAILURES_TO_ATTENTION
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_store.reads.runs import find_last_event_at
from outlast_store.reads.workers import end_leases
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.environment import Environment
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.failure_types import FailureType
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.options.validation import integer
from outlast_workflow.primitives.lazy_names import names_of_class
from outlast_workflow.primitives.times import to_datetime

P = ParamSpec("P")
T = TypeVar("T")

ALWAYS_S = 9 * 31_557_600.0
"""9 years: the interval of polling for what other processes did, of which there are none here."""


class TestEnvironment:
    """Outlast for one test: a client and a worker that live in virtual time, on a database of their own.

    ::

        async def test_the_reminder_comes_after_a_month() -> None:
            async with TestEnvironment(workflows=[Trial], activities=[send_mail]) as env:
                handle = await env.client.start(Trial.run, "ada", id="trial-1")
                await env.sleep(days=30)
                assert mails == ["ada"]

    Run such a function with :meth:`run`, or with anyio's pytest plugin (see ``docs/testing.md``). Time passes only
    when nothing is left to do, and then at once.

    Args:
        workflows: The worker's workflows. Without workflows and activities there is no worker.
        activities: The worker's activities; plain functions run in place.
        task_queue: The worker's task queue.
        url: The database; by default one in memory. One that an earlier environment has used continues where that one
            ended. Other processes must not use it meanwhile.
        start_at: The time at which the test starts (aware); by default the beginning of 2026, or a second after the
            last event of a database that holds any.
        seed: The seed of ids and random numbers: the same seed gives the same ones.
        converter: How arguments and results become JSON.
        limits: The structural limits.
        max_cached_workflows: How many runs the workflow cache holds. 0 replays the run for each workflow task,
            which finds workflows that are not deterministic.
        max_concurrent_activities: How many activities run at the same time; by default as many as in a worker.
        max_activities_per_second: How many activities start in a second at most.
        default_activity_options: Options of activities that do not set them.
        max_task_failures: How often a workflow task may fail in a row before those who wait for its run get a
            StuckWorkflowError. 0 is no limit: they wait until the code is replaced.
        workflow_failure_types: Exceptions that fail the run although they would fail only the workflow task.
        workflow_task_failure_types: Exceptions of workflow code that fail only the workflow task, not the run.
        static_checks: What to do about workflow code that may not replay: ``warn``, ``error`` or ``off``.
        runtime_guard: Whether workflow code is stopped from opening files, sockets and processes.
        replay: At the end, replay every run of these workflows, and raise the error of the first that fails. This
            finds workflows that are not deterministic although the test passes.
        interceptors: The client's interceptors, which are the worker's too.
        alert_channels: The channels that the worker delivers alerts to.

    Attributes:
        client: The client.
        worker: The worker.
        clock: The clock, which can also make the wall clock jump.
        environment: The source of the engine's time, ids and randomness.
    """

    # pytest must not collect what a test module imports.
    __test__ = False

    client: Client
    worker: Worker
    clock: VirtualClock
    environment: Environment

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("TestEnvironment")

    def __init__(
        self,
        *,
        workflows: Iterable[Any] = (),
        activities: Iterable[Any] = (),
        task_queue: str = "default",
        url: str = "sqlite://",
        start_at: datetime | None = None,
        seed: int = 0,
        converter: DataConverter | None = None,
        limits: StructuralLimits | None = None,
        max_cached_workflows: int = 1000,
        max_concurrent_activities: int | None = None,
        max_activities_per_second: float | None = None,
        default_activity_options: ActivityOptions | None = None,
        max_task_failures: int = FAILURES_TO_ATTENTION,
        workflow_failure_types: Iterable[FailureType] = (),
        workflow_task_failure_types: Iterable[FailureType] = (),
        static_checks: StaticChecks = "warn",
        runtime_guard: bool = True,
        replay: bool = False,
        interceptors: Iterable[Interceptor] = (),
        alert_channels: Mapping[str, AlertChannel] | None = None,
    ) -> None:
        self._workflows = tuple(workflows)
        self._replay = replay
        self._activities = tuple(activities)
        self._task_queue = task_queue
        self._url = url
        self._start_at = start_at
        self._seed = seed
        self._converter = converter
        self._limits = limits
        self._interceptors = tuple(interceptors)
        self._max_task_failures = integer("max_task_failures", max_task_failures, 0)
        self._stuck: StuckRuns | None = None
        self._worker_options: dict[str, Any] = {
            "max_cached_workflows": max_cached_workflows,
            "max_concurrent_activities": max_concurrent_activities,
            "max_activities_per_second": max_activities_per_second,
            "default_activity_options": default_activity_options,
            "workflow_failure_types": workflow_failure_types,
            "workflow_task_failure_types": workflow_task_failure_types,
            "static_checks": static_checks,
            "runtime_guard": runtime_guard,
            "alert_channels": alert_channels,
        }

    async def __aenter__(self) -> Self:
        self.clock = VirtualClock(start_at=self._start_at or EPOCH)
        self.environment = Environment(self.clock, rng=random.Random(self._seed), threads=False)
        self._continue_in_time()
        self.client = await Client.connect(
            self._url,
            converter=self._converter,
            limits=self._limits,
            environment=self.environment,
            interceptors=self._interceptors,
        )
        if self._max_task_failures:
            runtime, converter = self.client.runtime, self.client.converter
            self._stuck = StuckRuns(runtime, converter, self._max_task_failures)
        if self._has_worker:
            try:
                self.worker = self.new_worker(workflows=self._workflows, activities=self._activities)
                await self.worker.start()
            except BaseException:
                await self.client.close()
                raise
        return self

    @property
    def _has_worker(self) -> bool:
        return bool(self._workflows or self._activities or self._worker_options["alert_channels"])

    def _continue_in_time(self) -> None:
        """Where an earlier environment has used the database, begin after its last event, with ids of later times.

        Raises:
            InvalidOptionError: The test wants to begin before that.
        """
        url = DatabaseUrl.parse(self._url)
        if url.memory or (url.path is not None and not url.path.exists()):
            return
        database = Database(url, self.environment)
        try:
            with database.reader() as connection:
                if current_revision(connection) is None:
                    return
                last = find_last_event_at(connection)
                if last is None:
                    return
            begin = to_datetime(last) + timedelta(seconds=1)
            if self._start_at is None:
                self.clock.set(max(begin, EPOCH))
            elif self._start_at < begin:
                raise InvalidOptionError(
                    f"start_at ({self._start_at.isoformat()}) is not after the last event in the database "
                    f"({to_datetime(last).isoformat()}): leave it out to continue from there, or use another file",
                    field="start_at",
                )
            with closing(database.writer()) as connection:
                # Only an environment that was killed leaves one, and nobody would outlive it.
                end_leases(connection, ending_after=last + int(ALWAYS_S / 2 * 1_000_000), now=last)
        finally:
            database.dispose()

    async def __aexit__(self, *exc_info: object) -> None:
        if self._stuck is not None:
            self._stuck.stop()
        try:
            if self._has_worker:
                await self.worker.stop()
            if self._replay and self._workflows and exc_info[0] is None:
                await self._replay_every_run()
        finally:
            await self.client.close()

    async def _replay_every_run(self) -> None:
        replayer = Replayer(
            self._workflows,
            converter=self._converter,
            default_activity_options=self._worker_options["default_activity_options"],
            interceptors=self._interceptors,
            runtime_guard=self._worker_options["runtime_guard"],
        )
        report = await replayer.replay_all(self.client)
        report.raise_for_failures()

    def new_worker(self, **options: Any) -> Worker:
        """Return another worker on the same database, with the options of the first one and these. Start it yourself.

        Its lease and its watchdog's interval are long, because no process can die here. A test of leases gives
        ``lease_duration``.
        """
        ours = {name: value for name, value in self._worker_options.items() if value is not None}
        defaults: dict[str, Any] = {
            "task_queue": self._task_queue,
            "lease_duration": ALWAYS_S,
            "watchdog_interval": ALWAYS_S,
        }
        return Worker(self.client, **{**defaults, **ours, **options})

    # --- time -------------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """Return the current time (aware, UTC)."""
        return self.clock.utc

    async def sleep(
        self,
        seconds: float | timedelta = 0,
        *,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
        weeks: float = 0,
    ) -> None:
        """Let time pass. Everything that becomes due meanwhile happens in order, at its time.

        Args:
            seconds: How many seconds, or a timedelta; the other units are added.
            minutes: How many minutes.
            hours: How many hours.
            days: How many days.
            weeks: How many weeks.
        """
        first = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        more = timedelta(minutes=minutes, hours=hours, days=days, weeks=weeks)
        await asyncio.sleep((first + more).total_seconds())

    async def sleep_until(self, instant: datetime) -> None:
        """Let time pass until an instant of the wall clock (aware)."""
        await self.sleep((instant - self.now()).total_seconds())

    async def settle(self) -> None:
        """Wait until nothing is left to do at the current time."""
        await asyncio.sleep(MICROSECOND)

    # --- without a loop ---------------------------------------------------------------------------------------------

    @staticmethod
    def run(test: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an ``async`` test function in virtual time, from plain code.

        Args:
            test: The function.
            *args: Its arguments.
            **kwargs: Its keyword arguments.
        """
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(test(*args, **kwargs))
