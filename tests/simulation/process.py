"""A process of a simulation: a client, and a worker or a watchdog or clients' scripts with it, until it crashes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from tests.simulation import programs
from tests.simulation.alerts import CHANNELS, take
from tests.simulation.database import SIMULATED_URL, SimulatedDatabase
from tests.simulation.faults import Faults
from tests.simulation.loop import Crashed, SimulatedExecutor, SimulationLoop, Strand
from tests.simulation.views import WorldView

from outlast import Client, DataConverter, RetentionPolicy, StructuralLimits, Worker
from outlast.runtime.runtime import Runtime
from outlast_store.journal.batch import Change
from outlast_store.journal.journal import Callback
from outlast_watchdog.watchdog import TaskWatchdog
from outlast_workflow.environment import Environment
from outlast_workflow.errors import JournalClosedError, OutlastError

START_US = 1_792_889_995_000_000
"""Five seconds before clocks in Zurich are put back."""
CONVERTER = DataConverter()
LIMITS = StructuralLimits()
FEW_LOSSES = StructuralLimits(owner_losses=1)

Script = Callable[[Client], Awaitable[None]]


@dataclass
class Role:
    """What a process is for; whoever crashes comes back in the same one."""

    name: str
    worker: bool = False
    watchdog: bool = False
    queues: tuple[str, ...] = ()
    lines: tuple[str, ...] | None = None
    """The queues that it admits from; ``None`` for all."""
    twin: bool = False
    """Whether there is another worker in the process, with the same journal."""
    cached: int = 1000
    slots: int = 100
    lease: float = 3.0
    interval: float = 1.0
    threads: bool = False
    """Whether commits and reads are handed to (simulated) threads, as on PostgreSQL."""
    retention: RetentionPolicy | None = None
    delivers: bool = False
    """Whether its workers deliver alerts."""
    scripts: list[Script] = field(default_factory=list)


class SimulatedClock:
    """A process's clock: the loop's time, off by its skew."""

    def __init__(self, loop: SimulationLoop, skew_us: int) -> None:
        self._loop = loop
        self.skew_us = START_US + skew_us

    def set_by(self, by_us: int) -> None:
        """Set it forward, or back."""
        self.skew_us += by_us

    @property
    def offset_us(self) -> int:
        """By how much it is off."""
        return self.skew_us - START_US

    def now(self) -> int:
        return self._loop.elapsed_us + self.skew_us

    def monotonic(self) -> float:
        return self._loop.time()


class SimulatedDoorbell:
    """Rings when others have written: late, twice or never; and at the poll interval in any case."""

    polls_regularly = True

    def __init__(self, process: Process) -> None:
        self._process = process
        self._loop = process.loop
        self._notified: asyncio.Future[None] | None = None
        self.coming = False

    def start(self) -> None:
        self._process.world.bells.setdefault(self._process, self)

    async def stop(self) -> None:
        self._process.world.bells.pop(self._process, None)

    def ring_in(self, seconds: float) -> None:
        self.coming = True
        self._loop.call_later(seconds, self._come, context=self._process.loop_strand.context.copy())

    def _come(self) -> None:
        self.coming = False
        self.ring()

    def ring(self) -> None:
        if self._notified is not None and not self._notified.done():
            self._notified.set_result(None)

    async def wait(self) -> None:
        self._notified = rung = self._loop.create_future()
        timer = self._loop.call_later(self._process.world.poll_s, self.ring)
        try:
            await rung
        finally:
            timer.cancel()


class Process:
    """See the module. ``step`` is called at each callback and each statement, which is where it may crash."""

    def __init__(self, world: WorldView, role: Role, number: int, faults: Faults, rng: random.Random) -> None:
        self.world = world
        self.loop = world.loop
        self.role = role
        self.number = number
        self.faults = faults
        self.rng = rng
        # What is drawn for DAGs is drawn apart, so that the others are as they were.
        self.rng_of_dags = random.Random(f"dags of {role.name} {number}")
        self.dead = False
        self.leaving = False
        self._loop_strand, self._pulse_strand, self._other_strand = Strand(self), Strand(self), Strand(self)
        self._crash_in = self._draw_life()
        self.clock = SimulatedClock(world.loop, world.draw_skew())
        executor = SimulatedExecutor(self.loop, self._other_strand, self._delay) if role.threads else None
        self.environment = Environment(
            self.clock,
            rng=random.Random(rng.getrandbits(64)),
            threads=False,
            executor=executor,
            pause=lambda seconds: self.loop.pass_time(int(seconds * 1_000_000)),
        )
        self.environment.pid = number
        self.workers: list[Worker] = []
        self.runtime: Runtime | None = None
        self._watchdog: TaskWatchdog | None = None
        self.frozen = False

    def __repr__(self) -> str:
        return f"{self.role.name}#{self.number}"

    @property
    def loop_strand(self) -> Strand:
        return self._loop_strand

    @property
    def pulse_strand(self) -> Strand:
        return self._pulse_strand

    @property
    def strands(self) -> tuple[Strand, ...]:
        return self._loop_strand, self._pulse_strand, self._other_strand

    def _draw_life(self) -> int:
        rate = self.faults.rates.crash
        return int(self.rng.expovariate(rate)) + 1 if rate else 1 << 60

    def _delay(self) -> float:
        return self.rng.random() * self.world.hop_s

    # --- living and dying -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to live."""
        self.world.note(self, "starts")
        self.hold(self._main())

    def hold(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in this process; what it raises is a violation, unless the process is gone."""
        task = self.loop.create_task(work, context=self._loop_strand.context.copy())
        task.add_done_callback(self._done)
        self.loop.graveyard.append(task)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not self.dead and not task.cancelled() and (error := task.exception()) is not None:
            self.world.violations.append(f"{self!r} failed: {error!r}")

    def step(self) -> None:
        if self.dead:
            raise Crashed
        self._crash_in -= 1
        if self._crash_in <= 0:
            self.faults.counts["crash"] += 1
            self.crash("at a yield")
        if self.faults.rates.freeze and not self.frozen and self.faults.happens("freeze"):
            self.freeze(
                self.rng.choice((0.05, 0.5, 1.0, 1.5, 3.0)) * self.role.lease, whole=self.rng.random() < 0.7
            )
        if self.faults.rates.slow and self.faults.happens("slow"):
            self.loop.pass_time(int(self.rng.random() * 400_000))

    def crash(self, where: str) -> None:
        """Vanish: tasks, timers, connections and what is in memory go without a word."""
        self.world.note(self, f"crashes {where}")
        self.vanish()
        self.world.gone(self)
        raise Crashed

    def vanish(self) -> None:
        """Be gone: nothing of it runs or reaches the database any more."""
        self.dead = True
        for strand in self.strands:
            self.loop.end(strand)
        self.world.bells.pop(self, None)
        writing = self.world.shared.writing
        if writing is not None and writing.process is self:
            writing.abandon()

    def kill(self) -> None:
        """Crash from outside."""
        if not self.dead:
            try:
                self.crash("when it is killed")
            except Crashed:
                pass

    def freeze(self, seconds: float, *, whole: bool) -> None:
        """Stop for a while: the whole process, or its loop only, while its ticker goes on."""
        self.frozen = True
        self.world.note(self, f"is frozen for {seconds} s" + ("" if whole else ", but for its ticker"))
        for strand in self.strands if whole else (self._loop_strand,):
            self.loop.freeze(strand)
        self.loop.call_later(seconds, self._thaw, context=self.loop.world.context.copy())

    def _thaw(self) -> None:
        self.frozen = False
        if not self.dead:
            self.world.note(self, "goes on")
            for strand in self.strands:
                self.loop.thaw(strand)

    def calm(self) -> None:
        """Nothing happens to it any more."""
        self.faults.calm()
        self._crash_in = 1 << 60
        self.clock.skew_us = START_US

    # --- what it does -----------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        try:
            client = await self._connect()
            await self._begin(client)
        except (OutlastError, SQLAlchemyError) as error:
            self.world.note(self, f"can't start: {type(error).__name__}")
            self.vanish()
            self.world.gone(self)
            return
        for script in self.role.scripts:
            self.hold(self._run(script, client))
        self._client = client

    async def _connect(self) -> Client:
        database = SimulatedDatabase(self.world.shared, self)
        self.runtime = runtime = Runtime(
            SIMULATED_URL, self.environment, database, notifier=SimulatedDoorbell(self)
        )
        runtime.journal.committer.connect()
        runtime.ticker.start()
        rates = self.faults.rates
        if any(getattr(rates, name) for name in DISTURBING):
            self._disturb(runtime)
        return Client("simulated", runtime, CONVERTER, self.world.limits)

    async def _begin(self, client: Client) -> None:
        role = self.role
        for number in range(role.worker + role.twin):
            worker = Worker(
                client,
                task_queue=role.queues,
                workflows=[*programs.WORKFLOWS, *self.world.dags.workflows(self.rng_of_dags)],
                activities=[*programs.ACTIVITIES, *self.world.dags.activities],
                watchdog=role.watchdog and number == 0,
                watchdog_interval=role.interval,
                lease_duration=role.lease,
                max_cached_workflows=role.cached,
                max_concurrent_activities=role.slots,
                graceful_shutdown_timeout=1.0,
                retention=role.retention if number == 0 else None,
                queues=role.lines,
                alert_channels=dict.fromkeys(CHANNELS, take) if role.delivers else None,
            )
            self.workers.append(worker)
            await worker.start()
        if role.watchdog and not role.worker:
            self._watchdog = TaskWatchdog(client, interval=role.interval, lease_duration=role.lease)
            self._watchdog.start()

    async def _run(self, script: Script, client: Client) -> None:
        try:
            await script(client)
        except JournalClosedError:
            pass  # it was stopped in good order; the script goes on in the next one

    async def leave(self) -> None:
        """Stop in good order, as for a deploy."""
        self.leaving = True
        self.world.note(self, "stops")
        for worker in self.workers:
            await worker.stop()
        if self._watchdog is not None:
            await self._watchdog.stop()
        await self._client.close()
        self.world.note(self, "has stopped")
        self.vanish()
        self.world.gone(self)

    @property
    def ready(self) -> bool:
        """Whether it has begun to do what it is for."""
        return hasattr(self, "_client") and not self.leaving

    # --- what comes twice, late or not at all -----------------------------------------------------------------------

    def _disturb(self, runtime: Runtime) -> None:
        """Some changes reach the database late, or twice, as if somebody who had no answer had sent them again; and
        some watchdogs never hear what became of theirs.
        """
        submit = runtime.journal.submit

        def disturbed(change: Change[Any], callback: Callback) -> None:
            name = type(change).__name__
            enforcing = name in ENFORCING
            if enforcing:
                callback = partial(self._told, callback)
            submit(change, callback)
            decided = (
                "freeze_decided"
                if name == "CommitWorkflowTask"
                else "freeze_enforcing"
                if enforcing
                else None
            )
            if decided is not None and not self.frozen and self.faults.happens(decided):
                leases = (0.2, 0.5, 1.0, 2.0) if enforcing else (2.0, 3.0)
                self.freeze(self.rng.choice(leases) * self.role.lease, whole=True)
            if name in MAY_COME_TWICE and self.faults.happens("called_twice"):
                self.loop.call_later(
                    self.rng.random() * self.rng.choice((0.1, 2.0)), self._again, submit, change
                )

            if enforcing and self.faults.happens("enforced_twice"):
                for later in LATER_BY_LEASES:
                    delay_s = self.rng.random() * later * self.role.lease
                    self.loop.call_later(delay_s, self._again, submit, change)

        runtime.journal.submit = disturbed  # type: ignore[method-assign]

    def _told(self, callback: Callback, value: Any, error: BaseException | None) -> None:
        crashes = self.faults.happens("crash_enforced")
        if crashes or self.rng.random() < LOOKED_AT:
            self.world.look()  # a watchdog may stop here for good: what it leaves is whole
        if crashes:
            self.crash("before its watchdog hears of it")
        callback(value, error)

    def _again(self, submit: Callable[[Change[Any], Callback], None], change: Change[Any]) -> None:
        if not self.leaving:
            submit(change, lambda value, error: None)


LATER_BY_LEASES = (0.2, 1.0, 2.0)
"""By how much slower watchdogs write what they saw, in leases: soon, while the next attempt runs, and long after."""
LOOKED_AT = 0.1
"""How often all invariants are checked when a watchdog has written something."""
DISTURBING = ("called_twice", "crash_enforced", "enforced_twice", "freeze_decided", "freeze_enforcing")
ENFORCING = frozenset(
    {
        "ApplyClosePolicy",
        "DeleteChainStep",
        "DeleteLoneRuns",
        "EnforceActivityDeadline",
        "FailFromOutside",
        "FireAlerts",
        "FireSchedule",
        "FireTimers",
        "DeclareWorkerLost",
        "ReleaseLostRuns",
        "RescueActivity",
    }
)
"""What a watchdog, or retention, writes because of what it saw."""
MAY_COME_TWICE = frozenset(
    {
        "CommitWorkflowTask",
        "ApplyClosePolicy",
        "CompleteAttempt",
        "CompleteFromOutside",
        "DeferAttempt",
        "DeleteChainStep",
        "DeleteLoneRuns",
        "EndAttempt",
        "EnforceActivityDeadline",
        "EnforceRunDeadline",
        "FireAlerts",
        "FireSchedule",
        "FireTimers",
        "DeclareWorkerLost",
        "ReleaseLostRuns",
        "RequestCancellation",
        "ForkRun",
        "ResetRun",
        "RescueActivity",
        "FailWorkflowTask",
    }
)
"""Not claims, whose answer is what they are for; nor signals without a key, which are two signals then."""
