"""Random lives of runs and activities, each step compared with the model, row by row and event by event.

The engine is driven by its own changes through the journal of a real database, with a clock that stands still until a
step moves it; no worker and no user code take part. After each step the rows must be what the model says, what was
appended to each history must be what the model says, and the invariants of the whole database must hold.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.queued import write_queue
from tests.watchdog.model import MOST_LOSSES, Activity, Model, Policy, Run, Story
from tests.watchdog.stage import SECOND, Stage, StillClock

from outlast.runtime.runtime import Runtime
from outlast.testing import check_database
from outlast_activities.attempts import CANCELLED, HANDED_BACK, AttemptEnd
from outlast_activities.changes import EndAttempt
from outlast_activities.deferred_attempts import (
    CancelFromOutside,
    CompleteFromOutside,
    DeferAttempt,
    FailFromOutside,
    HeartbeatFromOutside,
    NamedAttempt,
)
from outlast_runs.admission import AdmitFromQueue, Taker
from outlast_runs.claims import ClaimRuns, ReleaseRuns
from outlast_runs.deadlines import EnforceRunDeadline
from outlast_runs.run_change import RequestCancellation, TerminateRun
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_runs.updates import SendUpdate, UpdateRequest
from outlast_runs.workflow_task import WorkflowTask
from outlast_store.database.urls import DatabaseUrl
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow, RequestRow, RunRow
from outlast_store.transitions.children import NewChild, new_child
from outlast_store.transitions.queued_runs import START_TIMER
from outlast_store.transitions.requests import ACCEPTED, OPEN
from outlast_watchdog.enforcement import DeclareWorkerLost, EnforceActivityDeadline
from outlast_watchdog.passes import apply_all
from outlast_watchdog.report import WatchdogReport
from outlast_watchdog.watchdog import TaskWatchdog
from outlast_workflow.environment import Environment
from outlast_workflow.errors import (
    AttemptNotRunningError,
    InvalidOptionError,
    RefusedError,
    WorkflowClosedError,
)
from outlast_workflow.history import events
from outlast_workflow.history.events import Event
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions
from outlast_workflow.primitives.enums import AttemptOutcome
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import from_iso, iso
from outlast_workflow.run.handler_tasks import Considered

T = TypeVar("T")

KINDS = ("schedule_to_start", "start_to_close", "schedule_to_close", "heartbeat")
FOREVER = 10**9
CLOCK_JUMP = 1 * SECOND

durations = st.sampled_from([1, 1.5, 2, 3, 5, 8, 13, 30])
workflow_timeouts = st.sampled_from([None, None, None, 2, 10, 30, 100, 1000])


@st.composite
def policies(draw: st.DrawFn) -> RetryPolicy:
    initial = draw(st.sampled_from([0.5, 1, 3]))
    return RetryPolicy(
        initial_interval=initial,
        backoff_coefficient=draw(st.sampled_from([1, 2])),
        max_interval=draw(st.sampled_from([3, 5, 20])),
        max_attempts=draw(st.sampled_from([0, 1, 2, 3, 5])),
        non_retryable_error_types=draw(
            st.sampled_from([(), (), (), ("Fatal",), ("ActivityTimeoutError",), ("WorkflowTimeoutError",)])
        ),
    )


@st.composite
def activity_options(draw: st.DrawFn) -> ActivityOptions:
    """Every subset of the four timeouts; values that contradict each other are put right by making them equal."""
    given = {kind: draw(durations) for kind in KINDS if draw(st.booleans())}
    longest = given.get("schedule_to_close", FOREVER)
    attempt = min(given.get("start_to_close", FOREVER), longest)
    for kind, most in (
        ("start_to_close", longest),
        ("schedule_to_start", longest),
        ("heartbeat", attempt),
    ):
        if kind in given:
            given[kind] = min(given[kind], most)
    timeouts: dict[str, Any] = {f"{kind}_timeout": seconds for kind, seconds in given.items()}
    cancellation_type = draw(st.sampled_from([None, "try", "wait"]))
    policy = draw(st.one_of(st.none(), policies()))
    return ActivityOptions(**timeouts, retry_policy=policy, cancellation_type=cancellation_type)


@st.composite
def child_options(draw: st.DrawFn) -> tuple[str, dict[str, Any], RetryPolicy | None]:
    """A close policy, timeouts, and a retry policy."""
    timeouts = {
        name: seconds
        for name in ("execution_timeout", "run_timeout")
        if (seconds := draw(workflow_timeouts)) is not None
    }
    close_policy = draw(st.sampled_from(["terminate", "request_cancel", "abandon"]))
    return close_policy, timeouts, draw(st.one_of(st.none(), policies()))


queue_places = st.sampled_from([None, None, (5, None), (5, 3), (0, 20), (0, None)])
"""No queue; or the priority in its line, and how long it may stand there, in seconds."""
few_activities = st.lists(st.tuples(activity_options(), st.booleans()), min_size=1, max_size=3)


def us(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SECOND)


def policy_of(policy: RetryPolicy | None) -> Policy:
    policy = policy or RetryPolicy()
    return Policy(
        round(policy.initial_interval * SECOND),
        int(policy.backoff_coefficient),
        round(policy.max_interval * SECOND),
        policy.max_attempts,
        frozenset(policy.non_retryable_error_types),
    )


def story_of(event: Event) -> Story:
    """An event as the model tells it."""
    name = event.type
    if isinstance(event, events.ActivityTimedOut):
        deadline = from_iso(event.deadline_at)
        assert event.failure["timeout_kind"] == event.timeout_kind
        return name, event.command_id, event.timeout_kind, deadline, event.attempt, event.retry_state
    if isinstance(event, events.ActivityFailed):
        return name, event.command_id, event.failure["category"], event.attempt, event.retry_state
    if isinstance(event, events.ActivityCompleted):
        return name, event.command_id, event.attempt
    if isinstance(event, events.WorkflowTimedOut):
        return name, event.timeout_kind, from_iso(event.deadline_at)
    number = getattr(event, "command_id", getattr(event, "update_id", None))
    return (name,) if number is None else (name, number)


class WatchdogMachine(RuleBasedStateMachine):
    """One example: a database of its own, two watchdogs, and the model."""

    url: str = "sqlite://"

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = StillClock()
        self.model = Model()
        self.stage = self.wait(self.open())
        self.second = TaskWatchdog(self.stage)
        self.model.spread = lambda run: (zlib.crc32(self.id_of(run).encode()) & 0xFF) / 256
        self.bases: dict[TaskWatchdog, tuple[int, float]] = {}
        self.ids: dict[tuple[str, int], str] = {}
        self.seen: dict[str, int] = {}
        self.told: dict[str, int] = {}
        self.at: dict[str, int] = {}
        self.commands: dict[str, int] = {}
        self.inboxes: dict[str, int] = {}
        self.asked = 0
        self.workers = ["worker-1", "worker-2"]
        self.made = 2
        self.children = 0
        for worker in self.workers:
            self.wait(self.stage.register(worker, FOREVER))

    async def open(self) -> Stage:
        environment = Environment(self.clock, rng=random.Random(1), threads=False)
        runtime = await Runtime.open(DatabaseUrl.parse(self.url), environment)
        stage = Stage(runtime, self.clock)
        stage.limits = StructuralLimits(owner_losses=MOST_LOSSES)
        stage.watchdog = TaskWatchdog(stage)
        return stage

    def wait(self, work: Any) -> Any:
        return self.runner.run(work)

    def apply(self, change: Any) -> Any:
        return self.wait(self.stage.apply(change))

    def teardown(self) -> None:
        self.wait(self.stage.close())
        self.runner.close()

    def id_of(self, run: Run) -> str:
        return self.ids[run.workflow_id, run.number]

    def row(self, run: Run) -> RunRow:
        row: RunRow = self.stage.run(self.id_of(run))
        return row

    def pick(self, data: st.DataObject, things: list[T], label: str) -> T:
        return things[data.draw(st.integers(0, len(things) - 1), label=label)]

    # --- time -------------------------------------------------------------------------------------------------------

    def move(self, us: int) -> None:
        self.clock.advance_us(us)
        self.model.now = self.clock.us

    @rule(seconds=st.sampled_from([0.000001, 0.3, 1, 2, 5]))
    def time_passes(self, seconds: float) -> None:
        self.move(round(seconds * SECOND))

    @rule(data=st.data(), early=st.sampled_from([0, 0, 0, 1]))
    def a_deadline_comes(self, data: st.DataObject, early: int) -> None:
        """To the microsecond of one of the instants that lie ahead, or to the one before it."""
        model = self.model
        ahead = {run.next_deadline for run in model.open_runs()}
        for run in model.open_runs():
            ahead |= {run.not_before, *run.timers.values(), run.begins_at or 0}
        for _, activity in model.open_activities():
            ahead |= {activity.available_at, *activity.deadlines().values()}
        instants = sorted(at for at in ahead if at is not None and at - early > model.now)
        if instants:
            self.move(self.pick(data, instants[:4], "instant") - early - model.now)

    def the_wall_clock_is_set(self, data: st.DataObject) -> None:
        seconds = data.draw(st.sampled_from([-40, -3, -0.3, 0.3, 3, 40]), label="seconds")
        self.clock.us += round(seconds * SECOND)
        self.model.now = self.clock.us

    # --- runs -------------------------------------------------------------------------------------------------------

    @initialize(data=st.data(), activities=few_activities)
    def begin(self, data: st.DataObject, activities: list[tuple[ActivityOptions, bool]]) -> None:
        self.model.now = self.clock.us
        self.wait(write_queue(self.stage.runtime.journal, "q", concurrency=self.model.slots))
        queued = data.draw(queue_places, label="queued")
        self.a_workflow_starts(
            None, data.draw(workflow_timeouts), 0, data.draw(st.none() | policies()), queued
        )
        self.the_code_decides(
            data, activities, [], [data.draw(child_options(), label="child")], False, False, None, None
        )

    @precondition(lambda self: len(self.model.open_runs()) < 3)
    @rule(
        execution=workflow_timeouts,
        run_timeout=workflow_timeouts,
        delay=st.sampled_from([0, 0, 0.5, 4, 12]),
        policy=st.one_of(st.none(), policies()),
        queued=queue_places,
    )
    def a_workflow_starts(
        self,
        execution: float | None,
        run_timeout: float | None,
        delay: float,
        policy: RetryPolicy | None,
        queued: tuple[int, float | None] | None,
    ) -> None:
        """At once or later, or into the queue: with a priority, and perhaps a limit of how long it waits there."""
        of_queue: dict[str, Any] = {}
        if queued is not None:
            of_queue = {"queue": "q", "priority": queued[0], "schedule_to_start_timeout": queued[1]}
        try:
            options = StartOptions(
                execution_timeout=execution,
                run_timeout=run_timeout,
                start_delay=delay or None,
                retry_policy=policy,
                **of_queue,
            )
        except InvalidOptionError:
            assert execution is not None
            assert delay >= execution
            return
        workflow_id = f"workflow-{len(self.ids) + 1}"
        run_id = self.wait(self.stage.start(options, workflow_id=workflow_id))
        run = self.model.start(
            workflow_id,
            execution=us(execution),
            run_timeout=us(run_timeout),
            delay=round(delay * SECOND),
            policy=policy_of(policy) if policy is not None else None,
            in_queue=queued is not None,
            priority=queued[0] if queued is not None else 5,
            start_limit=us(queued[1]) if queued is not None else None,
        )
        self.ids[workflow_id, run.number] = run_id

    @precondition(lambda self: any(run.in_queue for run in self.model.open_runs()))
    @rule(number=st.integers(0, 1), limit=st.integers(1, 3))
    def a_worker_admits(self, number: int, limit: int) -> None:
        """Runs with a slot that nobody has go before the line, and take no other slot."""
        model, worker = self.model, self.workers[number]
        taker = Taker(worker, ["default"], frozenset(["Order"]), runs=limit)
        admitted = [row.run_id for row in self.apply(AdmitFromQueue("q", taker)).runs]
        left = {self.id_of(run): run for run in model.open_runs() if run.slot and self.is_awake(run)}
        taken = admitted[: min(limit, len(left))]
        for run_id in taken:
            run = left.pop(run_id)
            run.owner = worker
            run.fence += 1
        room = min(limit - len(taken), max(model.slots_left(), 0))
        line = sorted(model.line(), key=lambda run: (run.priority, run.queued_at, self.id_of(run)))[:room]
        assert admitted[len(taken) :] == [self.id_of(run) for run in line]
        for run in line:
            model.admit(run, worker)

    @precondition(lambda self: any(run.status == "queued" for run in self.model.open_runs()))
    @rule(
        data=st.data(),
        seconds=st.sampled_from([0, 1, 4]),
        asks=st.sampled_from([None, None, "cancel", "update"]),
    )
    def the_line_waits(self, data: st.DataObject, seconds: float, asks: str | None) -> None:
        """Some time, or until somebody asks something of what waits."""
        self.move(round(seconds * SECOND))
        model = self.model
        run = self.pick(data, [run for run in model.open_runs() if run.status == "queued"], "run")
        if asks == "cancel":
            self.apply(RequestCancellation(run.workflow_id, self.id_of(run), None))
            if not model.time_out_run(run):
                model.request_run_cancel(run)
        elif asks == "update":
            self.asked += 1
            update = f"update-{self.asked}"
            request = UpdateRequest(update, "ask", Payload.of([]), StructuralLimits())
            self.apply(SendUpdate(run.workflow_id, self.id_of(run), request))
            if not model.time_out_run(run):
                model.ask(run, update)

    def is_awake(self, run: Run) -> bool:
        """Whether it has something to do and no owner."""
        now = self.model.now
        return run.owner is None and run.wake_at is not None and run.wake_at <= now and run.not_before <= now

    def a_worker_claims_runs(self, data: st.DataObject) -> None:
        worker = self.workers[data.draw(st.integers(0, 1), label="worker")]
        limit = data.draw(st.integers(1, 5), label="limit")
        claimed = self.apply(ClaimRuns(worker, ["default"], frozenset(["Order"]), limit))
        able = {self.id_of(run): run for run in self.model.open_runs() if not run.slot and self.is_awake(run)}
        assert len(claimed) == min(limit, len(able))
        for row in claimed:
            run = able.pop(row.run_id)
            run.owner = worker
            run.fence += 1

    def a_worker_lets_go(self, data: st.DataObject) -> None:
        owned = [run for run in self.model.open_runs() if run.owner]
        if not owned:
            return
        run = self.pick(data, owned, "run")
        assert run.owner is not None
        assert self.apply(ReleaseRuns(run.owner, [self.id_of(run)])) == 1
        run.owner = None
        if run.slot:  # its local activities are claimed by its owner only, so it needs one
            run.wake(self.model.now)

    @precondition(lambda self: self.model.open_runs())
    @rule(
        data=st.data(),
        activities=few_activities,
        timers=st.lists(durations, max_size=2),
        children=st.one_of(st.just([]), st.lists(child_options(), max_size=2)),
        cancel=st.booleans(),
        blind=st.booleans(),
        limit=st.sampled_from([*[None] * 6, 1, 3, 8]),
        end=st.sampled_from([*[None] * 12, "completed", "failed", "cancelled", "continued_as_new"]),
    )
    def the_code_decides(
        self,
        data: st.DataObject,
        activities: list[tuple[ActivityOptions, bool]],
        timers: list[float],
        children: list[tuple[str, dict[str, Any], RetryPolicy | None]],
        cancel: bool,
        blind: bool,
        limit: int | None,
        end: str | None,
    ) -> None:
        """A workflow task, of all that has happened or (``blind``) only of what was known after the one before."""
        model = self.model
        unowned = [run for run in model.open_runs() if not run.owner]
        if any(run.in_queue for run in unowned) and data.draw(st.integers(0, 3), label="admits"):
            self.a_worker_admits(
                data.draw(st.integers(0, 1), label="worker"), data.draw(st.integers(1, 3), label="limit")
            )
        elif unowned:
            self.a_worker_claims_runs(data)
        owned = [run for run in model.open_runs() if run.owner]
        if not owned:
            return
        run = self.pick(data, owned, "run")
        owner = cast(str, run.owner)
        row = self.row(run)
        run_id = row.run_id
        seen = self.seen.get(run_id, 1) if blind else row.last_seq
        inbox = self.inboxes.get(run_id, 0) if blind else row.inbox
        considered, answers, left = (None, [], False) if blind else self.considered(data, run)
        if left:  # they came after it had looked
            inbox = self.inboxes.get(run_id, 0)
        at = max(model.now, self.at.get(run_id, 0), row.last_event_at)
        commands: list[Event] = []
        limited = replace(run, begun_at=run.begun_at or at)
        lowers = limit is not None and model.lower(limited, limit * SECOND)
        if lowers:
            assert limit is not None
            assert limited.limited_at is not None
            commands.append(events.WorkflowDeadlineLowered(iso(limited.limited_at), limit))
        eager: dict[int, ActivityOptions] = {}
        scheduled: list[tuple[int, ActivityOptions, bool]] = []
        set_timers: list[tuple[int, int]] = []
        numbers = self.commands.get(run_id, 0)
        for options, here in activities:
            numbers += 1
            commands.append(
                events.ActivityScheduled(
                    command_id=numbers,
                    activity_type="charge",
                    task_queue="default",
                    input=Payload.of([]),
                    options=options.snapshot,
                    priority=5,
                )
            )
            scheduled.append((numbers, options, here))
            if here:
                eager[numbers] = options
        for seconds in timers:
            numbers += 1
            set_timers.append((numbers, at + round(seconds * SECOND)))
            commands.append(events.TimerScheduled(*set_timers[-1]))
        born: dict[int, NewChild] = {}
        for child in children if len(model.open_runs()) < 5 else ():
            numbers += 1
            commands.append(self.child(numbers, *child))
            born[numbers] = self.new_child(
                commands[-1], data.draw(st.sampled_from([owner, None]), label="owner")
            )
        target: Activity | None = None
        uncancelled = [
            one for one in run.activities.values() if not one.cancel_requested and one.status != "cancelled"
        ]
        if cancel and uncancelled and not blind:
            target = self.pick(data, [one for one in uncancelled if one.open] or uncancelled, "cancelled")
            target_open = target.open
            if target_open:
                commands.append(events.ActivityCancelRequested(target.number, wait=target.waited_for or None))
            else:
                target = None
        commands += [events.UpdateCompleted(update, Payload.of(1)) for update in answers]
        commands += self.ending(end)
        record = events.WorkflowTaskCompleted(
            through=seen,
            own=len(considered.accepted) if considered is not None else 0,
            at=at,
            commands=len(commands),
            history_events=seen,
            history_bytes=0,
            python=11,
        )
        workflow_task = WorkflowTask(
            owner,
            run.fence,
            seen,
            inbox,
            record,
            commands,
            considered=considered,
            eager=eager,
            children=born,
            next_run_id=self.stage.runtime.environment.ids.next() if end == "continued_as_new" else None,
            next_owner_id=owner if end == "continued_as_new" else None,
        )
        unseen = [event.type for event in self.stage.history(run_id)[seen:]]
        unheard = row.inbox != inbox
        held_back = (
            end is not None
            and ("WorkflowCancelRequested" in unseen or (unheard and end != "continued_as_new"))
            and run.passed(model.now) is None
        )
        try:
            self.apply(CommitWorkflowTask(row, workflow_task))
            assert not held_back
        except RefusedError as refused:
            if not held_back or refused.reason != "unseen":
                raise
            return
        if model.time_out_run(run):
            return
        self.commands[run_id], self.at[run_id] = numbers, at
        run.status = "running"
        run.begun_at = limited.begun_at
        run.limit, run.limited_at = limited.limit, limited.limited_at
        self.inboxes[run_id] = inbox
        run.wake_at = run.wake_at if unseen or unheard else None
        run.not_before = run.losses = 0
        run.delayed = False
        for update, _ in considered.rejected if considered is not None else ():
            run.updates[update] = "rejected"
        for event in considered.accepted if considered is not None else ():
            run.updates[event.update_id] = "accepted"
            model.say(run, "UpdateAccepted", event.update_id)
        model.say(run, "WorkflowTaskCompleted")
        if lowers:
            model.say(run, "WorkflowDeadlineLowered")
        for update in answers:
            run.updates[update] = "completed"
            model.say(run, "UpdateCompleted", update)
        for number, options, here in scheduled:
            given = {kind: us(getattr(options, f"{kind}_timeout")) for kind in KINDS}
            limits = {kind: limit for kind, limit in given.items() if limit is not None}
            waited_for = options.cancellation_type == "wait"
            policy = policy_of(options.retry_policy)
            activity = model.schedule(run, number, limits, policy, waited_for=waited_for)
            model.say(run, "ActivityScheduled", number)
            if here:
                model.claim(activity, owner)
        for number, fire_at in set_timers:
            run.timers[number] = fire_at
            model.say(run, "TimerScheduled", number)
        for number, child in zip(born, children, strict=False):
            self.child_starts(run, number, born[number], child)
        if target is not None:
            model.say(run, "ActivityCancelRequested", target.number)
            if not target.waited_for:
                model.request_cancel(run, target)
        self.end(run, end, owner)
        if run.open and target is not None and target.waited_for:
            model.request_cancel(run, target)
        if run.open:
            for number in born:
                model.say(run, "ChildWorkflowStarted", number)
        self.seen[run_id] = self.row(run).last_seq

    def child(
        self, number: int, close_policy: str, timeouts: dict[str, Any], policy: RetryPolicy | None
    ) -> events.ChildWorkflowScheduled:
        options = dict(timeouts)
        if policy is not None:
            options["retry_policy"] = policy.to_document()
        self.children += 1
        return events.ChildWorkflowScheduled(
            command_id=number,
            workflow_id=f"child-{self.children}",
            workflow_type="Order",
            task_queue="default",
            input=Payload.of([]),
            options=Payload.of(options),
            parent_close_policy=close_policy,
            priority=5,
        )

    def new_child(self, command: Any, owner: str | None) -> NewChild:
        return new_child(command, self.stage.runtime.environment.ids.next(), owner, awaited=False)

    def child_starts(
        self, parent: Run, number: int, born: NewChild, given: tuple[str, dict[str, Any], RetryPolicy | None]
    ) -> None:
        close_policy, timeouts, policy = given
        self.model.say(parent, "ChildWorkflowScheduled", number)
        child = self.model.start_child(
            parent,
            number,
            born.instance.workflow_id,
            close_policy,
            execution=us(timeouts.get("execution_timeout")),
            run_timeout=us(timeouts.get("run_timeout")),
            policy=policy_of(policy) if policy is not None else None,
            owner=born.owner_id,
        )
        self.ids[child.workflow_id, child.number] = born.run_id

    def considered(self, data: st.DataObject, run: Run) -> tuple[Considered | None, list[str], bool]:
        """What the code says to the updates that wait, which accepted ones it answers, and whether some are left."""
        waiting = sorted(update for update, state in run.updates.items() if state == "waiting")
        accepted = [update for update, state in run.updates.items() if state == "accepted"]
        considered = Considered()
        left = False
        for update in waiting:
            verdict = data.draw(st.sampled_from(["accepted", "accepted", "rejected", "left"]), label=update)
            if verdict == "accepted":
                considered.accepted.append(events.UpdateAccepted(update, "ask", Payload.of([])))
                accepted.append(update)
            elif verdict == "rejected":
                considered.rejected.append((update, {"category": "application", "message": "no"}))
            else:
                left = True
        answers = [
            update for update in accepted if data.draw(st.sampled_from([False, False, True]), label=update)
        ]
        return considered if waiting else None, answers, left

    @precondition(lambda self: self.model.open_runs())
    @rule(data=st.data(), again=st.booleans())
    def a_client_asks_for_an_update(self, data: st.DataObject, again: bool) -> None:
        """A new one, or one that the run was asked for before, whatever became of it."""
        model = self.model
        run = self.pick(data, model.open_runs(), "run")
        known = sorted(run.updates)
        if again and known:
            update = self.pick(data, known, "update")
        else:
            self.asked += 1
            update = f"update-{self.asked}"
        request = UpdateRequest(update, "ask", Payload.of([]), StructuralLimits())
        self.apply(SendUpdate(run.workflow_id, self.id_of(run), request))
        if update not in known and not model.time_out_run(run):
            model.ask(run, update)

    @staticmethod
    def ending(end: str | None) -> list[Event]:
        if end == "completed":
            return [events.WorkflowCompleted(Payload.of(1))]
        if end == "failed":
            return [events.WorkflowFailed({"category": "application", "type": "Fatal", "message": "no"})]
        if end == "cancelled":
            return [events.WorkflowCancelled()]
        if end == "continued_as_new":
            return [events.WorkflowContinuedAsNew("Order", Payload.of([]))]
        return []

    def end(self, run: Run, end: str | None, owner: str) -> None:
        names = {"completed": "Completed", "failed": "Failed", "cancelled": "Cancelled"}
        if end == "failed":
            run.failures.append(("application", "terminal", None, None))
            self.model.retry(run, "Fatal")
        elif end == "cancelled":
            run.failures.append(("cancelled", "cancelled", None, None))
        elif end == "continued_as_new":
            self.model.follow(run, owner=owner)
            self.model.close(run, end, "WorkflowContinuedAsNew")
            return
        if end is not None:
            self.model.close(run, end, f"Workflow{names[end]}")

    def a_client_asks_for_the_end(self, data: st.DataObject) -> None:
        model = self.model
        if not model.open_runs():
            return
        terminate = data.draw(st.sampled_from([False, False, True]), label="terminate")
        run = self.pick(data, model.open_runs(), "run")
        change = TerminateRun if terminate else RequestCancellation
        self.apply(change(run.workflow_id, self.id_of(run), None))
        if model.time_out_run(run):
            return
        if terminate:
            model.terminate(run)
        else:
            model.request_run_cancel(run)

    def a_client_is_too_late(self, data: st.DataObject) -> None:
        closed = [run for run in self.model.runs.values() if not run.open]
        if not closed:
            return
        run = self.pick(data, closed, "run")
        change = RequestCancellation(run.workflow_id, self.id_of(run), None)
        if run.followed:
            assert self.apply(change).next_run_id == self.ids[run.workflow_id, run.number + 1]
        else:
            with pytest.raises(WorkflowClosedError):
                self.apply(change)

    # --- activities -------------------------------------------------------------------------------------------------

    @rule(limit=st.integers(1, 5), number=st.integers(0, 1))
    def a_worker_claims_activities(self, limit: int, number: int) -> None:
        self.claim_activities(self.workers[number], limit)

    def claim_activities(self, worker: str, limit: int) -> None:
        now = self.model.now
        rows = self.wait(self.stage.claim(worker_id=worker, limit=limit))
        able = [
            (one.available_at, self.id_of(run), one.number, one)
            for run, one in self.model.open_activities()
            if one.status == "pending" and one.available_at <= now and one.passed(now) is None
        ]
        first = sorted(able, key=lambda able: able[:3])[:limit]
        assert {(row.run_id, row.activity_id) for row in rows} == {
            (run_id, number) for _, run_id, number, _ in first
        }
        for *_, activity in first:
            self.model.claim(activity, worker)

    def running(self) -> list[tuple[Run, Activity]]:
        return [pair for pair in self.model.open_activities() if pair[1].status == "running"]

    def activity_row(self, run: Run, activity: Activity) -> ActivityRow:
        row: ActivityRow = self.stage.activity(self.id_of(run), activity.number)
        return row

    @precondition(lambda self: self.running())
    @rule(
        data=st.data(),
        details=st.sampled_from([None, 1, ["half"]]),
        ago=st.sampled_from([0, 0, 1, SECOND, 6 * SECOND, -2 * SECOND]),
    )
    def a_handler_beats(self, data: st.DataObject, details: Any, ago: int) -> None:
        """Its heartbeat is written some time after it beat; its clock may be ahead."""
        run, activity = self.pick(data, self.running(), "activity")
        heard = self.wait(self.stage.beat(self.id_of(run), activity.number, details, ago_us=ago))
        assert heard is self.model.beat(activity, details, ago)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), race=st.sampled_from([None, None, "before", "after"]))
    def a_result_comes(self, data: st.DataObject, race: str | None) -> None:
        """Alone, or in one transaction with a watchdog that looks at the same activity."""
        model = self.model
        run, activity = self.pick(data, self.running(), "activity")
        row = self.activity_row(run, activity)
        if race is None:
            in_time = run.passed(model.now) is None and activity.passed(model.now) is None
            assert self.wait(self.stage.complete(row)) is in_time
        else:
            result = self.stage.complete(row)
            watching = EnforceActivityDeadline(row.run_id, row.activity_id)
            self.race(result, watching, first=race == "before")
        model.complete(run, activity)

    def race(self, work: Any, change: Any, *, first: bool) -> None:
        """Hand two changes over before either is committed; a refusal is one way to lose."""

        async def both() -> None:
            if first:
                outcomes = await asyncio.gather(self.stage.apply(change), work, return_exceptions=True)
            else:
                outcomes = await asyncio.gather(work, self.stage.apply(change), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException) and not isinstance(outcome, RefusedError):
                    raise outcome

        self.wait(both())

    @precondition(lambda self: self.running())
    @rule(
        data=st.data(),
        type_=st.sampled_from(["Flaky", "Flaky", "Fatal"]),
        final=st.sampled_from([False, False, False, True]),
        delay=st.sampled_from([None, None, 0, 7]),
        details=st.sampled_from([None, '["last words"]']),
    )
    def an_attempt_fails(
        self, data: st.DataObject, type_: str, final: bool, delay: float | None, details: str | None
    ) -> None:
        failure: dict[str, Any] = {"category": "application", "type": type_, "message": "not this time"}
        if final:
            failure["non_retryable"] = True
        if delay is not None:
            failure["next_retry_delay"] = delay
        run, activity = self.pick(data, self.running(), "activity")
        end = AttemptEnd(AttemptOutcome.FAILED, failure)
        self.end_attempt(
            run, activity, end, "failed", details=details, type_=type_, final=final, delay=us(delay)
        )

    @precondition(lambda self: self.running())
    @rule(data=st.data(), obeys=st.booleans())
    def an_attempt_is_given_up(self, data: st.DataObject, obeys: bool) -> None:
        """Because a handler obeys a cancel, or its worker stops."""
        run, activity = self.pick(data, self.running(), "activity")
        if obeys and activity.cancel_requested:
            self.end_attempt(run, activity, CANCELLED, "cancelled")
        else:
            self.end_attempt(run, activity, HANDED_BACK, "handed_back")

    def end_attempt(
        self,
        run: Run,
        activity: Activity,
        end: AttemptEnd,
        how: str,
        *,
        details: str | None = None,
        **facts: Any,
    ) -> None:
        key = (self.id_of(run), activity.number, activity.attempt)
        self.apply(EndAttempt(*key, end, heartbeat_details=details))
        if self.model.time_out_run(run):
            if how == "failed":
                self.model.fail_late(run, activity)
            return
        if details is not None:
            activity.details = ["last words"]
        self.model.end_attempt(run, activity, how, **facts)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def a_handler_defers(self, data: st.DataObject) -> None:
        """It leaves its attempt to somebody outside, if a timeout of its own bounds it."""
        run, activity = self.pick(data, self.running(), "activity")
        if set(activity.limits) <= {"schedule_to_start"}:
            return
        deferred = self.apply(DeferAttempt(self.id_of(run), activity.number, activity.attempt, None))
        assert deferred is self.model.defer(run, activity)

    def named(self, data: st.DataObject, run: Run, activity: Activity) -> NamedAttempt:
        by_token = data.draw(st.booleans(), label="by token")
        return NamedAttempt(self.id_of(run), activity.number, activity.attempt if by_token else None)

    def outside(self, change: Any) -> Any:
        """What a client gets: an error that says how the attempt ended is raised or returned."""
        try:
            return self.apply(change)
        except AttemptNotRunningError as error:
            return error

    @precondition(lambda self: self.running())
    @rule(data=st.data(), verb=st.sampled_from(["complete", "complete", "fail", "cancel", "beat"]))
    def somebody_outside_acts(self, data: st.DataObject, verb: str) -> None:
        """Whether the attempt was deferred already or its worker is about to: it runs, and that is all it takes."""
        model = self.model
        run, activity = self.pick(data, self.running(), "activity")
        named = self.named(data, run, activity)
        late = run.passed(model.now) is not None or activity.passed(model.now) is not None
        if verb == "complete":
            found = self.outside(CompleteFromOutside(named, Payload.of("done")))
            model.complete(run, activity)
        elif verb == "fail":
            failure = {"category": "application", "type": "Flaky", "message": "not this time"}
            found = self.outside(FailFromOutside(named, failure))
            if model.time_out_run(run):
                model.fail_late(run, activity)
                assert found is None
                return
            model.end_attempt(run, activity, "failed")
        elif verb == "cancel" and not late and not activity.cancel_requested:
            with pytest.raises(RefusedError, match="nobody has asked to cancel"):
                self.apply(CancelFromOutside(named))
            return
        elif verb == "cancel":
            found = self.outside(CancelFromOutside(named))
            if not model.loses_to_a_deadline(run, activity):
                model.end_attempt(run, activity, "cancelled")
        else:
            found = self.outside(HeartbeatFromOutside(named, "[7]"))
            if not model.loses_to_a_deadline(run, activity):
                model.beat(activity, [7], 0)
                assert found is activity.cancel_requested
        assert isinstance(found, AttemptNotRunningError) is late

    def somebody_outside_is_too_late(self, data: st.DataObject) -> None:
        """With the token of an attempt that has ended: that is refused, and the refusal says how it ended."""
        ended = [
            (run, one, attempt, how)
            for run in self.model.runs.values()
            for one in run.activities.values()
            for attempt, how, _ in one.attempts
        ]
        if not ended:
            return
        run, activity, attempt, how = self.pick(data, ended, "attempt")
        named = NamedAttempt(self.id_of(run), activity.number, attempt)
        found = self.outside(CompleteFromOutside(named, Payload.of("too late")))
        if run.open:
            self.model.time_out_run(run)
        assert isinstance(found, AttemptNotRunningError)
        assert found.outcome == how, "however its activity was closed later"

    def a_zombie_speaks(self, data: st.DataObject) -> None:
        """The result of an attempt that is not the current one (any more) is refused."""
        attempts = [
            (run, one) for run in self.model.runs.values() for one in run.activities.values() if one.attempt
        ]
        if not attempts:
            return
        run, activity = self.pick(data, attempts, "activity")
        row = self.activity_row(run, activity)
        row.attempt -= activity.status == "running"
        with pytest.raises(RefusedError, match="no longer the current one"):
            self.wait(self.stage.complete(row))

    def a_cancelled_handler_fails(self, data: st.DataObject) -> None:
        """Its activity is closed already, alone or with its run; it is heard of once."""
        cancelled = [
            (run, one)
            for run in self.model.runs.values()
            for one in run.activities.values()
            if one.attempts and one.attempts[-1] == (one.attempt, "cancelled", None)
        ]
        if not cancelled:
            return
        run, activity = self.pick(data, cancelled, "activity")
        failure = {"category": "application", "type": "Flaky", "message": "it cannot be undone"}
        end = AttemptEnd(AttemptOutcome.FAILED, failure)
        change = EndAttempt(self.id_of(run), activity.number, activity.attempt, end)
        assert self.apply(change)
        self.model.fail_late(run, activity)
        with pytest.raises(RefusedError):
            self.apply(change)

    # --- workers and watchdogs --------------------------------------------------------------------------------------

    def a_worker_dies(self, data: st.DataObject) -> None:
        """Somebody finds that its lease is over; what it held is found by the next pass."""
        number = data.draw(st.integers(0, 1), label="worker")
        worker = self.workers[number]
        self.wait(self.stage.sql("UPDATE workers SET lease_expires_at = 0 WHERE worker_id = ?", worker))
        assert self.apply(DeclareWorkerLost(worker))
        self.model.lost.add(worker)
        self.made += 1
        self.workers[number] = f"worker-{self.made}"
        self.wait(self.stage.register(self.workers[number], FOREVER))

    def a_run_takes_its_workers_down(self, data: st.DataObject) -> None:
        """Whoever claims what waits dies of it, as often as a run may lose its owners, and once more."""
        for _ in range(data.draw(st.integers(2, MOST_LOSSES + 1), label="owners")):
            begins = [run.not_before for run in self.model.open_runs() if not run.owner]
            self.move(max(max(begins, default=0) - self.model.now, 0))
            self.a_worker_claims_runs(data)
            self.a_worker_dies(data)
            self.one_watchdog_passes()

    def a_worker_dies_again_and_again(self, data: st.DataObject) -> None:
        """Whoever claims an activity dies of it, a few times."""
        for _ in range(data.draw(st.integers(1, 4), label="times")):
            worker = self.workers[0]
            self.wait(self.stage.sql("DELETE FROM workers WHERE worker_id = ?", worker))
            self.claim_activities(worker, 5)
            self.model.lost.add(worker)
            self.made += 1
            self.workers[0] = f"worker-{self.made}"
            self.wait(self.stage.register(self.workers[0], FOREVER))
            self.one_watchdog_passes()

    def skips(self, watchdog: TaskWatchdog) -> bool:
        """Whether its next pass does nothing, because the wall clock moved otherwise than the monotonic one."""
        base = self.bases.get(watchdog)
        self.bases[watchdog] = (self.clock.us, self.clock.monotonic_s)
        if base is None:
            return False
        jump = (self.clock.us - base[0]) - (self.clock.monotonic_s - base[1]) * SECOND
        return abs(jump) > CLOCK_JUMP

    @rule(data=st.data(), how=st.sampled_from(["whole", "whole", "in small steps", "against another"]))
    def a_watchdog_passes(self, data: st.DataObject, how: str) -> None:
        if how == "in small steps" and not any(run.parent for run in self.model.open_runs()):
            # Of a family, who meets a deadline and who an ended parent depends on how much is done at a time.
            self.a_watchdog_passes_in_small_steps(data.draw(st.integers(1, 3), label="limit"))
        elif how == "against another":
            self.two_watchdogs_race()
        else:
            self.one_watchdog_passes()

    def one_watchdog_passes(self) -> None:
        report = self.wait(self.stage.watchdog.run_pass())
        assert report.skipped is self.skips(self.stage.watchdog)
        if report.skipped:
            assert report.done == 0
            return
        done, late = self.model.pass_()
        assert report.counts == done
        assert report.worst_lateness_s == late / SECOND
        assert (report.set_aside, report.left, report.reached_limit) == (0, {}, False)
        ahead = [run.next_deadline for run in self.model.open_runs()]
        ahead += [one.next_deadline for _, one in self.model.open_activities()]
        ahead += [at for run in self.model.open_runs() for at in (*run.timers.values(), run.start_timer)]
        assert report.next_deadline_at == min((at for at in ahead if at is not None), default=None)

    def a_watchdog_passes_in_small_steps(self, limit: int) -> None:
        """What is done does not depend on how much is done at a time."""
        skipped = self.skips(self.stage.watchdog)
        counts: dict[str, int] = {}
        while True:
            report = self.wait(self.stage.watchdog.run_pass(limit))
            assert report.skipped is skipped
            for kind, number in report.counts.items():
                counts[kind] = counts.get(kind, 0) + number
            if not report.reached_limit:
                break
        if not skipped:
            assert counts == self.model.pass_()[0]

    def two_watchdogs_race(self) -> None:
        skipped = self.skips(self.stage.watchdog), self.skips(self.second)

        async def both() -> list[WatchdogReport]:
            return list(await asyncio.gather(self.stage.watchdog.run_pass(), self.second.run_pass()))

        reports = self.wait(both())
        assert tuple(report.skipped for report in reports) == skipped
        counts: dict[str, int] = {}
        for report in reports:
            for kind, number in report.counts.items():
                counts[kind] = counts.get(kind, 0) + number
        if not all(skipped):
            assert counts == self.model.pass_()[0]

    def a_watchdog_looks_too_early(self, data: st.DataObject) -> None:
        """Enforcing what has time left changes nothing, by whatever mistake of a scan."""
        model = self.model
        changes: list[Any] = [
            EnforceRunDeadline(self.id_of(run), run.workflow_id)
            for run in model.open_runs()
            if run.passed(model.now) is None
        ]
        changes += [
            EnforceActivityDeadline(self.id_of(run), one.number)
            for run, one in model.open_activities()
            if one.passed(model.now) is None
        ]
        outcomes = self.wait(apply_all(self.stage.runtime.journal, changes)) if changes else []
        assert outcomes == [None] * len(changes)

    @rule(data=st.data(), number=st.integers(0, 11))
    def something_rare_happens(self, data: st.DataObject, number: int) -> None:
        (
            self.the_wall_clock_is_set,
            self.a_worker_claims_runs,
            self.a_worker_lets_go,
            self.a_worker_dies,
            self.a_worker_dies_again_and_again,
            self.a_run_takes_its_workers_down,
            self.a_client_asks_for_the_end,
            self.a_client_is_too_late,
            self.a_zombie_speaks,
            self.a_cancelled_handler_fails,
            self.somebody_outside_is_too_late,
            self.a_watchdog_looks_too_early,
        )[number](data)

    # --- what must hold after each step -----------------------------------------------------------------------------

    @invariant()
    def the_rows_are_what_the_model_says(self) -> None:
        for key, run in self.model.runs.items():
            if key not in self.ids:
                self.ids[key] = cast(str, self.stage.run(self.ids[key[0], key[1] - 1]).next_run_id)
            self.compare_run(run)
            for activity in run.activities.values():
                self.compare_activity(run, activity)
        assert len(self.stage.rows("workflow_runs")) == len(self.model.runs)

    def compare_run(self, run: Run) -> None:
        row = self.row(run)
        found = (row.workflow_id, row.run_number, row.status, row.attempt, row.owner_id, row.fence)
        assert found == (run.workflow_id, run.number, run.status, run.attempt, run.owner, run.fence)
        deadlines = (
            row.execution_deadline_at,
            row.run_deadline_at,
            row.start_deadline_at,
            row.next_deadline_at,
        )
        assert deadlines == (run.execution_deadline, run.run_deadline, run.start_deadline, run.next_deadline)
        assert (row.queue is not None, row.queued_at, row.slot_queue is not None) == (
            run.in_queue,
            run.queued_at,
            run.slot,
        )
        if run.open:
            assert (row.wake_at, row.not_before, row.owner_losses) == (
                run.wake_at,
                run.not_before,
                run.losses,
            )
            assert (row.attention is not None) == (run.losses >= 3)
        assert (row.cancel_requested_at is not None) == run.cancel_requested
        assert (row.next_run_id is not None) == run.followed
        parent = self.ids[run.parent] if run.parent is not None else None
        family = (row.parent_run_id, row.parent_command_id, row.parent_close_policy, row.cascade_at)
        assert family == (parent, run.command, run.close_policy, run.cascade_at)
        assert row.last_event_at == run.last_time
        timers = {timer_id: at for _, timer_id, at, *_ in self.stage.rows("timers", "run_id = ?", row.run_id)}
        assert timers == run.timers | ({START_TIMER: run.start_timer} if run.start_timer is not None else {})
        updates = {
            request.request_id: ACCEPTED if request.state == OPEN and request.answer_seq else request.state
            for request in (RequestRow(*one) for one in self.requests(row.run_id))
        }
        assert updates == {
            update: OPEN if state == "waiting" else state for update, state in run.updates.items()
        }
        failures = [
            (one.failure_category, one.propagation_kind, one.timeout_kind, one.deadline_at)
            for one in self.stage.failures(row.run_id)
        ]
        assert sorted(failures, key=repr) == sorted(run.failures, key=repr)
        history = self.stage.history(row.run_id)
        told = self.told.get(row.run_id, 0)
        self.told[row.run_id] = len(history)
        news, run.news = run.news, []
        assert sorted(map(story_of, history[told:]), key=repr) == sorted(news, key=repr)

    def requests(self, run_id: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.stage.rows("workflow_requests", "run_id = ?", run_id)
        return rows

    def compare_activity(self, run: Run, activity: Activity) -> None:
        row = self.activity_row(run, activity)
        found = (row.status, row.attempt, row.uncharged, row.rescues, row.cancel_requested)
        expected = (activity.status, activity.attempt, activity.uncharged, activity.rescues)
        assert found == (*expected, activity.cancel_requested)
        assert row.next_deadline_at == activity.next_deadline
        if activity.open:
            for kind in KINDS:
                assert getattr(row, f"{kind}_deadline_at") == activity.deadline(kind), kind
            assert (row.claimed_by, row.available_at) == (activity.worker, activity.available_at)
        details = self.read(row.heartbeat_details)
        assert details == activity.details
        attempts = self.stage.attempts(row.run_id, row.activity_id)
        assert [(one.attempt, one.outcome, one.timeout_kind) for one in attempts] == activity.attempts

    @staticmethod
    def read(text: str | None) -> Any:
        return Payload(text.encode()).value if text is not None else None

    @invariant()
    def the_invariants_hold(self) -> None:
        with self.stage.runtime.database.reader() as connection:
            found = check_database(connection)
        assert not found, "\n".join(found)


def run_machine(machine: type[WatchdogMachine], examples: int, steps: int) -> None:
    """Run a state machine: so many examples of so many steps."""
    profile = settings(
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    cast(Callable[..., None], run_state_machine_as_test)(machine, settings=profile)


@pytest.fixture
def on_postgresql(postgresql_url: str) -> type[WatchdogMachine]:
    """The machine on a PostgreSQL database that each example empties."""

    class PostgresqlMachine(WatchdogMachine):
        url = postgresql_url

        async def open(self) -> Stage:
            stage = await super().open()
            names = ", ".join(
                table.name for table in tables.metadata.sorted_tables if table.name != "journals"
            )
            await stage.sql(f"TRUNCATE {names}")
            return stage

    return PostgresqlMachine


def test_the_engine_does_what_the_model_says_on_sqlite() -> None:
    run_machine(WatchdogMachine, 25, 40)


def test_the_engine_does_what_the_model_says_on_postgresql(on_postgresql: type[WatchdogMachine]) -> None:
    run_machine(on_postgresql, 4, 30)


@pytest.mark.nightly
def test_the_engine_does_what_the_model_says_for_long_on_sqlite() -> None:
    run_machine(WatchdogMachine, 3000, 80)


@pytest.mark.nightly
def test_the_engine_does_what_the_model_says_for_long_on_postgresql(
    on_postgresql: type[WatchdogMachine],
) -> None:
    run_machine(on_postgresql, 200, 80)
