"""Committing a workflow task: its checks, its record, and the changes that its commands become, as one.

The owner decides a workflow task before its change is applied, from what it had seen by then. The change checks that
under the run's guard. It is refused as a whole where the owner was fenced off, where a result that it bundles came too
late, or where an unseen signal, update or cancel request holds back a terminal command. A deadline of the run that has
passed is enforced instead.
"""

from __future__ import annotations

from outlast_activities.attempts import complete
from outlast_activities.deadlines import passed
from outlast_runs.task_commands import carry_out
from outlast_runs.terminal_commands import end_run
from outlast_runs.updates import answer_updates
from outlast_runs.workflow_task import Applied, OwnResult, WorkflowTask
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.queues.gates import check_queue
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_store.transitions.run_ends import Ended, open_run
from outlast_store.transitions.streams import check_writable
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import (
    ActivityCancelRequested,
    ActivityScheduled,
    Event,
    ExternalSignalRequested,
    StreamWritten,
    WorkflowContinuedAsNew,
    WorkflowFailed,
    WorkflowTaskCompleted,
)
from outlast_workflow.primitives.enums import (
    RunStatus,
)

HOLD_BACK_TERMINAL = frozenset({"SignalReceived", "WorkflowCancelRequested"})
"""The events that hold back a terminal command until a workflow task has seen them."""
HOLD_BACK_CONTINUE = frozenset({"WorkflowCancelRequested"})
"""Those that hold back continue-as-new: signals move to the next run."""


def apply_workflow_task(batch: Batch, run: RunRow, workflow_task: WorkflowTask) -> Applied:
    """Check a workflow task against the locked rows and write it.

    Args:
        batch: The batch.
        run: The run's row.
        workflow_task: What the owner decided.

    Raises:
        RefusedError: The owner was fenced off, a bundled result came too late, or the owner has not seen something
            that the end of the run must wait for.
        QueueNotFoundError: An activity names a queue that nobody has defined.
        StreamClosedError: A stream that the code writes to is closed.
        StructuralLimitError: The streams of the chain would become too large.
    """
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
    ended = [_check_own(batch, run, workflow_task, result) for result in workflow_task.own]
    for command in commands:
        if type(command) is ActivityScheduled and command.queue is not None:
            check_queue(batch, command.queue)
    if workflow_task.streams:
        check_streams(batch, run.first_run_id, run.workflow_id, workflow_task)
    seen_all = run.last_seq == workflow_task.seen_seq and run.inbox == workflow_task.seen_inbox
    for row, result in zip(ended, workflow_task.own, strict=True):
        complete(batch, run, row, result.event)
    if workflow_task.considered is not None:
        answer_updates(batch, run, workflow_task.considered)
    if workflow_task.record is not None:
        batch.append(run, workflow_task.record)
    elif not commands:
        # It only answers the inbox: backoffs and failure counts of the run stay as they are.
        run.wake_at = None if seen_all else run.wake_at
        return Applied(run, first_seq)
    _clear_setbacks(run, workflow_task, seen_all=seen_all, now=batch.now)
    if workflow_task.progress is not None:
        run.progress = workflow_task.progress
    applied = Applied(run, first_seq)
    for command in commands:
        if command is terminal:
            end_run(batch, run, workflow_task, command, applied)
        else:
            carry_out(batch, run, workflow_task, command, applied)
    for consequence in applied.consequences:
        consequence()
    return applied


def check_streams(batch: Batch, first_run_id: str, workflow_id: str, workflow_task: WorkflowTask) -> None:
    """Check that what a workflow task writes to streams can be written.

    Args:
        batch: The batch.
        first_run_id: The chain.
        workflow_id: The workflow.
        workflow_task: The workflow task.

    Raises:
        StreamClosedError: A stream is closed.
        StructuralLimitError: The streams of the chain would become too large.
    """
    written = [
        (command.name, len(command.value.json))
        for command in workflow_task.commands
        if type(command) is StreamWritten
    ]
    if written:
        check_writable(batch, first_run_id, written, workflow_task.limits, workflow_id)


def _clear_setbacks(run: RunRow, workflow_task: WorkflowTask, *, seen_all: bool, now: int) -> None:
    """Clear the delays, counts and attention that earlier setbacks left, and ``wake_at`` if everything was seen."""
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
    """Refuse a workflow task decided from an earlier state, and an end that unseen events hold back."""
    unseen = batch.event_types(run.run_id, workflow_task.seen_seq)
    if WorkflowTaskCompleted.type in unseen:
        raise RefusedError("stale", f"run {run.run_id} was activated from an earlier state of it")
    holding = HOLD_BACK_CONTINUE if isinstance(terminal, WorkflowContinuedAsNew) else HOLD_BACK_TERMINAL
    if terminal is not None and not holding.isdisjoint(unseen):
        raise RefusedError("unseen", f"run {run.run_id} has news that its end must wait for")


def _check_inbox(run: RunRow, workflow_task: WorkflowTask, terminal: Event) -> None:
    """Refuse a terminal command while an update is unseen.

    Continue-as-new is allowed, since updates move to the next run, and so is an end by a structural limit.
    """
    if workflow_task.record is not None and not isinstance(terminal, WorkflowContinuedAsNew):
        raise RefusedError("unseen", f"run {run.run_id} was asked something that its end must wait for")


def _check_own(batch: Batch, run: RunRow, workflow_task: WorkflowTask, result: OwnResult) -> ActivityRow:
    """Return the activity of a bundled result; refuse one whose claim no longer holds or whose deadline has passed."""
    row = batch.activity_rows.get((run.run_id, result.activity_id))
    if (
        row is None
        or row.status != "running"
        or row.attempt != result.attempt
        or row.claimed_by != workflow_task.worker_id
        or (
            row.next_deadline_at is not None
            and row.next_deadline_at <= batch.now
            and passed(row, batch.now) is not None
        )
    ):
        raise RefusedError("result", f"a result of activity {result.activity_id} came too late")
    return row


class CommitWorkflowTask(BaseChange):
    """Commit an owner's workflow task of a run that exists."""

    def __init__(self, run: RunRow, workflow_task: WorkflowTask) -> None:
        self.run_id = run.run_id
        self.workflow_task = workflow_task
        self.runs = (run.run_id,)
        commands = workflow_task.commands
        # The activities that end or are cancelled.
        self.activities = [(run.run_id, result.activity_id) for result in workflow_task.own]
        for command in commands:
            if type(command) is ActivityCancelRequested:
                self.activities.append((run.run_id, command.command_id))
        if commands and commands[-1].terminal:
            if not workflow_task.nothing_open:
                self.closes = self.runs
            if isinstance(commands[-1], WorkflowContinuedAsNew | WorkflowFailed):
                self.instances = (run.workflow_id,)
            # The parent's history gets the end: its lock is taken here, in order, not when it is needed.
            if run.parent_run_id is not None:
                self.runs = (run.run_id, run.parent_run_id)
        if workflow_task.children:
            self.new_instances = [child.instance for child in workflow_task.children.values()]
        signalled = {one.workflow_id for one in commands if type(one) is ExternalSignalRequested}
        if signalled:
            self.instances = (*self.instances, *signalled)
        self.weight = 1024 + 512 * len(commands)
        if workflow_task.streams:
            self.streams = [(run.first_run_id, name) for name in workflow_task.streams]
            self.weight += written_bytes(workflow_task)

    def apply(self, batch: Batch) -> Applied:
        """Check and write the workflow task."""
        run = batch.run(self.run_id)
        if run is None:
            raise RefusedError("unknown_run", f"run {self.run_id} is gone")
        return apply_workflow_task(batch, run, self.workflow_task)


def written_bytes(workflow_task: WorkflowTask) -> int:
    """Return the size of what a workflow task writes to streams, in bytes."""
    return sum(
        len(command.value.json) for command in workflow_task.commands if type(command) is StreamWritten
    )
