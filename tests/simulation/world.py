"""One simulation: processes start, crash, freeze and come back, clients ask, and then comes a calm in which all ends.

Everything is drawn from the seed: the plans of the clients and the programs of the workflows, what there is of workers
and how they are set up, what goes wrong and when, and whose turn it is at every callback. The same seed gives the same
simulation, event for event; :attr:`Outcome.digest` says so.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import inspect
import logging
import random
import shutil
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from tests.simulation import programs, verdict
from tests.simulation.alerts import add_alerts, check_waits, has_alerts
from tests.simulation.clients import Ledger, Session, draw_operator, draw_plans
from tests.simulation.dags.stories import Dags
from tests.simulation.database import SharedDatabase
from tests.simulation.faults import Faults, Rates
from tests.simulation.guests import add_guests
from tests.simulation.limits import add_limits
from tests.simulation.loop import Crashed, Livelock, SimulationLoop
from tests.simulation.mail import add_mail
from tests.simulation.operators import Operators
from tests.simulation.outboxed import Strangers
from tests.simulation.outside import Outside
from tests.simulation.process import FEW_LOSSES, LIMITS, START_US, Process, Role, SimulatedDoorbell
from tests.simulation.queues.admissions import Admissions
from tests.simulation.queues.calm_lines import CalmLines, Server
from tests.simulation.queues.stories import Queues, move_starts
from tests.simulation.scheduled import ON_TIME_US, Schedules, over
from tests.simulation.streams.published import check_published
from tests.simulation.streams.stories import Publishing
from tests.simulation.witness import WitnessBatch

from outlast import RetentionPolicy, Worker
from outlast.testing import VirtualTimeError, check_database
from outlast_schedules import due_slots
from outlast_store.database.guests import Guests
from outlast_store.journal import committer, guest_batch
from outlast_watchdog import dead_journals

CALM_S = 300.0
"""How long the calm may take until everything has ended."""
WRONG_CALM_S = 15.0
"""The same where something is wrong already, and may keep things from ending."""
SETTLED_S = 30.0
"""How long after the beginning of the calm timers and timeouts must be on time again."""
LATEST_S = 3.0
LATE_FAILURES_S = 10.0
"""How long what a handler raises after its run has ended may take to be written."""
MOST_CPU_S = 120.0
"""What a seed may take of the processor: a thousand times what most take, for the code that spins within a callback."""
REPLAYED = 10
"""Of one seed in so many every prefix of every history is replayed, which takes the square of their lengths."""
FORGOTTEN_AFTER_S = 3.0
"""When the journal of a process that does not write is taken for that of a dead one: so soon that it often is not."""
TAIL = 60

logger = logging.getLogger("outlast")


@dataclass
class Outcome:
    """What became of a seed."""

    seed: int
    violations: list[str]
    digest: str
    trace: list[str]
    faults: Counter[str]
    events: int
    callbacks: int
    virtual_s: float


class World:
    """See the module."""

    def __init__(self, seed: int, shared: SharedDatabase) -> None:
        self.seed = seed
        self.shared = shared
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.trace: list[str] = []
        self.hash = hashlib.blake2b(digest_size=12)
        self.events = 0
        rng = self.rng
        self.loop = SimulationLoop(random.Random(rng.getrandbits(64)), tick_us=rng.choice((0, 20, 20, 2000)))
        self.rates = Rates.draw(rng)
        self.hop_s = rng.choice((0.0, 0.001, 0.02, 0.3))
        self.skew_us = rng.choice((0, 0, 1_000, 100_000, 2_000_000))
        self.poll_s = rng.choice((1.0, 1.0, 3.0))
        self.bells: dict[Process, SimulatedDoorbell] = {}
        self.processes: list[Process] = []
        self.calm = False
        self.started = 0
        self.ledger = Ledger()
        self.exports: Path | None = None
        """Where retention leaves what it deletes."""
        self.sessions: list[Session] = []
        self.outside = Outside(seed)
        self.queues = Queues(seed)
        self.limits = LIMITS if seed % 6 else FEW_LOSSES
        """In one seed of so many a run ends with the second owner in a row that it loses."""
        self.admissions = Admissions(shared.real)
        self.schedules = Schedules(seed)
        self.strangers = Strangers(seed)
        self.publishing = Publishing(seed)
        self.dags = Dags(seed)
        self.operators = Operators(seed)
        self.start_us = START_US

    # --- what processes ask for -------------------------------------------------------------------------------------

    def note(self, who: object, what: str) -> None:
        """Write a line of the trace."""
        line = f"{self.loop.elapsed_us / 1e6 - 1000:12.6f} {who!r:12} {what}"
        self.hash.update(line.encode())
        self.trace.append(line)

    def wrote(self, process: Process, what: str, events: Iterable[tuple[str, str]]) -> None:
        """A transaction of a process is durable: others may be told."""
        names = [f"{run_id[-4:]}:{kind}" for run_id, kind in events]
        self.events += len(names)
        self.note(process, f"{what} {' '.join(names)}")
        if not names:
            return
        for bell in self.bells.values():
            if not bell.coming and not process.faults.happens("bell_lost"):
                bell.ring_in(self.rng.random() * 0.01)
                if process.faults.happens("bell_doubled"):
                    bell.ring_in(self.rng.random() * 0.1)

    def draw_skew(self) -> int:
        """By how much a process's clock is off."""
        return 0 if self.calm else round((self.rng.random() - 0.5) * self.skew_us)

    def gone(self, process: Process) -> None:
        """A process has ended: another takes its place, sooner or later."""
        self.processes.remove(process)
        self.loop.graveyard.append(process)
        wait = self.rng.choice((0.0, 0.1, 1.0, 5.0))
        self.loop.call_later(wait, self._come_back, process.role, context=self.loop.world.context.copy())

    # --- processes --------------------------------------------------------------------------------------------------

    def _come_back(self, role: Role) -> None:
        self.spawn(role)

    def spawn(self, role: Role) -> Process:
        """Start a process."""
        self.started += 1
        rng = random.Random(self.rng.getrandbits(64))
        rates = self.rates if not self.calm else self.rates.harmless()
        process = Process(self, role, self.started, Faults(rng, rates, self.counts), rng)
        self.processes.append(process)
        process.start()
        return process

    def draw_roles(self) -> list[Role]:
        """Who is there."""
        rng = self.rng
        lease = rng.choice((1.0, 2.0, 4.0))
        interval = rng.choice((0.5, 1.0))
        roles: list[Role] = []
        retention = self._draw_retention()
        for number in range(rng.choice((1, 2, 2, 3))):
            roles.append(
                Role(
                    f"worker-{number}",
                    worker=True,
                    watchdog=rng.random() < 0.7,
                    queues=programs.QUEUES
                    if number == 0 or rng.random() < 0.5
                    else (rng.choice(programs.QUEUES),),
                    cached=rng.choice((0, 1, 1000)),
                    slots=rng.choice((1, 3, 100)),
                    lease=lease,
                    interval=interval,
                    threads=rng.random() < 0.5,
                    delivers=has_alerts(self.seed),
                    retention=retention if rng.random() < 0.7 else None,
                    lines=self.queues.draw_lines() if number else None,
                    twin=self.queues.draw_twin(),
                )
            )
        if not any(role.watchdog for role in roles) or rng.random() < 0.3:
            roles.append(
                Role("watchdog", watchdog=True, lease=lease, interval=interval, threads=rng.random() < 0.5)
            )
        clients = rng.randint(1, 2)
        for number, plan in enumerate(draw_plans(rng, clients)):
            self.queues.use(plan)
            move_starts(self.seed, plan)
            add_mail(self.seed, plan)
            add_limits(self.seed, plan)
            self.publishing.use(plan)
            add_guests(self.seed, plan)
            self.schedules.use(plan, bool(self.queues.rows))
            add_alerts(self.seed, plan)
            session = Session(f"client-{number}", plan, self.ledger, random.Random(rng.getrandbits(64)))
            self.sessions.append(session)
            if rng.random() < 0.5:  # in a worker's process, so that starts are eager
                rng.choice([role for role in roles if role.worker]).scripts.append(session.run)
            else:
                roles.append(Role(session.name, threads=rng.random() < 0.5, scripts=[session.run]))
        if burst := self.queues.draw_burst(programs.QUEUES, programs.draw_call):
            session = Session("burst", burst, self.ledger, self.queues.rng)
            self.sessions.append(session)
            self.queues.rng.choice(roles).scripts.append(session.run)
        if self.queues.operator is not None:
            self.queues.rng.choice(roles).scripts.append(self.queues.operator.run)
        if plan := draw_operator(self.seed):
            operators = random.Random(f"operator {self.seed}")
            session = Session("operator", plan, self.ledger, operators)
            self.sessions.append(session)
            operators.choice(roles).scripts.append(session.run)
        self.publishing.spread(roles)
        if self.operators.there:
            for script in (self.operators.rule, self.operators.acknowledge) * 2:
                self.operators.rng.choice(roles).scripts.append(script)
        if self.dags.dags:
            self.dags.rng.choice(roles).scripts.append(self.dags.run)
        # Nothing is drawn for this, so that seeds without questions are as they were.
        if "'ask'" in repr([session.plan for session in self.sessions]):
            next(role for role in roles if role.scripts).scripts.append(self.outside.run)
        return roles

    def _draw_retention(self) -> RetentionPolicy | None:
        if self.rng.random() < 0.75:
            return None
        self.exports = Path(tempfile.mkdtemp(prefix="simulated-"))
        age = timedelta(seconds=self.rng.choice((1.0, 3.0)))
        return RetentionPolicy(days=age, interval=1, export_to=self.exports)

    # --- the story --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Trouble, then calm."""
        self.queues.define(self.shared.plain)
        for row in self.queues.rows:
            self.admissions.defined(row)
        roles = self.draw_roles()
        for role in roles:
            self.spawn(role)
        self.strangers.begin(self)
        await self._trouble(self.rng.choice((4.0, 8.0, 12.0)))
        self.calm = True
        self.note(self, "calm")
        self.look()
        for process in self.processes:
            process.calm()
        began_at = self.loop.time()
        lines = CalmLines(self.admissions, self.poll_s, self.hop_s)
        while not self._all_over():
            if self.queues:
                now_us = self.loop.elapsed_us + START_US
                self.violations += lines.look(self.loop.time(), now_us, self._servers())
            longest = WRONG_CALM_S if self.violations else CALM_S
            if self.loop.time() - began_at > longest:
                self.violations.append(f"after {longest:.0f} s of calm not everything has ended")
                break
            await asyncio.sleep(0.25)
        await self._late_failures_written()
        self._judge(round(began_at * 1_000_000))

    async def _late_failures_written(self) -> None:
        """Let handlers that have failed after their runs ended say so: nothing else waits for them."""
        ends_at = self.loop.time() + LATE_FAILURES_S
        while any(verdict.check_failures_after_cancel(self.shared.plain, programs.executions, self._alive())):
            if self.loop.time() > ends_at:
                return
            await asyncio.sleep(0.25)

    def _alive(self) -> list[object]:
        """The clocks of the processes that there are."""
        return [process.clock for process in self.processes]

    async def _trouble(self, seconds: float) -> None:
        """Freeze, kill, stop and mislead processes now and then."""
        rng = self.rng
        rate = rng.choice((0.0, 0.1, 0.5, 1.5))
        ends_at = self.loop.time() + seconds
        while True:
            wait = rng.expovariate(rate) if rate else seconds
            wait = min(wait, ends_at - self.loop.time())
            await asyncio.sleep(max(wait, 0.0))
            if self.loop.time() >= ends_at:
                return
            if rng.random() < 0.2:
                self.look()
            if self.processes:
                self._trouble_for(rng.choice(self.processes))

    def _trouble_for(self, process: Process) -> None:
        rng = self.rng
        kind = rng.choice(("freeze", "freeze", "block", "kill", "kill_busy", "stop", "outage", "clock"))
        if kind == "kill_busy":
            process = self._busy() or process
        if kind == "stop" and not process.ready:
            return
        self.counts[kind] += 1
        if kind in ("freeze", "block"):
            if not process.frozen:
                process.freeze(rng.choice((0.05, 0.5, 2.0, 8.0)), whole=kind == "freeze")
        elif kind in ("kill", "kill_busy"):
            process.kill()
        elif kind == "stop":
            process.hold(process.leave())
        elif kind == "outage":
            process.faults.outage = True
            self.note(process, "can't reach the database")
            self.loop.call_later(rng.choice((0.1, 2.0, 6.0)), self._outage_over, process)
        else:
            by = rng.choice((-2_000_000, -100_000, 100_000, 2_000_000))
            process.clock.set_by(by)
            self.note(process, f"has its clock set by {by} µs")

    def _busy(self) -> Process | None:
        """A process that runs an activity."""
        text = (
            "SELECT claimed_by FROM activity_executions WHERE status = 'running' ORDER BY run_id, activity_id"
        )
        busy = {row[0] for row in self.shared.real.execute(text)}
        found = [one for one in self.processes if any(worker.worker_id in busy for worker in one.workers)]
        return self.rng.choice(found) if found else None

    def _outage_over(self, process: Process) -> None:
        process.faults.outage = False

    def _all_over(self) -> bool:
        operator = self.queues.operator
        parties: list[Any] = [
            *self.sessions,
            *self.publishing.readers,
            *([] if operator is None else [operator]),
            self.dags,
        ]
        if not all(party.done for party in parties):
            return False
        text = "SELECT EXISTS (SELECT 1 FROM workflow_runs WHERE closed_at IS NULL OR cascade_at IS NOT NULL)"
        if self.shared.real.execute(text).fetchone()[0]:
            return False
        if not over(self.shared.real) or not self.strangers.over(self.shared.real):
            return False
        registered = {row[0] for row in self.shared.real.execute("SELECT worker_id FROM workers")}
        workers = [worker for process in self.processes for worker in process.workers]
        return all(worker.worker_id in registered for worker in workers)

    def _servers(self) -> list[Server]:
        """The workers that are alive."""
        registered = {row[0] for row in self.shared.real.execute("SELECT worker_id FROM workers")}
        return [
            Server(worker.worker_id, process.role.queues, process.role.lines, _room_of(worker))
            for process in self.processes
            if process.ready and not process.frozen
            for worker in process.workers
            if worker.worker_id in registered
        ]

    def look(self) -> None:
        """The invariants hold at any moment, not only at the end."""
        now = self.loop.time() - 1000
        found = check_database(self.shared.plain, deleting=self.exports is not None, now=WitnessBatch.latest)
        if has_alerts(self.seed):
            found += check_waits(self.shared.plain)
        self.violations += [f"at {now:.6f} s: {what}" for what in found]

    def _judge(self, calm_at: int) -> None:
        plain = self.shared.plain
        self.strangers.settle(self.shared.real, self.exports)
        self.violations += self.strangers.wrong
        self.violations += verdict.judge(
            plain, self.ledger, programs.executions, self.schedules, self.exports, alive=self._alive()
        )
        self.violations += check_published(plain, self.publishing.readers, programs.executions, self.exports)
        self.violations += self.outside.wrong
        self.violations += self.dags.check(plain)
        self.violations += self.operators.check(plain, deleting=self.exports is not None)
        if self.seed % REPLAYED == 0:
            self.violations += verdict.check_prefixes(plain)
        after = calm_at + START_US + round(SETTLED_S * 1e6)
        for late, what in verdict.lateness(plain, after, self.operators.marks):
            if late > LATEST_S * 1e6:
                self.violations.append(f"{what} was {late / 1e6:.3f} s late, long after all was calm")

    def __repr__(self) -> str:
        return "world"

    # --- errors -----------------------------------------------------------------------------------------------------

    def on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception that nobody caught is a violation, unless its process is gone."""
        error = context.get("exception")
        if isinstance(error, Crashed):
            return
        self.violations.append(f"nobody caught {error!r}: {context.get('message')}")


def _room_of(worker: Worker) -> int:
    """How many activities a worker could start now."""
    loop_worker: Any = worker._worker
    return (loop_worker.dispatcher.room or 0) if loop_worker is not None else 0


class Complaints(logging.Handler):
    """What the engine logs as an error is a violation: it should not come to that, whatever happens to it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        """Take note, unless it is what the programs do: they fail and time out."""
        if record.name == "outlast.failures":
            return
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, Crashed):
            return
        said = f"{record.getMessage()} {error!r}"
        if self.world.rates.full and ("StoreError" in said or "is full" in said):
            return  # a full disk is not the engine's fault
        if self.world.queues.operator is not None and "there is no queue" in said:
            return  # a schedule was due while the operator had deleted its queue
        self.world.violations.append(f"an error was logged: {record.getMessage()} ({error!r})")


@contextmanager
def _observed(world: World) -> Generator[None]:
    complaints = Complaints(world)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(complaints)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    WitnessBatch.found = world.violations
    WitnessBatch.latest = 0
    WitnessBatch.most_losses = world.limits.owner_losses
    WitnessBatch.admissions = world.admissions if world.queues else None
    collecting = gc.isenabled()
    gc.disable()

    def spins(number: int, frame: FrameType | None) -> None:
        where = "".join(traceback.format_stack(frame, limit=8))
        world.loop.stop_spinning(f"it goes on after {MOST_CPU_S:g} s of computing:\n{where}")

    before = signal.signal(signal.SIGVTALRM, spins)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_S, 1.0)
    try:
        with (
            patch.object(committer, "Batch", WitnessBatch),
            patch.object(guest_batch, "Batch", WitnessBatch),
            patch.object(Guests, "_make", lambda guests: guests._database.guest_engine()),
            patch.object(due_slots, "ON_TIME_US", ON_TIME_US),
            patch.multiple(dead_journals, POLL_EVERY_S=FORGOTTEN_AFTER_S, GONE_AFTER_S=FORGOTTEN_AFTER_S),
        ):
            yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        logger.removeHandler(complaints)
        logger.setLevel(level)
        logger.propagate = propagate
        if collecting:
            gc.enable()


_shared: list[SharedDatabase] = []


def simulate(seed: int, made: type[World] = World) -> Outcome:
    """Run one seed.

    Args:
        seed: The seed.
        made: What is simulated.
    """
    if not _shared:
        _shared.append(SharedDatabase())
    shared = _shared[0]
    shared.empty()
    programs.executions.__init__()  # type: ignore[misc]
    world = made(seed, shared)
    loop = world.loop
    loop.set_exception_handler(world.on_exception)
    with _observed(world):
        try:
            loop.run_until_complete(loop.create_task(world.run(), context=loop.world.context.copy()))
        except VirtualTimeError as error:
            world.violations.append(f"the simulation stands still: {error}")
        except Livelock as error:
            world.violations.append(f"a livelock: {error}")
        finally:
            _bury(world)
            if world.exports is not None:
                shutil.rmtree(world.exports)
    world.hash.update(str((loop.callbacks, loop.elapsed_us, world.rng.random())).encode())
    return Outcome(
        seed,
        list(dict.fromkeys(world.violations)),
        world.hash.hexdigest(),
        world.trace,
        world.counts,
        world.events,
        loop.callbacks,
        loop.elapsed_us / 1e6 - 1000,
    )


def _bury(world: World) -> None:
    """Let go of everything that is left, without a word."""
    loop = world.loop
    for process in world.processes:
        process.vanish()
    loop.set_exception_handler(lambda loop, context: None)
    tasks: Any = asyncio.all_tasks(loop)
    for task in tasks:
        task._log_destroy_pending = False
        loop.graveyard.append(task)
        coroutine: Any = task.get_coro()
        if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
            coroutine.close()  # it never began, and need not be complained about
    loop.close()
