"""Starting a workflow: the rows of a chain's first run, and what the duplicate policy makes of an id in use.

=========================== ====================== ============================
policy                      the id is open         the id is closed
=========================== ====================== ============================
allow_duplicate             error                  a new chain
allow_duplicate_failed_only error                  a new chain, unless completed
reject_duplicate            error                  error
return_existing             its handle             a new chain
terminate_existing          terminated, then new   a new chain
=========================== ====================== ============================
"""

from __future__ import annotations

from dataclasses import dataclass

from outlast_runs.signals import deliver
from outlast_runs.task_commit import apply_workflow_task, check_streams, written_bytes
from outlast_runs.updates import UpdateRequest, add_update, known_update
from outlast_runs.workflow_task import Applied, WorkflowTask
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.queues.gates import check_queue
from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions.new_runs import new_instance
from outlast_store.transitions.queued_runs import add_start_timer
from outlast_store.transitions.run_deadlines import deadline_passed
from outlast_store.transitions.run_ends import Ended, open_run, terminate
from outlast_workflow.errors import WorkflowAlreadyStartedError
from outlast_workflow.history.events import ActivityScheduled, SignalReceived, WorkflowStarted
from outlast_workflow.options.limits import DEFAULT_LIMITS
from outlast_workflow.primitives.enums import DuplicatePolicy, RunStatus

_NEW_IF_CLOSED = frozenset({DuplicatePolicy.ALLOW_DUPLICATE, DuplicatePolicy.ALLOW_DUPLICATE_FAILED_ONLY})
"""The policies that make an open id an error, and a closed one a new chain."""


@dataclass(slots=True)
class Started:
    """What a start did.

    Attributes:
        run_id: The current run of the id.
        first_run_id: The first run of its chain.
        created: Whether the start created it.
        applied: What became of its first workflow task, if that was folded into the start.
        update: The update that was sent with the start.
    """

    run_id: str
    first_run_id: str
    created: bool
    applied: Applied | None = None
    update: RequestRow | None = None


def _refused(current: RunRow) -> WorkflowAlreadyStartedError:
    return WorkflowAlreadyStartedError(current.workflow_id, run_id=current.run_id, status=current.status)


def enforce_deadline(
    batch: Batch, current: RunRow, policy: DuplicatePolicy, *, sends: bool = False
) -> RunRow:
    """Return the current run of an id, once a deadline of ``current`` that has passed is enforced.

    Args:
        batch: The batch.
        current: The run that is current for the id.
        policy: What a start does if the id is in use.
        sends: Whether the start would send that run a message.

    Raises:
        WorkflowAlreadyStartedError: The policy refuses this start: then it enforces nothing either.
    """
    refuses = (policy in _NEW_IF_CLOSED and not sends) or policy is DuplicatePolicy.REJECT_DUPLICATE
    if refuses and current.is_open and deadline_passed(current, batch.now) is not None:
        raise _refused(current)
    found = open_run(batch, current)
    if not isinstance(found, Ended) or found.passed is None or found.next_run_id is None:
        return current
    return batch.run(found.next_run_id) or current


def make_room(batch: Batch, current: RunRow, policy: DuplicatePolicy) -> bool:
    """Make an id free for a new chain as the policy says; ``False`` if its current run is to be returned instead.

    Args:
        batch: The batch.
        current: The run that is current for the id.
        policy: What to do if the id is in use.

    Raises:
        WorkflowAlreadyStartedError: The policy refuses a new chain.
    """
    if current.is_open:
        if policy is DuplicatePolicy.RETURN_EXISTING:
            return False
        if policy is not DuplicatePolicy.TERMINATE_EXISTING:
            raise _refused(current)
        terminate(batch, current, "replaced by a new start of the same id")
    elif policy is DuplicatePolicy.REJECT_DUPLICATE or (
        policy is DuplicatePolicy.ALLOW_DUPLICATE_FAILED_ONLY and current.status == RunStatus.COMPLETED
    ):
        raise _refused(current)
    return True


class StartRun(BaseChange):
    """Start a workflow.

    Args:
        run: The first run's row.
        started: Its first event.
        policy: What to do if the id is in use.
        workflow_task: Its first workflow task, to be part of the same change (an *eager* start).
        signal: A signal to send to the run that is current then, whether it is new or not.
        update: An update to send to that run; not both.
    """

    def __init__(
        self,
        run: RunRow,
        started: WorkflowStarted,
        policy: DuplicatePolicy,
        workflow_task: WorkflowTask | None = None,
        *,
        signal: SignalReceived | None = None,
        update: UpdateRequest | None = None,
    ) -> None:
        self.signal = signal
        self.update = update
        self._has_message = signal is not None or update is not None
        self.limits = DEFAULT_LIMITS
        self.run = run
        self.started = started
        self.policy = policy
        self.workflow_task: WorkflowTask | None = None
        self.new_instances = [new_instance(run)]
        if workflow_task is not None:
            self.fold(workflow_task)
        self.weight = 2048 + len(started.input.json)

    def fold(self, workflow_task: WorkflowTask) -> None:
        """Make the first workflow task part of the start."""
        self.workflow_task = workflow_task
        self.new_instances = [
            *self.new_instances,
            *[child.instance for child in workflow_task.children.values()],
        ]
        if workflow_task.streams:
            self.streams = [(self.run.run_id, name) for name in workflow_task.streams]
            self.weight += written_bytes(workflow_task)

    def apply(self, batch: Batch) -> Started:
        """Start the workflow, or return the run that is current already.

        Raises:
            WorkflowAlreadyStartedError: The duplicate policy refuses it; nothing was written.
            QueueNotFoundError: Nobody has defined its queue, or that of an activity; nothing was written.
            StructuralLimitError: The first workflow task writes too much to streams; nothing was written.
        """
        run = self.run
        if run.queue is not None:
            check_queue(batch, run.queue)
        if self.workflow_task is not None:
            # What follows writes, so this comes first.
            for command in self.workflow_task.commands:
                if type(command) is ActivityScheduled and command.queue is not None:
                    check_queue(batch, command.queue)
            if self.workflow_task.streams:
                check_streams(batch, run.run_id, run.workflow_id, self.workflow_task)
        instance = batch.instance(run.workflow_id)
        if instance is None:
            batch.confirm_instance(self.new_instances[0])
            return self._begin(batch)
        current = batch.run(instance.current_run_id)
        if current is not None:
            if self.update is not None:
                known = known_update(batch, current, self.update)
                # An update that is sent again gets the same answer, whether its run has ended since or not.
                if known is not None:
                    return Started(current.run_id, current.first_run_id, created=False, update=known)
            current = enforce_deadline(batch, current, self.policy, sends=self._has_message)
            if (
                current.is_open
                and self._has_message
                and self.policy is not DuplicatePolicy.TERMINATE_EXISTING
            ):
                row = self._send_message(batch, current)
                return Started(current.run_id, current.first_run_id, created=False, update=row)
            if not make_room(batch, current, self.policy):
                return Started(current.run_id, current.first_run_id, created=False)
        instance.workflow_type = run.workflow_type
        instance.current_run_id = run.run_id
        instance.run_count = 1
        return self._begin(batch)

    def _send_message(self, batch: Batch, run: RunRow) -> RequestRow | None:
        if self.signal is not None:
            deliver(batch, run, self.signal, self.limits)
        return add_update(batch, run, self.update) if self.update is not None else None

    def _begin(self, batch: Batch) -> Started:
        row = batch.add_run(self.run)
        batch.append(row, self.started)
        if row.queue is not None:
            add_start_timer(batch, row)
        update = self._send_message(batch, row) if self._has_message else None
        if self.workflow_task is None:
            return Started(row.run_id, row.run_id, created=True, update=update)
        applied = apply_workflow_task(batch, row, self.workflow_task)
        return Started(row.run_id, row.run_id, created=True, applied=applied, update=update)
