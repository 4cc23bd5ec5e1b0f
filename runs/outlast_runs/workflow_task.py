"""From a workflow task's commands to one change: the rows that a run's decisions become.

A workflow task is decided before its change is applied, on the owner's word; the change checks that word under the
run's guard. It is refused as a whole where the owner was fenced off, where a result that it bundles came too late, or
where an unseen signal, update or cancel request holds back a terminal command. A deadline of the run that has passed is
enforced instead, whoever asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import orjson

from outlast_activities.attempts import complete, request_cancel, schedule
from outlast_activities.deadlines import passed
from outlast_runs.signals import signal_other
from outlast_runs.updates import answer_updates
from outlast_store.journal.batch import ActivityKey, BaseChange, Batch
from outlast_store.schema import search_index
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_store.transitions.children import NewChild, cancel_child, start_child
from outlast_store.transitions.new_runs import add_next_run, first_event, new_seed, next_run, started_event
from outlast_store.transitions.requests import completed, move_signals, unapplied_signals
from outlast_store.transitions.run_ends import Ended, close_run, open_run, retry_run, run_failure
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import (
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityScheduled,
    ChildWorkflowCancelRequested,
    ChildWorkflowScheduled,
    ChildWorkflowStartFailed,
    Event,
    ExternalSignalRequested,
    MemoUpserted,
    SearchAttributesUpserted,
    SignalReceived,
    TimerCancelled,
    TimerScheduled,
    UpdateCompleted,
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
    WorkflowTaskCompleted,
    WorkflowTaskFailed,
)
from outlast_workflow.options.limits import DEFAULT_LIMITS, StructuralLimits
from outlast_workflow.options.options import ActivityOptions, RetryPolicy
from outlast_workflow.primitives.enums import (
    Attention,
    FailureCategory,
    PropagationKind,
    RetryState,
    RunStatus,
)
from outlast_workflow.primitives.times import microseconds
from outlast_workflow.run.handler_tasks import Considered

HOLD_BACK_TERMINAL = frozenset({"SignalReceived", "WorkflowCancelRequested"})
HOLD_BACK_CONTINUE = frozenset({"WorkflowCancelRequested"})
FAILURES_TO_ATTENTION = 3
MOST_NOTED = 10
"""So many failures of one streak get a row of their own."""
FIRST_TASK_BACKOFF = 1_000_000
LONGEST_TASK_BACKOFF = 60_000_000


@dataclass(slots=True)
class OwnResult:
    """The result of an activity that ran here, bundled with the decision that it led to."""

    activity_id: int
    attempt: int
    event: ActivityCompleted


@dataclass(slots=True)
class WorkflowTask:
    """What one workflow task decided, and what it had seen when it did."""

    worker_id: str
    fence: int
    seen_seq: int
    seen_inbox: int
    record: WorkflowTaskCompleted | None
    """``None`` where a structural limit ended the run: replay ends before such a workflow task."""
    commands: Sequence[Event]
    own: Sequence[OwnResult] = ()
    considered: Considered | None = None
    """What became of the updates that waited."""
    eager: Mapping[int, ActivityOptions] = field(default_factory=dict)
    """The activities that start here as soon as this is durable, by command id."""
    nothing_open: bool = False
    build_id: str | None = None
    next_run_id: str | None = None
    next_owner_id: str | None = None
    children: Mapping[int, NewChild] = field(default_factory=dict)
    """The children that begin with it, by command id."""
    buffered: Sequence[SignalReceived] = ()
    """The signals that wait without a handler."""
    limits: StructuralLimits = DEFAULT_LIMITS
    """They say how many signals may wait in a run that this one signals."""


@dataclass(slots=True)
class Applied:
    """What became of a workflow task."""

    run: RunRow
    first_seq: int
    following: RunRow | None = None
    claimed: list[tuple[ActivityRow, ActivityScheduled]] = field(default_factory=list)
    """The activities that start here now."""
    consequences: list[Callable[[], None]] = field(default_factory=list)
    """What follows from commands: it is written when they all stand, so that no event comes between them."""


def apply_workflow_task(batch: Batch, run: RunRow, workflow_task: WorkflowTask) -> Applied:
    """Check a workflow task against the locked rows and write it."""
    if run.owner_id != workflow_task.worker_id or run.fence != workflow_task.fence:
        raise RefusedError("fenced", f"run {run.run_id} is closed or owned by another worker")
    first_seq = run.last_seq + 1
    if isinstance(open_run(batch, run), Ended):
        return Applied(run, first_seq)
    commands = workflow_task.commands
    terminal = commands[-1] if commands and commands[-1].terminal else None
    if run.last_seq != workflow_task.seen_seq:
        _check_unseen(batch, run, workflow_task, terminal)
    if terminal is not None and run.inbox != workflow_task.seen_inbox:
        _check_inbox(run, workflow_task, terminal)
    for result in workflow_task.own:
        _check_own(batch, run, workflow_task, result)
    seen_all = run.last_seq == workflow_task.seen_seq and run.inbox == workflow_task.seen_inbox
    for result in workflow_task.own:
        row = batch.activity(run.run_id, result.activity_id)
        assert row is not None
        complete(batch, run, row, result.event)
    if workflow_task.considered is not None:
        answer_updates(batch, run, workflow_task.considered)
    if workflow_task.record is not None:
        batch.append(run, workflow_task.record)
    elif not commands:  # nothing but news of the inbox: whatever else holds of the run goes on
        run.wake_at = None if seen_all else run.wake_at
        return Applied(run, first_seq)
    _settle(run, workflow_task, seen_all=seen_all, now=batch.now)
    applied = Applied(run, first_seq)
    for command in commands:
        if command is terminal:
            _end(batch, run, workflow_task, command, applied)
        else:
            _carry_out(batch, run, workflow_task, command, applied)
    for consequence in applied.consequences:
        consequence()
    return applied


def _settle(run: RunRow, workflow_task: WorkflowTask, *, seen_all: bool, now: int) -> None:
    """A successful workflow task clears what earlier trouble left, and the call to wake if all of it was seen."""
    if seen_all:
        run.wake_at = None
    run.not_before = 0
    run.start_delayed = False
    run.task_failures = 0
    run.owner_losses = 0
    run.attention = None
    run.attention_since = None
    run.build_id = workflow_task.build_id
    if run.status == RunStatus.PENDING:
        run.status = str(RunStatus.RUNNING)
        run.started_at = now


def _check_unseen(batch: Batch, run: RunRow, workflow_task: WorkflowTask, terminal: Event | None) -> None:
    """Refuse a second workflow task from the same point, and a terminal command while something acknowledged is
    unseen.
    """
    unseen = batch.event_types(run.run_id, workflow_task.seen_seq)
    if WorkflowTaskCompleted.type in unseen:
        raise RefusedError("stale", f"run {run.run_id} was activated from an earlier state of it")
    holding = HOLD_BACK_CONTINUE if isinstance(terminal, WorkflowContinuedAsNew) else HOLD_BACK_TERMINAL
    if terminal is not None and not holding.isdisjoint(unseen):
        raise RefusedError("unseen", f"run {run.run_id} has news that its end must wait for")


def _check_inbox(run: RunRow, workflow_task: WorkflowTask, terminal: Event) -> None:
    """Refuse a terminal command while an update is unseen; one of a run that continues moves on, and a limit waits for
    nobody.
    """
    if workflow_task.record is not None and not isinstance(terminal, WorkflowContinuedAsNew):
        raise RefusedError("unseen", f"run {run.run_id} was asked something that its end must wait for")


def _check_own(batch: Batch, run: RunRow, workflow_task: WorkflowTask, result: OwnResult) -> None:
    row = batch.activity(run.run_id, result.activity_id)
    if (
        row is None
        or row.status != "running"
        or row.attempt != result.attempt
        or row.claimed_by != workflow_task.worker_id
        or passed(row, batch.now) is not None
    ):
        raise RefusedError("result", f"a result of activity {result.activity_id} came too late")


def _carry_out(
    batch: Batch, run: RunRow, workflow_task: WorkflowTask, command: Event, applied: Applied
) -> None:
    """Append a command that does not end the run, and write its row."""
    seq = batch.append(run, command)
    if isinstance(command, ActivityScheduled):
        options = workflow_task.eager.get(command.command_id)
        if options is None:
            schedule(batch, run, seq, command, ActivityOptions.from_snapshot(command.options.json), None)
        else:
            row = schedule(batch, run, seq, command, options, workflow_task.worker_id)
            applied.claimed.append((row, command))
    elif isinstance(command, TimerScheduled):
        batch.add_timer(run.run_id, command.command_id, command.fire_at)
    elif isinstance(command, TimerCancelled):
        batch.remove_timer(run.run_id, command.command_id)
    elif isinstance(command, ActivityCancelRequested):
        target = batch.activity(run.run_id, command.command_id)
        if command.wait:
            applied.consequences.append(partial(request_cancel, batch, run, target, wait=True))
        else:
            request_cancel(batch, run, target)
    elif isinstance(command, ChildWorkflowScheduled):
        child = workflow_task.children[command.command_id]
        answer = start_child(batch, run, command, child)
        wakes = child.awaited or isinstance(answer, ChildWorkflowStartFailed)
        applied.consequences.append(partial(_answer, batch, run, answer, wakes=wakes))
    elif isinstance(command, MemoUpserted):
        run.memo = command.memo.json.decode()
    elif isinstance(command, SearchAttributesUpserted):
        search_index.upsert(batch.execute, run, command.attributes)
    elif isinstance(command, ChildWorkflowCancelRequested):
        applied.consequences.append(partial(cancel_child, batch, run, command))
    elif isinstance(command, ExternalSignalRequested):
        applied.consequences.append(partial(signal_other, batch, run, command, workflow_task.limits))
    elif isinstance(command, UpdateCompleted):
        completed(batch, (run.first_run_id, "update", command.update_id), seq, command)


def _answer(batch: Batch, run: RunRow, event: Event, *, wakes: bool) -> None:
    """Tell a run what became of its command, unless it has ended with it."""
    if run.is_open:
        batch.append(run, event)
        if wakes:
            run.wake(batch.now)


def _end(batch: Batch, run: RunRow, workflow_task: WorkflowTask, command: Event, applied: Applied) -> None:
    """Carry out the command that ends the run."""
    nothing_open = workflow_task.nothing_open
    if isinstance(command, WorkflowCompleted):
        close_run(batch, run, command, RunStatus.COMPLETED, by="completed", nothing_open=nothing_open)
    elif isinstance(command, WorkflowContinuedAsNew):
        applied.following = _continue(batch, run, workflow_task, command)
        signals = [*workflow_task.buffered, *_unapplied(batch, run, workflow_task, applied)]
        move_signals(batch, applied.following, signals)
        close_run(
            batch, run, command, RunStatus.CONTINUED_AS_NEW, by="continued_as_new", nothing_open=nothing_open
        )
    elif isinstance(command, WorkflowCancelled):
        failure = run_failure(
            batch,
            run,
            FailureCategory.CANCELLED,
            PropagationKind.CANCELLED,
            exception_class="CancelledError",
            message=command.reason or "the workflow was cancelled",
        )
        close_run(
            batch,
            run,
            command,
            RunStatus.CANCELLED,
            by="cancelled",
            failure=failure,
            nothing_open=nothing_open,
        )
    elif isinstance(command, WorkflowFailed):
        _fail(batch, run, workflow_task, command)
    else:
        raise AssertionError(f"{command.type} does not end a run")


def _fail(batch: Batch, run: RunRow, workflow_task: WorkflowTask, command: WorkflowFailed) -> None:
    document = command.failure
    delay = document.get("next_retry_delay")
    command.next_run_id = retry_run(
        batch, run, document, delay=microseconds(delay) if delay is not None else None
    )
    command.retry_state = None
    if command.next_run_id is None and run.retry_policy is not None:
        command.retry_state = _retry_state(run, document).value
    details = document.get("details")
    failure = run_failure(
        batch,
        run,
        str(document.get("category", FailureCategory.APPLICATION.value)),
        PropagationKind.TERMINAL,
        exception_class=str(document.get("type", "")),
        message=str(document.get("message", "")),
        details=orjson.dumps(details).decode() if details is not None else None,
    )
    close_run(
        batch,
        run,
        command,
        RunStatus.FAILED,
        by="failed",
        failure=failure,
        nothing_open=workflow_task.nothing_open,
    )


def _retry_state(run: RunRow, failure: dict[str, object]) -> RetryState:
    """Why a run with a retry policy is not followed by another."""
    if run.cancel_requested_at is not None:
        return RetryState.CANCEL_REQUESTED
    policy = RetryPolicy.from_document(orjson.loads(run.retry_policy or "{}"))
    if policy.is_non_retryable(failure):
        return RetryState.NON_RETRYABLE_FAILURE
    if not policy.allows(run.attempt):
        return RetryState.MAXIMUM_ATTEMPTS_REACHED
    return RetryState.TIMEOUT


def _unapplied(
    batch: Batch, run: RunRow, workflow_task: WorkflowTask, applied: Applied
) -> Sequence[SignalReceived]:
    """The signals that this workflow task had not seen, in order. The database is asked only if it may know of any."""
    if applied.first_seq - 1 == workflow_task.seen_seq:
        return ()
    return unapplied_signals(batch, run, workflow_task.seen_seq)


def _continue(
    batch: Batch, run: RunRow, workflow_task: WorkflowTask, command: WorkflowContinuedAsNew
) -> RunRow:
    """Write the next run of the chain; this worker owns it from the first write."""
    assert workflow_task.next_run_id is not None
    following = next_run(
        run,
        run_id=workflow_task.next_run_id,
        now=batch.now,
        owner_id=workflow_task.next_owner_id,
        workflow_type=command.workflow_type,
        task_queue=command.task_queue,
        run_timeout=microseconds(command.run_timeout_seconds)
        if command.run_timeout_seconds is not None
        else None,
        memo=command.memo.json.decode() if command.memo is not None else None,
        search_attributes=command.search_attributes,
    )
    parent = first_event(batch, run.run_id).parent if run.parent_run_id is not None else None
    started = started_event(
        following, input=command.input, seed=new_seed(batch), parent=parent, headers=command.headers
    )
    command.next_run_id = following.run_id
    return add_next_run(batch, run, following, started)


# --- the changes ----------------------------------------------------------------------------------------------------


class CommitWorkflowTask(BaseChange):
    """An owner's workflow task of a run that exists."""

    def __init__(self, run: RunRow, workflow_task: WorkflowTask) -> None:
        self.run_id = run.run_id
        self.workflow_task = workflow_task
        self.runs = (run.run_id,)
        self.activities = tuple(_activities(run.run_id, workflow_task))
        commands = workflow_task.commands
        if commands and commands[-1].terminal:
            if not workflow_task.nothing_open:
                self.closes = self.runs
            if isinstance(commands[-1], WorkflowContinuedAsNew | WorkflowFailed):
                self.instances = (run.workflow_id,)
            if (
                run.parent_run_id is not None
            ):  # which is told: its lock is taken in order, not when it is needed
                self.runs = (run.run_id, run.parent_run_id)
        if workflow_task.children:
            self.new_instances = [child.instance for child in workflow_task.children.values()]
        signalled = {one.workflow_id for one in commands if type(one) is ExternalSignalRequested}
        if signalled:
            self.instances = (*self.instances, *signalled)
        self.weight = 1024 + 512 * len(commands)

    def apply(self, batch: Batch) -> Applied:
        """Check and write the workflow task."""
        run = batch.run(self.run_id)
        if run is None:
            raise RefusedError("unknown_run", f"run {self.run_id} is gone")
        return apply_workflow_task(batch, run, self.workflow_task)


def _activities(run_id: str, workflow_task: WorkflowTask) -> list[ActivityKey]:
    keys = [(run_id, result.activity_id) for result in workflow_task.own]
    for command in workflow_task.commands:
        if isinstance(command, ActivityCancelRequested):
            keys.append((run_id, command.command_id))
    return keys


class FailWorkflowTask(BaseChange):
    """A workflow task could not be done: count it, record the first of a streak, and try again after a backoff."""

    def __init__(self, run: RunRow, worker_id: str, fence: int, event: WorkflowTaskFailed) -> None:
        self.run_id = run.run_id
        self.runs = (run.run_id,)
        self.worker_id = worker_id
        self.fence = fence
        self.event = event

    def _note(self, batch: Batch, run: RunRow) -> None:
        """Write a failure row: ``describe`` shows what kept the task from being done, and whether that has changed."""
        document = self.event.failure
        failure = run_failure(
            batch,
            run,
            FailureCategory.TASK_FAILURE,
            PropagationKind.TASK,
            exception_class=str(document.get("type", "")),
            message=str(document.get("message", "")),
        )
        failure.source_kind = "workflow_task"
        batch.add_failure(failure)

    def apply(self, batch: Batch) -> int | Ended:
        """Return when the next workflow task may run, in microseconds, or how the run's deadline ended it."""
        run = batch.run(self.run_id)
        if run is None or not run.is_open or run.owner_id != self.worker_id or run.fence != self.fence:
            raise RefusedError("fenced", f"run {self.run_id} is closed or owned by another worker")
        found = open_run(batch, run)
        if isinstance(found, Ended):
            return found
        if run.task_failures == 0:
            batch.append(run, self.event)
        run.task_failures += 1
        if run.task_failures <= MOST_NOTED:
            self._note(batch, run)
        backoff = min(FIRST_TASK_BACKOFF << min(run.task_failures - 1, 16), LONGEST_TASK_BACKOFF)
        run.not_before = batch.now + backoff
        run.start_delayed = False
        run.wake(batch.now)
        if run.task_failures >= FAILURES_TO_ATTENTION and run.attention is None:
            run.attention = Attention.TASK_KEEPS_FAILING.value
            run.attention_since = batch.now
        return run.not_before
