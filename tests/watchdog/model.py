"""What the contract on timeouts says, as a dict of plain objects: no database, no journal, none of the engine's code.

It is written from the rules alone (deadlines are functions of what happened, not stored), so that it can disagree with
the engine. All instants and durations are microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Story = tuple[Any, ...]
"""An event: its name and the facts that matter."""

MOST_RESCUES = 3
MOST_LOSSES = 3
"""How many owners in a row a run may lose."""
NEVER = 1 << 62
"""When children are seen to whose chain goes on."""


@dataclass
class Policy:
    """A retry policy without jitter; ``never`` names failures that are not tried again."""

    initial: int
    coefficient: int
    longest: int
    most: int
    never: frozenset[str] = frozenset()

    def wait(self, attempt: int) -> int:
        return min(self.initial * int(self.coefficient ** (attempt - 1)), self.longest)

    def spent(self, attempt: int) -> bool:
        return 0 < self.most <= attempt


@dataclass
class Activity:
    """One activity; its deadlines follow from when it was scheduled, became available, was claimed, was heard of."""

    number: int
    scheduled_at: int
    limits: dict[str, int]
    policy: Policy
    available_at: int
    status: str = "pending"
    attempt: int = 0
    uncharged: int = 0
    rescues: int = 0
    worker: str | None = None
    claimed_at: int | None = None
    heard_at: int | None = None
    details: Any = None
    waited_for: bool = False
    """Whether the code that cancels it waits for its end."""
    cancel_requested: bool = False
    attempts: list[tuple[int, str, str | None]] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return self.status in ("pending", "running")

    @property
    def charged(self) -> int:
        return self.attempt - self.uncharged

    def deadline(self, kind: str) -> int | None:
        """When a deadline is that applies now."""
        limit = self.limits.get(kind)
        since: dict[str, int | None] = {"schedule_to_close": self.scheduled_at}
        if self.status == "pending":
            since["schedule_to_start"] = self.available_at
        if self.status == "running":
            since["start_to_close"] = self.claimed_at
            since["heartbeat"] = self.heard_at if self.heard_at is not None else self.claimed_at
        at = since.get(kind)
        return at + limit if at is not None and limit is not None else None

    def deadlines(self) -> dict[str, int]:
        kinds = ("schedule_to_close", "schedule_to_start", "start_to_close", "heartbeat")
        return {kind: at for kind in kinds if (at := self.deadline(kind)) is not None}

    @property
    def next_deadline(self) -> int | None:
        return min(self.deadlines().values(), default=None) if self.open else None

    def passed(self, now: int) -> tuple[str, int] | None:
        """Schedule-to-close if it has passed; else what passed first; on a tie heartbeat last."""
        due = {kind: at for kind, at in self.deadlines().items() if at <= now}
        if "schedule_to_close" in due:
            return "schedule_to_close", due["schedule_to_close"]
        if not due:
            return None
        kind = min(due, key=lambda one: (due[one], one == "heartbeat"))
        return kind, due[kind]


@dataclass
class Run:
    """One run of a chain."""

    workflow_id: str
    number: int
    created_at: int
    begins_at: int | None
    """When it may begin; of a run of a queue, when it was admitted."""
    execution_deadline: int | None
    run_timeout: int | None
    policy: Policy | None
    attempt: int = 1
    status: str = "pending"
    not_before: int = 0
    wake_at: int | None = None
    owner: str | None = None
    fence: int = 0
    losses: int = 0
    cancel_requested: bool = False
    last_time: int = 0
    followed: bool = False
    parent: tuple[str, int] | None = None
    command: int | None = None
    """What its parent calls it; nothing once nobody is to be told of its end."""
    close_policy: str | None = None
    cascade_at: int | None = None
    delayed: bool = False
    priority: int = 5
    in_queue: bool = False
    queued_at: int | None = None
    """Since when it stands in the line of the queue."""
    slot: bool = False
    start_limit: int | None = None
    """How long it may stand there."""
    begun_at: int | None = None
    """When its first workflow task was: limits count from there."""
    limit: int | None = None
    limited_at: int | None = None
    """The deadline that its code has set, and the limit that led to it."""
    updates: dict[str, str] = field(default_factory=dict)
    activities: dict[int, Activity] = field(default_factory=dict)
    timers: dict[int, int] = field(default_factory=dict)
    failures: list[Story] = field(default_factory=list)
    news: list[Story] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return self.status in ("queued", "pending", "running")

    @property
    def run_deadline(self) -> int | None:
        """Waiting in line or for its delay costs a run of a queue nothing of it."""
        if self.begins_at is None or self.run_timeout is None:
            return self.limited_at
        return min(self.begins_at + self.run_timeout, self.limited_at or NEVER)

    @property
    def start_deadline(self) -> int | None:
        """It counts from joining the line, whenever that is, and is over with the admission."""
        if self.status != "queued" or self.start_limit is None:
            return None
        return (self.queued_at if self.queued_at is not None else self.not_before) + self.start_limit

    @property
    def start_timer(self) -> int | None:
        """When a delayed run of a queue joins the line."""
        return self.not_before if self.status == "queued" and self.queued_at is None else None

    def deadlines(self) -> list[tuple[str, int]]:
        """The one that comes first beats the others when several have passed."""
        known = (
            ("execution_timeout", self.execution_deadline),
            ("run_timeout", self.run_deadline),
            ("schedule_to_start", self.start_deadline),
        )
        return [(kind, at) for kind, at in known if at is not None]

    @property
    def next_deadline(self) -> int | None:
        return min((at for _, at in self.deadlines()), default=None) if self.open else None

    def passed(self, now: int) -> tuple[str, int] | None:
        """All are inclusive."""
        return next(((kind, at) for kind, at in self.deadlines() if at <= now), None)

    def wake(self, now: int) -> None:
        """What its queue has not admitted is woken by nothing."""
        if self.status == "queued":
            return
        self.wake_at = now if self.wake_at is None else min(self.wake_at, now)


class Model:
    """All runs, by workflow and number; what the watchdog is to report."""

    def __init__(self) -> None:
        self.now = 0
        self.slots = 1
        """How many slots the queue has."""
        self.runs: dict[tuple[str, int], Run] = {}
        self.lost: set[str] = set()
        self.spread: Callable[[Run], float] = lambda run: 0.0
        """What part of its backoff a run waits longer than others, of up to a half."""

    def say(self, run: Run, *story: Any) -> None:
        run.news.append(story)
        run.last_time = max(run.last_time, self.now)

    def open_runs(self) -> list[Run]:
        return [run for run in self.runs.values() if run.open]

    def open_activities(self) -> list[tuple[Run, Activity]]:
        return [(run, one) for run in self.open_runs() for one in run.activities.values() if one.open]

    # --- runs -------------------------------------------------------------------------------------------------------

    def start(
        self,
        workflow_id: str,
        *,
        execution: int | None,
        run_timeout: int | None,
        delay: int,
        policy: Policy | None,
        in_queue: bool = False,
        priority: int = 5,
        start_limit: int | None = None,
    ) -> Run:
        """The execution deadline counts from the start, delay included; the run deadline from when it may begin.

        A run of the queue stands in line, or waits for its delay first; its run deadline counts from its admission.
        """
        begins = self.now + delay
        run = Run(
            workflow_id,
            1,
            self.now,
            begins,
            self.now + execution if execution is not None else None,
            run_timeout,
            policy,
            not_before=begins if delay else 0,
            wake_at=begins,
            delayed=delay > 0,
        )
        if in_queue:
            run.status, run.begins_at, run.wake_at = "queued", None, None
            run.in_queue, run.priority, run.start_limit = True, priority, start_limit
            run.queued_at = None if delay else self.now
        self.runs[workflow_id, 1] = run
        self.say(run, "WorkflowStarted")
        return run

    def follow(self, run: Run, *, backoff: int = 0, attempt: int = 1, owner: str | None = None) -> None:
        """The next run of the chain: the same execution deadline, a run deadline of its own."""
        begins = self.now + backoff
        following = Run(
            run.workflow_id,
            run.number + 1,
            self.now,
            begins,
            run.execution_deadline,
            run.run_timeout,
            run.policy,
            attempt,
            not_before=begins if backoff else 0,
            wake_at=begins,
            owner=owner,
            fence=1 if owner is not None else 0,
            parent=run.parent,
            command=run.command,
            close_policy=run.close_policy,
            priority=run.priority,
            in_queue=run.in_queue,
            slot=run.slot,
        )
        run.followed = True
        for update, state in list(run.updates.items()):
            if state == "waiting":  # nobody has accepted it: it goes on with the chain
                following.updates[update] = run.updates.pop(update)
        self.runs[run.workflow_id, run.number + 1] = following
        self.say(following, "WorkflowStarted")

    def retry(self, run: Run, type_: str) -> None:
        """Another run, if the policy allows, nobody asked to cancel, and its backoff ends before the execution does."""
        policy = run.policy
        if policy is None or run.cancel_requested or policy.spent(run.attempt) or type_ in policy.never:
            return
        backoff = policy.wait(run.attempt)
        if run.execution_deadline is None or self.now + backoff < run.execution_deadline:
            self.follow(run, backoff=backoff, attempt=run.attempt + 1)

    def ask(self, run: Run, update: str) -> None:
        """A request ends a start delay, never a backoff, and never the wait in line."""
        run.updates[update] = "waiting"
        if run.start_timer is not None:
            self.join_line(run, self.now)
        elif run.delayed:
            run.delayed, run.not_before = False, 0
        run.wake(self.now)

    # --- the queue --------------------------------------------------------------------------------------------------

    def join_line(self, run: Run, at: int) -> None:
        run.queued_at, run.not_before, run.delayed = at, 0, False

    def slots_left(self) -> int:
        return self.slots - sum(run.slot for run in self.open_runs())

    def line(self) -> list[Run]:
        """By priority, then by when they joined; what is past a deadline is the watchdog's."""
        waiting = [
            run for run in self.open_runs() if run.queued_at is not None and run.passed(self.now) is None
        ]
        return sorted(waiting, key=lambda run: (run.priority, run.queued_at))

    def lower(self, run: Run, limit: int) -> bool:
        """Whether a limit is shorter than all before it: then the deadline comes nearer, if it is not so near yet."""
        if limit >= min(run.limit or NEVER, run.run_timeout or NEVER):
            return False
        assert run.begun_at is not None
        run.limit = limit
        run.limited_at = min(run.begun_at + limit, run.run_deadline or NEVER)
        return True

    def admit(self, run: Run, worker: str) -> None:
        """It leaves the line with a slot and an owner, and its run timeout begins."""
        run.status, run.queued_at, run.slot = "pending", None, True
        run.begins_at = run.wake_at = self.now
        run.not_before, run.delayed = 0, False
        run.owner = worker
        run.fence += 1
        self.say(run, "WorkflowDequeued")

    def close(self, run: Run, status: str, *story: Any) -> None:
        """Close what is open, then the run."""
        for activity in run.activities.values():
            if activity.open:
                self.cancel(run, activity)
        for timer in run.timers:
            self.say(run, "TimerCancelled", timer)
        run.timers.clear()
        for update, state in run.updates.items():
            if state == "accepted":
                self.say(run, "UpdateCompleted", update)
                run.updates[update] = "completed"
            elif state == "waiting":
                run.updates[update] = "rejected"
        self.say(run, *story)
        run.status, run.wake_at, run.owner = status, None, None
        run.queued_at, run.slot = None, False
        self.leave_children(run)
        self.tell_parent(run, *story)

    def time_out_run(self, run: Run) -> bool:
        """Whether a deadline of the run had passed: then it has ended by it."""
        due = run.passed(self.now)
        if due is None:
            return False
        if due[0] == "run_timeout":
            self.retry(run, "WorkflowTimeoutError")
        run.failures.append(("timeout", "timeout", *due))
        self.close(run, "timed_out", "WorkflowTimedOut", *due)
        return True

    # --- families ---------------------------------------------------------------------------------------------------

    def start_child(
        self,
        parent: Run,
        command: int,
        workflow_id: str,
        close_policy: str,
        *,
        execution: int | None,
        run_timeout: int | None,
        policy: Policy | None,
        owner: str | None,
    ) -> Run:
        """One that ends with its parent can't outlive its parent's execution deadline."""
        child = self.start(workflow_id, execution=execution, run_timeout=run_timeout, delay=0, policy=policy)
        child.parent, child.command, child.close_policy = (
            (parent.workflow_id, parent.number),
            command,
            close_policy,
        )
        child.owner, child.fence = owner, 1 if owner is not None else 0
        if close_policy == "terminate" and parent.execution_deadline is not None:
            child.execution_deadline = min(child.execution_deadline or NEVER, parent.execution_deadline)
        return child

    def leave_children(self, run: Run) -> None:
        """They meet their policy where the chain ends; till then its next run remembers them."""
        key = (run.workflow_id, run.number)
        left = run.cascade_at is not None or any(child.parent == key for child in self.open_runs())
        run.cascade_at = self.now if left and not run.followed else None
        if left and run.followed:
            self.runs[run.workflow_id, run.number + 1].cascade_at = NEVER

    def tell_parent(self, run: Run, name: str, *facts: Any) -> None:
        """Of the end of the chain, once, if it is there to be told."""
        parent = self.runs[run.parent] if run.parent is not None else None
        if parent is None or run.command is None or run.followed or not parent.open:
            return
        self.say(parent, f"Child{name}", run.command)
        if run.status not in ("completed", "cancelled"):
            parent.failures.append(("child_workflow", "child", *(facts or (None, None))))
        parent.wake(self.now)

    def request_run_cancel(self, run: Run) -> None:
        if not run.cancel_requested:
            run.cancel_requested = True
            self.say(run, "WorkflowCancelRequested")
            if run.status == "queued":  # no code of it could hear of the request
                run.failures.append(("cancelled", "cancelled", None, None))
                self.close(run, "cancelled", "WorkflowCancelled")
                return
            if run.status == "pending":
                run.not_before = 0
            run.wake(self.now)

    def terminate(self, run: Run) -> None:
        run.failures.append(("terminated", "terminated", None, None))
        self.close(run, "terminated", "WorkflowTerminated")

    def see_to_children(self) -> list[str]:
        """Of every chain that has ended, and of the children that end by it; returns what each met."""
        met: list[str] = []
        while due := [one for one in self.runs.values() if (one.cascade_at or NEVER) <= self.now]:
            chain = due[0].workflow_id
            children = [
                child
                for child in self.open_runs()
                if child.parent is not None and child.parent[0] == chain and child.command is not None
            ]
            for child in children:
                if child.close_policy != "abandon":
                    met.append(self.meet(child))
            if not any(what == "child_timed_out" for what in met[-len(children) :] if children):
                due[0].cascade_at = None
        return met

    def meet(self, child: Run) -> str:
        if self.time_out_run(child):
            return "child_timed_out"
        self.say(child, "ParentClosePolicyApplied")
        if child.close_policy == "terminate":
            self.terminate(child)
            return "child_terminated"
        self.request_run_cancel(child)
        child.command = None
        return "child_cancel_requested"

    # --- activities -------------------------------------------------------------------------------------------------

    def schedule(
        self, run: Run, number: int, limits: dict[str, int], policy: Policy, *, waited_for: bool
    ) -> Activity:
        activity = Activity(number, self.now, limits, policy, self.now, waited_for=waited_for)
        run.activities[number] = activity
        return activity

    def claim(self, activity: Activity, worker: str) -> None:
        activity.status, activity.worker = "running", worker
        activity.claimed_at, activity.heard_at = self.now, None
        activity.attempt += 1

    def make_available(self, activity: Activity, at: int) -> None:
        activity.status, activity.available_at, activity.worker = "pending", at, None

    def cancel(self, run: Run, activity: Activity) -> None:
        if activity.status == "running":
            activity.attempts.append((activity.attempt, "cancelled", None))
        activity.status = "cancelled"
        self.say(run, "ActivityCancelled", activity.number)

    def request_cancel(self, run: Run, activity: Activity) -> None:
        """What nobody runs ends; what runs is told; and a deadline that has passed is not hidden."""
        if activity.status == "pending" and activity.passed(self.now) is None:
            self.cancel(run, activity)
            if activity.waited_for:
                run.wake(self.now)
        elif activity.open:
            activity.cancel_requested = True

    def complete(self, run: Run, activity: Activity) -> None:
        """A result; at or after a deadline it loses."""
        if self.time_out_run(run):
            return
        if activity.passed(self.now) is not None:
            self.end_attempt(run, activity, "timed_out")
            return
        activity.status = "completed"
        self.say(run, "ActivityCompleted", activity.number, activity.charged)
        run.wake(self.now)

    def loses_to_a_deadline(self, run: Run, activity: Activity) -> bool:
        """Whether a deadline has passed that ends the run or the attempt first."""
        if self.time_out_run(run):
            return True
        if activity.passed(self.now) is None:
            return False
        self.end_attempt(run, activity, "timed_out")
        return True

    def defer(self, run: Run, activity: Activity) -> bool:
        """Its handler leaves it to others: it runs on without a worker, and what bounds it bounds it."""
        if self.loses_to_a_deadline(run, activity):
            return False
        activity.worker = None
        return True

    def beat(self, activity: Activity, details: Any, ago: int) -> bool:
        """A heartbeat of so long ago, as its handler's clock has it, is written now; it counts from when it was."""
        if activity.passed(self.now) is not None:
            return False
        # A clock that was set back moves no deadline towards the present, one that is ahead moves none beyond it.
        before = activity.heard_at if activity.heard_at is not None else activity.claimed_at
        activity.heard_at = max(before or 0, min(self.now - ago, self.now))
        activity.details = details if details is not None else activity.details
        return True

    def end_attempt(
        self,
        run: Run,
        activity: Activity,
        how: str,
        *,
        type_: str = "Flaky",
        final: bool = False,
        delay: int | None = None,
    ) -> None:
        """A failure, a timeout, a rescue, a hand-back, a cancellation: a passed deadline comes before each of them.

        After a cancel request no attempt follows, and a failure is not lost: the code gets it if it waits for that.
        """
        due = activity.passed(self.now)
        if due is not None:
            self.time_out(run, activity, *due)
        elif how == "failed" and activity.cancel_requested and not activity.waited_for:
            self.cancel(run, activity)
            self.fail_late(run, activity)
        elif how == "failed":
            self.fail(run, activity, type_, final, delay)
        elif activity.cancel_requested:
            self.cancel(run, activity)
        else:
            self.give_back(run, activity, how)
        if not activity.open:
            run.wake(self.now)

    def time_out(self, run: Run, activity: Activity, kind: str, deadline: int) -> None:
        policy = activity.policy
        waited_in_vain = kind == "schedule_to_start"
        if waited_in_vain:
            activity.attempt += 1
        if waited_in_vain or activity.status == "running":
            activity.attempts.append((activity.attempt, "timed_out", kind))
        state: str | None = None
        if kind == "schedule_to_close":
            state = "timeout"
        elif activity.cancel_requested:
            state = "cancel_requested"
        elif (waited_in_vain and policy.most == 0) or "ActivityTimeoutError" in policy.never:
            state = "non_retryable_failure"
        elif policy.spent(activity.charged):
            state = "maximum_attempts_reached"
        if state is None:
            at = self.now + policy.wait(activity.charged)
            close = activity.deadline("schedule_to_close")
            if close is None or at < close:
                run.failures.append(("timeout", "timeout", kind, deadline))
                self.make_available(activity, at)
                return
            kind, deadline, state = "schedule_to_close", close, "timeout"
        run.failures.append(("timeout", "timeout", kind, deadline))
        activity.status = "timed_out"
        self.say(run, "ActivityTimedOut", activity.number, kind, deadline, activity.charged, state)

    def fail(self, run: Run, activity: Activity, type_: str, final: bool, delay: int | None) -> None:
        policy = activity.policy
        activity.attempts.append((activity.attempt, "failed", None))
        at = self.now + (delay if delay is not None else policy.wait(activity.charged))
        close = activity.deadline("schedule_to_close")
        run.failures.append(("application", "activity", None, None))
        if activity.cancel_requested:
            state = "cancel_requested"
        elif final or type_ in policy.never:
            state = "non_retryable_failure"
        elif policy.spent(activity.charged):
            state = "maximum_attempts_reached"
        elif close is not None and at >= close:
            state = "timeout"
        else:
            self.make_available(activity, at)
            return
        activity.status = "failed"
        self.say(run, "ActivityFailed", activity.number, "application", activity.charged, state)

    def fail_late(self, run: Run, activity: Activity) -> None:
        """What was cancelled while it ran has failed since: its attempt says so, and a failure, but no event."""
        assert activity.attempts[-1] == (activity.attempt, "cancelled", None)
        activity.attempts[-1] = (activity.attempt, "failed", None)
        run.failures.append(("application", "activity", None, None))

    def give_back(self, run: Run, activity: Activity, how: str) -> None:
        """Nobody's fault, so not charged; rescues are bounded."""
        activity.attempts.append((activity.attempt, how, None))
        if how == "rescued":
            activity.rescues += 1
            if activity.rescues > MOST_RESCUES:
                run.failures.append(("internal", "activity", None, None))
                activity.status = "failed"
                state = "maximum_attempts_reached"
                self.say(run, "ActivityFailed", activity.number, "internal", activity.charged, state)
                return
        activity.uncharged += 1
        self.make_available(activity, self.now)

    # --- the watchdog -----------------------------------------------------------------------------------------------

    def pass_(self) -> tuple[dict[str, int], int]:
        """Everything that is due, in the one order. Returns what was done, and the worst lateness."""
        done: dict[str, int] = {}
        late = 0

        def count(kind: str) -> None:
            done[kind] = done.get(kind, 0) + 1

        for run in self.open_runs():
            due, first = run.passed(self.now), run.next_deadline
            if due is not None and first is not None:
                self.time_out_run(run)
                count(due[0])
                late = max(late, self.now - first)
        for run, activity in self.open_activities():
            due, first = activity.passed(self.now), activity.next_deadline
            if due is not None and first is not None:
                self.end_attempt(run, activity, "timed_out")
                count(due[0])
                late = max(late, self.now - first)
        for run in self.open_runs():
            if run.start_timer is not None and run.start_timer <= self.now:
                count("timer_fired")
                late = max(late, self.now - run.start_timer)
                self.join_line(run, run.start_timer)
            for timer, at in list(run.timers.items()):
                if at <= self.now:
                    del run.timers[timer]
                    self.say(run, "TimerFired", timer)
                    run.wake(self.now)
                    count("timer_fired")
                    late = max(late, self.now - at)
        for what in self.see_to_children():
            count(what)
        for run, activity in self.open_activities():
            if activity.status == "running" and activity.worker in self.lost:
                self.end_attempt(run, activity, "rescued")
                count("activity_rescued")
        # The end of a child wakes its parent, so that it matters whose runs are released first.
        for run in sorted(self.open_runs(), key=lambda run: run.owner or ""):
            if run.owner in self.lost:
                self.release(run)
                count("run_released" if run.open else "owners_died")
        return done, late

    def release(self, run: Run) -> None:
        """A run that was awake when its owner died may be why it died."""
        run.owner = None
        run.fence += 1
        if run.slot and (run.wake_at is None or run.not_before > self.now):
            run.wake(self.now)
        elif run.wake_at is not None and run.wake_at > self.now and run.not_before <= self.now:
            run.wake_at = self.now
        elif run.wake_at is not None and run.wake_at <= self.now and run.not_before <= self.now:
            run.losses += 1
            if run.losses >= 2:
                backoff = min(1_000_000 << (run.losses - 2), 60_000_000)
                run.not_before = self.now + int(backoff * (1 + self.spread(run) / 2))
                run.delayed = False
            if run.losses > MOST_LOSSES:
                # It may be what they died of, so nothing retries it.
                run.failures.append(("internal", "terminal", None, None))
                self.close(run, "failed", "WorkflowFailed")
