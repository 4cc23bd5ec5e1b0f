"""The TaskWatchdog: nothing runs past its deadline, and nothing gets stuck because a process died.

It works on the tables alone. Any number may run, in workers or on their own, without knowing of one another: every
enforcement is a change that checks again under the row's lock. When one dies half-way, what it has committed is whole,
and the rest is found by the next pass of any other. While the database is away nothing can be enforced; everything due
is enforced as soon as it is back.

**When it polls.** At the nearest deadline that it knows of, and at least once per ``interval``. It knows of what this
process writes (it subscribes to the journal) and of what its last pass read; it learns of what others write at the next
interval at the latest. It also looks when the workflow of a schedule has ended in this process, because a slot may
wait for that. Nothing is enforced early: a change compares the deadline with the batch's own ``now``.

**When it waits.** If since the last pass the wall clock has moved by over a second more or less than the monotonic
clock, it was set, or the machine slept: that one pass is skipped. A worker is declared dead only by a process that has
itself reached the database for half a lease without a gap, so that after an outage or a sleep all may renew first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from opentelemetry.metrics import MeterProvider

from outlast_store.journal.batch import Committed
from outlast_store.reads.due import count_open
from outlast_watchdog.dead_journals import DeadJournals
from outlast_watchdog.expired_rows import ExpiredRows
from outlast_watchdog.leases_ahead import LeasesAhead
from outlast_watchdog.metrics import MeasuringEventLog, watchdog_metrics
from outlast_watchdog.passes import Pass, apply_all
from outlast_watchdog.periodic import Periodic, periodic
from outlast_watchdog.report import ALERTS_ADDED, WatchdogReport
from outlast_watchdog.rules import AlertRule, RuleWalk, checked_rules
from outlast_watchdog.scans import Upcoming
from outlast_watchdog.watched import WatchedRuntime
from outlast_workflow.errors import InvalidOptionError, JournalClosedError, StoreError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.search_attributes import schedule_of
from outlast_workflow.options.validation import integer, timeout_seconds

logger = logging.getLogger("outlast.watchdog")

NEVER: Final = 1 << 62
SHORTEST_SLEEP_S: Final = 0.000_002
SLEEP_AFTER_WORK_S: Final = 0.005
"""The pause after a pass that did something, so that one commit takes everything that becomes due meanwhile."""
MOST_AHEAD_S: Final = 0.05
CLOCK_JUMP_S: Final = 1.0
STEP_BACK_US: Final = 20_000
"""How long a watchdog leaves due schedules to those who came first the last time: so long, or half as long again."""
BATCHES_A_TURN: Final = 4


class WatchedClient(Protocol):
    """A client, as the watchdog sees it."""

    @property
    def runtime(self) -> WatchedRuntime:
        """The runtime of its process."""
        ...

    @property
    def limits(self) -> StructuralLimits:
        """Its structural limits."""
        ...


class TaskWatchdog:
    """Enforces deadlines, fires timers and takes over from dead workers.

    Args:
        client: Whose database it watches.
        interval: The longest sleep between two passes, in seconds or as a timedelta; at most a quarter of the lease.
        batch: How many rows are read, and handled together, at a time.
        lease_duration: The workers' lease, in seconds or as a timedelta; for half of it this process must have reached
            the database without a gap before it declares a worker dead.
        meter_provider: Where its metrics go (OpenTelemetry); the process's own provider if not given.
        limits: The structural limits, of which ``owner_losses`` ends runs that lose too many owners; the client's if
            not given.
        rules: Which workflows get alerts, whoever starts them.

    Raises:
        InvalidOptionError: An option is out of range.
    """

    def __init__(
        self,
        client: WatchedClient,
        *,
        interval: float | timedelta = 1.0,
        batch: int = 500,
        lease_duration: float | timedelta = 30.0,
        meter_provider: MeterProvider | None = None,
        limits: StructuralLimits | None = None,
        rules: Sequence[AlertRule] = (),
    ) -> None:
        if getattr(client, "runtime", None) is None:
            raise InvalidOptionError(
                f"client must be a Client, not {type(client).__name__}: `await Client.connect(url)` gives one",
                field="client",
            )
        self.batch = integer("watchdog batch", batch, 1)
        self._half_lease_s = timeout_seconds("lease duration", lease_duration) / 2
        # Passes that were further apart than half a lease could never prove an unbroken connection for as long.
        self.interval_s = min(float(timeout_seconds("watchdog interval", interval)), self._half_lease_s / 2)
        self._limits = limits if limits is not None else client.limits
        self._runtime = client.runtime
        self._clock = client.runtime.environment.clock
        self._metrics = watchdog_metrics(meter_provider)
        self._event_log = MeasuringEventLog(self._metrics)
        self._dead_journals = DeadJournals(client.runtime)
        self._expired_rows = ExpiredRows(client.runtime)
        checked = checked_rules(rules)
        self._rules = RuleWalk(client.runtime, checked) if checked else None
        self._passing = asyncio.Lock()
        self._based_at: tuple[int, float] | None = None
        self._leases_ahead = LeasesAhead()
        self._connected_since: float | None = None
        self._connected_at = 0.0
        self._nearest = NEVER
        self._ended_for: set[str] = set()
        """The schedules of which a workflow has ended in this process since the last pass."""
        self._shortest_s = SHORTEST_SLEEP_S
        self._ahead = 0
        """How long the last pass took, if it did anything, in microseconds: the next one reads so far ahead."""
        self._upcoming: Upcoming = (None, None)
        """What the last pass has read of what becomes due."""
        self._second = False
        """Whether others came first when it last had a schedule to fire."""
        self._asleep = False
        self._woken = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._periodic: Periodic | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    # --- one pass ---------------------------------------------------------------------------------------------------

    async def run_pass(self, limit: int | None = None) -> WatchdogReport:
        """Do everything that is due now, and return what was done.

        Args:
            limit: How many of each kind (run and activity deadlines, timers, …) at most; ``None`` sets no limit. Rows
                that cannot be handled do not count, so they never keep it from others.

        Raises:
            StoreError: The database cannot be read or written. What was committed before stays.
        """
        async with self._passing:
            began = self._clock.monotonic()
            now = self._clock.now()
            self._upcoming = (None, None)
            if self._clock_jumped(now, began):
                self._connected_since = None
                skipped = WatchdogReport(now, skipped=True)
                self._metrics.passed(skipped)
                return skipped
            declare = self._may_declare(began)
            if self._connected_since is None:
                self._leases_ahead.forget()
            one = Pass(
                self._runtime,
                self._event_log,
                batch=self.batch,
                limit=limit,
                declare=declare,
                leases_ahead=self._leases_ahead,
                most_losses=self._limits.owner_losses,
                ahead=self._ahead,
                ended_for=sorted(self._ended_for),
            )
            self._ended_for.clear()
            try:
                report = await one.run()
                if self._rules is not None:
                    await self._apply_rules(self._rules, report, whole=limit is None)
                await self._dead_journals.forget(began)
                if any(one.expired):
                    await self._expired_rows.forget(began, one.expired)
                if self._metrics.wants_open(self._runtime):
                    self._metrics.sampled(self._runtime, await self._runtime.read(count_open))
            except StoreError:
                self._connected_since = None
                self._metrics.failed(self._clock.monotonic() - began)
                raise
            if one.came_first is not None:
                self._second = not one.came_first
            self._upcoming = one.upcoming
            self._connected_at = self._clock.monotonic()
            if self._connected_since is None:
                self._connected_since = began
            report.duration_s = self._connected_at - began
            self._ahead = round(min(report.duration_s, MOST_AHEAD_S) * 1_000_000) if report.counts else 0
            self._metrics.passed(report)
            return report

    async def _apply_rules(self, rules: RuleWalk, report: WatchdogReport, *, whole: bool) -> None:
        """Give workflows the alerts of rules, after everything that is due was done."""
        given, more = await rules.look(partial(apply_all, self._runtime.journal), whole=whole)
        if given:
            report.count(ALERTS_ADDED, given)
        if more:
            report.reached_limit = True

    def _clock_jumped(self, wall: int, monotonic: float) -> bool:
        """Return whether the wall clock was set since the last pass, and compare from here the next time."""
        base, self._based_at = self._based_at, (wall, monotonic)
        if base is None:
            return False
        jump = (wall - base[0]) / 1_000_000 - (monotonic - base[1])
        if abs(jump) <= CLOCK_JUMP_S:
            return False
        logger.warning("the clock jumped by %.1f s: one pass is skipped", jump, extra={"jump_s": jump})
        return True

    def _may_declare(self, monotonic: float) -> bool:
        """Return whether this process has reached the database for half a lease, with no gap longer than that."""
        since = self._connected_since
        if since is None:
            return False
        if monotonic - self._connected_at > self._half_lease_s:
            self._connected_since = None
            return False
        return monotonic - since >= self._half_lease_s

    # --- the loop ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to watch on the running loop, unless it does already."""
        if self._task is not None:
            return
        self._stopping = False
        self._nearest = NEVER
        self._runtime.journal.subscribe(self._on_commit)
        self._runtime.outbox_rung.append(self.wake)
        self._periodic = periodic(self._runtime.environment)
        self._periodic.add("outlast-watchdog", self.interval_s, self.wake)
        self._periodic.start()
        self._woken.set()
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="outlast-watchdog")

    async def stop(self) -> None:
        """Stop watching; a pass under way ends first."""
        task, self._task = self._task, None
        if task is None:
            return
        self._stopping = True
        self._runtime.journal.unsubscribe(self._on_commit)
        self._runtime.outbox_rung.remove(self.wake)
        if self._periodic is not None:
            self._periodic.stop()
        self._set_alarm(None)
        self._woken.set()
        await task

    def wake(self) -> None:
        """Start a pass now; call it on the loop."""
        self._woken.set()

    async def _watch(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if self._stopping:
                return
            self._set_alarm(None)
            # Commits from here on are noted, also while the pass runs.
            before, self._nearest = self._nearest, NEVER
            try:
                report = await self.run_pass(BATCHES_A_TURN * self.batch)
            except JournalClosedError:
                logger.debug("the client is closed: the watchdog waits")
                self._sleep()
            except StoreError as error:
                logger.warning("a pass of the watchdog failed and is tried again: %s", error)
                self._sleep()
            except Exception:
                logger.exception("a pass of the watchdog failed and is tried again")
                self._sleep()
            else:
                # A skipped pass has read nothing, so what was known before still counts.
                if report.skipped:
                    self._nearest = min(self._nearest, before)
                deadline, look = self._upcoming
                if look is not None and self._second:
                    look += self._step_back_us()
                for at in (deadline, look):
                    if at is not None and at < self._nearest:
                        self._nearest = at
                self._shortest_s = SLEEP_AFTER_WORK_S if report.counts else SHORTEST_SLEEP_S
                if report.reached_limit:
                    self._woken.set()
                    await asyncio.sleep(0)
                else:
                    self._sleep()

    def _step_back_us(self) -> int:
        """Return how much later than it is due it looks at a schedule that it has read of, where others come first.

        Where several watch, all wake for the same schedule, one fires it and the others have worked in vain. Whoever
        comes second leaves the next ones to the first, and takes them over as soon as that does not fire them. What
        else becomes due is nobody's to leave to others.
        """
        return round(STEP_BACK_US * (1 + self._runtime.environment.random.random() / 2))

    def _sleep(self) -> None:
        """Sleep until the nearest deadline; should the periodic wake fail, one and a half intervals at most."""
        self._asleep = True
        longest = 1.5 * self.interval_s
        if self._nearest == NEVER:
            self._set_alarm(longest)
        else:
            ahead = (self._nearest - self._clock.now()) / 1_000_000
            self._set_alarm(min(max(ahead, self._shortest_s), longest))

    def _set_alarm(self, delay_s: float | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if delay_s is None:
            self._asleep = False
        else:
            self._alarm = asyncio.get_running_loop().call_later(delay_s, self._woken.set)

    def _on_commit(self, committed: Committed) -> None:
        """Note the deadlines that this process has just written.

        It is called for every commit, so it costs no more than a few loads and comparisons a row.
        """
        nearest = self._nearest
        for run in committed.runs.values():
            at = run.next_deadline_at
            if at is not None and at < nearest:
                nearest = at
            at = run.cascade_at
            if at is not None and at < nearest:
                nearest = at
            if run.closed_at is not None and run.next_run_id is None and run.search_attributes is not None:
                schedule_id = schedule_of(run.search_attributes)
                if schedule_id is not None:
                    self._ended_for.add(schedule_id)
                    nearest = min(nearest, committed.now)
        for activity in committed.activities:
            at = activity.next_deadline_at
            if at is not None and at < nearest:
                nearest = at
        for at in committed.timers:
            if at < nearest:
                nearest = at
        if nearest < self._nearest:
            self._nearest = nearest
            if self._asleep:
                self._sleep()
